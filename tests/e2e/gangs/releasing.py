"""How long 512 pods in 8 gangs wait on 3,000 nodes, from the last one made to the last gate lifted.

Named so that `make e2e` does not collect it: `make e2e-scheduler`.
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from accelet.kube.apiresources import JOBS, PODS
from accelet.kube.client import Client
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.runtime.tasks import task_group
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.gangs.chaos import client, cluster  # noqa: F401 - fixtures
from tests.e2e.gangs.fleet import Fleet
from tests.e2e.test_scheduler import gang_job, kubeconfig, namespace, running_scheduler, until  # noqa: F401 - fixtures

BLOCKS, GANGS, PODS_EACH = 30, 8, 64
WITHIN_S = 60.0
"""The aim is 5 s on a quiet machine; this is for one that runs a control plane and other things beside."""


@dataclass
class Times:
    """When the last pod came, and the last gate was lifted."""

    came_s: float = 0.0
    lifted_s: float = 0.0
    gated: set[str] = field(default_factory=set)
    lifted: set[str] = field(default_factory=set)

    def see(self, change: Change[Pod]) -> None:
        pod = change.after
        if pod is None:
            return
        if pod.gates and pod.name not in self.gated:
            self.gated.add(pod.name)
            self.came_s = time.monotonic()
        if not pod.gates and pod.name not in self.lifted:
            self.lifted.add(pod.name)
            self.lifted_s = time.monotonic()


def _processor_s(pid: int) -> float:
    """What a process has taken so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.timeout(900)
async def test_many_gangs_that_come_at_once_are_released_soon(
    cluster: ControlPlane, client: Client, kubeconfig: Path, namespace: str, *, tmp_path: Path, say: Progress
) -> None:
    fleet, times = Fleet(client, BLOCKS), Times()
    await fleet.make()
    await until(fleet.are_open, 300)
    seen = Reflector(client, Scope(PODS, namespace), parse_pod, changed=times.see)
    async with task_group() as group, running_scheduler(kubeconfig, tmp_path / "scheduler.log") as scheduler:
        watching = group.create_task(seen.run())
        await client.create(JOBS, namespace, gang_job("warm", 1, 1))
        await until(lambda: _holds(len(times.lifted) == 1))
        watched = {process.name: process.pid for process in cluster.processes}
        watched |= {"accelet scheduler": scheduler.pid, "this test": os.getpid()}
        before_s = {name: _processor_s(pid) for name, pid in watched.items()}
        jobs = [gang_job(f"gang-{number}", PODS_EACH, 8) for number in range(GANGS)]
        began_s = time.monotonic()
        await asyncio.gather(*(client.create(JOBS, namespace, job) for job in jobs))
        await until(lambda: _holds(len(times.lifted) == 1 + GANGS * PODS_EACH), 300)
        took_s = {name: _processor_s(pid) - before_s[name] for name, pid in watched.items()}
        watching.cancel()
    waited_s = times.lifted_s - times.came_s
    say(
        f"{GANGS * PODS_EACH} pods in {GANGS} gangs on {len(fleet.places)} nodes: {waited_s:.1f} s from "
        f"the last pod to the last gate, {times.lifted_s - began_s:.1f} s from the first Job; load "
        f"{os.getloadavg()[0]:.0f}; processor time meanwhile: "
        + ", ".join(f"{name} {s:.1f} s" for name, s in took_s.items())
    )
    assert waited_s < WITHIN_S


async def _holds(fact: bool) -> bool:
    return fact
