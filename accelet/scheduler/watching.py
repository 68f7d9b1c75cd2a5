"""Watches everything the scheduler looks at, and keeps the state up with it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from accelet.kube.apiresources import CONFIG_MAPS, JOBS, NODES, PODS, ApiResource
from accelet.kube.barepod import parse_bare_pod
from accelet.kube.errors import KubeError
from accelet.kube.nodes import Node, parse_node
from accelet.kube.objects import ObjectKey
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.served import ListApi, is_served
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.silence import Heard, describe_silence, measure_silence
from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import Change
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.supervise import supervise
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

_LOOK_AGAIN_S = 60.0
_UNSEEN = "owners of this kind are not seen"


class WatchApi(Source, ListApi, Protocol):
    """The requests it takes; `accelet.kube.client.Client` is one."""


class Listener(Protocol):
    """Who is told of changes, once the state has them."""

    def see_pod(self, change: Change[Pod]) -> None: ...

    def see_node(self, name: str) -> None: ...

    def see_record(self, key: ObjectKey) -> None: ...

    def see_workload(self) -> None: ...


class Watching:
    """The reflectors; `listener` gives who is told of changes at present, if anybody is."""

    def __init__(
        self,
        api: WatchApi,
        state: SchedulerState,
        metrics: SchedulerMetrics,
        *,
        listener: Callable[[], Listener | None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api, self._state, self._metrics = api, state, metrics
        self._clock = clock
        self._listener = listener
        self._pods = Reflector(
            api,
            Scope(PODS, page_size=100),
            partial(parse_pod, keeps_environment=False),
            changed=self._see_pod,
            failed=self._count,
            salvage=parse_bare_pod,
        )
        self._nodes = Reflector(
            api, Scope(NODES, page_size=1000), parse_node, changed=self._see_node, failed=self._count
        )
        self._records = Reflector(
            api,
            Scope(CONFIG_MAPS, label_selector=SELECTOR),
            parse_record,
            changed=self._see_record,
            failed=self._count,
        )
        self._found_owners = asyncio.Event()
        self._awaited_owners: str | None = OWNERS[0].kind

    @property
    def is_synced(self) -> bool:
        return all(r.is_synced for r in (self._pods, self._nodes, self._records))

    def silence_at(self, now_s: float) -> str:
        """Of what the API server has said nothing for too long, as a sentence; empty where it speaks."""
        watched: dict[str, Heard] = {"pods": self._pods, "nodes": self._nodes, "plans": self._records}
        return describe_silence(measure_silence(watched, now_s))

    @property
    def awaited_owners(self) -> str | None:
        """The kind of owners without which nothing is placed yet; None once all have been looked for."""
        return self._awaited_owners

    async def run(self) -> None:
        """Watches until it is cancelled."""
        async with task_group() as group:
            self._start(group, "pods", self._pods)
            self._start(group, "nodes", self._nodes)
            self._start(group, "plans", self._records)
            await self._watch_owners(group)

    async def synced(self) -> None:
        """Waits until everything has been seen once."""
        for reflector in (self._nodes, self._pods, self._records):
            await reflector.synced()
        await self._found_owners.wait()

    async def refresh(self) -> None:
        """Brings the state up to date; what a former leader wrote last is in it then.

        Raises:
            KubeError: the API server did not answer.
        """
        await self._nodes.refresh()
        await self._records.refresh()
        await self._pods.refresh()

    async def _watch_owners(self, group: asyncio.TaskGroup) -> None:
        """Watches the kinds of owners that the cluster knows, and from time to time looks for more."""
        unknown = list(OWNERS)
        while True:
            for resource in list(unknown):
                if not self._found_owners.is_set():
                    self._awaited_owners = resource.kind
                # Asked until there is an answer: a gang could be taken for one of unknown size otherwise,
                # and be placed incomplete.
                if not await is_served(self._api, resource, self._count, unseen=_UNSEEN):
                    continue
                unknown.remove(resource)
                parse = partial(parse_workload, kind=resource.kind)
                reflector: Reflector[Workload] = Reflector(
                    self._api,
                    Scope(resource),
                    parse,
                    changed=partial(self._see_workload, resource.kind),
                    failed=self._count,
                )
                self._start(group, resource.plural, reflector)
                if not self._found_owners.is_set():
                    await reflector.synced()
            self._found_owners.set()
            self._awaited_owners = None
            await self._clock.sleep(_LOOK_AGAIN_S)

    def _start(self, group: asyncio.TaskGroup, name: str, reflector: Reflector[Any]) -> None:
        """A fault in taking over one kind of objects must not end the watches of the others."""
        task = f"watch of {name}"
        group.create_task(supervise(task, reflector.run, self._count_fault), name=task)

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

    def _count_fault(self) -> None:
        self._metrics.faults.labels("Fault").inc()

    def _count(self, error: KubeError) -> None:
        self._metrics.faults.labels(type(error).__name__).inc()
