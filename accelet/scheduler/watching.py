"""Watches everything the scheduler looks at, and keeps the state up with it."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from accelet.control.watches import OptionalWatches, WatchApi, WatchedKind, Watches, WatchFaults
from accelet.kube.apiresources import CONFIG_MAPS, JOBS, NODES, PODS, ApiResource
from accelet.kube.barepod import parse_bare_pod
from accelet.kube.nodes import Node, parse_node
from accelet.kube.objects import ObjectKey
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.tasks import task_group
from accelet.scheduler.gangs.workload import Workload, parse_workload
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.record import SELECTOR, Record, parse_record
from accelet.scheduler.state import SchedulerState

OWNERS = (
    JOBS,
    ApiResource("JobSet", "jobsets", "jobset.x-k8s.io", "v1alpha2"),
    ApiResource("LeaderWorkerSet", "leaderworkersets", "leaderworkerset.x-k8s.io"),
    ApiResource("PyTorchJob", "pytorchjobs", "kubeflow.org"),
    ApiResource("TFJob", "tfjobs", "kubeflow.org"),
    ApiResource("MPIJob", "mpijobs", "kubeflow.org"),
    ApiResource("MPIJob", "mpijobs", "kubeflow.org", "v2beta1"),
    ApiResource("XGBoostJob", "xgboostjobs", "kubeflow.org"),
    ApiResource("PaddleJob", "paddlejobs", "kubeflow.org"),
    ApiResource("JAXJob", "jaxjobs", "kubeflow.org"),
    ApiResource("RayCluster", "rayclusters", "ray.io"),
    ApiResource("SparkApplication", "sparkapplications", "sparkoperator.k8s.io", "v1beta2"),
    ApiResource("PodGroup", "podgroups", "scheduling.k8s.io", "v1beta1"),
    ApiResource("PodGroup", "podgroups", "scheduling.k8s.io", "v1alpha2"),
)
"""Kinds that say how many pods they make at one time. A cluster need not know all of them."""

_UNSEEN = "owners of this kind are not seen"


class Listener(Protocol):
    """Who is told of changes, once the state has them."""

    def see_pod(self, change: Change[Pod]) -> None: ...

    def see_node(self, name: str) -> None: ...

    def see_record(self, key: ObjectKey) -> None: ...

    def see_workload(self) -> None: ...


class Watching:
    """The tables of kinds; `listener` gives who is told of changes at present, if anybody is."""

    def __init__(
        self,
        api: WatchApi,
        state: SchedulerState,
        metrics: SchedulerMetrics,
        *,
        listener: Callable[[], Listener | None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._state, self._clock = state, clock
        self._listener = listener
        faults = WatchFaults.counted(metrics.faults)
        parse = partial(parse_pod, keeps_environment=False)
        self._watches = Watches(
            api,
            (
                WatchedKind(Scope(NODES, page_size=1000), parse_node, self._see_node),
                WatchedKind(
                    Scope(CONFIG_MAPS, label_selector=SELECTOR), parse_record, self._see_record, "plans"
                ),
                WatchedKind(Scope(PODS, page_size=100), parse, self._see_pod, salvage=parse_bare_pod),
            ),
            faults,
            clock=clock,
        )
        # Asked for until there is an answer: a gang could be taken for one of unknown size otherwise, and be
        # placed incomplete.
        self._owners = OptionalWatches(
            api, [self._owner(one) for one in OWNERS], faults, unseen=_UNSEEN, clock=clock
        )

    def _owner(self, resource: ApiResource) -> WatchedKind[Workload]:
        kind = resource.kind
        return WatchedKind(
            Scope(resource), partial(parse_workload, kind=kind), partial(self._see_workload, kind)
        )

    @property
    def is_synced(self) -> bool:
        return self._watches.is_synced

    def silence_at(self, now_s: float) -> str:
        """Of what the API server has said nothing for too long, as a sentence; empty where it speaks."""
        return self._watches.silence_at(now_s)

    @property
    def awaited_owners(self) -> str | None:
        """The kind of owners without which nothing is placed yet; None once all have been looked for."""
        return self._owners.awaited

    async def run(self) -> None:
        """Watches until it is cancelled."""
        async with task_group() as group:
            group.create_task(self._watches.run())
            group.create_task(self._owners.run())

    async def synced(self) -> None:
        """Waits until everything has been seen once."""
        await self._watches.synced()
        await self._owners.looked_for()

    async def refresh(self) -> None:
        """Brings the state up to date; what a former leader wrote last is in it then.

        Raises:
            KubeError: the API server did not answer.
        """
        await self._watches.refresh()

    def _see_pod(self, change: Change[Pod]) -> None:
        if change.after is not None:
            self._state.set_pod(change.after)
        else:
            self._state.remove_pod(change.key, self._clock.now_s())
        if listener := self._listener():
            listener.see_pod(change)

    def _see_node(self, change: Change[Node]) -> None:
        name = change.key[1]
        if change.after is None:
            self._state.remove_node(name)
        elif not self._state.set_node(change.after):
            return
        if listener := self._listener():
            listener.see_node(name)

    def _see_record(self, change: Change[Record]) -> None:
        if change.after is not None:
            self._state.set_record(change.after)
        elif change.before is not None:
            self._state.remove_record(change.before)
        if listener := self._listener():
            listener.see_record(change.key)

    def _see_workload(self, kind: str, change: Change[Workload]) -> None:
        if change.after is not None:
            self._state.set_workload(change.after)
        else:
            self._state.remove_workload(kind, *change.key)
        if listener := self._listener():
            listener.see_workload()
