"""Gangs that come, run and go, and nodes that die under them: everybody but the schedulers."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from accelet.kube.apiresources import JOBS, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ApiError, NotFoundError
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope
from tests.e2e.gangs.fleet import GPUS, Fleet, at_once
from tests.e2e.gangs.judge import Judge, Sight
from tests.e2e.gangs.kinds import FULL, GANG, UNPLANNED, Drawn

QUOTAS = ApiResource("ResourceQuota", "resourcequotas")
_LIMITS: Mapping[str, Mapping[str, str]] = {FULL: {"pods": "30"}, UNPLANNED: {"count/configmaps": "1"}}
LOOKS_EVERY_S = 0.5
_AWAY_S = 20.0
_MOST_LOSSES = 4
_DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "Gone"}]


@dataclass
class Scene:
    """`gangs` are those that have come and are not over; `over` counts the others by what became of them."""

    client: Client
    fleet: Fleet
    chance: Random
    judge: Judge = field(init=False)
    gangs: dict[str, Drawn] = field(default_factory=dict)
    over: Counter[str] = field(default_factory=Counter)
    begun_s: dict[str, float] = field(default_factory=dict)
    bound_s: dict[str, float] = field(default_factory=dict)
    losses: Counter[str] = field(default_factory=Counter)
    pods: Reflector[Pod] = field(init=False)

    def __post_init__(self) -> None:
        self.judge = Judge(self.fleet.places, frozenset(filter(self.fleet.is_hot, self.fleet.places)))
        self.pods = Reflector(self.client, Scope(PODS, label_selector=GANG), parse_pod)

    async def limit(self) -> None:
        for namespace, limits in _LIMITS.items():
            body = {"metadata": {"name": "limits"}, "spec": {"hard": dict(limits)}}
            await self.client.create(QUOTAS, namespace, body)

    async def lift_limits(self) -> None:
        for namespace in _LIMITS:
            await self.client.delete(QUOTAS, namespace, "limits")

    async def come(self, gang: Drawn) -> None:
        self.gangs[gang.name] = gang
        resource = JOBS if gang.is_job else PODS
        # Of bare pods those that a quota forbids are asked for again, as a controller would.
        await asyncio.gather(*(self._insist(resource, gang.namespace, body) for body in gang.bodies))
        if gang.leaves_s is not None:
            await asyncio.sleep(gang.leaves_s)
            await self._leave(gang, "left")

    async def _insist(self, resource: ApiResource, namespace: str, body: dict[str, Any]) -> None:
        while True:
            try:
                await self.client.create(resource, namespace, body)
            except ApiError:
                await asyncio.sleep(5)
            else:
                return

    async def _leave(self, gang: Drawn, why: str) -> None:
        if self.gangs.pop(gang.name, None) is None:
            return
        self.over[why] += 1
        if gang.is_job:
            with suppress(NotFoundError):
                await self.client.delete(JOBS, gang.namespace, gang.name, propagation="Background")
            return
        for body in gang.bodies:
            with suppress(NotFoundError):
                await self.client.delete(PODS, gang.namespace, body["metadata"]["name"])

    async def take_nodes(self, every_s: float, is_over: asyncio.Event) -> None:
        """Nodes die, and others of their name come a while later."""
        async with asyncio.TaskGroup() as group:
            while not is_over.is_set():
                await asyncio.sleep(self.chance.uniform(0, 2 * every_s))
                used = {pod.node_name for pod in self._listed() if pod.node_name and not pod.is_terminal}
                group.create_task(self._take_and_give_back(self.fleet.draw(self.chance, used)))

    async def _take_and_give_back(self, node: str) -> None:
        await self.fleet.take(node)
        lost = [pod for pod in self._listed() if pod.node_name == node and not pod.is_terminal]
        await at_once(self._fail(pod) for pod in lost)
        self.losses.update(pod.labels[GANG] for pod in lost)
        for name in {pod.labels[GANG] for pod in lost}:
            gang = self.gangs.get(name)
            # Nobody makes bare pods anew, and the Job controller waits twice as long for each pod lost:
            # 10 s for the first, 320 s where six go with one node.
            if gang is not None and self.losses[name] >= (_MOST_LOSSES if gang.is_job else 1):
                await self._leave(gang, "were given up for their losses")
        await asyncio.sleep(_AWAY_S)
        await self.fleet.give_back(node)

    async def _fail(self, pod: Pod) -> None:
        with suppress(NotFoundError):
            status = {"status": {"phase": "Failed", "conditions": _DISRUPTED}}
            await self.client.patch(PODS, *pod.key, status, "strategic", subresource="status")
            await self.client.delete(PODS, *pod.key, uid=pod.uid)

    def _listed(self) -> list[Pod]:
        return list(self.pods.store)

    def sights(self) -> list[Sight]:
        live, done = defaultdict[str, list[Pod]](list), Counter[str]()
        for pod in self._listed():
            done[pod.labels[GANG]] += pod.phase == "Succeeded"
            if not pod.is_terminal and pod.deleted_s is None:
                live[pod.labels[GANG]].append(pod)
        return [Sight(gang, live[name], done[name]) for name, gang in self.gangs.items()]

    async def look_on(self, killer: Any) -> None:
        """Judges what is there, and has pods end as they would."""
        before_s = time.monotonic()
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            now_s = time.monotonic()
            sights = self.sights()
            nodes = dict.fromkeys(self.fleet.places.keys() - self.fleet.gone, GPUS)
            self.judge.look(sights, nodes, now_s - before_s, is_led=killer.is_leading)
            before_s = now_s
            await at_once([one for sight in sights for one in self._live_on(sight, now_s)])

    def _live_on(self, sight: Sight, now_s: float) -> Sequence[Any]:
        """What there is to do for a gang: pods of it that have run long enough end."""
        name = sight.gang.name
        if sight.done >= sight.gang.size:
            del self.gangs[name]
            self.over["done"] += 1
            return []
        if len(sight.bound) >= sight.needed and sight.is_made:
            self.begun_s.setdefault(name, now_s)
        if name not in self.begun_s:
            return []
        for pod in sight.bound:
            self.bound_s.setdefault(pod.uid, now_s)
        return [
            self._end(pod)
            for pod in sight.bound
            if now_s - max(self.begun_s[name], self.bound_s[pod.uid]) >= sight.gang.runs_s
        ]

    async def _end(self, pod: Pod) -> None:
        with suppress(NotFoundError):
            status = {"status": {"phase": "Succeeded"}}
            await self.client.patch(PODS, *pod.key, status, "strategic", subresource="status")
