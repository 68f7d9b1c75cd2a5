"""Values of expressions, and when two of them are equal or in order (cel-spec; cel-go's common/types).

CEL's int, double, bool, string, list, map and null are Python's int, float, bool, str, tuple, Mapping, None.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isnan
from typing import Any, Final, TypeAlias

from accelet.claims.cel.failures import EvaluationError


class Uint(int):
    """An unsigned integer; it adds to none that is signed."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity. `is_sum`: made by add or sub; kube-scheduler fails where such a one is right of `==`.

    So it is in k8s.io/apiserver 1.36: pkg/cel/quantity.go compares values, and its library returns pointers.
    """

    value: int | Fraction
    is_sum: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version, without its build metadata, which no comparison looks at."""

    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    value: object = None
    is_there: bool = False


@dataclass(frozen=True, slots=True)
class Domains(Mapping[str, object]):
    """Attributes or capacities by domain: reading a domain that is not there gives an empty map."""

    by_name: Mapping[str, Mapping[str, object]]

    def __getitem__(self, key: str) -> object:
        return self.by_name.get(key, {})

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def __contains__(self, key: object) -> bool:
        return key in self.by_name


Value: TypeAlias = Any
"""None, bool, int, Uint, float, str, tuple, Mapping, Amount, Version or Optional: the language is dynamic."""

_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII
)
_MOST_VERSION: Final = 256
_LARGEST_NUMBER: Final = 2**64 - 1


def parse_version(text: str) -> Version | None:
    """The version that `text` is by blang/semver 4, None if it is none."""
    match = _VERSION.fullmatch(text) if len(text) <= _MOST_VERSION else None
    if match is None:
        return None
    numbers = tuple(int(part) for part in match.groups()[:3])
    prerelease = tuple(match[4].split(".")) if match[4] is not None else ()
    build = tuple(match[5].split(".")) if match[5] is not None else ()
    wrong = [part for part in prerelease if not part or (part.isdigit() and part != "0" and part[0] == "0")]
    wrong += [part for part in build if not part]
    if wrong or any(number > _LARGEST_NUMBER for number in numbers):
        return None
    return Version((numbers[0], numbers[1], numbers[2]), prerelease)


def normalized_version(text: str) -> str:
    """As Kubernetes makes versions out of `v1`, `1.2`, `01.2.3` (apiserver, pkg/cel/library/semverlib.go)."""
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[at] = bare if bare[:1].isdigit() and bare[:1].isascii() else "0" + bare
    if len(parts) < 3 and not set("+-") & set(parts[-1]):
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def compare_versions(left: Version, right: Version) -> int:
    """-1, 0 or 1, by precedence (semver.org, 11)."""
    if left.numbers != right.numbers:
        return -1 if left.numbers < right.numbers else 1
    if not left.prerelease or not right.prerelease:
        return bool(right.prerelease) - bool(left.prerelease)
    ours, theirs = (tuple(map(_precedence, one.prerelease)) for one in (left, right))
    return (ours > theirs) - (ours < theirs)


def _precedence(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


def is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Value, right: Value) -> bool:
    """What `left == right` says; the left side decides how types are compared.

    Raises:
        EvaluationError: a quantity or version beside a value of another type.
    """
    if left is None or right is None:
        return left is right
    for kind, are_equal in _EQUALS.items():
        if isinstance(left, kind):
            return are_equal(left, right)
    if is_number(left) and is_number(right):
        return bool(left == right)
    return type(left) is type(right) and bool(left == right)


def _equal_exactly(left: Value, right: Value) -> bool:
    if type(left) is not type(right) or (isinstance(right, Amount) and right.is_sum):
        raise EvaluationError(f"{type_name(left)} == {type_name(right)} is not defined")
    if isinstance(left, Version):
        return compare_versions(left, right) == 0
    return bool(left.value == right.value)


def _equal_lists(left: tuple[Value, ...], right: Value) -> bool:
    return isinstance(right, tuple) and len(left) == len(right) and all(map(_equal_or_failed, left, right))


def _equal_maps(left: Mapping[Value, Value], right: Value) -> bool:
    if not isinstance(right, Mapping) or len(left) != len(right):
        return False
    return all(key in right and _equal_or_failed(left[key], right[key]) for key in left)


def _equal_optionals(left: Optional, right: Value) -> bool:
    if not isinstance(right, Optional) or left.is_there != right.is_there:
        return False
    return not left.is_there or equal(left.value, right.value)


_EQUALS: Final[Mapping[type, Callable[..., bool]]] = {
    Amount: _equal_exactly,
    Version: _equal_exactly,
    tuple: _equal_lists,
    Mapping: _equal_maps,
    Optional: _equal_optionals,
}


def _equal_or_failed(left: Value, right: Value) -> bool:
    """Elements whose comparison fails count as equal: cel-go looks for `false` alone."""
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def compare(left: Value, right: Value) -> int | None:
    """-1, 0 or 1; None where a number is not one (NaN).

    Raises:
        EvaluationError: the two have no order.
    """
    if is_number(left) and is_number(right):
        if isnan(left) or isnan(right):
            return None
        return _order(left, right)
    if isinstance(left, str | bool) and type(left) is type(right):
        return _order(left, right)
    raise EvaluationError(f"{type_name(left)} and {type_name(right)} have no order")


def _order(left: Value, right: Value) -> int:
    return int(left > right) - int(left < right)


_NAMES: Final = (
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (tuple, "list"),
    (Mapping, "map"),
    (Amount, "quantity"),
    (Version, "semver"),
    (Optional, "optional"),
)


def type_name(value: Value) -> str:
    """What CEL calls the type of `value`."""
    return next((name for kind, name in _NAMES if isinstance(value, kind)), "null")
