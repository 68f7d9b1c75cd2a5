from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import QuantityError
from accelet.kube.quantity import MOST, _parse_remembered, parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("1", 1),
        ("+1", 1),
        ("-1", -1),
        ("007", 7),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("500m", Fraction(1, 2)),
        ("1500m", Fraction(3, 2)),
        ("2000m", 2),
        ("100u", Fraction(1, 10_000)),
        ("1n", Fraction(1, 10**9)),
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("1.1n", Fraction(2, 10**9)),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("0.3Ki", Fraction(3072, 10)),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("25e-1", Fraction(5, 2)),
        ("1e-12", Fraction(1, 10**9)),
        ("8Ei", 2**63 - 1),
        ("-9Ei", -(2**63 - 1)),
        ("18446744073709551616", 2**64),
        ("Ki", 0),
        ("-m", 0),
        (".", 0),
        ("+", 0),
        ("e3", 0),
    ],
)
def test_amount_is_exact(text: str, amount: int | Fraction) -> None:
    parsed = parse_quantity(text)
    assert parsed == amount
    assert isinstance(parsed, int) == (Fraction(amount).denominator == 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1mi",
        "1 Gi",
        "1_000",
        "NaN",
        "Infinity",
        "0x10",
        "1K",
        "1ki",
        "1KiB",
        "1e",
        "1e1.5",
        "--1",
        "1.2.3",
        "1,5",
        "٣",
        "1m1",
        "e",
        "e3m",
        "i",
        "1 ",
        "1\n",
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="is no quantity"):
        parse_quantity(text)


@given(st.integers(0, 10**12), st.sampled_from(["", "k", "M", "Ki", "Mi", "m", "u", "n"]))
def test_suffix_is_a_factor(number: int, suffix: str) -> None:
    assert parse_quantity(f"{number}{suffix}") == number * parse_quantity(f"1{suffix}")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("9" * 5000, MOST),
        ("-" + "9" * 5000, -MOST),
        ("1e10001", MOST),
        ("1e99999", MOST),
        ("1e" + "9" * 5000, MOST),
        ("9" * 5000 + "n", MOST),
        ("9" * 5000 + "Ki", 2**63 - 1),
        ("1e-" + "9" * 5000, Fraction(1, 10**9)),
        ("0." + "0" * 5000 + "1", Fraction(1, 10**9)),
        ("0" * 5000, 0),
        ("0e" + "9" * 5000, 0),
        ("1" + "0" * 5000 + "e-5000", 1),
        ("1." + "0" * 5000, 1),
        ("1." + "0" * 5000 + "1", 1 + Fraction(1, 10**9)),
    ],
)
def test_any_number_of_digits_and_any_exponent_is_an_amount(text: str, amount: int | Fraction) -> None:
    assert parse_quantity(text) == amount


@given(
    st.text("0123456789", min_size=1, max_size=60),
    st.text("0123456789", max_size=60),
    st.integers(-80, 80),
    st.text("0", max_size=300),
)
def test_an_amount_is_rounded_up_to_nanos_and_held_to_the_most(
    whole: str, part: str, exponent: int, zeros: str
) -> None:
    exact = Fraction(f"{whole}.{part or 0}") * Fraction(10) ** exponent
    nanos = min(ceil(exact * 10**9), MOST * 10**9)
    assert parse_quantity(f"{zeros}{whole}.{part}{zeros}e{exponent}") == Fraction(nanos, 10**9)


def test_long_texts_are_not_remembered() -> None:
    before = _parse_remembered.cache_info().currsize
    parse_quantity("9" * 5000)
    assert _parse_remembered.cache_info().currsize == before


def test_a_megabyte_of_digits_that_is_no_quantity_is_refused_at_once() -> None:
    """By a pattern with two ways to match a digit it would take hours."""
    for end in ("many", "e1.5", ".5.", "Ki "):
        with pytest.raises(QuantityError):
            parse_quantity("9" * 1_000_000 + end)
