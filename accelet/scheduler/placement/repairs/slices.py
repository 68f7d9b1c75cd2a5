"""Places for the lost pods of a gang of slices, each slice in one domain, the others where they are."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from accelet.scheduler.cluster.topology import Ints, Tree
from accelet.scheduler.placement.identical import Shortfall, place_identical, work_to_place
from accelet.scheduler.placement.knapsack import parent_room
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.repairs.gaps import Repaired, length_of_known

Leaves = list[int | None]


def repair_slices(
    problem: PlacementProblem, kept: Sequence[int | None], numbers: Sequence[int]
) -> Repaired | None:
    """Lost like pods join what is left of their slices; slices wholly lost get the nearest domains.

    All are in one domain of the level within which the gang must stay. `kept` has, by rank, the leaf of a pod
    that stays, or None, `numbers` of which slice each is. If there is a way, one is found, as long as the
    slices that are wholly lost are of one size. It is near, but not proven to be the nearest.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    ways: list[Repaired] = []
    for scope in problem.demand.scopes(problem.tree, problem.within):
        problem.budget.spend(work_to_place(problem.tree))
        way = _repair_within(problem, scope, kept, numbers)
        if way is not None:
            ways.append(way)
    return min(ways, key=lambda way: way.distance, default=None)


def _repair_within(
    problem: PlacementProblem, scope: slice, kept: Sequence[int | None], numbers: Sequence[int]
) -> Repaired | None:
    assert problem.slices is not None
    codes = problem.tree.codes[problem.slices.level]
    lost: defaultdict[int, list[int]] = defaultdict(list)
    home: dict[int, int] = {}
    for rank, (leaf, number) in enumerate(zip(kept, numbers, strict=True)):
        if leaf is None:
            lost[number].append(rank)
        else:
            home.setdefault(number, int(codes[leaf]))
    leaves: Leaves = list(kept)
    if not _fill_all(problem, problem.demand.only(scope).slots[0], leaves, lost, home):
        return None
    filled = np.array([leaves[rank] for rank, leaf in enumerate(kept) if leaf is None])
    distance = length_of_known(problem, leaves)
    return Repaired(filled, distance, min(distance, length_of_known(problem, kept)))


def _fill_all(
    problem: PlacementProblem,
    slots: Ints,
    leaves: Leaves,
    lost: Mapping[int, list[int]],
    home: Mapping[int, int],
) -> bool:
    """Fills `leaves` as far as there are `slots`, which it takes: first for those that have peers.

    These have no choice.
    """
    assert problem.slices is not None
    tree, level = problem.tree, problem.slices.level
    for number in sorted(lost, key=lambda number: (number not in home, number)):
        ranks = lost[number]
        domain = home.get(number)
        if domain is None:
            domain = _nearest(tree, level, slots, leaves, ranks)
        inside = np.where(tree.codes[level] == domain, slots, 0)
        found = place_identical(tree, inside, len(ranks))
        if domain is None or isinstance(found, Shortfall):
            return False
        np.subtract.at(slots, found, 1)
        for rank, leaf in zip(ranks, _turned(tree, leaves, ranks, found).tolist(), strict=True):
            leaves[rank] = leaf
    return True


def _nearest(tree: Tree, level: int, slots: Ints, leaves: Leaves, ranks: Sequence[int]) -> int | None:
    """Of the domains with room for a slice the nearest to the pods around it; of like ones the fullest."""
    room = parent_room(tree, slots, level)
    codes = tree.codes[level]
    fitting = np.flatnonzero((room[codes] >= len(ranks)) & (slots > 0))
    if not len(fitting):
        return None
    costs = np.zeros(len(fitting), dtype=np.int64)
    for end in _ends(leaves, ranks):
        if end is not None:
            costs += tree.distances(end, np.arange(tree.leaf_count))[fitting]
    best = fitting[np.lexsort((room[codes[fitting]], costs))[0]]
    return int(codes[best])


def _turned(tree: Tree, leaves: Leaves, ranks: Sequence[int], found: Ints) -> Ints:
    """The leaves in the direction in which the pods before and after are nearer."""
    before, after = _ends(leaves, ranks)
    ends = [(before, 0), (after, -1)]
    here, there = (
        sum(tree.length(np.array([end, way[at]])) for end, at in ends if end is not None)
        for way in (found, found[::-1])
    )
    return found if here <= there else found[::-1]


def _ends(leaves: Leaves, ranks: Sequence[int]) -> tuple[int | None, int | None]:
    before, after = ranks[0] - 1, ranks[-1] + 1
    return (
        leaves[before] if before >= 0 else None,
        leaves[after] if after < len(leaves) else None,
    )
