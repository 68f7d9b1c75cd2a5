"""Kubernetes quantities, exactly."""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from accelet.kube.errors import QuantityError
from accelet.runtime.excerpts import excerpt

Quantity = int | Fraction
"""An exact amount: an int where it is whole, otherwise a Fraction (`500m` is 1/2)."""

# There is one way to match any text: who writes a megabyte of digits and a letter gets an answer at once too.
_PATTERN = re.compile(r"([+-]?)(\d*(?:\.\d*)?)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d+))?", re.ASCII)
_SCALES: dict[str, Quantity] = {
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate("mun", start=1)},
    **{suffix: 1000**power for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": 1024**power for power, suffix in enumerate("KMGTPE", start=1)},
}
_LARGEST_BINARY = 2**63 - 1
_NANO = 10**9

MOST = 10**30
"""The most that any amount counts as, since whoever writes one chooses how many digits it has."""

_MOST_MAGNITUDE = 60
"""Powers of ten from which on an amount is above MOST, or below a nano, whatever its suffix."""

_MOST_DIGITS = 100
"""Digits that can make a difference to a whole number of nanos up to MOST."""

_REMEMBERED_TEXT = 64
"""Longer texts are read each time anew: nobody writes such but to fill memory."""


def parse_quantity(text: str) -> Quantity:
    """The amount that `text` stands for: `1500m` is 3/2, `1Ki` is 1024, `1e3` is 1000.

    The rules are those of Kubernetes 1.36, apimachinery/pkg/api/resource: finer than nano rounds away from
    zero, no digits at all are 0 (`Ki`, `-`), an amount with a binary suffix is at most 2^63-1. The API server
    takes any number of digits and any exponent (`1e10001`); here no amount is above MOST. Results are shared,
    so that the same text in thousands of pods is one value.

    Raises:
        QuantityError: `text` is none (`1mi`, `1 Gi`, `1_000`, `NaN`, the empty text).
    """
    return _parse_remembered(text) if len(text) <= _REMEMBERED_TEXT else _parse(text)


def _parse(text: str) -> Quantity:
    match = _PATTERN.fullmatch(text) if text else None
    if match is None:
        raise QuantityError(
            f"{excerpt(text, 64)} is no quantity: a number with n, u, m, k, M, G, T, P, E, Ki … Ei or eN"
        )
    sign, digits, suffix, exponent = match.groups()
    nanos = _nanos(digits, suffix, _bounded_exponent(exponent or "0"))
    if suffix and suffix.endswith("i"):
        nanos = min(nanos, _LARGEST_BINARY * _NANO)
    nanos = min(nanos, MOST * _NANO)
    if sign == "-":
        nanos = -nanos
    return nanos // _NANO if nanos % _NANO == 0 else Fraction(nanos, _NANO)


_parse_remembered = lru_cache(maxsize=4096)(_parse)


def _nanos(digits: str, suffix: str | None, exponent: int) -> int:
    """The amount in nanos, rounded up; only as exact as it need be to be compared with MOST."""
    whole, _, part = digits.partition(".")
    figures = (whole + part).lstrip("0")
    exponent -= len(part)
    if not figures:
        return 0
    magnitude = len(figures) + exponent
    if magnitude > _MOST_MAGNITUDE:
        return MOST * _NANO
    if magnitude < -_MOST_MAGNITUDE:
        return 1
    if len(figures) > _MOST_DIGITS:
        # Whatever follows can make it a little more, which matters for rounding up and for nothing else.
        exponent += len(figures) - _MOST_DIGITS - 1
        figures = figures[:_MOST_DIGITS] + ("1" if figures[_MOST_DIGITS:].strip("0") else "0")
    amount = Fraction(int(figures)) * Fraction(10) ** exponent * _SCALES.get(suffix or "", 1)
    return ceil(amount * _NANO)


def _bounded_exponent(text: str) -> int:
    digits = text.lstrip("+-").lstrip("0")
    size = int(digits or "0") if len(digits) <= 7 else 10**7
    return -size if text.startswith("-") else size
