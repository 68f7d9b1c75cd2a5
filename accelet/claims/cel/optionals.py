"""Values that may be missing."""

from collections.abc import Mapping, Sequence
from typing import Final

from accelet.claims.cel.failures import EvaluationError
from accelet.claims.cel.signatures import Function, no_overload, shaped
from accelet.claims.cel.values import Optional, Value
from accelet.claims.cel.work import Work


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


@shaped("hasValue", (Optional,))
def _has_value(_: Work, values: Sequence[Optional]) -> Value:
    return values[0].is_there


@shaped("value", (Optional,))
def _value(_: Work, values: Sequence[Optional]) -> Value:
    if not values[0].is_there:
        raise EvaluationError("optional.none() dereference")
    return values[0].value


METHODS: Final[Mapping[str, Function]] = {
    "hasValue": _has_value,
    "value": _value,
}

FUNCTIONS: Final[Mapping[str, Function]] = {
    "optional.of": _some,
    "optional.ofNonZeroValue": _some_if_not_zero,
    "optional.none": lambda _, __: Optional(),
}
