"""A leaf for each pod, once each group of pods has a domain."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.placement.identical import Shortfall, place_identical, work_to_place
from accelet.scheduler.placement.podsets.groups import PodsTogether
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.repairs.gaps import TAKEN, length_of_known, repair
from accelet.scheduler.placement.unlike import Effort

_PART = 150
"""What a group costs of the gang's budget beside its places."""

_MOST_WITH_CARE = 16
"""Of so many groups each is placed as near to the others as can be; more are placed by themselves."""

Leaves = list[int | None]


def fill(
    problem: PlacementProblem,
    groups: Sequence[PodsTogether],
    domains: Sequence[int],
    scope: slice,
    *,
    kept: Sequence[int | None],
    effort: Effort,
) -> Ints | None:
    """The leaf of each pod by rank, each group in its domain and all in `scope`; None where no way is found.

    Groups of narrow levels come first: of like pods, what they leave is then enough for the others. `kept`
    has, by rank of the gang's members, the leaf of each that stays, and None for each that is to be placed.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    room, leaves = problem.room.copy(), list(kept)
    places = [place for place, leaf in enumerate(kept) if leaf is None]
    closed = np.zeros(problem.tree.leaf_count, dtype=bool)
    if problem.is_exclusive:
        closed[[leaf for leaf in kept if leaf is not None]] = True
    parts = _parts(problem, groups)
    problem.budget.spend(_PART * (1 + len(parts)))
    for which, ranks in sorted(parts.items(), key=lambda part: (-_level(groups, part[0]), part[1])):
        inside = scope
        if which is not None:
            inside = _within(problem, groups[which].level, domains[which], scope)
        outside = closed.copy()
        outside[: inside.start] = outside[inside.stop :] = True
        shapes = tuple(problem.shapes[rank] for rank in ranks)
        part = replace(problem, room=room.without(outside, TAKEN), shapes=shapes, within=ROOT, slices=None)
        own = [places[rank] for rank in ranks]
        found = _fill_part(part, leaves, own, effort, with_care=len(parts) <= _MOST_WITH_CARE)
        if found is None or room.take(found.tolist(), shapes) is None:
            return None
        for place, taken in zip(own, found.tolist(), strict=True):
            leaves[place] = taken
        if problem.is_exclusive:
            closed[found] = True
    return np.array([leaves[place] for place in places], dtype=np.int64)


def _parts(problem: PlacementProblem, groups: Sequence[PodsTogether]) -> dict[int | None, list[int]]:
    """The ranks of each innermost group, and under None those of pods that are of no group."""
    innermost: list[int | None] = [None] * len(problem.shapes)
    for number, group in enumerate(groups):
        for rank in group.ranks:
            innermost[rank] = number
    parts: dict[int | None, list[int]] = {}
    for rank, which in enumerate(innermost):
        parts.setdefault(which, []).append(rank)
    return parts


def _level(groups: Sequence[PodsTogether], number: int | None) -> int:
    return ROOT if number is None else groups[number].level


def _within(problem: PlacementProblem, level: int, domain: int, scope: slice) -> slice:
    """The leaves of a domain that are in scope."""
    inside = problem.tree.leaves(level, domain)
    return slice(max(inside.start, scope.start), min(inside.stop, scope.stop))


def _fill_part(
    part: PlacementProblem, leaves: Leaves, own: Sequence[int], effort: Effort, *, with_care: bool
) -> Ints | None:
    """The leaves of one group's pods, whose places among all members are `own`."""
    if with_care or len(part.kinds) > 1:
        ours = set(own)
        around = [leaf for place, leaf in enumerate(leaves) if leaf is not None or place in ours]
        found = repair(part, around, effort)
        return None if found is None else found.leaves
    part.budget.spend(work_to_place(part.tree))
    alike = place_identical(part.tree, part.slots[0], len(own))
    if isinstance(alike, Shortfall):
        return None
    return min((alike, alike[::-1]), key=lambda way: _length_with(part, leaves, own, way))


def _length_with(part: PlacementProblem, leaves: Leaves, own: Sequence[int], way: Ints) -> int:
    """How far it is along these leaves, from the pod before them and to the one behind."""
    first, last = own[0], own[-1] + 1
    before = leaves[first - 1] if first else None
    behind = leaves[last] if last < len(leaves) else None
    return length_of_known(part, (before, *way.tolist(), behind))
