"""How long Allocate takes where the agent must find out for which pod it is, beside the bare plugin's."""

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import grpc.aio

from accelet.fakeapi import Answer, FakeApi, Json
from accelet.fakeapi.faults import Fault
from accelet.fakekubelet import FakeKubelet, PodRecord, a_pod
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as api_grpc
from benches.agent.figures import Figure, Section, median, percentile
from benches.agent.processes import run_agent, run_bare
from tests.integration.agent.running import GPU
from tests.integration.identity.world import NODE, REPLICA_SET, STATEFUL_SET, World, gas, tiles_config

if TYPE_CHECKING:  # a name of the type stubs alone
    from accelet.kubelet.api.deviceplugin_pb2_grpc import DevicePluginAsyncStub

BARE = "example.com/bare"
CARDS, SHARES, PODS = 8, 300, 110
CALLS_A_SECOND = 50
_WARM_UP = 20
_REFUSED_S = 10.0


@dataclass
class _Admissions:
    """Admits pods to a full node, one for each call; the oldest pod goes when a new one comes."""

    world: World
    stub: "DevicePluginAsyncStub"
    owner: Json
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    pods: list[PodRecord] = field(default_factory=list)
    shares: dict[int, int] = field(default_factory=dict)

    async def call(self) -> float:
        """Seconds of the Allocate for a new pod, which the agent's watch has been told of."""
        number = next(self.numbers)
        card = number % CARDS
        pod = a_pod(
            f"web-7d9c5-{number:05}".translate(str.maketrans("0123456789", "bcdfghjklm")),
            limits={GPU: 1},
            annotations=gas(f"card{card}", f"card{card}:gt{number % 2}"),
        )
        record = PodRecord(self.world.create(pod, owner=self.owner))
        process = self.world.kubelet._process  # noqa: SLF001 - its loop asks for a preference as well
        assert process is not None
        await asyncio.sleep(1 / CALLS_A_SECOND)
        # As in the kubelet: a pod is shown by podresources from the moment it is being admitted, no sooner.
        process.node.pods[record.pod.uid] = process.known[record.pod.uid] = record
        device = self._free_device(card)
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=[device])])
        started = time.perf_counter()
        answer = await self.stub.Allocate(request)
        seconds = time.perf_counter() - started
        (response,) = answer.container_responses
        process.manager.give(
            record.pod, record.pod.containers[0], GPU, [device], response.SerializeToString()
        )
        process.checkpoint.save(process.manager)
        record.admitted = True
        self.pods.append(record)
        if len(self.pods) > PODS:
            await self.world.remove(self.pods.pop(0))
            process.free_dead()
        return seconds

    def _free_device(self, card: int) -> str:
        """A share in turn: by the time it comes again, whoever held it is gone."""
        self.shares[card] = (self.shares.get(card, -1) + 1) % SHARES
        return f"0000-{card + 3:02x}-00.0-s{self.shares[card]}"


async def measure_matching(folder: Path, calls: int = 500) -> tuple[Section, Section]:
    """110 pods on the node, 300 shares on each of 8 cards, 50 calls a second, each after a new checkpoint."""
    config = folder / "config.yaml"
    config.write_text("version: v1\nresources:\n" + tiles_config(CARDS, shares=SHARES))
    with FakeApi(bookmark_s=10.0) as server:
        kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
        words = ["--kubeconfig", str(kubeconfig), "--node-name", NODE]
        async with (
            FakeKubelet(folder) as kubelet,
            run_agent(folder, folder, config, *words) as agent,
            run_bare(folder, BARE, 4),
        ):
            await (await kubelet.registered(GPU)).devices(healthy=CARDS * SHARES, timeout_s=30)
            await kubelet.registered(BARE)
            world = World(server, kubelet, kubeconfig)
            async with _connect(kubelet, GPU) as one, _connect(kubelet, BARE) as other:
                stub = api_grpc.DevicePluginStub(one)
                admissions = _Admissions(world, stub, REPLICA_SET)
                for _ in range(PODS + _WARM_UP):
                    await admissions.call()
                before = len(server.seen)
                ours, theirs = [], []
                bare_stub = api_grpc.DevicePluginStub(other)
                for _ in range(calls):
                    ours.append(await admissions.call())
                    theirs.append(await _bare_call(bare_stub))
                requests = len(world.requests_for_pods(before))
                named = _Admissions(
                    world, stub, STATEFUL_SET, itertools.count(50_000), admissions.pods, admissions.shares
                )
                read = [await named.call() for _ in range(calls // 5)]
                memory = agent.memory().rss_kib / 1024
    refused = await _count_refused(folder)
    title = f"Allocate with matching: {PODS} pods, {CARDS} x {SHARES} shares, {CALLS_A_SECOND} calls a second"
    over = 1e3 * (median(ours) - median(theirs))
    return (
        Section(
            title,
            (
                Figure("median", 1e3 * median(ours), "ms", bare=1e3 * median(theirs)),
                Figure("median over the bare plugin's", over, "ms", aim=2),
                Figure(
                    "99 of 100 below", 1e3 * percentile(ours, 99), "ms", 1e3 * percentile(theirs, 99), aim=10
                ),
                Figure("requests to the API server", requests, "", aim=0, note="for its pods, in all calls"),
                Figure(
                    "median, names that recur",
                    1e3 * median(read),
                    "ms",
                    note="a StatefulSet's pods: one read each",
                ),
                Figure("resident (RSS)", memory, "MiB", aim=70),
            ),
        ),
        Section(
            f"An API server that answers 403, first {_REFUSED_S:.0f} s",
            (Figure("requests", refused, "", aim=4, note="two for its pods, two for its Node"),),
        ),
    )


async def _bare_call(stub: "DevicePluginAsyncStub") -> float:
    request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=["bare-0"])])
    started = time.perf_counter()
    await stub.Allocate(request)
    return time.perf_counter() - started


async def _count_refused(folder: Path) -> int:
    """How often the agent asks within ten seconds from its first request on."""
    with FakeApi() as server:
        server.faults.append(Fault(Answer(403, "Forbidden"), times=10**6))
        words = ["--kubeconfig", str(server.write_kubeconfig(folder / "refused")), "--node-name", NODE]
        async with FakeKubelet(folder) as kubelet, run_agent(folder, folder, folder / "config.yaml", *words):
            await kubelet.registered(GPU, timeout_s=30)
            while not server.seen:  # noqa: ASYNC110 - the server is on another thread
                await asyncio.sleep(0.05)
            await asyncio.sleep(_REFUSED_S)
            first = server.seen[0].at_s
            return sum(seen.at_s - first <= _REFUSED_S for seen in server.seen)


def _connect(kubelet: FakeKubelet, resource: str) -> grpc.aio.Channel:
    [call] = [call for call in kubelet.register_calls if call.resource == resource]
    return grpc.aio.insecure_channel(f"unix:{kubelet.plugins_dir / call.endpoint}")
