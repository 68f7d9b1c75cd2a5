"""Gangs of all kinds on 2,000 nodes that die, with quotas, a webhook that refuses and killed leaders.

Named so that `make e2e` does not collect it: `make e2e-scheduler`. ACCELET_GANGS_SHARE makes it smaller.
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from urllib.request import urlopen

import pytest

from accelet.kube.apiresources import CONFIG_MAPS
from accelet.kube.client import Client
from accelet.runtime.tasks import task_group
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.workspace import open_workspace
from tests.e2e.gangs.fleet import Fleet
from tests.e2e.gangs.judge import Kept, worst
from tests.e2e.gangs.kinds import FULL, PLAIN, REFUSING, UNPLANNED, draw
from tests.e2e.gangs.refusing import LABEL, Webhook
from tests.e2e.gangs.scene import Scene
from tests.e2e.tasks.killing import Killer
from tests.e2e.test_scheduler import NAMESPACES, kubeconfig, until  # noqa: F401 - a fixture
from tests.free_ports import LOOPBACK, free_port

SHARE = float(os.environ.get("ACCELET_GANGS_SHARE", "1"))
SEED = int(os.environ.get("ACCELET_GANGS_SEED", "13"))
GANGS, KILLS, BLOCKS = round(300 * SHARE), round(50 * SHARE), max(3, round(20 * SHARE))
COMES_EVERY_S, DIES_EVERY_S, LIVES_S = 1.5, 4.0, 12.0
BEGINS = "begins to place gangs"
"""What a leader says once it has read the cluster: its time, and its life, are counted from then."""

REFUSED_RATE = 0.2
WITHIN_S = 300 + 900 * SHARE

PARTIAL_S = 30.0
"""How long a gang may be partial while there is a remedy and somebody leads, who has read the cluster."""

WAITS_S = 20.0
"""How long a simple gang may wait, likewise, on a machine that runs a whole control plane beside."""

RESERVED_S, STARVES_S = 20, 5
LATE_S = 5.0
"""How much later a reservation may end, as it is seen from outside on such a machine."""

_SETTINGS = f"""
version: v1
starving_after_s: {STARVES_S}
reserved_for_s: {RESERVED_S}
stranded_after_s: 3
"""


@pytest.fixture
def cluster(binaries: Binaries) -> Iterator[ControlPlane]:
    """One whose nodes say nothing and are well all the same, and whose controllers are quick."""
    flags = ["--node-monitor-grace-period=10h", "--kube-api-qps=200", "--kube-api-burst=400"]
    with (
        open_workspace() as workspace,
        ControlPlane(workspace, binaries, controller_manager_flags=flags) as control_plane,
    ):
        control_plane.start()
        yield control_plane


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(cluster.kubeconfig), threads=12)
    yield client
    client.close()


async def _watch_reserved(port: int, killer: Killer, kept: Kept) -> None:
    """Looks at how long the replica that is there keeps nodes free."""
    before_s = time.monotonic()
    while True:
        await asyncio.sleep(0.5)
        number: float | None = None
        with suppress(OSError):
            number = await asyncio.to_thread(_reservation, port)
        now_s = time.monotonic()
        kept.look(None if number is None else (killer.kills, number), now_s - before_s)
        before_s = now_s


def _reservation(port: int) -> float | None:
    """Of a replica that keeps nodes free, its how many-th reservation that is."""
    with urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=5) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
    is_kept = values["accelet_scheduler_reserved_nodes"] > 0
    return values["accelet_scheduler_reservations_total"] if is_kept else None


async def _all_come(scene: Scene, chance: Random) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(GANGS):
            group.create_task(scene.come(draw(number, chance)))
            await asyncio.sleep(chance.uniform(0, 2 * COMES_EVERY_S))
            if number == GANGS // 2:
                await scene.lift_limits()


async def _make_namespaces(client: Client) -> None:
    for name in (PLAIN, REFUSING, FULL, UNPLANNED):
        labels = {LABEL: "true"} if name == REFUSING else {}
        await client.create(NAMESPACES, None, {"metadata": {"name": name, "labels": labels}})


async def _has_no_plans(client: Client) -> bool:
    query = {"labelSelector": "accelet.dev/placement-plan=v1"}
    return not (await client.list_page(CONFIG_MAPS, None, query)).items


@pytest.mark.timeout(2400)
async def test_gangs_are_whole_whatever_happens(
    cluster: ControlPlane, client: Client, kubeconfig: Path, say: Progress, tmp_path: Path
) -> None:
    fleet, webhook = Fleet(client, BLOCKS), Webhook(Random(SEED), REFUSED_RATE)
    scene = Scene(client, fleet, Random(SEED))
    port = free_port()
    config = tmp_path / "config.yaml"
    config.write_text(_SETTINGS)
    words = ["scheduler", "--kubeconfig", str(kubeconfig), "--config", str(config)]
    words += ["--http", f"{LOOPBACK}:{port}"]
    killer = Killer(words, tmp_path, client, Random(SEED), KILLS, LIVES_S, begins=BEGINS)
    kept, all_came = Kept(), asyncio.Event()
    await _make_namespaces(client)
    await fleet.make()
    await until(fleet.are_open, 240)
    say(f"{len(fleet.places)} nodes are open")
    await scene.limit()
    began_s = time.monotonic()
    with webhook.serve(cluster):
        async with task_group() as group:
            work = [group.create_task(scene.pods.run()), group.create_task(killer.run())]
            work.append(group.create_task(scene.look_on(killer)))
            work.append(group.create_task(_watch_reserved(port, killer, kept)))
            group.create_task(scene.take_nodes(DIES_EVERY_S, all_came))
            await _all_come(scene, Random(SEED))
            all_came.set()
            say(f"all gangs have come after {time.monotonic() - began_s:.0f} s; {killer.kills} kills")
            await _until_over(scene, killer)
            await until(lambda: _has_no_plans(client), 60)
            for one in work:
                one.cancel()
    say(f"{GANGS} gangs on {len(fleet.places)} nodes in {time.monotonic() - began_s:.0f} s:")
    _report(say, scene, killer, webhook)
    _report_waste(say, kept, _read_begins(tmp_path / "scheduler.log"))
    judge = scene.judge
    assert worst(judge.partial)[0] <= PARTIAL_S, worst(judge.partial)
    assert worst(judge.waits)[0] <= WAITS_S, worst(judge.waits)
    assert kept.one.worst_s <= RESERVED_S + LATE_S
    assert b"Traceback" not in (tmp_path / "scheduler.log").read_bytes()


async def _until_over(scene: Scene, killer: Killer) -> None:
    try:
        async with asyncio.timeout(WITHIN_S):
            while scene.gangs or killer.kills < KILLS:  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.5)
    except TimeoutError:
        late = {
            sight.gang.name: (sight.gang.namespace, sight.gang.size, len(sight.pods), len(sight.bound))
            for sight in scene.sights()
        }
        raise AssertionError([killer.kills, late]) from None


def _read_begins(log: Path) -> list[float]:
    """How long each leader took from its election until it had read the cluster."""
    lines = (line for line in log.read_text().splitlines() if f'"{BEGINS}"' in line)
    return sorted(json.loads(line)["took_s"] for line in lines)


def _report(say: Progress, scene: Scene, killer: Killer, webhook: Webhook) -> None:
    judge = scene.judge
    waits_s = sorted(one.worst_s for one in judge.waits.values())
    (partial_s, whose), (in_all_s, _) = worst(judge.partial), worst(judge.partial_in_all)
    say(
        ", ".join(f"{count} gangs {why}" for why, count in scene.over.items())
        + f"; {scene.fleet.died} nodes died, the leader was killed {killer.kills} times, "
        f"the webhook refused {webhook.refused} of {webhook.asked}"
    )
    say(
        f"partial with a remedy for at most {partial_s:.1f} s of a leader's time ({whose}), {in_all_s:.1f} s "
        f"of all; {len(waits_s)} simple gangs waited {waits_s[len(waits_s) // 2]:.1f} s in the middle, "
        f"{waits_s[-1]:.1f} s at most"
    )


def _report_waste(say: Progress, kept: Kept, begins_s: list[float]) -> None:
    say(
        f"nodes kept free for at most {kept.one.worst_s:.1f} s by one reservation, "
        f"{kept.in_a_row.worst_s:.1f} s by one after the other; leaders had read the cluster "
        f"{begins_s[len(begins_s) // 2]:.1f} s after their election in the middle, {begins_s[-1]:.1f} s at "
        f"most; load {os.getloadavg()[1]:.0f}"
    )
