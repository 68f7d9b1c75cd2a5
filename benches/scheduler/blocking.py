"""How long the scheduler's event loop is held up in a large cluster: `python -m benches.scheduler.blocking`.

First lists, a layout made anew and rounds over waiting gangs, in one process with the real watches, state
and planner; the objects come out of memory instead of an API server.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import msgspec
from prometheus_client import CollectorRegistry

from accelet.control.watches import WatchApi
from accelet.control.writer import FencedWriter
from accelet.kube.apiresources import NODES, PODS, ApiResource, ObjectApi
from accelet.kube.objects import Page
from accelet.kube.served import ListApi
from accelet.runtime.blocking import brief_collections
from accelet.runtime.tasks import task_group
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.controller import Controller
from accelet.scheduler.gangs.grouping import GANG_SIZE, GATE_PREFIX
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.settings import SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.watching import Watching
from accelet.scheduler.writer import PlanWriter
from benches.scheduler.memory import raw_node, raw_pod

GANG = 64


def _gated(gang: int, rank: int) -> bytes:
    body = json.loads(raw_pod(gang * GANG + rank))
    body["metadata"] |= {
        "name": f"waits-{gang}-{rank}",
        "namespace": f"team-{gang % 50}",
        "uid": f"waits-{gang}-{rank}",
        "labels": {"job-name": f"waits-{gang}"},
        "annotations": {GANG_SIZE: str(GANG), "accelet.dev/required-level": "subblock"},
    }
    del body["spec"]["nodeName"]
    body["spec"]["schedulingGates"] = [{"name": f"{GATE_PREFIX}x"}]
    body["status"] = {"phase": "Pending"}
    return json.dumps(body).encode()


class _Memory:
    """Lists from memory, page by page, and watches in which what is in `news` comes."""

    def __init__(self, items: Mapping[str, list[bytes]]) -> None:
        self._items = items
        self.news: dict[str, asyncio.Queue[list[bytes]]] = {kind: asyncio.Queue() for kind in items}

    async def list_page(self, *_: object) -> Page:
        return Page((), "", "1")

    async def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
        page_size: int | None = 250,
        *,
        only_metadata: bool = False,
    ) -> AsyncGenerator[Page, None]:
        items = self._items.get(resource.kind, [])
        size = page_size or len(items) or 1
        for first in range(0, max(1, len(items)), size):
            await asyncio.sleep(0.001)
            yield Page(tuple(msgspec.Raw(raw) for raw in items[first : first + size]), "", "1")

    @asynccontextmanager
    async def watch(self, resource: ApiResource, *_: object) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        async def batches() -> AsyncIterator[list[bytes]]:
            queue = self.news.setdefault(resource.kind, asyncio.Queue())
            while True:
                yield await queue.get()

        yield batches()


class Held:
    """The most processor time that the loop took before it was free again, since it was last asked."""

    def __init__(self) -> None:
        self._most_s, self._started_s = 0.0, time.monotonic()

    async def watch(self) -> None:
        while True:
            before_s = time.thread_time()
            await asyncio.sleep(0)
            self._most_s = max(self._most_s, time.thread_time() - before_s)

    def say(self, what: str) -> None:
        took_s = time.monotonic() - self._started_s
        most_ms = self._most_s * 1000
        print(f"{what}: {took_s:.1f} s, at most {most_ms:.0f} ms at a time on the loop")  # noqa: T201
        self._most_s, self._started_s = 0.0, time.monotonic()


async def _measure(nodes: int, pods: int, gangs: int) -> None:
    items = {
        NODES.kind: [raw_node(number) for number in range(nodes)],
        PODS.kind: [raw_pod(number, nodes) for number in range(pods)],
    }
    items[PODS.kind] += [_gated(gang, rank) for gang in range(gangs) for rank in range(GANG)]
    api = _Memory(items)
    state, registry = SchedulerState(Scheme(), GATE_PREFIX), CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    writer = PlanWriter(FencedWriter(cast("ObjectApi", None), lambda: False), state, metrics)
    controller: Controller | None = None
    watching = Watching(cast("WatchApi", api), state, metrics, listener=lambda: controller)
    held = Held()
    async with task_group() as group:
        tasks = [group.create_task(held.watch()), group.create_task(watching.run())]
        await watching.synced()
        held.say(f"{nodes:,} nodes, {pods:,} pods and {gangs:,} gangs of {GANG} listed")
        nothing = cast(ListApi, None)
        controller = Controller(
            state, writer, SchedulerSettings(version="v1"), metrics, lambda _: None, api=nothing
        )
        tasks.append(group.create_task(controller.run()))
        while not registry.get_sample_value("accelet_scheduler_waiting_gangs"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        held.say("first round")
        for version in range(2, 102):
            number = version * 37 % pods
            body = json.loads(raw_pod(number, nodes))
            body["metadata"] |= {"resourceVersion": str(version), "labels": {"v": str(version)}}
            event = json.dumps({"type": "MODIFIED", "object": body}).encode()
            api.news[PODS.kind].put_nowait([event])
            gone = json.dumps({"type": "DELETED", "object": body}).encode()
            if version % 10 == 0:
                api.news[PODS.kind].put_nowait([gone])
            await asyncio.sleep(0.05)
        held.say("100 events of pods in 5 s, every tenth an end that has rounds planned")
        body = json.loads(raw_node(nodes + 1))
        body["metadata"]["resourceVersion"] = "200"
        api.news[NODES.kind].put_nowait([json.dumps({"type": "ADDED", "object": body}).encode()])
        await asyncio.sleep(5)
        held.say("a node more, so that the layout is made anew")
        for task in tasks:
            task.cancel()
    print(f"left for a full collection: {gc.collect():,} objects")  # noqa: T201


if __name__ == "__main__":
    with brief_collections():
        asyncio.run(_measure(*(int(argument) for argument in sys.argv[1:] or ("5000", "50000", "1000"))))
