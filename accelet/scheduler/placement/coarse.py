"""Pods of very many kinds taken for pods of few, rounded up to be placed and down to be judged."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2

from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.placement.problem import PlacementProblem

_MOST_KINDS = 24
_KIND, _AMOUNTS_A_UNIT = 2, 3
"""What a kind costs of the gang's budget, and how many of its amounts are looked at for one unit."""

_STEPS_OF_AN_OCTAVE = (8, 2, 1, 0)
"""Amounts within one step count as one: within 9 %, within 41 %, within the double, all."""


@dataclass(frozen=True, slots=True)
class CoarseProblems:
    """What fits in the `upper` problem fits; what is proven of the `lower` one is true of the pods."""

    upper: PlacementProblem
    lower: PlacementProblem


def coarsen(problem: PlacementProblem) -> CoarseProblems | None:
    """Two problems of few kinds instead of one of many; None where there are few, or where many stay.

    Only pods of the same rules and cards, which ask for the same resources, can count as one kind.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    if len(problem.kinds) <= _MOST_KINDS:
        return None
    for steps in _STEPS_OF_AN_OCTAVE:
        problem.budget.spend(sum(_KIND + len(kind.units) // _AMOUNTS_A_UNIT for kind in problem.kinds))
        groups: defaultdict[object, list[PodShape]] = defaultdict(list)
        for kind in problem.kinds:
            groups[_group(kind, steps)].append(kind)
        if len(groups) <= _MOST_KINDS:
            return CoarseProblems(_with(problem, groups.values(), max), _with(problem, groups.values(), min))
    return None


def _group(kind: PodShape, steps: int) -> object:
    units = sorted(kind.units)
    amounts = tuple(int(log2(amount) * steps) for _, amount in units) if steps else ()
    return kind.rules, kind.cards, tuple(resource for resource, _ in units), amounts


def _with(
    problem: PlacementProblem, groups: Iterable[Sequence[PodShape]], choose: Callable[[Iterable[int]], int]
) -> PlacementProblem:
    """The same pods when each asks for the most, or the least, that any of its group asks for."""
    of: dict[PodShape, PodShape] = {}
    for group in groups:
        amounts: defaultdict[str, list[int]] = defaultdict(list)
        for kind in group:
            for resource, amount in kind.units:
                amounts[resource].append(amount)
        units = frozenset((resource, choose(some)) for resource, some in amounts.items())
        of.update(dict.fromkeys(group, replace(group[0], units=units)))
    return replace(problem, shapes=tuple(of[shape] for shape in problem.shapes))
