"""What any placement of a gang costs at least, whatever its pods are."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.topology import Ints, Tree
from accelet.scheduler.placement.identical import Shortfall, place_identical, work_to_place
from accelet.scheduler.placement.knapsack import parent_room
from accelet.scheduler.placement.problem import Demand

HOPELESS = 2**40
"""More domains than there are: the pods do not fit."""

_KIND, _PAIR = 10, 6
_LEAVES_A_UNIT, _SORTED_A_UNIT = 800, 40
"""What it costs of a gang's budget to look at a kind, at a pair of kinds, and at so many numbers."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven bound.

    `steps[l]` is how many of the steps from rank to rank leave a domain of level `l` at least, each for
    `costs[l]`; `of_kind` is what the pods of some one kind cost by themselves.
    """

    steps: tuple[int, ...]
    costs: tuple[int, ...]
    of_kind: int = 0

    @property
    def distance(self) -> int:
        by_steps = sum(cost * steps for cost, steps in zip(self.costs, self.steps, strict=True))
        return max(by_steps, self.of_kind)

    def wider_than(self, level: int) -> int:
        """The bound for placements that do not stay within one domain of `level`."""
        by_steps = sum(
            cost * max(steps, int(at >= level))
            for at, (cost, steps) in enumerate(zip(self.costs, self.steps, strict=True))
        )
        return max(by_steps, self.of_kind)

    @property
    def is_hopeless(self) -> bool:
        return max(self.steps) >= HOPELESS - 1


def lower_bound(tree: Tree, demand: Demand, budget: Budget) -> Bound:
    """Bounds the distance of every placement from below.

    At each level, two counts of steps that leave a domain are both right, so that the larger is: one less
    than the least number of domains that hold all pods, and the neighbours in rank that no domain holds
    together. The distance is the sum over levels of steps times what the level adds to a distance.

    The pods of one kind cost no more by themselves than among the others, since a detour is never shorter
    than the straight way; what they cost by themselves is known exactly.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    steps: list[int] = []
    for level in range(tree.lowest + 1):
        budget.spend(_KIND * len(demand.slots) + len(demand.slots) * tree.leaf_count // _LEAVES_A_UNIT)
        rooms = [parent_room(tree, slots, level) for slots in demand.slots]
        fewest = _fewest(tree, level, demand, rooms, budget)
        at_level = max(fewest - 1, _forced(demand, rooms, budget))
        steps.append(max(at_level, steps[-1] if steps else 0))
    bound = Bound(tuple(steps), tree.scheme.steps)
    if bound.is_hopeless:
        return bound
    budget.spend(len(demand.slots) * work_to_place(tree))
    alone = (
        place_identical(tree, slots, count) for slots, count in zip(demand.slots, demand.counts, strict=True)
    )
    lengths = [tree.length(leaves) for leaves in alone if not isinstance(leaves, Shortfall)]
    return replace(bound, of_kind=max(lengths, default=0))


def _forced(demand: Demand, rooms: list[Ints], budget: Budget) -> int:
    """How many neighbours in rank cannot be in one domain."""
    budget.spend(len(demand.pairs) * (_PAIR + len(rooms[0]) // _LEAVES_A_UNIT))
    return sum(count for one, other, count in demand.pairs if not _share_domain(rooms, one, other))


def _share_domain(rooms: list[Ints], one: int, other: int) -> bool:
    """Whether any domain takes a pod of each of two kinds, or two of one."""
    a, b = rooms[one], rooms[other]
    return bool(np.any((a > 0) & (b > 0)) if one != other else np.any(a > 1))


def _fewest(tree: Tree, level: int, demand: Demand, rooms: list[Ints], budget: Budget) -> int:
    """The least number of domains that hold all pods; kinds that share none are counted one by one."""
    counts, total = demand.counts, 0
    for group in _sharing(rooms, budget):
        budget.spend((len(group) + len(demand.measures)) * (_KIND + len(rooms[0]) // _SORTED_A_UNIT))
        fewest = max(_how_many(rooms[kind], counts[kind]) for kind in group)
        usable = np.any([demand.slots[kind] > 0 for kind in group], axis=0)
        for measure in demand.measures:
            needed = sum(counts[kind] * measure.needs[kind] for kind in group)
            free = parent_room(tree, np.where(usable, measure.free, 0), level)
            fewest = max(fewest, _how_many(free, needed))
        total += fewest
    return total


def _sharing(rooms: list[Ints], budget: Budget) -> list[list[int]]:
    """The kinds in groups of which no two have a domain in common."""
    groups: list[tuple[npt.NDArray[np.bool_], list[int]]] = []
    for kind, room in enumerate(rooms):
        budget.spend((1 + len(groups)) * (_PAIR + len(room) // _LEAVES_A_UNIT))
        used, members = room > 0, [kind]
        apart = []
        for other, others in groups:
            if np.any(other & used):
                used, members = used | other, others + members
            else:
                apart.append((other, others))
        groups = [*apart, (used, members)]
    return [members for _, members in groups]


def _how_many(room: Ints, needed: int) -> int:
    """How many domains, the roomiest first, hold what is needed."""
    if needed <= 0:
        return 0
    total = np.cumsum(np.sort(room)[::-1])
    if not len(total) or total[-1] < needed:
        return HOPELESS
    return int(np.searchsorted(total, needed)) + 1


def forced_tail(tree: Tree, demand: Demand, budget: Budget) -> list[int]:
    """For each rank, what the steps from it to the last rank cost at least, neighbour by neighbour."""
    costs = {(one, other): 0 for one, other, _ in demand.pairs}
    for level, step in enumerate(tree.scheme.steps):
        budget.spend(len(costs) * (_PAIR + tree.domain_count(level) // _LEAVES_A_UNIT))
        rooms = [parent_room(tree, slots, level) for slots in demand.slots]
        for one, other in costs:
            costs[one, other] += step * (not _share_domain(rooms, one, other))
    tail = [0]
    for pair in reversed(list(pairwise(demand.kinds.tolist()))):
        tail.append(tail[-1] + costs[pair])
    return tail[::-1]
