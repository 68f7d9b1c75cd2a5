"""A real torchrun trains through all that befalls an elastic GPU task; processors, gloo, no GPU.

API server, Job controller, kube-scheduler and torchrun are real. Kubelets are played, and their pods are
processes. Named so that `make e2e` does not collect it: `make e2e-tasks`.
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from accelet.gputask.objects.manifests import job_body
from accelet.gputask.objects.task import parse_task
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES
from accelet.kinds.wish import MOVE_TO, render_wish
from accelet.kube.apiresources import JOBS, NODES
from accelet.kube.client import Client
from tests.e2e import test_scheduler as site
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.tasks.debian_torch import DebianError, debian_torch
from tests.e2e.tasks.processes import ProcessKubelets
from tests.e2e.tasks.torchrun_standin import read_options
from tests.e2e.tasks.waiting import status_of, until
from tests.e2e.test_tasks import (  # noqa: F401 - fixtures
    client,
    controller_words,
    kubeconfig,
    make_task,
    namespace,
    running,
    user,
)
from tests.e2e.test_tasks_moves import proposing  # noqa: F401 - fixture

_PROGRAM = Path(__file__).with_name("train.py")
_PROCESSES = 2
"""For each rank: it has as many cards."""

_SAVE_S = 2
_SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"minReplicas": 2},
    {"replicas": 1, "minReplicas": 1, "cards": {"resource": site.GPU, "cards": 8}},
    {"cards": {"cards": 2, "tiles": 4}},
    {"cards": None},
)
_PATIENCE_S = 400.0


class Training:
    """One elastic task, the nodes it may use, and what its processes have written down."""

    def __init__(self, client: Client, namespace: str, kubelets: ProcessKubelets, data: Path) -> None:
        self.client, self.namespace, self.kubelets, self.data = client, namespace, kubelets, data
        self.nodes: list[str] = []

    async def add_node(self, name: str) -> None:
        """One that has room for one rank."""
        whole = f"{name}-{self.namespace}"
        await site._make_node(self.client, whole, [f"{part}-{whole}" for part in ("b", "s", "h")])
        self.nodes.append(whole)

        async def is_open() -> bool:
            return not json.loads(await self.client.get(NODES, None, whole))["spec"].get("taints")

        await until(f"{whole} is open", is_open)

    async def status(self) -> dict[str, Any]:
        return await status_of(self.client, self.namespace, "train")

    async def patch(self, body: dict[str, Any]) -> None:
        await self.client.patch(GPU_TASKS, self.namespace, "train", body, "merge")

    async def job(self, attempt: int) -> dict[str, Any]:
        raw = await self.client.get(JOBS, self.namespace, f"train-{attempt}")
        found: dict[str, Any] = json.loads(raw)
        return found

    def told(self, event: str) -> list[dict[str, Any]]:
        """What processes have written down, in order."""
        file = self.data / "runs"
        lines = file.read_text().splitlines() if file.exists() else []
        return [one for one in map(json.loads, lines) if one["event"] == event]

    async def trains_with(self, processes: int, run: str, after: int) -> None:
        """Waits until so many processes have begun together, beyond the first `after` begins."""

        async def is_so() -> bool:
            status = await self.status()
            assert status.get("phase") != "Failed", "the task has failed"
            worlds = [(one["world"], one["run"]) for one in self.told("start")[after:]]
            return worlds.count((processes, run)) >= processes

        try:
            await until(f"{processes} processes of {run} train", is_so, _PATIENCE_S)
        except AssertionError as error:
            status = json.dumps(await self.status(), indent=1)
            raise AssertionError(f"{error}\n{status}\n{self.kubelets.logs()}") from None


@pytest.fixture
async def training(
    *,
    cluster: ControlPlane,
    client: Client,
    namespace: str,
    kubeconfig: Path,
    proposing: Sequence[str],
    tmp_path: Path,
) -> AsyncIterator[Training]:
    try:
        root = await asyncio.to_thread(debian_torch)
    except DebianError as error:
        pytest.fail(str(error))
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(_PROGRAM, data)
    kubelets = ProcessKubelets(cluster, client, namespace, root, data, tmp_path / "pods")
    training = Training(client, namespace, kubelets, data)
    beating = asyncio.create_task(site._beat(client, training.nodes))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(kubelets.running())
        await stack.enter_async_context(running(tmp_path, *proposing))
        await stack.enter_async_context(running(tmp_path, *controller_words(kubeconfig, tmp_path)))
        yield training
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    await asyncio.gather(*(client.delete(NODES, None, name) for name in training.nodes))


def _task() -> dict[str, Any]:
    task = make_task(
        "train",
        replicas=2,
        minReplicas=1,
        success="RankZero",
        cards={"resource": site.GPU, "cards": _PROCESSES},
        onFailure={"restart": "All", "retries": 1},
        move={"policy": "Never", "saveSeconds": _SAVE_S},
        deadlineSeconds=3600,
        graceSeconds=30,
    )
    # With Python 3.11 the torchrun of PyTorch 1.13 cannot read its own default of these two, which is 0.
    env = [{"name": name, "value": "1"} for name in ("PET_REDIRECTS", "PET_TEE")]
    own = {"command": ["torchrun", "/data/train.py", "/data"], "cpu": "40", "env": env}
    task["spec"]["container"] |= own
    return task


@pytest.mark.timeout(2400)
async def test_torchrun_trains_through_growth_an_edit_a_killed_rank_and_a_move(
    training: Training, say: Progress
) -> None:
    await training.add_node("a")
    began_s = time.monotonic()
    await training.client.create(GPU_TASKS, training.namespace, _task())
    await training.trains_with(_PROCESSES, "train-1", 0)
    say(f"one rank of two trains after {time.monotonic() - began_s:.0f} s")

    starts = len(training.told("start"))
    began_s = time.monotonic()
    await training.add_node("b")
    await training.trains_with(2 * _PROCESSES, "train-1", starts)
    say(f"both ranks train {time.monotonic() - began_s:.0f} s after there is room")
    assert min(one["step"] for one in training.told("start")[-2 * _PROCESSES :]) > 0, "from the checkpoint"

    starts = len(training.told("start"))
    await training.patch({"spec": {"deadlineSeconds": 7200}})

    async def is_longer() -> bool:
        return int((await training.job(1))["spec"]["activeDeadlineSeconds"]) > 7000

    await until("the Job has the new deadline", is_longer)
    assert len(training.told("start")) == starts, "nothing began anew"

    began_s = time.monotonic()
    pods = await training.kubelets.pods("train")
    (second,) = [pod for pod in pods if pod["spec"]["hostname"] == "train-1-1"]
    training.kubelets.kill(second)
    await training.trains_with(2 * _PROCESSES, "train-2", starts)
    say(f"after a rank was killed, both train again {time.monotonic() - began_s:.0f} s later")
    status = await training.status()
    assert (status["attempt"], status["incidents"], status.get("disruptions", 0)) == (2, 1, 0)

    async def runs() -> bool:
        status = await training.status()
        return bool(status["phase"] == "Running" and status["readyReplicas"] == 2)

    await until("both ranks are ready", runs)
    starts = len(training.told("start"))
    before = {pod["spec"]["nodeName"] for pod in await training.kubelets.pods("train") if _is_live(pod)}
    await training.add_node("c")
    await training.add_node("d")
    began_s = time.monotonic()
    wish = render_wish(None, datetime.now(UTC))
    await training.patch({"metadata": {"annotations": {MOVE_TO: wish}}})

    async def has_moved() -> bool:
        page = await training.client.list_page(MOVES, training.namespace)
        phases = [json.loads(bytes(item)).get("status", {}).get("phase") for item in page.items]
        return "Done" in phases

    await until("it is moved", has_moved, _PATIENCE_S)
    await training.trains_with(2 * _PROCESSES, "train-2", starts)
    say(f"both train at other nodes {time.monotonic() - began_s:.0f} s after a person asked for it")
    after = {pod["spec"]["nodeName"] for pod in await training.kubelets.pods("train") if _is_live(pod)}
    assert after.isdisjoint(before)

    (training.data / "finish").touch()

    async def has_ended() -> bool:
        return (await training.status())["phase"] in ("Completed", "Failed")

    await until("it ends", has_ended, _PATIENCE_S)
    status = await training.status()
    assert (status["phase"], status["attempt"], status["incidents"]) == ("Completed", 2, 1)
    _judge(training)
    steps = max(one["step"] for one in training.told("end"))
    say(f"{steps} steps, {len(training.told('start'))} starts of processes")


_ASK = """
import json, sys
from torch.distributed.run import config_from_args, parse_args
config, _, _ = config_from_args(parse_args(["program"]))
print(json.dumps([
    config.min_nodes, config.max_nodes, config.nproc_per_node, config.rdzv_backend, config.rdzv_endpoint,
    str(config.run_id), config.rdzv_configs.get("rank", 0),
]))
"""


@pytest.mark.parametrize("spec", _SPECS)
def test_torchrun_takes_the_options_that_its_stand_in_takes(spec: dict[str, Any]) -> None:
    raw = {"metadata": {"name": "train", "namespace": "ml", "uid": "u"}, "spec": {**_task()["spec"], **spec}}
    (container,) = job_body(parse_task(raw), 3, "a.b/gate-", None)["spec"]["template"]["spec"]["containers"]
    said = {one["name"]: one.get("value", "1") for one in container["env"]}
    words = ["chroot", str(debian_torch()), "env", *(f"{name}={value}" for name, value in said.items())]
    asked = subprocess.run([*words, "python3", "-c", _ASK], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    taken = json.loads(asked.stdout.splitlines()[-1])
    own = read_options(said)
    is_ranked = own.rdzv_backend == "static"

    assert taken[:-1] == list(astuple(own))[:-1]
    assert taken[-1] == (own.node_rank if is_ranked else 0)


def _is_live(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Pending", "Running")


def _judge(training: Training) -> None:
    """Every start went on from what was saved, every device had a process, and the line was learned."""
    starts = training.told("start")
    steps = [one["step"] for one in starts]
    assert steps == sorted(steps), "no start forgot what was trained before"
    assert {one["local"] for one in starts} == set(range(_PROCESSES))
    ends = training.told("end")
    assert {one["world"] for one in ends} == {2 * _PROCESSES}
    assert all(abs(one["weight"] - 3.0) < 0.5 for one in ends)
