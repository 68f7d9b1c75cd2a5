"""How long Allocate takes, in turn with the bare plugin's."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc.aio

from accelet.fakekubelet import FakeKubelet
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as api_grpc
from benches.agent.figures import Figure, Section, median, percentile
from benches.agent.nodes import MAX_TILE, RESOURCES, write_four_resources
from benches.agent.processes import Measured, run_agent, run_bare

if TYPE_CHECKING:  # a name of the type stubs alone
    from accelet.kubelet.api.deviceplugin_pb2_grpc import DevicePluginAsyncStub

BARE = "example.com/bare"
ROUNDS = 10
_WARM_UP = 200


@dataclass(slots=True)
class _Caller:
    """One plugin's Allocate, called again and again over one connection."""

    stub: "DevicePluginAsyncStub"
    process: Measured
    request: api.AllocateRequest

    async def call(self, times: int) -> tuple[list[float], float]:
        """Seconds of each call, and seconds of the plugin's CPU a call."""
        seconds = []
        cpu_s = self.process.cpu_s()
        for _ in range(times):
            started = time.perf_counter()
            await self.stub.Allocate(self.request)
            seconds.append(time.perf_counter() - started)
        return seconds, (self.process.cpu_s() - cpu_s) / times


async def measure_allocate(folder: Path, calls: int = 5_000) -> Section:
    """A tile of a two-tile card, so that the answer has nodes, a by-path mount and a computed mask.

    The agent and the bare plugin are called in turn, so that a machine that changes its speed changes
    both.
    """
    config = write_four_resources(folder / "host")
    async with (
        FakeKubelet(folder) as kubelet,
        run_agent(folder, folder / "host", config) as agent,
        run_bare(folder, BARE, 4) as bare,
    ):
        for resource in (*RESOURCES, BARE):
            await (await kubelet.registered(resource)).devices(timeout_s=30)
        device = min(kubelet.resource(MAX_TILE).healthy)
        async with _connect(kubelet, MAX_TILE) as one, _connect(kubelet, BARE) as other:
            return await _compare(
                _Caller(api_grpc.DevicePluginStub(one), agent, _request(device)),
                _Caller(api_grpc.DevicePluginStub(other), bare, _request("bare-0")),
                calls,
            )


def _connect(kubelet: FakeKubelet, resource: str) -> grpc.aio.Channel:
    [call] = [call for call in kubelet.register_calls if call.resource == resource]
    return grpc.aio.insecure_channel(f"unix:{kubelet.plugins_dir / call.endpoint}")


def _request(device: str) -> api.AllocateRequest:
    return api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=[device])])


async def _compare(agent: _Caller, bare: _Caller, calls: int) -> Section:
    for caller in (agent, bare):
        await caller.call(_WARM_UP)
    rounds = [(await agent.call(calls // ROUNDS), await bare.call(calls // ROUNDS)) for _ in range(ROUNDS)]
    agent_s = [second for (seconds, _), _ in rounds for second in seconds]
    bare_s = [second for _, (seconds, _) in rounds for second in seconds]
    ratios = [median(ours) / median(theirs) for (ours, _), (theirs, _) in rounds]
    agent_cpu_s, bare_cpu_s = (median([pair[side][1] for pair in rounds]) for side in (0, 1))
    return Section(
        f"Allocate, {len(agent_s)} calls in a tight loop",
        (
            Figure("median", 1e3 * median(agent_s), "ms", bare=1e3 * median(bare_s)),
            Figure("99 of 100 below", 1e3 * percentile(agent_s, 99), "ms", bare=1e3 * percentile(bare_s, 99)),
            Figure(
                "median, as a ratio",
                median(ratios),
                "x",
                bare=1.0,
                aim=1.5,
                note=f"median of {ROUNDS} rounds in turn, {min(ratios):.2f} to {max(ratios):.2f}",
            ),
            Figure("CPU time a call", 1e3 * agent_cpu_s, "ms", bare=1e3 * bare_cpu_s),
        ),
    )
