"""Many JobSets at once, made into Jobs by JobSet's own controller, through faults and kills."""

import asyncio
import json
import random
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, LEASES, NODES
from accelet.kube.client import Client
from accelet.kube.errors import NotFoundError
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.watching import JOB_SETS
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.faulty_proxy import Faults, faulty_proxy
from tests.e2e.slices.jobset import HOSTS, SLICES, job_set
from tests.e2e.slices.observer import Observer
from tests.e2e.slices.world import FAST, Kubelets, count, provisioner, until

ROOM, FAULTS, SEED = 10, 0.1, 15
MOST_WRITES, WRITES_WITHIN_S = 80, 300.0
"""A provisioner is killed after up to so many writes since the last kill: it leads, and has begun."""
SIMULATED = "simulated: {create_s: 1, join_s: 0.5, delete_s: 0.5}\n"


@dataclass(frozen=True)
class Site:
    """A cluster with JobSet's controller, and a namespace in it; `kubeconfig` is the provisioner's own."""

    cluster: ControlPlane
    client: Client
    kubeconfig: Path
    namespace: str


def _faulty(kubeconfig: Path, server: str, path: Path) -> Path:
    """The same account's kubeconfig by way of the proxy."""
    document = json.loads(kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": server}
    path.write_text(json.dumps(document))
    return path


@dataclass(frozen=True)
class Load:
    """So many JobSets of as many slices, while the leading provisioner is killed so many times.

    There is `room` for so many of them at a time. `times` are what the settings say beside it.
    """

    job_sets: int
    kills: int
    hosts: int = HOSTS
    slices: int = SLICES
    room: int = ROOM
    times: str = SIMULATED

    @property
    def settings(self) -> str:
        return f"{FAST}rest_s: 1\nlimits: {{slices: {self.slices * self.room}}}\n{self.times}"


async def _leader(client: Client, running: Mapping[str, Process]) -> str:
    """Which of the running replicas leads, once one does."""
    found = ""

    async def is_led() -> bool:
        nonlocal found
        try:
            lease = json.loads(await client.get(LEASES, "kube-system", "accelet-provisioner"))
        except NotFoundError:
            return False
        found = str(lease["spec"].get("holderIdentity") or "").rpartition("-")[0]
        return found in running

    await until(is_led, 300, 0.3)
    return found


@asynccontextmanager
async def _killed(
    client: Client, kubeconfig: Path, folder: Path, faults: Faults, load: Load
) -> AsyncIterator[None]:
    """Two replicas; so many times the leader is killed, and another one started. The last two go on."""
    chance = random.Random(SEED)
    async with AsyncExitStack() as stack:
        running: dict[str, Process] = {}
        for number in range(load.kills + 2):
            name = f"replica-{number}"
            running[name] = await stack.enter_async_context(
                provisioner(kubeconfig, folder, load.settings, name)
            )
            if 1 <= number <= load.kills:
                await faults.cut(chance.randint(1, MOST_WRITES), WRITES_WITHIN_S)
                leader = running.pop(await _leader(client, running))
                leader.kill()
                await leader.wait()
                faults.open()
        yield


async def run_job_sets(site: Site, folder: Path, say: Progress, load: Load) -> None:
    """All of them end, no pod runs on a part of a set, and nothing is left.

    With kills, a tenth of the provisioners' requests fail too.
    """
    client, namespace = site.client, site.namespace
    kubelets, observer = Kubelets(client, namespace), Observer(client, namespace, load.hosts, load.slices)
    running = [asyncio.create_task(one.run()) for one in (kubelets, observer)]
    began_s = time.monotonic()
    for index in range(load.job_sets):
        await client.create(JOB_SETS, namespace, job_set(f"train-{index}", load.hosts, slices=load.slices))

    async def is_done() -> bool:
        assert not any(task.done() for task in running), running
        page = await client.list_page(JOB_SETS, namespace)
        states = [(json.loads(bytes(raw)).get("status") or {}).get("terminalState") for raw in page.items]
        return states == ["Completed"] * load.job_sets

    async def is_clean() -> bool:
        places = ((SLICE_REQUESTS, namespace, ""), (NODES, None, NODE_POOL))
        pools = await count(client, CONFIG_MAPS, "kube-system", "accelet.dev/simulated-pool")
        return pools + sum([await count(client, *place) for place in places]) == 0

    ca = site.cluster.authority.keys.certificate
    async with faulty_proxy(site.cluster.url, ca, SEED, FAULTS) as faults:
        faulty = _faulty(site.kubeconfig, faults.url, folder / "faulty.kubeconfig")
        kubeconfig = faulty if load.kills else site.kubeconfig
        async with _killed(client, kubeconfig, folder, faults, load):
            await until(is_done, 600.0 + 60.0 * load.job_sets, 1.0)
            await until(is_clean, 300, 1.0)
    for task in running:
        task.cancel()
    say(
        f"{load.job_sets} JobSets of {load.slices} x {load.hosts} hosts, {load.kills} kills, "
        f"{faults.failed} of {faults.requests} requests failed: "
        f"done in {time.monotonic() - began_s:.0f} s; {observer.report()}"
    )
    assert observer.bound >= load.job_sets * load.slices * load.hosts
    partial = observer.partial
    assert not partial, "\n".join(partial)
    assert not kubelets.killed, kubelets.killed
    assert load.kills or not observer.failed, observer.failed
    assert observer.most_pools <= load.slices * load.room
