"""What befalls tasks on a real cluster: no memory, preemption, lost nodes, quotas, ends of namespaces.

Named so that `make e2e` does not collect it: `make e2e-tasks`.
"""

# ruff: noqa: F811 - fixtures of other modules

import json
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import JOBS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ConflictError, NotFoundError
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.shipped_kinds import RESOURCES
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tasks.scene import scheduler_words  # noqa: F401 - fixture
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

pytestmark = pytest.mark.timeout(300)
_GPUS, _LABEL = "example.com/gpu", "example.com/lost"
_CLASSES = ApiResource("PriorityClass", "priorityclasses", "scheduling.k8s.io")
_QUOTAS = ApiResource("ResourceQuota", "resourcequotas")
_NAMESPACES = ApiResource("Namespace", "namespaces")
_KINDS = RESOURCES["CustomResourceDefinition"]
_ONCE = 'case "$HOSTNAME" in *-1-*) trap "exit 143" TERM; sleep 3600 & wait;; esac'
_TOO_MUCH = "exec dd if=/dev/zero of=/dev/null bs=256M count=1"


@pytest.fixture
async def controller(
    kubeconfig: Path, scheduler_words: Sequence[str], tmp_path: Path
) -> AsyncIterator[Process]:
    """The task controller, beside the scheduler."""
    async with (
        running(tmp_path, *scheduler_words),
        running(tmp_path, *controller_words(kubeconfig, tmp_path)) as process,
    ):
        yield process


async def _is(client: Client, namespace: str, name: str, phase: str) -> bool:
    return (await status_of(client, namespace, name)).get("phase") == phase


async def _is_gone(client: Client, resource: ApiResource, namespace: str | None, name: str) -> bool:
    try:
        await client.get(resource, namespace, name)
    except NotFoundError:
        return True
    return False


def _counts(status: dict[str, Any]) -> tuple[str, int, int, int]:
    return (
        status["phase"],
        status["attempt"],
        status.get("incidents", 0),
        status.get("disruptions", 0),
    )


@pytest.mark.usefixtures("node")
async def test_a_rank_out_of_memory_is_an_incident(user: Client, namespace: str, controller: Process) -> None:
    assert controller.returncode is None
    hungry = make_task("hungry", _TOO_MUCH, onFailure={"restart": "All", "retries": 1})
    await user.create(GPU_TASKS, namespace, hungry)

    async def has_ended() -> bool:
        return (await status_of(user, namespace, "hungry")).get("phase") in ("Completed", "Failed")

    await until("it ended", has_ended)
    status = await status_of(user, namespace, "hungry")
    assert _counts(status) == ("Failed", 2, 2, 0)
    assert status["why"].endswith("ended with exit code 137")


async def test_a_preempted_rank_and_a_lost_node_cost_no_retry(  # noqa: PLR0917 - fixtures
    user: Client, client: Client, cluster: ControlPlane, node: Node, namespace: str, controller: Process
) -> None:
    assert controller.returncode is None
    urgent = {"metadata": {"name": namespace}, "value": 1000}
    await client.create(_CLASSES, None, urgent)
    with ExitStack() as stack:
        stack.enter_context(card_nodes(cluster.client, {"lost": []}))
        await client.patch(NODES, None, "lost", {"metadata": {"labels": {_LABEL: "yes"}}}, "merge")
        await _offer(client, node, "1")
        lost = make_task("lost", nodeSelector={_LABEL: "yes"}, onFailure={"restart": "All"})
        pushed = make_task("pushed", _ONCE, cards={"resource": _GPUS}, onFailure={"restart": "All"})
        for task in (lost, pushed):
            await user.create(GPU_TASKS, namespace, task)
        await until("its rank is bound to a node", partial(_is, user, namespace, "lost", "Starting"))
        await until("its rank runs", partial(_is, user, namespace, "pushed", "Running"))
    amounts = {"requests": {_GPUS: "1"}, "limits": {_GPUS: "1"}}
    container = {"name": "main", "image": BUSYBOX_IMAGE, "command": ["sleep", "2"], "resources": amounts}
    spec = {"priorityClassName": namespace, "restartPolicy": "Never", "containers": [container]}
    await user.create(PODS, namespace, {"metadata": {"name": "urgent"}, "spec": spec})
    await until("it ran again", partial(_is, user, namespace, "pushed", "Completed"))
    assert _counts(await status_of(user, namespace, "pushed")) == ("Completed", 2, 0, 1)

    async def is_disrupted() -> bool:
        return bool((await status_of(user, namespace, "lost")).get("disruptions"))

    await until("its node is missed", is_disrupted, 180)
    await until("it waits for another", partial(_is, user, namespace, "lost", "Waiting"))
    assert _counts(await status_of(user, namespace, "lost")) == ("Waiting", 2, 0, 1)
    await _offer(client, node, None)
    await client.delete(_CLASSES, None, namespace)


async def _offer(client: Client, node: Node, amount: str | None) -> None:
    offered = {"status": {part: {_GPUS: amount} for part in ("capacity", "allocatable")}}
    await client.patch(NODES, None, node.name, offered, "merge", subresource="status")


async def test_a_quota_is_raised_and_then_the_namespace_ends(
    user: Client, client: Client, namespace: str, controller: Process, tmp_path: Path
) -> None:
    """Of Jobs, whose refusal the controller sees, and of pods, whose refusal the Job controller sees."""
    other = f"quota-{time.time_ns():x}"
    await client.create(_NAMESPACES, None, {"metadata": {"name": other}})
    await until("it has an account", partial(_has_account, client, other))
    hard = {"count/jobs.batch": "0", "pods": "0"}
    await client.create(_QUOTAS, other, {"metadata": {"name": "small"}, "spec": {"hard": hard}})
    await until("the quota counts", partial(_counts_quota, client, other))
    await client.create(GPU_TASKS, other, make_task("train", "sleep 3600"))

    async def says(text: str) -> bool:
        return text in (await status_of(client, other, "train")).get("why", "")

    await until("no Job: told", partial(says, "exceeded quota: small"))
    for name, amount in (("count/jobs.batch", "9"), ("pods", "9")):
        await until("pods: told", partial(says, "exceeded quota: small"))
        await client.patch(_QUOTAS, other, "small", {"spec": {"hard": {name: amount}}}, "merge")
        if name != "pods":
            await until("there is a Job", lambda: _has_job(client, other))
    await until("it runs", partial(_is, client, other, "train", "Running"))
    await client.delete(_NAMESPACES, None, other)
    await until("it is gone", partial(_is_gone, client, _NAMESPACES, None, other))
    await user.create(GPU_TASKS, namespace, make_task("next", "true"))
    await until("others go on", partial(_is, user, namespace, "next", "Completed"))
    assert controller.returncode is None
    log = (tmp_path / "task-controller.log").read_text()
    assert "Traceback" not in log
    assert log.count(f"{other}/train") < 60


async def _has_account(client: Client, namespace: str) -> bool:
    accounts = ApiResource("ServiceAccount", "serviceaccounts")
    return not await _is_gone(client, accounts, namespace, "default")


async def _counts_quota(client: Client, namespace: str) -> bool:
    return "hard" in (json.loads(await client.get(_QUOTAS, namespace, "small")).get("status") or {})


async def _has_job(client: Client, namespace: str) -> bool:
    return not await _is_gone(client, JOBS, namespace, "train-1")


async def test_a_program_reads_from_a_file_that_it_is_asked_to_save(
    user: Client, client: Client, namespace: str, controller: Process, say: Progress
) -> None:
    assert controller.returncode is None
    waits = 'until grep -q "^the-move 2100" "$ACCELET_SAVE_FILE"; do sleep 0.2; done'
    await user.create(GPU_TASKS, namespace, make_task("asked", waits, move={"saveSeconds": 60}))
    await until("it runs", partial(_is, user, namespace, "asked", "Running"))
    page = await user.list_page(PODS, namespace, {"labelSelector": "accelet.dev/task=asked"})
    pod = json.loads(bytes(page.items[0]))["metadata"]["name"]
    said = {"metadata": {"annotations": {"accelet.dev/save": "the-move 2100-01-01T00:00:00Z"}}}
    began_s = time.monotonic()
    await client.patch(PODS, namespace, pod, said, "merge")
    await until("it has read it", partial(_is, user, namespace, "asked", "Completed"), 150)
    say(f"the program had read the annotation, and ended, after {time.monotonic() - began_s:.1f} s")


async def test_the_kind_is_removed_while_the_controller_runs_and_installed_again(
    user: Client, client: Client, namespace: str, binaries: Binaries, controller: Process
) -> None:
    await user.create(GPU_TASKS, namespace, make_task("first", "sleep 3600"))
    await until("it runs", partial(_is, user, namespace, "first", "Running"))
    name = f"gputasks.{GPU_TASKS.group}"
    await client.delete(_KINDS, None, name)
    await until("the kind is gone", partial(_is_gone, client, _KINDS, None, name))
    await until("its Job goes with it", partial(_is_gone, client, JOBS, namespace, "first-1"))
    for manifest in build(DEPLOY / "crds", binaries.path("kubectl")):
        if manifest["metadata"]["name"] == name:
            await client.patch(_KINDS, None, name, manifest, "apply")

    async def made() -> bool:
        try:
            await user.create(GPU_TASKS, namespace, make_task("second", "true"))
        except (NotFoundError, ConflictError):
            return False
        return True

    await until("the kind is served", made)
    await until("a task of it ends", partial(_is, user, namespace, "second", "Completed"))
    assert controller.returncode is None
