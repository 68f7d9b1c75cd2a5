"""The functions of expressions, by name and by whether they have a target.

Of CEL's standard library, strings 2 and sets, and of Kubernetes' lists, regex, quantity and semver
(k8s.io/apiserver 1.36, pkg/cel/library). Not served: bytes, times, types, `format`, URLs, addresses, sorting.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Final

from accelet.claims.cel.failures import EvaluationError
from accelet.claims.cel.patterns import Pattern, compile_pattern
from accelet.claims.cel.values import (
    Amount,
    Optional,
    Uint,
    Value,
    Version,
    compare,
    compare_versions,
    equal,
    is_number,
    normalized_version,
    parse_version,
    type_name,
)
from accelet.claims.cel.work import Work
from accelet.kube.errors import QuantityError
from accelet.kube.quantity import parse_quantity

Function = Callable[[Work, Sequence[Value]], Value]
"""The value for a target, if it has one, and arguments. Raises what failures.py has, but UnreadableError."""

_LEAST_INT: Final = -(2**63)
_MOST_INT: Final = 2**63 - 1
_MOST_UINT: Final = 2**64 - 1
_WHOLE: Final = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,4})?", re.ASCII)
_SPACE: Final = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_UPPER: Final = {code: code + 32 for code in range(65, 91)}
_LOWER: Final = {code: code - 32 for code in range(97, 123)}


def no_overload(name: str, values: Sequence[Value]) -> EvaluationError:
    return EvaluationError(f"no {name} for {', '.join(map(type_name, values)) or 'nothing'}")


def _shaped(name: str, *shapes: tuple[type, ...]) -> Callable[[Function], Function]:
    """Fails, as kube-scheduler does, unless the values are of the types of one of `shapes`."""

    def shaped(function: Function) -> Function:
        def checked(work: Work, values: Sequence[Value]) -> Value:
            if not any(_is_of(values, shape) for shape in shapes):
                raise no_overload(name, values)
            return function(work, values)

        return checked

    return shaped


def _is_of(values: Sequence[Value], shape: tuple[type, ...]) -> bool:
    return len(values) == len(shape) and all(map(_is_a, values, shape))


def _is_a(value: Value, kind: type) -> bool:
    if kind is int:
        return type(value) is int
    return isinstance(value, kind)


def within(number: int | float, like: Value) -> Value:
    """`number` as the type of `like` has it.

    Raises:
        EvaluationError: it is too large for that.
    """
    if isinstance(like, float):
        return float(number)
    low, high = (0, _MOST_UINT) if isinstance(like, Uint) else (_LEAST_INT, _MOST_INT)
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
    return _calculated("+", left, right)


def _calculated(sign: str, left: Value, right: Value) -> Value:
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
    return lambda _, values: _calculated(sign, values[0], values[1])


def _ordered(sign: str) -> Function:
    def ordered(_: Work, values: Sequence[Value]) -> bool:
        found = compare(values[0], values[1])
        if found is None:
            return False
        return {"<": found < 0, "<=": found <= 0, ">": found > 0, ">=": found >= 0}[sign]

    return ordered


def _equals(work: Work, values: Sequence[Value]) -> bool:
    work.spend(_size_of(values[0]) // 16)
    return equal(values[0], values[1])


def _differs(work: Work, values: Sequence[Value]) -> bool:
    """What cannot be compared differs: cel-go asks whether `==` is true, and no error is."""
    try:
        return not _equals(work, values)
    except EvaluationError:
        return True


def _size_of(value: Value) -> int:
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
    return any(_equals_surely(element, one) for one in container)


def _equals_surely(left: Value, right: Value) -> bool:
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


def _size(_: Work, values: Sequence[Value]) -> int:
    value = values[0]
    if len(values) != 1 or not isinstance(value, str | tuple | Mapping):
        raise no_overload("size", values)
    return len(value)


# --- conversions


def _int(_: Work, values: Sequence[Value]) -> Value:
    return _converted("int", values, _LEAST_INT, _MOST_INT)


def _uint(_: Work, values: Sequence[Value]) -> Value:
    return Uint(_converted("uint", values, 0, _MOST_UINT))


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


# --- texts


@_shaped("contains", (str, str))
def _contains(work: Work, values: Sequence[str]) -> Value:
    work.spend(len(values[0]) // 16)
    return values[1] in values[0]


@_shaped("startsWith", (str, str))
def _starts(_: Work, values: Sequence[str]) -> Value:
    return values[0].startswith(values[1])


@_shaped("endsWith", (str, str))
def _ends(_: Work, values: Sequence[str]) -> Value:
    return values[0].endswith(values[1])


def _pattern(work: Work, text: str, pattern: str) -> Pattern:
    work.spend(len(pattern))
    found = compile_pattern(pattern)
    work.spend(found.work(text))
    return found


@_shaped("matches", (str, str))
def _matches(work: Work, values: Sequence[str]) -> Value:
    return _pattern(work, *values).find(values[0]) is not None


@_shaped("find", (str, str))
def _find(work: Work, values: Sequence[str]) -> Value:
    first, last = _pattern(work, *values).find(values[0]) or (0, 0)
    return values[0][first:last]


@_shaped("findAll", (str, str), (str, str, int))
def _find_all(work: Work, values: Sequence[str]) -> Value:
    text, pattern = values[:2]
    compiled = _pattern(work, text, pattern)
    work.spend(compiled.work(text) * len(text))
    most = int(values[2]) if len(values) == 3 else -1
    return tuple(text[first:last] for first, last in compiled.find_all(text, most))


@_shaped("charAt", (str, int))
def _char_at(_: Work, values: Sequence[Value]) -> Value:
    text, at = str(values[0]), _position(values[1])
    if not 0 <= at <= len(text):
        raise _out_of_range(at)
    return text[at : at + 1]


def _position(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _out_of_range(at: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {at}")


def _index(work: Work, values: Sequence[Value]) -> Value:
    return _indexed(work, values, "indexOf", is_last=False)


def _last_index(work: Work, values: Sequence[Value]) -> Value:
    return _indexed(work, values, "lastIndexOf", is_last=True)


def _indexed(work: Work, values: Sequence[Value], name: str, *, is_last: bool) -> int:
    work.spend(_size_of(values[0]) // 4)
    if len(values) == 2 and isinstance(values[0], tuple):
        same = [at for at, one in enumerate(values[0]) if _equals_surely(one, values[1])]
        return (same[-1] if is_last else same[0]) if same else -1
    if not (_is_of(values, (str, str)) or _is_of(values, (str, str, int))):
        raise no_overload(name, values)
    text, part = str(values[0]), str(values[1])
    if len(values) == 2:
        return text.rfind(part) if is_last else text.find(part)
    at = _position(values[2])
    if not part:
        return at
    if at < 0:
        raise _out_of_range(at)
    if at >= len(text):
        return -1
    return text.rfind(part, 0, at + len(part)) if is_last else text.find(part, at)


@_shaped("lowerAscii", (str,))
def _lower(_: Work, values: Sequence[str]) -> Value:
    return values[0].translate(_UPPER)


@_shaped("upperAscii", (str,))
def _upper(_: Work, values: Sequence[str]) -> Value:
    return values[0].translate(_LOWER)


@_shaped("trim", (str,))
def _trim(_: Work, values: Sequence[str]) -> Value:
    return values[0].strip(_SPACE)


@_shaped("replace", (str, str, str), (str, str, str, int))
def _replace(work: Work, values: Sequence[str]) -> Value:
    text, old, new = values[:3]
    most = int(values[3]) if len(values) == 4 else -1
    count = text.count(old)
    count = count if most < 0 else min(count, most)
    work.make(len(text) + count * len(new))
    return text.replace(old, new, most if most >= 0 else -1)


@_shaped("split", (str, str), (str, str, int))
def _split(work: Work, values: Sequence[str]) -> Value:
    text, separator = values[:2]
    most = int(values[2]) if len(values) == 3 else -1
    work.make(len(text))
    if most == 0:
        return ()
    if separator:
        return tuple(text.split(separator, most - 1 if most > 0 else -1))
    if 0 < most < len(text):
        return (*text[: most - 1], text[most - 1 :])
    return tuple(text)


@_shaped("substring", (str, int), (str, int, int))
def _substring(_: Work, values: Sequence[Value]) -> Value:
    text, first = str(values[0]), _position(values[1])
    last = _position(values[2]) if len(values) == 3 else len(text)
    if len(values) == 3 and first > last:
        raise EvaluationError(f"invalid substring range. start: {first}, end: {last}")
    for at in (first, last):
        if not 0 <= at <= len(text):
            raise _out_of_range(at)
    return text[first:last]


@_shaped("join", (tuple,), (tuple, str))
def _join(work: Work, values: Sequence[Value]) -> Value:
    parts, separator = values[0], values[1] if len(values) == 2 else ""
    if not all(isinstance(part, str) for part in parts):
        raise EvaluationError("join: invalid input")
    work.make(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


# --- lists


@_shaped("isSorted", (tuple,))
def _is_sorted(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    work.spend(len(values[0]))
    return all((compare(one, after) or 0) <= 0 for one, after in zip(values[0], values[0][1:], strict=False))


@_shaped("sum", (tuple,))
def _sum(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    work.spend(len(values[0]))
    total: Value = 0
    for at, one in enumerate(values[0]):
        total = one if at == 0 else _calculated("+", total, one)
    return total


def _most(name: str, sign: int) -> Function:
    @_shaped(name, (tuple,))
    def most(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
        work.spend(len(values[0]))
        if not values[0]:
            raise EvaluationError(f"{name} called on empty list")
        found = values[0][0]
        for one in values[0][1:]:
            found = one if compare(found, one) == sign else found
        return found

    return most


def _contains_all(work: Work, values: Sequence[tuple[Value, ...]]) -> bool:
    return all(is_in(work, (one, values[0])) for one in values[1])


@_shaped("sets.contains", (tuple, tuple))
def _set_contains(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    return _contains_all(work, values)


@_shaped("sets.equivalent", (tuple, tuple))
def _set_equivalent(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    return _contains_all(work, values) and _contains_all(work, values[::-1])


@_shaped("sets.intersects", (tuple, tuple))
def _set_intersects(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    return any(is_in(work, (one, values[0])) for one in values[1])


# --- optionals


def _some(_: Work, values: Sequence[Value]) -> Value:
    if len(values) != 1:
        raise no_overload("optional.of", values)
    return Optional(values[0], is_there=True)


def _some_if_not_zero(_: Work, values: Sequence[Value]) -> Value:
    if len(values) != 1:
        raise no_overload("optional.ofNonZeroValue", values)
    is_zero = values[0] is None or (
        isinstance(values[0], str | int | float | tuple | Mapping) and not values[0]
    )
    return Optional() if is_zero else Optional(values[0], is_there=True)


@_shaped("hasValue", (Optional,))
def _has_value(_: Work, values: Sequence[Optional]) -> Value:
    return values[0].is_there


@_shaped("value", (Optional,))
def _value(_: Work, values: Sequence[Optional]) -> Value:
    if not values[0].is_there:
        raise EvaluationError("optional.none() dereference")
    return values[0].value


# --- quantities and versions


@_shaped("quantity", (str,))
def _quantity(_: Work, values: Sequence[str]) -> Value:
    try:
        return Amount(parse_quantity(values[0]))
    except QuantityError as error:
        raise EvaluationError("it is no quantity") from error


@_shaped("isQuantity", (str,))
def _is_quantity(work: Work, values: Sequence[str]) -> Value:
    try:
        _quantity(work, values)
    except EvaluationError:
        return False
    return True


def _whole_amount(value: Value) -> int | None:
    assert isinstance(value, Amount)
    number = value.value
    return number if isinstance(number, int) and _LEAST_INT <= number <= _MOST_INT else None


@_shaped("asInteger", (Amount,))
def _as_integer(_: Work, values: Sequence[Value]) -> Value:
    found = _whole_amount(values[0])
    if found is None:
        raise EvaluationError("cannot convert value to integer")
    return found


@_shaped("isInteger", (Amount,))
def _is_integer(_: Work, values: Sequence[Value]) -> Value:
    return _whole_amount(values[0]) is not None


@_shaped("asApproximateFloat", (Amount,))
def _as_float(_: Work, values: Sequence[Amount]) -> Value:
    return float(values[0].value)


@_shaped("sign", (Amount,))
def _sign(_: Work, values: Sequence[Amount]) -> Value:
    return (values[0].value > 0) - (values[0].value < 0)


def _changed_amount(name: str, sign: int) -> Function:
    @_shaped(name, (Amount, Amount), (Amount, int))
    def changed(_: Work, values: Sequence[Value]) -> Value:
        first, second = values
        assert isinstance(first, Amount)
        other = second.value if isinstance(second, Amount) else _position(second)
        return Amount(first.value + sign * other, is_sum=True)

    return changed


def _order(left: Value, right: Value) -> int:
    if isinstance(left, Version) and isinstance(right, Version):
        return compare_versions(left, right)
    return int(left.value > right.value) - int(left.value < right.value)


@_shaped("isLessThan", (Amount, Amount), (Version, Version))
def _is_less(_: Work, values: Sequence[Value]) -> Value:
    return _order(*values) < 0


@_shaped("isGreaterThan", (Amount, Amount), (Version, Version))
def _is_greater(_: Work, values: Sequence[Value]) -> Value:
    return _order(*values) > 0


@_shaped("compareTo", (Amount, Amount), (Version, Version))
def _compare_to(_: Work, values: Sequence[Value]) -> Value:
    return _order(*values)


def _version_of(values: Sequence[Value]) -> Version | None:
    text = str(values[0])
    return parse_version(normalized_version(text) if len(values) == 2 and values[1] else text)


@_shaped("semver", (str,), (str, bool))
def _semver(_: Work, values: Sequence[Value]) -> Value:
    found = _version_of(values)
    if found is None:
        raise EvaluationError("it is no semantic version")
    return found


@_shaped("isSemver", (str,), (str, bool))
def _is_semver(_: Work, values: Sequence[Value]) -> Value:
    return _version_of(values) is not None


def _number_of(name: str, at: int) -> Function:
    @_shaped(name, (Version,))
    def number(_: Work, values: Sequence[Version]) -> Value:
        found = values[0].numbers[at]
        return found - 2**64 if found > _MOST_INT else found  # as Go converts an uint64 to an int64

    return number


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

FUNCTIONS: Final[Mapping[str, Function]] = {
    "size": _size,
    "int": _int,
    "uint": _uint,
    "double": _double,
    "string": _string,
    "bool": _bool,
    "dyn": _same,
    "matches": _matches,
    "sets.contains": _set_contains,
    "sets.equivalent": _set_equivalent,
    "sets.intersects": _set_intersects,
    "optional.of": _some,
    "optional.ofNonZeroValue": _some_if_not_zero,
    "optional.none": lambda _, __: Optional(),
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "sign": _sign,
    "semver": _semver,
    "isSemver": _is_semver,
}

METHODS: Final[Mapping[str, Function]] = {
    "size": _size,
    "contains": _contains,
    "startsWith": _starts,
    "endsWith": _ends,
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "charAt": _char_at,
    "indexOf": _index,
    "lastIndexOf": _last_index,
    "lowerAscii": _lower,
    "upperAscii": _upper,
    "trim": _trim,
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "join": _join,
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _most("min", 1),
    "max": _most("max", -1),
    "hasValue": _has_value,
    "value": _value,
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

NAMESPACES: Final = frozenset({"sets", "optional"})
"""Names before a dot that belong to a function's own name."""
