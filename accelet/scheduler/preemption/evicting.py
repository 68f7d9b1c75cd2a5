"""Has the pods that a plan needs gone evicted, and gives the plan up where they do not go in time."""

from collections.abc import Callable, Sequence

from accelet.kube.errors import KubeError
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.runtime.logs import Log
from accelet.scheduler.errors import EvictionRefusedError
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import GangKey, gang_key
from accelet.scheduler.preemption.victims import is_orphan, may_all_preempt, rank_over, victim_of
from accelet.scheduler.record import Record
from accelet.scheduler.settings import PreemptionSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

_LOOK_AGAIN_S = 30.0
_AGAIN_S = 5.0
"""After how long an eviction is asked for again that a disruption budget or a conflict has held up."""


class Evictor:
    """Makes the room of plans that have pods to be `evicted`."""

    def __init__(
        self,
        state: SchedulerState,
        writer: PlanWriter,
        events: GangEvents,
        settings: PreemptionSettings,
        *,
        wall_s: Callable[[], float],
    ) -> None:
        self._state, self._writer, self._events, self._settings = state, writer, events, settings
        self._wall_s = wall_s
        self._awaited: dict[ObjectKey, ObjectKey] = {}
        self._asked: set[str] = set()

    def plan_awaiting(self, pod: Pod) -> ObjectKey | None:
        """The key of the plan that has waited for this pod, which is gone or has ended."""
        self._asked.discard(pod.uid)
        return self._awaited.pop(pod.key, None)

    async def make_room(self, record: Record, wanting: Sequence[Pod]) -> float | None:
        """Evicts what is in the way of a plan; returns after how long to look again, None once all is gone.

        All of it is asked for before an error of one pod is raised.
        Whoever wrote the plan: a pod is evicted only if it could be chosen today, for `wanting`, the pods of
        the plan that wait.

        Raises:
            EvictionRefusedError: that may not be, or takes too long.
            KubeError: the API server gave no answer.
        """
        there = [pod for pod in map(self._find, record.evicted) if pod is not None]
        if not there:
            return None
        left_s = record.until_s - self._wall_s()
        if left_s <= 0:
            raise EvictionRefusedError(
                f"{len(there)} pods that were to make room for it have not ended in time"
            )
        if any(self._state.cluster.node(placement.node) is None for placement in record.placements):
            raise EvictionRefusedError("a node on which room was made for it is gone")
        for pod in there:
            self._awaited[pod.key] = record.key
        staying = [pod for pod in there if pod.deleted_s is None]
        made = [pod for pod in staying if not self._is_orphan(pod)]
        self._check(made, record.gang, wanting)
        is_held_up = await self._evict_all(made) or len(made) < len(staying)
        return min(left_s, _AGAIN_S if is_held_up else _LOOK_AGAIN_S)

    async def _evict_all(self, pods: Sequence[Pod]) -> bool:
        """Asks for all of these, whatever becomes of some; whether some must be asked for again.

        Raises:
            EvictionRefusedError: some may not be evicted. What the API server says of them is for the log
                alone: they may be another tenant's.
            KubeError: it gave no answer for some.
        """
        is_held_up, is_refused, unanswered = False, False, None
        for pod in pods:
            try:
                is_held_up |= not await self._evict(pod)
            except EvictionRefusedError as error:
                is_refused = True
                _log.warning("eviction is refused", pod=f"{pod.namespace}/{pod.name}", error=str(error))
            except KubeError as error:
                unanswered = unanswered or error
        if is_refused:
            raise EvictionRefusedError(
                "pods that are in its way cannot be evicted: the API server does not allow it, "
                "and the scheduler's log says of which"
            )
        if unanswered is not None:
            raise unanswered
        return is_held_up

    def _is_orphan(self, pod: Pod) -> bool:
        return is_orphan(pod, self._state.owners, gang_key(pod, self._state.prefix))

    def _find(self, evicted: tuple[str, str, str]) -> Pod | None:
        """The pod while its containers may run."""
        namespace, name, uid = evicted
        pod = self._state.pods.get((namespace, name))
        return None if pod is None or pod.uid != uid or pod.is_terminal else pod

    def _check(self, staying: Sequence[Pod], gang: GangKey, wanting: Sequence[Pod]) -> None:
        """
        Raises:
            EvictionRefusedError: some of these may not be evicted for those.
        """
        if not staying:
            return
        below, owners = rank_over(wanting), self._state.owners
        may = self._settings.gangs and may_all_preempt(wanting, owners, gang)
        for pod in staying:
            key = gang_key(pod, self._state.prefix)
            # Of a gang of which some pods are gone already, the successors may be on their way.
            found = victim_of(key, [pod], owners)
            if not may or found is None or found.priority >= below or pod.ending_s > self._settings.within_s:
                raise EvictionRefusedError("pods that were to make room for it may not be evicted any more")

    async def _evict(self, pod: Pod) -> bool:
        if pod.uid in self._asked:
            return True
        is_evicted = await self._writer.preempt(pod)
        if is_evicted:
            self._asked.add(pod.uid)
            _log.info("evicted", pod=f"{pod.namespace}/{pod.name}", node=pod.node_name)
            self._events.tell(pod, "Warning", "Preempted", "evicted for a gang of a higher priority")
        return is_evicted
