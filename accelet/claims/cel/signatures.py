"""What all functions of expressions have in common: their values, and when these do not fit."""

from collections.abc import Callable, Sequence
from typing import Final

from accelet.claims.cel.failures import EvaluationError
from accelet.claims.cel.values import (
    Value,
    type_name,
)
from accelet.claims.cel.work import Work

Function = Callable[[Work, Sequence[Value]], Value]
"""The value for a target, if it has one, and arguments. Raises what failures.py has, but UnreadableError."""

LEAST_INT: Final = -(2**63)
MOST_INT: Final = 2**63 - 1
MOST_UINT: Final = 2**64 - 1


def no_overload(name: str, values: Sequence[Value]) -> EvaluationError:
    return EvaluationError(f"no {name} for {', '.join(map(type_name, values)) or 'nothing'}")


def shaped(name: str, *shapes: tuple[type, ...]) -> Callable[[Function], Function]:
    """Fails, as kube-scheduler does, unless the values are of the types of one of `shapes`."""

    def shaped(function: Function) -> Function:
        def checked(work: Work, values: Sequence[Value]) -> Value:
            if not any(is_of(values, shape) for shape in shapes):
                raise no_overload(name, values)
            return function(work, values)

        return checked

    return shaped


def is_of(values: Sequence[Value], shape: tuple[type, ...]) -> bool:
    return len(values) == len(shape) and all(map(_is_a, values, shape))


def _is_a(value: Value, kind: type) -> bool:
    if kind is int:
        return type(value) is int
    return isinstance(value, kind)


def position(value: Value) -> int:
    assert isinstance(value, int)
    return value


def out_of_range(at: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {at}")
