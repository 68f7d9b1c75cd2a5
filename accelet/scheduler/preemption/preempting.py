"""Looks for gangs to be evicted when one of higher priority has no place: not too often, not for long."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from accelet.control.pacing import Intervals, Parts, Rests
from accelet.kube.errors import KubeError, MalformedObjectError
from accelet.kube.objects import ObjectKey, RawObject
from accelet.kube.pods import Pod
from accelet.kube.served import ListApi
from accelet.kube.writing.disruption import BUDGETS, DisruptionBudget, parse_budget, why_forbidden
from accelet.runtime.clock import Clock
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.scheduler.cluster.cluster import Snapshot
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.placement.reservation import Reservation
from accelet.scheduler.preemption.search import Preemption, find_preemption
from accelet.scheduler.preemption.victims import Victim, may_preempt, rank_over, victim_of
from accelet.scheduler.record import Evicted
from accelet.scheduler.settings import PreemptionSettings
from accelet.scheduler.state import SchedulerState

_log = Log(__name__)

_EVERY_S = 2.0
_SHARE = 10
"""Between two looks at all pods and budgets: so long, and so many times as long as the last one took."""

_PODS_AT_ONCE = 1000
"""So many pods are looked at in some 10 ms."""

_REST_S = 30.0
"""How long a gang waits that nobody is evicted for, before it is looked at again."""

_GONE_BY_S = 60.0
"""A pod that should have ended so long ago is not counted on: its node may be away."""

_BUDGETS_A_PAGE = "500"
_MOST_PAGES = 40


@dataclass(frozen=True, slots=True)
class Prospect:
    """Who may be evicted, and what were then. `ending` pods are on their way out in any case."""

    victims: tuple[Victim, ...]
    ending: tuple[Pod, ...]
    budgets: tuple[DisruptionBudget, ...]

    @property
    def keys(self) -> list[ObjectKey]:
        victims = [pod.key for victim in self.victims for pod in victim.pods]
        return [*victims, *(pod.key for pod in self.ending)]

    def allows(self, victims: Sequence[Victim]) -> bool:
        """Whether disruption budgets let all pods of these end at once."""
        for namespace in {victim.key.namespace for victim in victims}:
            labels = [pod.labels for one in victims if one.key.namespace == namespace for pod in one.pods]
            if why_forbidden(namespace, labels, self.budgets):
                return False
        return True

    def evicted_for(self, found: Preemption) -> tuple[Evicted, ...]:
        """The pods that must be gone for what was found: those of its victims, and any that end there."""
        pods = [pod for victim in found.victims for pod in victim.pods]
        pods += [pod for pod in self.ending if pod.key in found.awaited]
        return tuple(Evicted(pod.namespace, pod.name, pod.uid) for pod in pods)


class Preemptor:
    """Finds victims for one gang at a time, where `settings` say so. Made anew for each leadership."""

    def __init__(
        self,
        state: SchedulerState,
        api: ListApi,
        settings: PreemptionSettings,
        *,
        clock: Clock,
        wall_s: Callable[[], float],
    ) -> None:
        self._state, self._api, self._settings = state, api, settings
        self._clock, self._wall_s = clock, wall_s
        self._listing = Failing(_log, "cannot preempt")
        self._wanting: dict[GangKey, int] = {}
        self._rests = Rests[GangKey](clock.now_s)
        self._intervals = Intervals(clock, _EVERY_S, _SHARE)

    def note(self, waiting: Collection[Plan]) -> float | None:
        """Notes who waits after a round; returns in how many seconds another one may help them."""
        self._wanting = {}
        if not self._settings.gangs:
            return None
        owners, now_s = self._state.owners, self._clock.now_s()
        for plan in waiting:
            if plan.is_settled and may_preempt(plan.gang, owners):
                self._wanting[plan.gang.key] = rank_over(plan.gang.pods)
        # Who does not wait at the moment, as its pods are refused, still rests.
        self._rests.forget_ended(self._wanting)
        next_s = self._intervals.until_s
        rests_s = [max(self._rests.last(key).until_s, next_s) - now_s for key in self._wanting]
        return max(0.0, min(rests_s)) if rests_s else None

    def rest(self, gang: GangKey, for_s: float = _REST_S) -> None:
        """Nobody is evicted for the gang for a while."""
        self._rests.begin(gang, for_s)

    async def look(self, waiting: Sequence[Plan]) -> Prospect | None:
        """Who may be evicted for one of these who waited after the last round; None if nobody, or not now.

        Asks for all disruption budgets, so only where somebody may be helped by that.
        """
        ready = [plan.gang.key for plan in waiting if self._may_search(plan)]
        if not ready or self._intervals.left_s > 0:
            return None
        with self._intervals.look():
            victims, ending = await self._pods(max(self._wanting[key] for key in ready))
            budgets = await self._budgets() if victims else None
        if budgets is None:
            for key in ready:
                self.rest(key)
            return None
        return Prospect(tuple(victims), tuple(ending), tuple(budgets))

    def _may_search(self, plan: Plan) -> bool:
        key = plan.gang.key
        return key in self._wanting and plan.is_settled and not self._rests.is_resting(key)

    async def search(
        self,
        prospect: Prospect,
        supposed: Supposition,
        waiting: Sequence[Plan],
        kept: Reservation | None,
    ) -> Preemption | None:
        """Victims for one of those who wait and may have some; searched for in a thread.

        For the first of those not looked at for the longest: many that nothing helps hold up nobody.
        """
        for plan in sorted(waiting, key=lambda one: self._rests.last(one.gang.key).since_s):
            key = plan.gang.key
            if not self._may_search(plan) or self._state.record_of(key) is not None:
                continue
            known = supposed if kept is None or kept.gang == key else _without(supposed, kept)
            charged = [victim for victim in prospect.victims if _is_charged(victim, supposed)]
            ending = [pod.key for pod in prospect.ending if pod.key in supposed.charges]
            found = await asyncio.to_thread(
                find_preemption, plan.gang, charged, known, ending=ending, allows=prospect.allows
            )
            if found.plan is None:
                self.rest(key)
                return None
            return found
        return None

    async def _pods(self, below: int) -> tuple[list[Victim], list[Pod]]:
        """The victims of lower priority, and the pods that end; not too many at once."""
        victims: list[Victim] = []
        ending: list[Pod] = []
        parts, now_s = Parts(_PODS_AT_ONCE), self._wall_s()
        for key in self._state.gang_keys():
            await parts.pause()
            members = self._state.members(key)
            parts.count(len(members))
            ending += (pod for pod in members if pod.node_name and self._is_soon_gone(pod, now_s))
            victim = victim_of(key, members, self._state.owners)
            if victim is None or victim.priority >= below or victim.ending_s > self._settings.within_s:
                continue
            if self._state.record_of(key) is None and not any(self._is_moving(pod) for pod in victim.pods):
                victims.append(victim)
        return victims, ending

    def _is_moving(self, pod: Pod) -> bool:
        return pod.uid in self._state.moving

    def _is_soon_gone(self, pod: Pod, now_s: float) -> bool:
        """Whether it is being deleted, and will have ended before a plan that waits for it is given up.

        What one leaves behind that moves is held.
        """
        if pod.is_terminal or pod.deleted_s is None or self._is_moving(pod):
            return False
        return now_s - _GONE_BY_S < pod.deleted_s <= now_s + self._settings.within_s

    async def _budgets(self) -> list[DisruptionBudget] | None:
        """All disruption budgets; None, which is logged, where they cannot be had."""
        budgets: list[DisruptionBudget] = []
        query = {"limit": _BUDGETS_A_PAGE}
        try:
            for _ in range(_MOST_PAGES):
                page = await self._api.list_page(BUDGETS, None, query)
                budgets += map(_read_budget, page.items)
                if not page.continue_token:
                    self._listing.worked()
                    return budgets
                query = {"limit": _BUDGETS_A_PAGE, "continue": page.continue_token}
            most = int(_BUDGETS_A_PAGE) * _MOST_PAGES
            self._listing.failed(
                f"there are more than {most:,} disruption budgets, which are too many to read"
            )
        except (KubeError, MalformedObjectError) as error:
            self._listing.failed(error)
        return None


def suppose(state: SchedulerState, snapshot: Snapshot, prospect: Prospect) -> Supposition:
    """What can be asked of a snapshot, at the moment at which it was made."""
    return state.cluster.suppose(snapshot, prospect.keys)


def _read_budget(item: RawObject) -> DisruptionBudget:
    """A budget; one that cannot be read lets no pod of its namespace be disrupted."""
    try:
        return parse_budget(item)
    except MalformedObjectError as error:
        return DisruptionBudget(error.namespace, error.name, ())


def _is_charged(victim: Victim, supposed: Supposition) -> bool:
    return all(pod.key in supposed.charges for pod in victim.pods)


def _without(supposed: Supposition, kept: Reservation) -> Supposition:
    """The same without the nodes that are kept free for another gang."""
    closed = np.array([node.name in kept.nodes for node in supposed.layout.nodes], dtype=bool)
    return supposed.without(closed, f"kept free for {kept.gang}")
