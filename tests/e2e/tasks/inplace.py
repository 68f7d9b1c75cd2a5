"""Ranks that start again in their pods on a real cluster: what a kubelet restarts, and what follows.

Named so that `make e2e` does not collect it: `make e2e-tasks`.
"""

# ruff: noqa: F811 - fixtures of other modules

import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelet.gputask.objects.names import RULES, TASK
from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import JOBS, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import NotFoundError, TooManyError
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.shipped_kinds import RESOURCES
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
_WITHIN_S = 8
_COUNTING = "r=${HOSTNAME##*-}; n=$(cat /s/n 2>/dev/null || echo 0); echo $((n+1)) > /s/n"
_BOTH_FAIL_ONCE = f"{_COUNTING}; [ $n = 0 ] && {{ sleep $((4-3*r)); exit $((7+r)); }}; sleep 20"
_ONE_FAILS_ONCE = f"""{_COUNTING}; case "$HOSTNAME" in *-1-1) [ $n = 0 ] && exit 7;; *-2-*) exit 0;; esac
sleep 3600"""


@pytest.fixture
async def controller(kubeconfig: Path, scheduler_words: Sequence[str], tmp_path: Path) -> AsyncIterator[None]:
    words = controller_words(kubeconfig, tmp_path, f"in_place_s: {_WITHIN_S}\n")
    async with running(tmp_path, *scheduler_words), running(tmp_path, *words):
        yield


def _task(name: str, script: str) -> dict[str, Any]:
    task = make_task(name, script, replicas=2, onFailure={"restart": "InPlace", "retries": 1})
    task["spec"]["container"]["volumes"] = [{"mountPath": "/s", "scratch": "Disk"}]
    return task


async def _pods(client: Client, namespace: str, task: str) -> list[dict[str, Any]]:
    page = await client.list_page(PODS, namespace, {"labelSelector": f"{TASK}={task}"})
    return [json.loads(bytes(item)) for item in page.items]


def _running_since(pod: dict[str, Any], *, restarts: int) -> datetime | None:
    """Since when its program runs, if it was started again so many times; in whole seconds."""
    mains = pod["status"].get("containerStatuses", ())
    since = next((one["state"]["running"] for one in mains if "running" in one["state"]), None)
    is_meant = since is not None and mains[0]["restartCount"] == restarts
    return datetime.fromisoformat(since["startedAt"]) if is_meant and since is not None else None


@pytest.mark.usefixtures("controller")
async def test_ranks_that_fail_start_again_in_their_pods_within_seconds(
    user: Client, node: Node, namespace: str, say: Callable[[str], None]
) -> None:
    assert node.name
    await user.create(GPU_TASKS, namespace, _task("train", _BOTH_FAIL_ONCE))
    before: dict[str, datetime] = {}

    async def have_started_again() -> bool:
        pods = await _pods(user, namespace, "train")
        before.update(
            {pod["metadata"]["uid"]: since for pod in pods if (since := _running_since(pod, restarts=0))}
        )
        mains = [one for pod in pods for one in pod["status"].get("containerStatuses", ())]
        return len(mains) == 2 and all(
            one["restartCount"] == 1 and "running" in one["state"] for one in mains
        )

    await until("both have started again", have_started_again)
    status = await status_of(user, namespace, "train")
    assert (status["attempt"], status.get("incidents", 0)) == (1, 0)
    for pod in await _pods(user, namespace, "train"):
        name, since = pod["metadata"]["name"], _running_since(pod, restarts=1)
        ran_s = 1.0 if "-1-1-" in name else 4.0
        assert since is not None
        took_s = (since - before[pod["metadata"]["uid"]]).total_seconds() - ran_s
        say(f"{name} ran again {took_s:.0f} s after its program had failed")

    async def has_ended() -> bool:
        return (await status_of(user, namespace, "train")).get("phase") in ("Completed", "Failed")

    await until("it ended", has_ended)
    status = await status_of(user, namespace, "train")
    assert (status["phase"], status["attempt"], status["incidents"]) == ("Completed", 1, 1)
    assert "was started again in its pod" in status["lastEnd"]
    assert len(before) == 2, "no pod was made anew"


@pytest.mark.usefixtures("controller")
async def test_a_rank_that_goes_on_as_if_nothing_had_been_has_all_begin_anew(
    user: Client, node: Node, namespace: str
) -> None:
    assert node.name
    await user.create(GPU_TASKS, namespace, _task("hangs", _ONE_FAILS_ONCE))

    async def is_completed() -> bool:
        return (await status_of(user, namespace, "hangs")).get("phase") == "Completed"

    await until("the second attempt ended", is_completed)
    status = await status_of(user, namespace, "hangs")
    assert (status["attempt"], status["incidents"], status.get("disruptions", 0)) == (2, 1, 0)
    assert status["lastEnd"].endswith(f"rank 0 did not start again within {_WITHIN_S} s")


async def test_an_api_server_that_refuses_the_rule_gets_a_job_of_which_all_begin_anew(
    workspace: Workspace, binaries: Binaries, tmp_path: Path
) -> None:
    """As Kubernetes 1.35 with its defaults."""
    gates = {"RestartAllContainersOnContainerExits": False}
    with ControlPlane(workspace.part("in-place"), binaries, feature_gates=gates) as cluster:
        cluster.start()
        admin = await Client.connect(Path(cluster.kubeconfig))
        for manifest in build(DEPLOY / "crds", binaries.path("kubectl")):
            name = manifest["metadata"]["name"]
            await admin.patch(RESOURCES[manifest["kind"]], None, name, manifest, "apply")
        await until("the kind is served", partial(_is_served, admin))
        await admin.create(GPU_TASKS, "default", _task("train", "true"))
        async with running(tmp_path, *controller_words(cluster.kubeconfig, tmp_path)):
            await until("its Job is made", partial(_has_job, admin))
            await until("it is told", partial(_is_told, admin))
        (job,) = (await admin.list_page(JOBS, "default")).items
        assert RULES.encode() not in bytes(job)
        assert (await status_of(admin, "default", "train"))["attempt"] == 1
        admin.close()


async def _is_served(client: Client) -> bool:
    try:
        await client.list_page(GPU_TASKS, "default")
    except (NotFoundError, TooManyError):
        return False
    return True


async def _has_job(client: Client) -> bool:
    return bool((await client.list_page(JOBS, "default")).items)


async def _is_told(client: Client) -> bool:
    events = (await client.list_page(ApiResource("Event", "events"), "default")).items
    return any(json.loads(bytes(one))["reason"] == "NotInPlace" for one in events)
