"""Quantities and semantic versions, as Kubernetes has them (k8s.io/apiserver 1.36, pkg/cel/library)."""

from collections.abc import Mapping, Sequence
from typing import Final

from accelet.claims.cel.failures import EvaluationError
from accelet.claims.cel.signatures import LEAST_INT, MOST_INT, Function, position, shaped
from accelet.claims.cel.values import (
    Amount,
    Value,
    Version,
    compare_versions,
    normalized_version,
    parse_version,
)
from accelet.claims.cel.work import Work
from accelet.kube.errors import QuantityError
from accelet.kube.quantity import parse_quantity


@shaped("quantity", (str,))
def _quantity(_: Work, values: Sequence[str]) -> Value:
    try:
        return Amount(parse_quantity(values[0]))
    except QuantityError as error:
        raise EvaluationError("it is no quantity") from error


@shaped("isQuantity", (str,))
def _is_quantity(work: Work, values: Sequence[str]) -> Value:
    try:
        _quantity(work, values)
    except EvaluationError:
        return False
    return True


def _whole_amount(value: Value) -> int | None:
    assert isinstance(value, Amount)
    number = value.value
    return number if isinstance(number, int) and LEAST_INT <= number <= MOST_INT else None


@shaped("asInteger", (Amount,))
def _as_integer(_: Work, values: Sequence[Value]) -> Value:
    found = _whole_amount(values[0])
    if found is None:
        raise EvaluationError("cannot convert value to integer")
    return found


@shaped("isInteger", (Amount,))
def _is_integer(_: Work, values: Sequence[Value]) -> Value:
    return _whole_amount(values[0]) is not None


@shaped("asApproximateFloat", (Amount,))
def _as_float(_: Work, values: Sequence[Amount]) -> Value:
    return float(values[0].value)


@shaped("sign", (Amount,))
def _sign(_: Work, values: Sequence[Amount]) -> Value:
    return (values[0].value > 0) - (values[0].value < 0)


def _changed_amount(name: str, sign: int) -> Function:
    @shaped(name, (Amount, Amount), (Amount, int))
    def changed(_: Work, values: Sequence[Value]) -> Value:
        first, second = values
        assert isinstance(first, Amount)
        other = second.value if isinstance(second, Amount) else position(second)
        return Amount(first.value + sign * other, is_sum=True)

    return changed


def _order(left: Value, right: Value) -> int:
    if isinstance(left, Version) and isinstance(right, Version):
        return compare_versions(left, right)
    return int(left.value > right.value) - int(left.value < right.value)


@shaped("isLessThan", (Amount, Amount), (Version, Version))
def _is_less(_: Work, values: Sequence[Value]) -> Value:
    return _order(*values) < 0


@shaped("isGreaterThan", (Amount, Amount), (Version, Version))
def _is_greater(_: Work, values: Sequence[Value]) -> Value:
    return _order(*values) > 0


@shaped("compareTo", (Amount, Amount), (Version, Version))
def _compare_to(_: Work, values: Sequence[Value]) -> Value:
    return _order(*values)


def _version_of(values: Sequence[Value]) -> Version | None:
    text = str(values[0])
    return parse_version(normalized_version(text) if len(values) == 2 and values[1] else text)


@shaped("semver", (str,), (str, bool))
def _semver(_: Work, values: Sequence[Value]) -> Value:
    found = _version_of(values)
    if found is None:
        raise EvaluationError("it is no semantic version")
    return found


@shaped("isSemver", (str,), (str, bool))
def _is_semver(_: Work, values: Sequence[Value]) -> Value:
    return _version_of(values) is not None


def _number_of(name: str, at: int) -> Function:
    @shaped(name, (Version,))
    def number(_: Work, values: Sequence[Version]) -> Value:
        found = values[0].numbers[at]
        return found - 2**64 if found > MOST_INT else found  # as Go converts an uint64 to an int64

    return number


METHODS: Final[Mapping[str, Function]] = {
    "asInteger": _as_integer,
    "isInteger": _is_integer,
    "asApproximateFloat": _as_float,
    "add": _changed_amount("add", 1),
    "sub": _changed_amount("sub", -1),
    "isLessThan": _is_less,
    "isGreaterThan": _is_greater,
    "compareTo": _compare_to,
    "major": _number_of("major", 0),
    "minor": _number_of("minor", 1),
    "patch": _number_of("patch", 2),
}

FUNCTIONS: Final[Mapping[str, Function]] = {
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "sign": _sign,
    "semver": _semver,
    "isSemver": _is_semver,
}
