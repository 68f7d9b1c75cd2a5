"""Many gangs and one cluster: who goes first, who may overtake, and for whom nodes are kept free."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cluster import Snapshot
from accelet.scheduler.cluster.room import Room
from accelet.scheduler.gangs.exclusive import as_occupant, whole_domains
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.placement.plan import Plan, faulty_plan, find_places, take_places
from accelet.scheduler.placement.refusals import Refusal, Refusals
from accelet.scheduler.placement.reservation import Patience, Reservation, reserve
from accelet.scheduler.placement.unlike import QUICK_EFFORT, USUAL_EFFORT, Effort

_BESIDE_KEPT = "beside nodes that are kept free for another gang"

_UNITS_FIRST = 250_000
"""When gangs of unlike pods have taken so much work, simple ones go before the rest of them."""


@dataclass(frozen=True, slots=True)
class Round:
    """The plans of all gangs, in the order in which they were made, and what the next round must know."""

    plans: list[Plan]
    reservation: Reservation | None


def plan_backlog(
    gangs: Sequence[Gang],
    snapshot: Snapshot,
    patience: Patience,
    reservation: Reservation | None = None,
    effort: Effort = USUAL_EFFORT,
) -> Round:
    """Plans gangs in order, to the end, with nothing remembered of rounds before."""
    backlog = Backlog(gangs, snapshot, patience, Refusals(), before=reservation, effort=effort)
    plans = list(backlog.plans())
    return Round(plans, backlog.reservation)


class Backlog:
    """One round of planning.

    Gangs are planned in order. Behind one that must wait, others may go ahead, until it has starved: for the
    first starved gang nodes are kept free, which those before it may use, and behind it those alone that are
    over before it can begin. Where it is to go, it stays. A gang that would not fit even if all that ends had
    ended gets none.

    A gang that takes more than little work is looked at again behind all others. One that cannot be planned
    by a fault of ours stops no other.
    """

    def __init__(
        self,
        gangs: Sequence[Gang],
        snapshot: Snapshot,
        patience: Patience,
        refusals: Refusals,
        *,
        before: Reservation | None = None,
        effort: Effort = USUAL_EFFORT,
    ) -> None:
        self._gangs, self._snapshot, self._patience = gangs, snapshot, patience
        self._refusals, self._effort = refusals, effort
        self._before = before if before is None or before.until_s > patience.now_s else None
        self._room: Room = snapshot.room
        """What is not kept free for anybody; what is taken of it is taken of the snapshot's."""
        self._hard: list[tuple[Gang, Room]] = []
        self._work = 0
        self._refused: dict[object, Plan] = {}
        self.reservation: Reservation | None = None
        refusals.begin([gang.key for gang in gangs], snapshot)

    def plans(self, is_stale: Callable[[], bool] = lambda: False) -> Iterator[Plan]:
        """Each plan when it is made. Once `is_stale`, of the hard ones no more than one is made."""
        later: list[tuple[Gang, Room]] = []
        for gang in self._gangs:
            if self._work > _UNITS_FIRST and not is_simple(gang):
                later.append((gang, self._room_for(gang)))
            else:
                yield from self._plan_quickly(gang, self._room_for(gang))
        for gang, room in later:
            if is_stale():
                return
            yield from self._plan_quickly(gang, room)
        # Who was searched for least comes first, so that no gang waits for the search of the same others.
        self._hard.sort(key=lambda item: self._refusals.searches(item[0].key))
        for gang, room in self._hard:
            yield self._settle(self._try(gang, room, self._effort), room)
            if is_stale():
                return

    def _room_for(self, gang: Gang) -> Room:
        if self.reservation is not None and self.reservation.is_over_in_time(gang, self._patience.now_s):
            return self._snapshot.room
        if self.reservation is not None and gang.is_alone:
            # Whom nodes are kept for needs them: nobody gets a domain of theirs to itself.
            closed = whole_domains(as_occupant(gang), self._snapshot.layout, self.reservation.nodes)
            return self._room.without(closed, _BESIDE_KEPT)
        return self._room

    def _plan_quickly(self, gang: Gang, room: Room) -> Iterator[Plan]:
        known = self._refusals.find(gang, self._before, self._patience.now_s)
        if known is not None:
            self._keep_free(gang, room, known)
            yield known.plan
            return
        like = _likeness(gang, is_let_in=room is not self._room)
        if like is not None and like in self._refused:
            # Room has only shrunk since one like it was refused.
            refused = self._refused[like]
            yield self._settle(Plan(gang, lower_bound=refused.lower_bound, reason=refused.reason), room)
            return
        plan = self._try(gang, room, QUICK_EFFORT)
        if plan.is_settled or self._effort.units <= QUICK_EFFORT.units:
            plan = self._settle(plan, room)
            if like is not None and plan.nodes is None and plan.is_settled and plan.fault is None:
                self._refused[like] = plan
            yield plan
            return
        self._hard.append((gang, room))
        if plan.nodes is None:
            self._keep_free(gang, room, None)

    def _try(self, gang: Gang, room: Room, effort: Effort) -> Plan:
        budget = Budget(effort.units)
        try:
            return find_places(gang, self._snapshot.layout, room, effort, budget)
        except Exception as fault:  # whatever it is, it is a fault of ours with this one gang
            return faulty_plan(gang, fault)
        finally:
            self._work += 0 if is_simple(gang) else budget.spent

    def _settle(self, plan: Plan, room: Room) -> Plan:
        """The plan with its places taken, or remembered as a refusal."""
        try:
            plan = take_places(plan, self._snapshot.layout, room)
        except Exception as fault:  # as above
            plan = faulty_plan(plan.gang, fault)
        if plan.nodes is None and plan.fault is None:
            refusal = Refusal(
                plan,
                self._snapshot.version,
                self._snapshot.layout,
                self.reservation,
                has_domains=bool(self._snapshot.room.residents.with_domain),
            )
            is_hopeless = not self._keep_free(plan.gang, room, None)
            if is_hopeless and self._patience.is_out(plan.gang):
                refusal = replace(refusal, is_hopeless=True)
            self._refusals.remember(refusal, self._patience.now_s)
        return plan

    def _keep_free(self, gang: Gang, room: Room, known: Refusal | None) -> bool:
        """Keeps nodes for a gang that has starved, if nobody has any yet; False if none help it."""
        if self.reservation is not None or not self._patience.is_out(gang):
            return True
        if gang.objection or gang.lacking or gang.has_least or (known is not None and known.is_hopeless):
            return False
        try:
            found = reserve(gang.least_part, self._snapshot, room, self._patience, self._before)
        except Exception:
            return False
        if found is None:
            return False
        self.reservation = found
        closed = np.array([node.name in found.nodes for node in self._snapshot.layout.nodes], dtype=bool)
        self._room = self._room.without(closed, f"kept free for {gang.key}")
        return True


def is_simple(gang: Gang) -> bool:
    """Whether its pods are alike and share no cards in ways that take a search."""
    first = gang.shapes[0] if gang.shapes else None
    if first is None or any(shape != first for shape in gang.shapes[1:]):
        return False
    return first.cards is None or first.cards.is_plain or sum(n.cards for n in first.cards.containers) == 1


def _likeness(gang: Gang, *, is_let_in: bool) -> object:
    """Equal for gangs of which one finds a place where the other does; None for those that are their own."""
    if gang.objection or gang.lacking or gang.excluded or len(gang.members) > len(gang.pods):
        return None
    is_its_own = gang.pod_sets or gang.is_alone
    if is_its_own or any(pod.has_peer_rules for pod in gang.pods):
        return None
    slices = None
    if gang.slices is not None:
        if not gang.slices.are_whole(gang.pods):
            return None
        slices = tuple((layer.size, layer.level) for layer in gang.slices.layers)
    levels = gang.required_level, gang.preferred_level
    return gang.shapes, gang.least, levels, slices, gang.is_exclusive, is_let_in
