"""The operators of expressions, by the names that CEL gives them."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Final

from accelet.claims.cel.failures import EvaluationError
from accelet.claims.cel.signatures import LEAST_INT, MOST_INT, MOST_UINT, Function, no_overload
from accelet.claims.cel.values import Uint, Value, compare, equal, is_number, type_name
from accelet.claims.cel.work import Work


def within(number: int | float, like: Value) -> Value:
    """`number` as the type of `like` has it.

    Raises:
        EvaluationError: it is too large for that.
    """
    if isinstance(like, float):
        return float(number)
    low, high = (0, MOST_UINT) if isinstance(like, Uint) else (LEAST_INT, MOST_INT)
    if not low <= number <= high:
        raise EvaluationError(f"{type_name(like)} overflow")
    return Uint(number) if isinstance(like, Uint) else int(number)


def add(work: Work, values: Sequence[Value]) -> Value:
    left, right = values
    if isinstance(left, str) and isinstance(right, str):
        work.make(len(left) + len(right))
        return left + right
    if isinstance(left, tuple) and isinstance(right, tuple):
        work.make(len(left) + len(right))
        return left + right
    return calculated("+", left, right)


def calculated(sign: str, left: Value, right: Value) -> Value:
    if not is_number(left) or type(left) is not type(right):
        raise no_overload(sign, (left, right))
    if sign in {"/", "%"} and not isinstance(left, float):
        return within(_divided(sign, left, right), left)
    if sign == "/":
        return _quotient(float(left), float(right))
    if sign == "%":
        raise no_overload(sign, (left, right))
    return within({"+": left + right, "-": left - right, "*": left * right}[sign], left)


def _divided(sign: str, left: int | float, right: int | float) -> int:
    """Towards zero; a rest has the sign of `left`."""
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if sign == "/" else int(left) - quotient * int(right)


def _quotient(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or isnan(left):
        return float("nan")
    is_negative = (left < 0) != str(right).startswith("-")
    return float("-inf") if is_negative else float("inf")


def _operator(sign: str) -> Function:
    return lambda _, values: calculated(sign, values[0], values[1])


def _ordered(sign: str) -> Function:
    def ordered(_: Work, values: Sequence[Value]) -> bool:
        found = compare(values[0], values[1])
        if found is None:
            return False
        return {"<": found < 0, "<=": found <= 0, ">": found > 0, ">=": found >= 0}[sign]

    return ordered


def _equals(work: Work, values: Sequence[Value]) -> bool:
    work.spend(size_of(values[0]) // 16)
    return equal(values[0], values[1])


def _differs(work: Work, values: Sequence[Value]) -> bool:
    """What cannot be compared differs: cel-go asks whether `==` is true, and no error is."""
    try:
        return not _equals(work, values)
    except EvaluationError:
        return True


def size_of(value: Value) -> int:
    return len(value) if isinstance(value, str | tuple | Mapping) else 0


def _negated(_: Work, values: Sequence[Value]) -> Value:
    value = values[0]
    if not is_number(value) or isinstance(value, Uint):
        raise no_overload("-", values)
    return within(-value, value)


def _not(_: Work, values: Sequence[Value]) -> Value:
    if not isinstance(values[0], bool):
        raise no_overload("!", values)
    return not values[0]


def is_in(work: Work, values: Sequence[Value]) -> Value:
    element, container = values
    if isinstance(container, Mapping):
        return find_key(container, element) is not None
    if not isinstance(container, tuple):
        raise no_overload("in", values)
    work.spend(len(container))
    return any(equals_surely(element, one) for one in container)


def equals_surely(left: Value, right: Value) -> bool:
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def find_key(container: Mapping[Value, Value], key: Value) -> tuple[Value] | None:
    """The key as the map has it, in a tuple; None where it has none. Numbers are alike across their types."""
    if isinstance(key, float):
        if not key.is_integer():
            return None
        key = int(key)
    if not isinstance(key, str | int) or key not in container:
        return None
    found = next(one for one in container if one == key) if isinstance(key, int) else key
    return (key,) if isinstance(found, bool) == isinstance(key, bool) else None


def size(_: Work, values: Sequence[Value]) -> int:
    value = values[0]
    if len(values) != 1 or not isinstance(value, str | tuple | Mapping):
        raise no_overload("size", values)
    return len(value)


OPERATORS: Final[Mapping[str, Function]] = {
    "_+_": add,
    "_-_": _operator("-"),
    "_*_": _operator("*"),
    "_/_": _operator("/"),
    "_%_": _operator("%"),
    "_<_": _ordered("<"),
    "_<=_": _ordered("<="),
    "_>_": _ordered(">"),
    "_>=_": _ordered(">="),
    "_==_": _equals,
    "_!=_": _differs,
    "_in_": is_in,
    "-_": _negated,
    "!_": _not,
}
