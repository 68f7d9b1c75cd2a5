"""From one type of values to another."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from accelet.claims.cel.failures import EvaluationError
from accelet.claims.cel.signatures import LEAST_INT, MOST_INT, MOST_UINT, Function, no_overload
from accelet.claims.cel.values import Uint, Value, is_number
from accelet.claims.cel.work import Work

_WHOLE: Final = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,4})?", re.ASCII)


def _int(_: Work, values: Sequence[Value]) -> Value:
    return _converted("int", values, LEAST_INT, MOST_INT)


def _uint(_: Work, values: Sequence[Value]) -> Value:
    return Uint(_converted("uint", values, 0, MOST_UINT))


def _converted(name: str, values: Sequence[Value], low: int, high: int) -> int:
    value: Value = values[0] if len(values) == 1 else None
    if isinstance(value, str):
        number = int(value) if _WHOLE.fullmatch(value) and not (low == 0 and value[0] in "+-") else None
    elif isinstance(value, float):
        number = int(value) if abs(value) < 2**64 else None
    elif is_number(value):
        number = int(value)
    else:
        raise no_overload(name, values)
    if number is None or not low <= number <= high:
        raise EvaluationError(f"no {name} can be made of it")
    return int(number)


def _double(_: Work, values: Sequence[Value]) -> Value:
    value: Value = values[0] if len(values) == 1 else None
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    if is_number(value):
        return float(value)
    raise EvaluationError("no double can be made of it")


def _string(_: Work, values: Sequence[Value]) -> Value:
    value = values[0] if len(values) == 1 else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))
    raise no_overload("string", values)


_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _bool(_: Work, values: Sequence[Value]) -> Value:
    value = values[0] if len(values) == 1 else None
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUTHS:
        return _TRUTHS[value]
    raise EvaluationError("no bool can be made of it")


def _same(_: Work, values: Sequence[Value]) -> Value:
    if len(values) != 1:
        raise no_overload("dyn", values)
    return values[0]


FUNCTIONS: Final[Mapping[str, Function]] = {
    "int": _int,
    "uint": _uint,
    "double": _double,
    "string": _string,
    "bool": _bool,
    "dyn": _same,
}
