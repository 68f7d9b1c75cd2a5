"""Many gangs and one cluster: who goes first, who may overtake, and for whom nodes are kept free."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from accelet.scheduler.cluster.cluster import Snapshot
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.room import Room
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.errors import UnknownLevelError
from accelet.scheduler.gangs.grouping import Gang, GangKey, required_level
from accelet.scheduler.placement.fallback import place_kind_by_kind
from accelet.scheduler.placement.plan import Plan, plan_gang
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.unlike import USUAL_EFFORT, Effort


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept free for a gang until it fits on them."""

    gang: GangKey
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Round:
    """The plans of all gangs, in their order, and what the next round must know."""

    plans: list[Plan]
    reservation: Reservation | None


@dataclass(frozen=True, slots=True)
class Patience:
    """Gangs that have waited for `starving_after_s` since `waiting_since` get nodes kept free for them."""

    now_s: float
    starving_after_s: float
    waiting_since: Mapping[GangKey, float] = field(default_factory=dict)

    def left_s(self, gang: Gang) -> float:
        """How long until the gang starves; no less than 0."""
        waited_s = self.now_s - self.waiting_since.get(gang.key, self.now_s)
        return max(0.0, self.starving_after_s - waited_s)

    def is_out(self, gang: Gang) -> bool:
        return self.left_s(gang) == 0


def plan_backlog(
    gangs: Sequence[Gang],
    snapshot: Snapshot,
    patience: Patience,
    reservation: Reservation | None = None,
    effort: Effort = USUAL_EFFORT,
) -> Round:
    """Plans gangs in order. Behind one that must wait, others may go ahead, until it has starved.

    For the first starved gang nodes are kept free: those behind it may not use them, those before it may.
    Where it is to go, it stays: a reservation is kept from round to round while it can still be fulfilled.
    A gang that would not fit even if all pods had ended gets none. One that cannot be planned by a fault of
    ours stops no other.
    """
    layout, room = snapshot.layout, snapshot.room
    plans: list[Plan] = []
    kept: Reservation | None = None
    for gang in gangs:
        reserved: Reservation | None = None
        try:
            plan = plan_gang(gang, layout, room, effort)
            is_waiting = plan.nodes is None and not gang.objection and not gang.missing
            if kept is None and is_waiting and patience.is_out(gang):
                reserved = _reserve(gang, layout, room, snapshot.room_in_the_end, reservation)
        except Exception as fault:  # whatever it is, it is a fault of ours with this one gang
            plan = Plan(
                gang, reason="cannot be planned by a fault of the scheduler; see its log", fault=fault
            )
        plans.append(plan)
        if reserved:
            kept = reserved
            closed = np.array([node.name in kept.nodes for node in layout.nodes], dtype=bool)
            room = room.without(closed, f"kept free for {gang.key}")
    return Round(plans, kept)


def _reserve(
    gang: Gang, layout: Layout, room: Room, room_in_the_end: Room, before: Reservation | None
) -> Reservation | None:
    """The nodes on which the gang fits soonest, as far as their use tells; None if it never fits."""
    tree = layout.tree
    try:
        within = required_level(gang, tree.scheme.levels)
    except UnknownLevelError:  # its plan says so
        return None
    now = PlacementProblem(tree, room, gang.shapes, within, gang.is_exclusive)
    end = replace(now, room=room_in_the_end)
    scopes = list(end.demand.scopes(tree, within))
    if not scopes:
        return None
    if before and before.gang == gang.key:
        left = [layout.leaf_of[name] for name in before.nodes if name in layout.leaf_of]
        if _holds(end, np.array(left, dtype=np.int64)):
            return before
    leaves = _emptiest_first(now, end, max(scopes, key=lambda scope: _room_for(now, scope)))
    fewest = bisect_left(range(len(leaves)), 1, key=lambda last: int(_holds(end, leaves[: last + 1]))) + 1
    if fewest > len(leaves):
        return None
    return Reservation(gang.key, frozenset(layout.nodes[leaf].name for leaf in leaves[:fewest]))


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
        return int(demand.slots[0].sum()) >= len(problem.shapes)
    return place_kind_by_kind(problem, demand) is not None
