"""Moves on a real cluster: who may write what of them, and a task that is moved though a controller dies.

The scheduler's part is played here by its account.
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES
from accelet.kube.apiresources import JOBS, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError, TooManyError
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.test_tasks import client, kubeconfig, namespace, user  # noqa: F401 - fixtures

pytestmark = pytest.mark.timeout(300)
_ACCELET = Path(sys.executable).with_name("accelet")
_RBAC = "rbac.authorization.k8s.io"
_BUDGETS = ApiResource("PodDisruptionBudget", "poddisruptionbudgets", "policy")
_RIGHTS = [
    {"apiGroups": ["accelet.dev"], "resources": ["moves"], "verbs": ["get", "list", "create", "patch"]},
    {"apiGroups": ["accelet.dev"], "resources": ["moves/status"], "verbs": ["patch"]},
]
_SAVES = 'trap "echo saved; exit 0" TERM; sleep 3600 & wait'


@pytest.fixture
async def scheduler(
    cluster: ControlPlane,
    client: Client,
    user: Client,
    namespace: str,
    tmp_path: Path,
) -> AsyncIterator[Client]:
    """The scheduler's account, which may write Moves of the namespace by RBAC."""
    assert user
    await _account(client, namespace, "accelet-scheduler", "kube-system")
    own = await Client.connect(_kubeconfig(cluster, "kube-system", "accelet-scheduler", tmp_path / "sched"))
    await _until(lambda: _may_list(own, namespace))
    yield own
    own.close()


async def _account(client: Client, namespace: str, name: str, home: str) -> None:
    accounts = ApiResource("ServiceAccount", "serviceaccounts")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": home}}
    await client.patch(accounts, home, name, account, "apply")
    role = {"metadata": {"name": f"{name}-moves"}, "rules": _RIGHTS}
    await client.create(ApiResource("Role", "roles", _RBAC), namespace, role)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": home}
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": f"{name}-moves"}
    binding = {"metadata": {"name": f"{name}-moves"}, "roleRef": reference, "subjects": [subject]}
    await client.create(ApiResource("RoleBinding", "rolebindings", _RBAC), namespace, binding)


def _kubeconfig(cluster: ControlPlane, namespace: str, account: str, path: Path) -> Path:
    place = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token = Token(json.loads(cluster.client.send("POST", place, {"spec": {}}))["status"]["token"])
    return write_kubeconfig(
        path, server=cluster.url, ca=cluster.authority.keys.certificate, credentials=token
    )


async def _may_list(own: Client, namespace: str) -> bool:
    try:
        await own.list_page(MOVES, namespace)
    except (ForbiddenError, NotFoundError, TooManyError):
        return False
    return True


async def _until(condition: Callable[[], Awaitable[bool]], within_s: float = 90.0) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - the API server is another process
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _running(folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    with (folder / f"{words[0]}.log").open("ab") as out:
        process = await asyncio.create_subprocess_exec(_ACCELET, *words, stdout=out, stderr=out)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _move(name: str, task: str, uid: str, pod_uid: str = "a-pod") -> dict[str, Any]:
    place = {"rank": 0, "podUid": pod_uid, "fromNode": "node-1", "toNode": "node-1"}
    spec = {
        "task": {"name": task, "uid": uid, "attempt": 1},
        "takes": {"pods": 1},
        "places": [place],
        "gain": {"kind": "LetsIn", "text": "would let in a gang of 2 pods that waits"},
        "validUntil": "2100-01-01T00:00:00Z",
    }
    return {
        "apiVersion": MOVES.api_version,
        "kind": MOVES.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def _set_phase(own: Client, namespace: str, name: str, phase: str, *, dry_run: bool = False) -> None:
    body = {"status": {"phase": phase}}
    await own.patch(MOVES, namespace, name, body, "merge", subresource="status", dry_run=dry_run)


async def test_moves_are_proposed_and_held_by_the_scheduler_and_carried_out_by_nobody_but_the_controller(
    client: Client, scheduler: Client, user: Client, kubeconfig: Path, namespace: str
) -> None:
    controller = await Client.connect(kubeconfig)

    async def refused(sentence: str, attempt: Awaitable[object]) -> None:
        with pytest.raises(KubeError, match=sentence):
            await attempt

    try:

        async def in_force() -> bool:
            try:
                await client.create(MOVES, namespace, _move("tried", "t", "u"), dry_run=True)
            except (ForbiddenError, InvalidError) as error:
                return "proposed by the scheduler alone" in str(error)
            return False

        await _until(in_force)
        await refused("forbidden", user.create(MOVES, namespace, _move("mine", "t", "u")))
        await scheduler.create(MOVES, namespace, _move("one", "t", "u"))
        changed = {"spec": {"task": {"uid": "another"}}}
        await refused(
            "the spec cannot be changed", scheduler.patch(MOVES, namespace, "one", changed, "merge")
        )
        only_controller = "the task controller does everything else"
        await refused(only_controller, _set_phase(scheduler, namespace, "one", "Leaving"))
        await refused(only_controller, _set_phase(controller, namespace, "one", "Held"))
        await refused("and nobody else", _set_phase(client, namespace, "one", "Withdrawn"))
        await _set_phase(controller, namespace, "one", "Approved")
        await _set_phase(scheduler, namespace, "one", "Held")
        await _set_phase(controller, namespace, "one", "Leaving")
        for who in (scheduler, controller):
            await refused("it is not withdrawn", _set_phase(who, namespace, "one", "Withdrawn"))
        await _set_phase(controller, namespace, "one", "Done")
        await refused("stays so", _set_phase(controller, namespace, "one", "Approved"))
    finally:
        controller.close()


async def test_a_task_is_moved_though_its_controller_is_killed_and_not_against_a_disruption_budget(
    *,
    node: Node,
    cluster: ControlPlane,
    scheduler: Client,
    user: Client,
    kubeconfig: Path,
    namespace: str,
    tmp_path: Path,
) -> None:
    assert node
    for name in ("moved", "bound"):
        await user.create(GPU_TASKS, namespace, _task(name))
    selector = {"matchLabels": {"accelet.dev/task": "bound"}}
    budget = {"metadata": {"name": "whole"}, "spec": {"minAvailable": 1, "selector": selector}}
    await user.create(_BUDGETS, namespace, budget)

    async def get(resource: ApiResource, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await user.get(resource, namespace, name))
        return found

    async def pods(task: str) -> list[dict[str, Any]]:
        page = await user.list_page(PODS, namespace, {"labelSelector": f"accelet.dev/task={task}"})
        return [json.loads(bytes(item)) for item in page.items]

    async def phase_of(resource: ApiResource, name: str) -> str:
        return str(((await get(resource, name)).get("status") or {}).get("phase", ""))

    def comes_to(resource: ApiResource, phase: str, *names: str) -> Callable[[], Awaitable[bool]]:
        async def has() -> bool:
            return all([await phase_of(resource, name) in phase.split("|") for name in names])

        return has

    words = ("task-controller", "--kubeconfig", str(kubeconfig))
    async with _running(tmp_path, "scheduler", "--kubeconfig", str(cluster.kubeconfig)):
        async with _running(tmp_path, *words) as first:
            await _until(comes_to(GPU_TASKS, "Running", "moved", "bound"))
            before = {name: (await pods(name))[0]["metadata"]["uid"] for name in ("moved", "bound")}
            for name, pod_uid in before.items():
                uid = (await get(GPU_TASKS, name))["metadata"]["uid"]
                await scheduler.create(MOVES, namespace, _move(f"{name}-m1", name, uid, pod_uid))
            await _until(comes_to(MOVES, "Approved", "moved-m1", "bound-m1"))
            for name in before:
                await _set_phase(scheduler, namespace, f"{name}-m1", "Held")
            await _until(comes_to(MOVES, "Leaving|Arriving|Done", "moved-m1"))
            first.kill()
        async with _running(tmp_path, *words):
            await _until(comes_to(MOVES, "Done", "moved-m1"))
            await _until(comes_to(MOVES, "Withdrawn", "bound-m1"))
            await _until(comes_to(GPU_TASKS, "Running", "moved", "bound"))
    why = (await get(MOVES, "bound-m1"))["status"]["why"]
    assert why == "the disruption budget whole lets 0 of its 1 pods be disrupted now"
    assert [pod["metadata"]["uid"] for pod in await pods("bound")] == [before["bound"]]
    (now,) = [pod for pod in await pods("moved") if pod["status"]["phase"] == "Running"]
    assert now["metadata"]["uid"] != before["moved"]
    status = (await get(GPU_TASKS, "moved"))["status"]
    counted = status["attempt"], status.get("incidents", 0), status.get("disruptions", 0)
    assert counted == (1, 0, 0), "it costs nothing, though its program ends with 0 when it is told to"
    job = await get(JOBS, "moved-1")
    assert (job["spec"]["suspend"], job["status"].get("failed", 0)) == (False, 0)


def _task(name: str) -> dict[str, Any]:
    container = {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", _SAVES], "cpu": "10m", "memory": "16Mi"}
    return {
        "apiVersion": GPU_TASKS.api_version,
        "kind": "GPUTask",
        "metadata": {"name": name},
        "spec": {"container": container, "graceSeconds": 10, "move": {"policy": "WhenItHelps"}},
    }
