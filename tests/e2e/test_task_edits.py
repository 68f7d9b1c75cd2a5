"""What follows from edits of GPU tasks, and what a task says of its author's mistakes, on a real cluster."""

# ruff: noqa: F811 - fixtures of other modules

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelet.gputask.original import NotConvertibleError, OriginalOptions, convert_original
from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import JOBS, PODS
from accelet.kube.client import Client
from accelet.kube.errors import InvalidError
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
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
from tests.unit.gputask.edits import EDITS

_CARDS = {"resource": "example.com/gpu"}
_BEFORE: dict[str, Any] = {
    "replicas": 3,
    "minReplicas": 2,
    "cards": _CARDS,
    "network": {"requiredLevel": "block"},
    "onFailure": {"retries": 1},
    "nodeSelector": {"a": "b"},
    "move": {"policy": "Ask"},
}
_OTHER: dict[str, Any] = {
    "container": {"image": "another"},
    "cards": {"cards": 2},
    "network": {"exclusive": True},
    "rendezvous": "None",
    "success": "RankZero",
    "minReplicas": 3,
    "queue": "team",
    "graceSeconds": 7,
    "priorityClassName": "high",
    "serviceAccountName": "robot",
    "nodeSelector": {"a": "c"},
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "login"}],
    "runtimeClassName": "another",
    "securityContext": {"runAsUser": 1000},
    "podLabels": {"team": "a"},
    "podAnnotations": {"note": "a"},
    "template": "spec: {hostname: a}",
    "onFailure.restart": "Rank",
    "onFailure.fatalExitCodes": [3],
    "onFailure.forgiveDisruptions": False,
    "onFailure.retries": 9,
    "replicas": 4,
    "suspend": True,
    "deadlineSeconds": 100,
    "ttlSeconds": 5,
    "move.policy": "Never",
    "move.saveSeconds": 5,
    "move.minRunSeconds": 5,
    "move.maxMoves": 5,
}


def _patch(path: str, value: Any) -> dict[str, Any]:
    first, _, second = path.partition(".")
    return {"spec": {first: {second: value} if second else value}}


async def test_every_edit_is_taken_or_refused_with_a_sentence_as_the_table_says(
    user: Client, namespace: str
) -> None:
    assert _OTHER.keys() == EDITS.keys()
    await user.create(GPU_TASKS, namespace, make_task("edited", **_BEFORE))
    for path, follows in EDITS.items():
        if follows == "refused":
            with pytest.raises(InvalidError, match=f"{path} cannot be changed: make another task"):
                await user.patch(GPU_TASKS, namespace, "edited", _patch(path, _OTHER[path]), "merge")
        else:
            await user.patch(GPU_TASKS, namespace, "edited", _patch(path, _OTHER[path]), "merge")


async def test_what_says_the_same_in_other_words_is_no_edit(user: Client, namespace: str) -> None:
    await user.create(GPU_TASKS, namespace, make_task("plain", replicas=2))
    said = {"spec": {"onFailure": {"retries": 3, "fatalExitCodes": [], "forgiveDisruptions": True}}}
    await user.patch(GPU_TASKS, namespace, "plain", said, "merge")
    await user.patch(GPU_TASKS, namespace, "plain", {"spec": {"onFailure": None}}, "merge")


@pytest.mark.parametrize("spec", [{"replicas": 1}, {"replicas": 3, "onFailure": {"restart": "Rank"}}])
async def test_retries_that_a_job_counts_cannot_be_changed(
    user: Client, namespace: str, spec: dict[str, Any]
) -> None:
    await user.create(GPU_TASKS, namespace, make_task("ranks", **spec))
    with pytest.raises(InvalidError, match=r"onFailure\.retries cannot be changed where each rank restarts"):
        await user.patch(GPU_TASKS, namespace, "ranks", _patch("onFailure.retries", 9), "merge")


_LABELS = ["a100", "NVIDIA A100", "-a", "a_b.c", "a" * 63, "a" * 64, "é", "a/b", "x."]


async def test_a_model_is_converted_if_the_api_server_takes_a_job_with_it_and_not_else(
    user: Client, namespace: str
) -> None:
    for number, model in enumerate(_LABELS):
        spec = {"memory": "1Gi", "cpu": "1", "gpu": model, "gpu-amount": "1"}
        raw = {"metadata": {"name": f"task-{number}"}, "spec": spec}
        try:
            body: dict[str, Any] | None = convert_original(raw, OriginalOptions())
        except NotConvertibleError:
            body = None
        assert await _takes_job(user, namespace, model) == (body is not None), model
        if body is not None:
            await user.create(GPU_TASKS, namespace, body, dry_run=True)
        else:
            wrong = make_task(f"task-{number}", nodeSelector={"falldio.com/gpu": model})
            with pytest.raises(InvalidError, match="nodeSelector"):
                await user.create(GPU_TASKS, namespace, wrong, dry_run=True)


async def _takes_job(user: Client, namespace: str, model: str) -> bool:
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none"}],
        "nodeSelector": {"falldio.com/gpu": model},
    }
    body = {"metadata": {"name": "tried"}, "spec": {"template": {"spec": pod}}}
    try:
        await user.create(JOBS, namespace, body, dry_run=True)
    except InvalidError:
        return False
    return True


@pytest.fixture
async def at_work(node: Node, kubeconfig: Path, cluster: ControlPlane, tmp_path: Path) -> AsyncIterator[None]:
    """Scheduler and controller run beside a node."""
    assert node
    scheduler = ["scheduler", "--kubeconfig", str(cluster.kubeconfig)]
    async with running(tmp_path, *scheduler), running(tmp_path, *controller_words(kubeconfig, tmp_path)):
        yield


async def test_a_deadline_is_followed_by_the_running_job(user: Client, namespace: str, at_work: None) -> None:
    async def is_running(name: str) -> bool:
        return (await status_of(user, namespace, name)).get("phase") == "Running"

    async def deadline(name: str) -> int | None:
        found: int | None = json.loads(await user.get(JOBS, namespace, f"{name}-1"))["spec"].get(
            "activeDeadlineSeconds"
        )
        return found

    async def edit(name: str, seconds: int | None) -> None:
        await user.patch(GPU_TASKS, namespace, name, _patch("deadlineSeconds", seconds), "merge")

    for name, seconds in (("longer", 40), ("later", None), ("never", 40)):
        spec = {} if seconds is None else {"deadlineSeconds": seconds}
        await user.create(GPU_TASKS, namespace, make_task(name, "sleep 3600", **spec))
    for name in ("longer", "later", "never"):
        await until(f"{name} runs", partial(is_running, name))
    await edit("longer", 100_000)
    await edit("later", 2)
    await edit("never", None)

    async def is_late() -> bool:
        status = await status_of(user, namespace, "later")
        return status.get("phase") == "Failed" and "deadline" in status["why"]

    await until("the deadline that was added has passed", is_late)

    async def are_changed() -> bool:
        return (await deadline("longer") or 0) > 99_000 and await deadline("never") is None

    await until("the Jobs have the new deadlines", are_changed)
    assert await is_running("longer")
    assert await is_running("never")


async def test_a_number_that_ranks_were_told_is_changed_by_another_attempt_that_costs_nothing(
    user: Client, namespace: str, at_work: None
) -> None:
    await user.create(GPU_TASKS, namespace, make_task("grows", "sleep 3600", replicas=2))

    async def ready(count: int) -> bool:
        status = await status_of(user, namespace, "grows")
        return status.get("phase") == "Running" and status["readyReplicas"] == count

    await until("two run", partial(ready, 2))
    await user.patch(GPU_TASKS, namespace, "grows", {"spec": {"replicas": 3}}, "merge", subresource="scale")
    await until("three run", partial(ready, 3))
    status = await status_of(user, namespace, "grows")
    assert (status["attempt"], status.get("incidents", 0), status.get("disruptions", 0)) == (2, 0, 0)
    page = await user.list_page(PODS, namespace, {"labelSelector": "accelet.dev/attempt=2"})
    pods = [json.loads(bytes(item)) for item in page.items]
    told = {
        one["value"]
        for pod in pods
        for one in pod["spec"]["containers"][0]["env"]
        if one["name"] in ("WORLD_SIZE", "PET_NNODES")
    }
    assert (len(pods), told) == (3, {"3"})


_SECRET = {"mountPath": "/s", "secret": "token"}
_MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "secret-env": (
        {"envFrom": [{"secret": "token"}]},
        'CreateContainerConfigError): secret "token" not found',
    ),
    "map-env": ({"envFrom": [{"configMap": "c"}]}, 'CreateContainerConfigError): configmap "c" not found'),
    "secret-volume": ({"volumes": [_SECRET]}, "a volume cannot be mounted: MountVolume.SetUp failed"),
    "map-volume": ({"volumes": [{"mountPath": "/c", "configMap": "c"}]}, 'configmap "c" not found'),
    "claim": (
        {"volumes": [{"mountPath": "/d", "claim": "corpus"}]},
        "waits for its volume claim corpus, which is not there",
    ),
    "image": ({"image": "127.0.0.1:1/none:1"}, "its image cannot be pulled"),
    "image-name": ({"image": "No Such Image"}, "its image has no valid name"),
    "command": ({"command": ["trian"]}, 'exec: "trian": executable file not found in $PATH'),
    "shell": ({"command": ["sh", "-c", "trian"]}, "exit code 127: its shell found no such command"),
    "mount": (
        {"volumes": [{"mountPath": "/proc/x", "scratch": "Disk"}]},
        "cannot be mounted because it is inside /proc",
    ),
    "two-mounts": ({"volumes": [{**_SECRET}, {**_SECRET}]}, "must be unique"),
    "folder": ({"workingDir": "/bin/sh"}, "mkdir /bin/sh: not a directory"),
}
_SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "selector": ({"nodeSelector": {"no": "node"}}, "1 not selected by the pods' node selector"),
    "account": ({"serviceAccountName": "robot"}, 'serviceaccount "robot" not found'),
    "priority": ({"priorityClassName": "high"}, "no PriorityClass with name high was found"),
    "cards": ({"cards": {"resource": "example.com/none"}}, "example.com/none"),
}


async def test_each_mistake_is_told_in_the_words_of_the_cluster(
    user: Client, namespace: str, at_work: None
) -> None:
    sentences = {name: sentence for name, (_, sentence) in (_MISTAKES | _SPECS).items()}
    for name, (change, _) in _MISTAKES.items():
        task = make_task(name)
        task["spec"]["container"] |= change
        await user.create(GPU_TASKS, namespace, task)
    for name, (change, _) in _SPECS.items():
        await user.create(GPU_TASKS, namespace, make_task(name, **change))
    said: dict[str, str] = {}

    async def is_all_told() -> bool:
        for name in sentences:
            said[name] = (await status_of(user, namespace, name)).get("why", "")
        return all(sentence in said[name] for name, sentence in sentences.items())

    try:
        await until("all is told", is_all_told, 120)
    except AssertionError:
        raise AssertionError(json.dumps(said, indent=1)) from None
