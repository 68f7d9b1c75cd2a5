"""Gangs that found no place: remembered until room that they could use has grown."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from accelet.scheduler.cluster.cluster import Snapshot
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.placement.reservation import Reservation

_UNSETTLED_FOR_S, _MOST_UNSETTLED_FOR_S = 5.0, 320.0
"""What a search left open is searched again after this, which doubles each time."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """`plan` says why the gang waits: as of `version` of the room, while `reservation` was in force.

    `searches` counts those that came to no end. `is_hopeless` says that no reservation helps it,
    `has_domains` that other gangs had domains to themselves.
    """

    plan: Plan
    version: int
    layout: Layout
    reservation: Reservation | None
    searches: int = 0
    again_s: float = float("inf")
    is_hopeless: bool = False
    has_domains: bool = False


@dataclass(slots=True)
class Refusals:
    """What one round tells the next: plain, and told the time. Room that shrinks makes no refusal untrue."""

    _by_gang: dict[GangKey, Refusal] = field(default_factory=dict)
    _grown: dict[int, Ints] = field(default_factory=dict)
    _snapshot: Snapshot | None = None

    def begin(self, gangs: Collection[GangKey], snapshot: Snapshot) -> None:
        """A round begins; what is remembered of other gangs is forgotten."""
        for key in self._by_gang.keys() - set(gangs):
            del self._by_gang[key]
        self._snapshot, self._grown = snapshot, {}

    def searches(self, gang: GangKey) -> int:
        """How many searches for this gang in vain came to no end."""
        known = self._by_gang.get(gang)
        return known.searches if known else 0

    def find(self, gang: Gang, reservation: Reservation | None, now_s: float) -> Refusal | None:
        """The refusal that still holds for this gang, unchanged."""
        known = self._by_gang.get(gang.key)
        if known is None or known.plan.gang is not gang or known.again_s <= now_s:
            return None
        if known.reservation not in (None, reservation):
            return None
        return None if self._has_grown_for(gang, known) else known

    def again_after_s(self, now_s: float) -> float | None:
        """After how long the next of what searches left open is worth another one; None if nothing is."""
        waits_s = (known.again_s - now_s for known in self._by_gang.values() if now_s < known.again_s)
        return min((wait_s for wait_s in waits_s if wait_s < float("inf")), default=None)

    def remember(self, refusal: Refusal, now_s: float) -> None:
        key, plan = refusal.plan.gang.key, refusal.plan
        if plan.is_settled:
            self._by_gang[key] = refusal
            return
        searches = self.searches(key)
        wait_s = min(_UNSETTLED_FOR_S * 2**searches, _MOST_UNSETTLED_FOR_S)
        self._by_gang[key] = replace(refusal, searches=searches + 1, again_s=now_s + wait_s)

    def _has_grown_for(self, gang: Gang, known: Refusal) -> bool:
        """Whether a node that the gang may use has more room than when it was refused."""
        snapshot = self._snapshot
        assert snapshot is not None
        if snapshot.version == known.version and snapshot.layout is known.layout:
            return False
        if known.version not in self._grown:
            self._grown[known.version] = np.flatnonzero(snapshot.grown > known.version)
        leaves = self._grown[known.version]
        if not len(leaves):
            return False
        if known.has_domains or gang.is_alone:
            return True  # whoever has left may have kept a whole domain from it
        rules = {shape.rules for shape in gang.shapes}
        return any(bool(snapshot.layout.eligible(one)[leaves].any()) for one in rules)
