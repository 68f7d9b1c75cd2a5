"""Selectors say what kube-scheduler's engine says; tests/e2e/test_claims_engine.py asks that one itself."""

import time

import pytest

from accelet.claims.cel.selector import NoAnswer, read_selector
from accelet.claims.cel.work import Work
from tests.unit.claims.devices import seen

_CARD = seen(
    "gpu.example.com",
    {
        "type": {"string": "gpu"},
        "model": {"string": "X100-SXM"},
        "index": {"int": 4},
        "ready": {"bool": True},
        "driver": {"version": "570.86.15"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    },
    {"memory": {"value": "40Gi"}, "cores": {"value": "108"}},
)
_PORT = seen(
    "net.example.com", {"rdma": {"bool": False}, "name": {"string": "gpu2rdma0"}}, {}, is_shared=True
)

A = 'device.attributes["gpu.example.com"]'
K = 'device.capacity["gpu.example.com"]'


@pytest.mark.parametrize(
    "text",
    [
        f'device.driver == "gpu.example.com" && {A}.type == "gpu"',
        f'{A}.model.lowerAscii().matches("^.*x100.*$")',
        f"{A}.index == 0 || {A}.index == 4",
        f'{A}.index in [4, 5] && {A}.model in ["X100-SXM"]',
        f'{K}.memory.isGreaterThan(quantity("10Gi"))',
        f"{K}.memory == quantity('40Gi') && {K}.cores.asInteger() == 108",
        f"{K}.memory.sub(quantity('1Gi')).compareTo(quantity('39Gi')) == 0",
        f"{A}.driver.isGreaterThan(semver('550.0.0')) && {A}.driver.major() == 570",
        'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"',
        f"{A}.ready",
        f'"type" in {A} && !("none" in {A}) && !("none" in device.attributes)',
        f'!has(device.attributes["other"].x) && has({A}.type)',
        f'{A}.?none.orValue("x") == "x" && {A}.?type.hasValue()',
        f"cel.bind(a, {A}, a.ready && a.model.size() > 3)",
        f"{A}.none == 1 || true",
        f"true || {A}.none == 1",
        f"!(false && {A}.none == 1)",
        f"{A}.all(name, name != 'broken') && device.attributes.exists(d, d == 'gpu.example.com')",
        f'{A}.model.find("[0-9]+") == "100" && int({A}.model.substring(1, 4)) == 100',
        'quantity("1500m").isGreaterThan(quantity("1")) && quantity("1.5").asApproximateFloat() > 1.4',
        'isSemver("1.2.3") && semver("v1.2", true).compareTo(semver("1.2.0")) == 0',
        "1 == 1.0 && 2 > 1u && -7 / 2 == -3 && -7 % 2 == -1 && 3 * 4 - 2 == 10",
        '"abc".charAt(1) == "b" && "a,b".split(",") == ["a", "b"] && ["a", "b"].join("-") == "a-b"',
        '[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6] && ["b"].exists_one(x, x == "b")',
        "[3, 1].max() == 3 && [1, 2].sum() == 3 && [1, 2].isSorted() && sets.contains([1, 2], [2])",
        '{"a": 1, "b": 2}.all(k, v, v > 0) && {"a": 1}["a"] == 1',
        "optional.of(1).optMap(x, x + 1).value() == 2 && optional.none().or(optional.of(1)).value() == 1",
        'quantity("1k") != "x"',  # what cannot be compared differs
        '(true ? "a" : "b") == "a" && r"\\d" == "\\\\d" && "\\u00e9" == "é"',
    ],
)
def test_card_is_taken(text: str) -> None:
    assert read_selector(text).answer(_CARD) is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'{A}.none == "x"', "no such key: none"),
        (f"!({A}.none == 1)", "no such key"),
        (f"{A}.none == 1 && true", "no such key"),
        (f'{A}.index > "3"', "no order"),
        (f"{A}.index + 1", "a int, not true or false"),
        ('quantity("1k") == "x"', "not defined"),
        ('quantity("2") == quantity("1").add(1)', "not defined"),  # as 1.36 has it
        ("1 / 0 == 0", "division by zero"),
        ("9223372036854775807 + 1 > 0", "overflow"),
        ('"abc".substring(2, 1) == ""', "invalid substring range"),
        ('"a".matches("(")', "regular expression"),
        ("[1][2] == 1", "no such key"),
        ('semver("1.2") == semver("1.2.0")', "no semantic version"),
        ("optional.none().value() == 1", "dereference"),
    ],
)
def test_what_fails_there_fails_here(text: str, reason: str) -> None:
    found = read_selector(text).answer(_CARD)
    assert isinstance(found, NoAnswer)
    assert not found.is_ours
    assert reason in found.reason


def test_attributes_without_a_domain_belong_to_the_driver() -> None:
    own = read_selector('device.attributes["net.example.com"].name.startsWith("gpu")')
    assert own.answer(_PORT) is True
    assert read_selector("device.allowMultipleAllocations").answer(_PORT) is True
    assert read_selector('device.attributes["net.example.com"].rdma').answer(_PORT) is False


@pytest.mark.parametrize(
    "text",
    [
        "url('https://x') == url('https://x')",
        "device.attributes.foo.bar(",
        "1 +",
        "b'x' == b'y'",
        "nothing == 1",
        "true && §",
        '"' + "x" * 10_300 + '"',
        "has(1)",
        "[1].map(1, 2)",
        "99999999999999999999 == 1",
    ],
)
def test_what_is_not_served_is_no_answer(text: str) -> None:
    found = read_selector(text).answer(_CARD)
    assert isinstance(found, NoAnswer)
    assert found.is_ours


_LONG = "'" + "x" * 60 + "'"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000 + "true" + ")" * 3000,
        "[" * 3000 + "]" * 3000,
        "-" * 3000 + "1 == 1",
        "true" + " ? true : true" * 700,
        "1" + " + 1" * 2000 + " == 2001",
        "device" + ".a" * 3000,
        "[0,1,2,3,4,5,6,7,8,9].all(a, " * 8 + "true" + ")" * 8,
        f"cel.bind(a, {_LONG}, "
        + "".join(
            f"cel.bind({n}, {m}+{m}, " for m, n in zip("abcdefghijklmnopq", "bcdefghijklmnopqr", strict=True)
        )
        + "r == ''"
        + ")" * 18,
        f"{_LONG}.replace('', {_LONG}).replace('', {_LONG}).replace('', {_LONG}) == ''",
        f"({_LONG} + {_LONG}).matches('(x+x+)+y')",
        f"{_LONG}.matches('((((x{{100}}){{100}}){{100}}){{100}})')",
        f"{_LONG}.findAll('(x*)*y').size() == 0",
        "{'a': 1}.transformMap(k, v, {'a': 1}.transformMap(k, v, {'a': 1}))" + " == {}",
    ],
)
def test_hostile_expressions_end_soon(text: str) -> None:
    started = time.process_time()
    found = read_selector(text[:10_000]).answer(_CARD, Work(20_000))
    assert isinstance(found, bool | NoAnswer)
    assert time.process_time() - started < 2


def test_work_is_shared_by_all_who_are_asked() -> None:
    selector, work = read_selector("[1, 2, 3].all(x, x > 0)"), Work(200)
    answers = [selector.answer(_CARD, work) for _ in range(30)]
    assert answers[0] is True
    assert answers[-1] == NoAnswer("evaluating it takes more work than a selector is given", is_ours=True)
