"""Nodes that are kept free for a gang that has waited long."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cluster.cluster import Snapshot
from accelet.scheduler.cluster.room import Room
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.errors import UnknownLevelError
from accelet.scheduler.gangs.exclusive import as_occupant, whole_domains
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.placement.fallback import place_kind_by_kind
from accelet.scheduler.placement.gangproblems import problems_of, required_level
from accelet.scheduler.placement.knapsack import rooms
from accelet.scheduler.placement.problem import PlacementProblem

_UNITS = 100_000
"""What it may cost to find the nodes to be kept."""

_STARTS_WITHIN_S = 60.0
"""How long it may take from a plan until all of its pods have begun, and their time runs."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept free for a gang until it fits on them, or until its time is over.

    What runs there has ended by `free_by_s` at the latest, infinite where nobody knows: what ends before that
    takes nothing from the gang.
    """

    gang: GangKey
    nodes: frozenset[str]
    until_s: float = field(default=float("inf"), compare=False)
    free_by_s: float = float("inf")

    def is_over_in_time(self, gang: Gang, now_s: float) -> bool:
        """Whether a gang that begins now has ended before these nodes are wanted."""
        return isfinite(self.free_by_s) and now_s + _STARTS_WITHIN_S + gang.runs_s <= self.free_by_s


@dataclass(frozen=True, slots=True)
class Patience:
    """Gangs that have waited for `starving_after_s` since `waiting_since` get nodes kept free for them.

    For `reserved_for_s` at most, and no more than `most_share` of all nodes; a gang whose time is over waits
    once more as long before it gets any again.
    """

    now_s: float
    starving_after_s: float
    waiting_since: Mapping[GangKey, float] = field(default_factory=dict)
    reserved_for_s: float = float("inf")
    most_share: float = 1.0

    def left_s(self, gang: Gang) -> float:
        """How long until the gang starves; no less than 0."""
        waited_s = self.now_s - self.waiting_since.get(gang.key, self.now_s)
        return max(0.0, self.starving_after_s - waited_s)

    def is_out(self, gang: Gang) -> bool:
        return self.left_s(gang) == 0


def reserve(
    gang: Gang, snapshot: Snapshot, room: Room, patience: Patience, before: Reservation | None
) -> Reservation | None:
    """The nodes on which the gang fits soonest, as far as their use tells; None if none help it.

    Only what is expected to end makes room: pods that run for good do not. A reservation stays as it was
    while it can still be fulfilled; a gang of which pods are placed gets one where these are.
    """
    budget = Budget(_UNITS)
    try:
        layout, within = snapshot.layout, required_level(gang, snapshot.layout)
        now = problems_of(gang, layout, room.metered(budget), within)
        end = problems_of(gang, layout, snapshot.room_in_the_end.metered(budget), within)
        choices = list(zip(now, end, strict=True))
        kept = (_left(gang, one, snapshot, before) for _, one in choices)
        leaves = next((one for one in kept if one is not None), None)
        if leaves is None:
            others = (_leaves(*one) for one in choices)
            leaves = min((one for one in others if one is not None), key=len, default=None)
    except (UnknownLevelError, BudgetSpentError):  # its plan says so
        return None
    if leaves is not None:
        # Nobody else is to come into a domain that the gang is to have to itself.
        names = (layout.nodes[leaf].name for leaf in leaves.tolist())
        leaves = np.flatnonzero(whole_domains(as_occupant(gang), layout, names))
    if leaves is None or len(leaves) > patience.most_share * len(snapshot.layout.nodes):
        return None
    nodes = frozenset(snapshot.layout.nodes[leaf].name for leaf in leaves)
    former = before if before is not None and before.gang == gang.key else None
    until_s = former.until_s if former else patience.now_s + patience.reserved_for_s
    # Where no pod is in the way, devices are that the kubelet gave away: nobody knows for how long.
    free_by_s = float(snapshot.ends_s[leaves].max(initial=0.0)) or float("inf")
    # Who is let in must not put off the end for those who come after.
    return Reservation(gang.key, nodes, until_s, min(free_by_s, former.free_by_s) if former else free_by_s)


def _left(gang: Gang, end: PlacementProblem, snapshot: Snapshot, before: Reservation | None) -> Ints | None:
    """The leaves that are kept for the gang already, if it still fits on them in the end."""
    if before is None or before.gang != gang.key or not list(end.demand.scopes(end.tree, end.within)):
        return None
    leaf_of = snapshot.layout.leaf_of
    left = np.array([leaf_of[name] for name in before.nodes if name in leaf_of], dtype=np.int64)
    return left if _holds(end, left) else None


def _leaves(now: PlacementProblem, end: PlacementProblem) -> Ints | None:
    scopes = list(end.demand.scopes(end.tree, end.within))
    if not scopes:
        return None
    leaves = _emptiest_first(now, end, max(scopes, key=lambda scope: _room_for(now, scope)))
    fewest = bisect_left(range(len(leaves)), 1, key=lambda last: int(_holds(end, leaves[: last + 1]))) + 1
    return leaves[:fewest] if fewest <= len(leaves) else None


def _room_for(problem: PlacementProblem, scope: slice) -> int:
    """How many of the pods fit in scope, each kind by itself."""
    demand = problem.demand
    return sum(
        min(int(slots[scope].sum()), count) for slots, count in zip(demand.slots, demand.counts, strict=True)
    )


def _emptiest_first(now: PlacementProblem, end: PlacementProblem, scope: slice) -> Ints:
    """The leaves in scope that will take any of the pods, first those with the least share in use."""
    free, whole = (np.sum([slots[scope] for slots in problem.slots], axis=0) for problem in (now, end))
    leaves = np.flatnonzero(whole)
    order = np.argsort(-free[leaves] / whole[leaves], kind="stable")
    return np.asarray(leaves[order] + scope.start)


def _holds(problem: PlacementProblem, leaves: Ints) -> bool:
    """Whether the gang fits on these leaves; of unlike pods, whether a rule of thumb finds a way."""
    demand = problem.demand.only(leaves)
    if len(problem.kinds) == 1:
        return int(rooms(problem.tree, demand.slots[0], problem.slices)[0].sum()) >= len(problem.shapes)
    return place_kind_by_kind(problem, leaves) is not None
