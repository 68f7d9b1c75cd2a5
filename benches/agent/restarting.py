"""How long it takes from a new kubelet.sock until every resource is registered again."""

import time
from pathlib import Path

from accelet.fakekubelet import Event, FakeKubelet
from benches.agent.figures import Figure, Section, median, percentile
from benches.agent.nodes import RESOURCES, write_four_resources
from benches.agent.processes import run_agent

_PATIENCE_S = 30.0


async def measure_restarts(folder: Path, restarts: int = 100) -> Section:
    """Restarts the fake kubelet and waits for all four resources; the last one counts."""
    config = write_four_resources(folder / "host")
    registered_at: dict[str, float] = {}

    def hear(event: Event) -> None:
        if event.event == "registered" and event.resource is not None:
            registered_at[event.resource] = time.time()

    async with FakeKubelet(folder) as kubelet, run_agent(folder, folder / "host", config):
        kubelet.trace.listen(hear)
        await _all_listed(kubelet, 1)
        all_s = []
        for restart in range(restarts):
            await kubelet.restart()
            created = (kubelet.plugins_dir / "kubelet.sock").stat().st_ctime
            await _all_listed(kubelet, restart + 2)
            all_s.append(max(registered_at[resource] for resource in RESOURCES) - created)
    return Section(
        f"From kubelet.sock created to all {len(RESOURCES)} resources registered, {restarts} restarts",
        (
            Figure("median", 1e3 * median(all_s), "ms"),
            Figure("99 of 100 below", 1e3 * percentile(all_s, 99), "ms", aim=250),
            Figure("slowest", 1e3 * max(all_s), "ms"),
        ),
    )


async def _all_listed(kubelet: FakeKubelet, times: int) -> None:
    for resource in RESOURCES:
        view = kubelet.resource(resource)
        await view.registered(times=times, timeout_s=_PATIENCE_S)
        await view.devices(timeout_s=_PATIENCE_S)
