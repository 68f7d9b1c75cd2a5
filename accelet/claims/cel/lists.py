"""Functions of lists, Kubernetes' own and CEL's sets."""

from collections.abc import Mapping, Sequence
from typing import Final

from accelet.claims.cel.failures import EvaluationError
from accelet.claims.cel.operators import calculated, is_in
from accelet.claims.cel.signatures import Function, shaped
from accelet.claims.cel.values import Value, compare
from accelet.claims.cel.work import Work


@shaped("isSorted", (tuple,))
def _is_sorted(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    work.spend(len(values[0]))
    return all((compare(one, after) or 0) <= 0 for one, after in zip(values[0], values[0][1:], strict=False))


@shaped("sum", (tuple,))
def _sum(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    work.spend(len(values[0]))
    total: Value = 0
    for at, one in enumerate(values[0]):
        total = one if at == 0 else calculated("+", total, one)
    return total


def _most(name: str, sign: int) -> Function:
    @shaped(name, (tuple,))
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


@shaped("sets.contains", (tuple, tuple))
def _set_contains(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    return _contains_all(work, values)


@shaped("sets.equivalent", (tuple, tuple))
def _set_equivalent(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    return _contains_all(work, values) and _contains_all(work, values[::-1])


@shaped("sets.intersects", (tuple, tuple))
def _set_intersects(work: Work, values: Sequence[tuple[Value, ...]]) -> Value:
    return any(is_in(work, (one, values[0])) for one in values[1])


METHODS: Final[Mapping[str, Function]] = {
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _most("min", 1),
    "max": _most("max", -1),
}

FUNCTIONS: Final[Mapping[str, Function]] = {
    "sets.contains": _set_contains,
    "sets.equivalent": _set_equivalent,
    "sets.intersects": _set_intersects,
}
