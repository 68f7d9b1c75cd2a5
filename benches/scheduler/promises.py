"""How long the event loop is held up by a large Workload of Kueue: `python -m benches.scheduler.promises`.

It is planned before it has pods, the pods come and take the places, in one process with the real keeper and
planner; requests are answered out of memory, in threads as those to an API server are sent.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, cast

from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.fakeapi.direct import DirectClient
from accelet.fakeapi.state import State
from accelet.kube.nodes import parse_node
from accelet.kube.podparser import parse_pod
from accelet.kube.served import ListApi
from accelet.kube.watching.store import Change
from accelet.runtime.blocking import brief_collections
from accelet.runtime.clock import SYSTEM_CLOCK
from accelet.runtime.tasks import task_group
from accelet.scheduler.admission.book import AdmissionBook
from accelet.scheduler.admission.keeping import AdmissionKeeper
from accelet.scheduler.admission.kueue import (
    ADMISSION_CHECKS,
    CONTROLLER,
    WORKLOADS,
    parse_admission_check,
    parse_kueue_workload,
)
from accelet.scheduler.admission.telling import AdmissionWriter
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.controller import Controller
from accelet.scheduler.gangs.grouping import GANG_SIZE, GATE_PREFIX
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.settings import AdmissionSettings, SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter
from benches.scheduler.blocking import Held
from benches.scheduler.memory import raw_node

_WORKLOAD, _NAME = ("ml", "train"), "train"
_SPEC = {
    "schedulingGates": [{"name": f"{GATE_PREFIX}j"}],
    "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
}


class _InThreads(DirectClient):
    """Answers in a thread; the loop waits for it as for a server."""

    async def _elsewhere(self, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        async def answer() -> bytes:
            return await ask()

        return await asyncio.to_thread(lambda: asyncio.run(answer()))

    async def get(self, *asked: Any, **more: Any) -> bytes:
        return await self._elsewhere(lambda: DirectClient.get(self, *asked, **more))

    async def create(self, *asked: Any, **more: Any) -> bytes:
        return await self._elsewhere(lambda: DirectClient.create(self, *asked, **more))

    async def patch(self, *asked: Any, **more: Any) -> bytes:
        return await self._elsewhere(lambda: DirectClient.patch(self, *asked, **more))


def _workload(pods: int) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": _NAME, "uid": "u", "controller": True}
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "metadata": {"name": _NAME, "ownerReferences": [owner]},
        "spec": {"podSets": [{"name": "main", "count": pods, "template": {"spec": _SPEC}}]},
        "status": {
            "conditions": [reserved],
            "admissionChecks": [{"name": "places", "state": "Pending", "message": ""}],
        },
    }


def _pod(rank: int, pods: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{_NAME}-{rank}",
            "namespace": "ml",
            "uid": f"pod-{rank}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"job-name": _NAME},
            "annotations": {GANG_SIZE: str(pods), "batch.kubernetes.io/job-completion-index": str(rank)},
        },
        "spec": _SPEC,
        "status": {"phase": "Pending"},
    }


async def _measure(nodes: int, pods: int) -> None:
    objects, book, metrics = State(), AdmissionBook(), SchedulerMetrics(CollectorRegistry())
    api = _InThreads(objects, SYSTEM_CLOCK, Random(0))  # noqa: S311
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for number in range(nodes):
        state.set_node(parse_node(raw_node(number)))
    writer, settings = FencedWriter(api, lambda: True), AdmissionSettings(kueue=True, within_s=10.0**9)
    plans = PlanWriter(writer, state, metrics)
    keeper = AdmissionKeeper(
        book,
        state,
        AdmissionWriter(writer, book),
        plans,
        settings,
        clock=SYSTEM_CLOCK,
        wall_s=time.time,
    )
    controller = Controller(
        state,
        plans,
        SchedulerSettings(version="v1"),
        metrics,
        lambda _: None,
        api=cast(ListApi, None),
        admission=keeper,
    )
    check = {"metadata": {"name": "places"}, "spec": {"controllerName": CONTROLLER}}
    made = objects.create(ADMISSION_CHECKS.path().removeprefix("/"), "", check)
    book.checks["places"] = parse_admission_check(made)
    held = Held()
    async with task_group() as group:
        tasks = [group.create_task(held.watch()), group.create_task(controller.run())]
        await asyncio.sleep(1)
        held.say("nothing to do")
        raw = objects.create(WORKLOADS.path().removeprefix("/"), "ml", _workload(pods))
        book.put(parse_kueue_workload(raw))
        keeper.see_workload(_WORKLOAD)
        while len(state.records) != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        held.say(f"{pods:,} pods that are still to come get their places on {nodes:,} nodes")
        for rank in range(pods):
            pod = parse_pod(_pod(rank, pods))
            state.set_pod(pod)
            controller.see_pod(Change("added", pod.key, None, pod))
            if rank % 20 == 0:
                await asyncio.sleep(0)
        held.say("the pods come")
        while not any(record.gang.kind == "Job" for record in state.records.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        held.say("they have taken the places")
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    with brief_collections():
        asyncio.run(_measure(*(int(argument) for argument in sys.argv[1:] or ("5000", "8000"))))
