"""GPU tasks on a real cluster: an ordinary user, real Jobs, a real kubelet, the controller killed."""

import asyncio
import base64
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelet.gputask.original import IMAGE
from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import JOBS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError, TooManyError
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.images import BUSYBOX_IMAGE, busybox_image
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.shipped_kinds import RESOURCES

_RBAC = "rbac.authorization.k8s.io"
_ACCOUNTS = ApiResource("ServiceAccount", "serviceaccounts")
_NAMESPACES = ApiResource("Namespace", "namespaces")
_BINDINGS = ApiResource("RoleBinding", "rolebindings", _RBAC)
_ACCELET = Path(sys.executable).with_name("accelet")
_SETTINGS = "version: v1\nfirst_pause_s: 0.5\n"
_MOST_SHOWN = 60


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(cluster.kubeconfig), threads=8)
    yield client
    client.close()


@pytest.fixture
async def kubeconfig(cluster: ControlPlane, client: Client, binaries: Binaries, tmp_path: Path) -> Path:
    """That of the account, and with no more than the rights, which deploy/tasks gives."""
    kubectl = binaries.path("kubectl")
    for manifest in (*build(DEPLOY / "crds", kubectl), *build(DEPLOY / "tasks", kubectl)):
        resource, name = RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        namespace = manifest["metadata"].get("namespace")
        is_tried = manifest["kind"] == "Deployment"
        await client.patch(resource, namespace, name, manifest, "apply", dry_run=is_tried)
    return _kubeconfig(cluster, "kube-system", "accelet-task-controller", tmp_path / "controller")


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"tasks-{time.time_ns():x}"
    await client.create(_NAMESPACES, None, {"metadata": {"name": name}})
    await _until(lambda: _found(client, _ACCOUNTS, name, "default"))
    yield name
    await client.delete(_NAMESPACES, None, name)


@pytest.fixture
async def user(
    cluster: ControlPlane, client: Client, kubeconfig: Path, namespace: str, tmp_path: Path
) -> AsyncIterator[Client]:
    """Somebody who may edit in one namespace, as ClusterRole `edit` lets them."""
    assert kubeconfig
    await client.create(_ACCOUNTS, namespace, {"metadata": {"name": "alice"}})
    subject = {"kind": "ServiceAccount", "name": "alice", "namespace": namespace}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "edit"}
    body = {"metadata": {"name": "alice"}, "roleRef": role, "subjects": [subject]}
    await client.create(_BINDINGS, namespace, body)
    own = await Client.connect(_kubeconfig(cluster, namespace, "alice", tmp_path / "alice"))

    await _until(partial(_may_list, own, GPU_TASKS, namespace))
    yield own
    own.close()


def _kubeconfig(cluster: ControlPlane, namespace: str, account: str, path: Path) -> Path:
    place = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token = Token(json.loads(cluster.client.send("POST", place, {"spec": {}}))["status"]["token"])
    return write_kubeconfig(
        path, server=cluster.url, ca=cluster.authority.keys.certificate, credentials=token
    )


async def _until(condition: Any, within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - the API server is another process
            await asyncio.sleep(0.1)


async def _found(
    client: Client, resource: ApiResource, namespace: str | None, name: str
) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(await client.get(resource, namespace, name))
    except NotFoundError:
        return None
    return found


@asynccontextmanager
async def running(folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Such a command of accelet; what it and others of its kind logged last is shown where a test fails."""
    log = folder / f"{words[0]}.log"
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(_ACCELET, *words, stdout=out, stderr=out)
    try:
        yield process
    except BaseException:
        last = log.read_text(errors="replace").splitlines()[-_MOST_SHOWN:]
        sys.stdout.write("\n".join([f"{words[0]}, exit code {process.returncode}, logged last:", *last, ""]))
        raise
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def controller_words(kubeconfig: Path, folder: Path, more: str = "") -> tuple[str, ...]:
    config = folder / "settings.yaml"
    config.write_text(_SETTINGS + more)
    return ("task-controller", "--kubeconfig", str(kubeconfig), "--config", str(config))


def _controller(kubeconfig: Path, folder: Path, more: str = "") -> Any:
    return running(folder, *controller_words(kubeconfig, folder, more))


def make_task(name: str, script: str = "true", **spec: Any) -> dict[str, Any]:
    container = {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", script], "cpu": "10m", "memory": "16Mi"}
    return {
        "apiVersion": GPU_TASKS.api_version,
        "kind": "GPUTask",
        "metadata": {"name": name},
        "spec": {"container": container, "graceSeconds": 5, **spec},
    }


_FAILS_ONCE = 'case "$HOSTNAME" in heals-1-1) exit 3;; heals-1-*) sleep 3600;; esac'
_SAVES = 'case "$HOSTNAME" in saves-1-*) trap "exit 0" TERM; sleep 3600 & wait;; esac'


async def test_every_task_ends_as_its_program_says_though_controller_and_scheduler_are_killed(
    node: Node, kubeconfig: Path, user: Client, cluster: ControlPlane, tmp_path: Path
) -> None:
    assert node
    namespace = json.loads(_claims(tmp_path / "alice"))["kubernetes.io"]["namespace"]
    foreign = {
        "metadata": {"name": "taken-1"},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
            },
        },
    }
    before = json.loads(await user.create(JOBS, namespace, foreign))
    tasks = [
        make_task("works", "test $WORLD_SIZE = 2 && test $RANK = ${HOSTNAME##*-}", replicas=2),
        make_task("fails", "exit 3", replicas=1, onFailure={"restart": "All", "retries": 1}),
        make_task("heals", _FAILS_ONCE, replicas=2, onFailure={"retries": 1}),
        make_task("saves", _SAVES, replicas=1),
        make_task("taken", "true"),
        make_task("refused", "true", priorityClassName="nobody-made-it"),
    ]

    async def status(name: str) -> dict[str, Any]:
        found = json.loads(await user.get(GPU_TASKS, namespace, name))
        shown: dict[str, Any] = found.get("status") or {}
        return shown

    async def runs() -> bool:
        return (await status("saves")).get("phase") == "Running"

    async def evicted() -> bool:
        page = await user.list_page(PODS, namespace, {"labelSelector": "accelet.dev/task=saves"})
        pod = json.loads(bytes(page.items[0]))["metadata"]["name"]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        cluster.client.send("POST", path, body)
        return True

    async def taken_for_done() -> bool:
        page = await user.list_page(PODS, namespace, {"labelSelector": "accelet.dev/task=saves"})
        job = json.loads(await user.get(JOBS, namespace, "saves-1"))
        return not page.items and job["status"].get("completedIndexes") == "0"

    async def settled() -> bool:
        phases = {name: (await status(name)).get("phase") for name in ("works", "fails", "heals", "saves")}
        refused = (await status("refused")).get("why", "")
        ended = ("Completed", "Failed", "Completed", "Completed")
        return tuple(phases.values()) == ended and "nobody-made-it" in refused

    scheduler = ["scheduler", "--kubeconfig", str(cluster.kubeconfig)]
    async with running(tmp_path, *scheduler) as placing, _controller(kubeconfig, tmp_path) as process:
        for task in tasks:
            await user.create(GPU_TASKS, namespace, task)
        await _until(runs, 90)
        process.kill()
        placing.kill()
    await evicted()
    await _until(taken_for_done)
    async with running(tmp_path, *scheduler), _controller(kubeconfig, tmp_path):
        try:
            await _until(settled, 90)
        except TimeoutError:
            log = (tmp_path / "task-controller.log").read_text()
            raise AssertionError([await status(task["metadata"]["name"]) for task in tasks] + [log]) from None

    _judge({task["metadata"]["name"]: await status(task["metadata"]["name"]) for task in tasks})
    after = json.loads(await user.get(JOBS, namespace, "taken-1"))
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "ownerReferences" not in after["metadata"]


_TOKEN = {"metadata": {"name": "hub"}, "stringData": {"token": "word"}}
_ADDED = f"""
spec:
  hostAliases: [{{ip: 127.0.0.9, hostnames: [peer]}}]
  initContainers:
    - name: beside
      image: {BUSYBOX_IMAGE}
      command: [sleep, "3600"]
      restartPolicy: Always
      securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
"""


async def test_a_task_runs_in_a_restricted_namespace_with_what_its_template_adds(  # noqa: PLR0917 - fixtures
    node: Node,
    kubeconfig: Path,
    user: Client,
    client: Client,
    cluster: ControlPlane,
    namespace: str,
    tmp_path: Path,
) -> None:
    assert node
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await client.patch(_NAMESPACES, None, namespace, enforced, "merge")
    await user.create(ApiResource("Secret", "secrets"), namespace, _TOKEN)
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    script = 'grep -q "127.0.0.9.*peer" /etc/hosts && [ "$TOKEN" = word ] && df /dev/shm | grep -q 8192'
    task = make_task("safe", script, podLabels={"team": "vision"}, template=_ADDED)
    task["spec"]["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    source = {"secretKeyRef": {"name": "hub", "key": "token"}}
    task["spec"]["container"] |= {
        "securityContext": own,
        "shmSize": "8Mi",
        "env": [{"name": "TOKEN", "valueFrom": source}],
    }
    bare = make_task("bare")
    greedy = make_task("greedy", template="{spec: {nodeName: mine}}")
    for one in (task, bare, greedy):
        await user.create(GPU_TASKS, namespace, one)

    async def status(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await user.get(GPU_TASKS, namespace, name)).get("status", {})
        return found

    async def is_told(name: str, words: str) -> bool:
        return any(words in one.get("message", "") for one in (await status(name)).get("conditions", ()))

    scheduler = ["scheduler", "--kubeconfig", str(cluster.kubeconfig)]
    async with running(tmp_path, *scheduler), _controller(kubeconfig, tmp_path):
        await _until(partial(is_told, "greedy", "template.spec.nodeName: the scheduler chooses the node"))
        await _until(partial(is_told, "bare", "violates PodSecurity"))

        async def is_over() -> bool:
            return (await status("safe")).get("phase") in ("Completed", "Failed")

        await _until(is_over)
    assert (await status("safe"))["phase"] == "Completed", await status("safe")
    with pytest.raises(InvalidError, match="cannot be changed"):
        await user.patch(GPU_TASKS, namespace, "safe", {"spec": {"template": "{spec: {}}"}}, "merge")


_GPUS = "example.com/gpu"


@asynccontextmanager
async def _offered(client: Client, node: Node, resource: str, amount: int) -> AsyncIterator[None]:
    """A resource that a node offers without any plugin."""

    async def offer(said: str | None) -> None:
        offered = {"status": {part: {resource: said} for part in ("capacity", "allocatable")}}
        await client.patch(NODES, None, node.name, offered, "merge", subresource="status")

    await offer(str(amount))
    try:
        yield
    finally:
        await offer(None)


async def test_a_task_begins_with_fewer_ranks_and_grows(  # noqa: PLR0917 - fixtures
    node: Node,
    kubeconfig: Path,
    user: Client,
    client: Client,
    cluster: ControlPlane,
    tmp_path: Path,
) -> None:
    namespace = json.loads(_claims(tmp_path / "alice"))["kubernetes.io"]["namespace"]
    cards = {"resource": _GPUS}
    tasks = [
        make_task("holds", "sleep 3600", cards=cards),
        make_task("grows", "sleep 3600", replicas=2, minReplicas=1, cards=cards, success="RankZero"),
    ]

    async def ready(name: str, count: int) -> bool:
        status = json.loads(await user.get(GPU_TASKS, namespace, name)).get("status") or {}
        return bool(status.get("phase") == "Running" and status["readyReplicas"] == count)

    async with (
        _offered(client, node, _GPUS, 2),
        running(tmp_path, "scheduler", "--kubeconfig", str(cluster.kubeconfig)),
        _controller(kubeconfig, tmp_path),
    ):
        for task in tasks:
            await user.create(GPU_TASKS, namespace, task)
            await _until(partial(ready, task["metadata"]["name"], 1))
        status = json.loads(await user.get(GPU_TASKS, namespace, "grows"))["status"]
        assert status["why"] == "1 of 2 ranks have a node, the others follow when there is room"
        await user.delete(GPU_TASKS, namespace, "holds", propagation="Background")
        await _until(partial(ready, "grows", 2))
    assert json.loads(await user.get(JOBS, namespace, "grows-1"))["spec"]["completions"] == 2


def _judge(shown: dict[str, dict[str, Any]]) -> None:
    counted = {
        name: (one["attempt"], one.get("incidents", 0), one.get("disruptions", 0))
        for name, one in shown.items()
    }
    assert counted["works"] == (1, 0, 0)
    assert counted["fails"] == (2, 2, 0)
    assert counted["heals"] == (2, 1, 0)
    assert counted["saves"] == (2, 0, 1)
    reasons = {name: _reason(one, "Accepted") for name, one in shown.items()}
    assert reasons["taken"] == "NameTaken"
    assert "exit code 3" in _message(shown["fails"], "Failed")
    assert _reason(shown["refused"], "Placed") == "PodsRefused"


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in status["conditions"] if one["type"] == kind)
    return found


def _reason(status: dict[str, Any], kind: str) -> str:
    return str(_condition(status, kind).get("reason", ""))


def _message(status: dict[str, Any], kind: str) -> str:
    return str(_condition(status, kind).get("message", ""))


def _claims(kubeconfig: Path) -> str:
    """The claims of the token in a kubeconfig."""
    token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    part = token.split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()


_WRONG = [
    (make_task("a" * 51), "a name is at most 50"),
    (make_task("9-lives"), "begins with a letter"),
    (make_task("none", replicas=0), "replicas"),
    (make_task("many", replicas=4097), "replicas"),
    (make_task("odd", cards={"cards": 2, "tiles": 3}), "tiles must divide evenly among the cards"),
    (make_task("other", cards={"resource": "nvidia.com/gpu", "tiles": 1}), "only cards of gpu.intel.com"),
    (make_task("half", cards={"memory": "plenty"}), "memory must be an amount above 0"),
    (make_task("milli", cards={"memory": "1500m"}), "memory must be a whole number of bytes"),
    (make_task("pair", cards={"cards": 3, "tiles": 3, "linked": True}), "linked cards come in pairs"),
    (make_task("codes", onFailure={"fatalExitCodes": [2, 2]}), "fatalExitCodes must differ"),
    (make_task("both", queue="team", suspend=True), "held and admitted by the queue"),
]


async def test_what_cannot_be_carried_out_is_refused_by_the_api_server_in_our_words(
    user: Client, kubeconfig: Path, tmp_path: Path
) -> None:
    namespace = json.loads(_claims(tmp_path / "alice"))["kubernetes.io"]["namespace"]
    for body, sentence in _WRONG:
        with pytest.raises(InvalidError, match=sentence):
            await user.create(GPU_TASKS, namespace, body)
    await user.create(
        GPU_TASKS, namespace, make_task("good", cards={"cards": 2, "tiles": 4, "memory": "8Gi"})
    )
    changed = {"spec": {"cards": {"tiles": 2}}}
    with pytest.raises(InvalidError, match="cards cannot be changed: make another task"):
        await user.patch(GPU_TASKS, namespace, "good", changed, "merge")
    restart = {"spec": {"onFailure": {"restart": "Rank"}}}
    with pytest.raises(InvalidError, match=r"onFailure\.restart cannot be changed"):
        await user.patch(GPU_TASKS, namespace, "good", restart, "merge")
    await user.patch(GPU_TASKS, namespace, "good", {"spec": {"replicas": 3}}, "merge", subresource="scale")
    body = {"status": {"phase": "Completed"}}
    with pytest.raises(KubeError, match="forbidden"):
        await user.patch(GPU_TASKS, namespace, "good", body, "merge", subresource="status")
    controller = await Client.connect(kubeconfig)
    try:
        with pytest.raises(
            (ForbiddenError, InvalidError), match="writes Jobs and Services of GPUTasks, and no others"
        ):
            await controller.create(JOBS, namespace, _bare_job())
    finally:
        controller.close()


def _bare_job() -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    return {"metadata": {"name": "bare"}, "spec": {"template": {"spec": pod}}}


_ORIGINALS = ApiResource("GPUTask", "gputasks", "falldio.com", "v1")
_ORIGINAL = """
apiVersion: falldio.com/v1
kind: GPUTask
metadata:
  name: gpu-task
spec:
  memory: "64Mi"
  cpu: "10m"
  gpu: "a100"
  gpu-amount: "1"
  priority: ""
"""
_TICKS = 20


@pytest.fixture
async def originals(
    user: Client, client: Client, namespace: str, binaries: Binaries
) -> AsyncIterator[dict[str, Any]]:
    """The original's manifest, where its kind is installed."""
    kubectl = binaries.path("kubectl")
    for manifest in (*build(DEPLOY / "crds/original", kubectl), *build(DEPLOY / "tasks/original", kubectl)):
        resource, name = RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        await client.patch(resource, None, name, manifest, "apply")
    await _until(partial(_may_list, user, _ORIGINALS, namespace))
    yield yaml.safe_load(_ORIGINAL)
    kind = RESOURCES["CustomResourceDefinition"]
    await client.delete(kind, None, "gputasks.falldio.com")

    async def is_gone() -> bool:
        return await _found(client, kind, None, "gputasks.falldio.com") is None

    await _until(is_gone)


async def test_what_the_original_panicked_on_is_refused_and_its_manifest_becomes_a_job(
    originals: dict[str, Any], user: Client, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    for change, sentence in _PANICS:
        wrong = {**originals, "spec": {**originals["spec"], **change}}
        with pytest.raises(InvalidError, match=sentence):
            await user.create(_ORIGINALS, namespace, wrong)

    async def made() -> bool:
        found = await _found(user, _ORIGINALS, namespace, "gpu-task") or {}
        is_told = (found.get("status") or {}).get("phase") in ("Waiting", "Starting")
        return is_told and await _found(user, JOBS, namespace, "gpu-task-1") is not None

    async with _controller(kubeconfig, tmp_path, "serve_original: true\n"):
        await user.create(_ORIGINALS, namespace, originals)
        await _until(made)
    with pytest.raises(InvalidError, match="cannot be changed"):
        await user.patch(_ORIGINALS, namespace, "gpu-task", {"spec": {"cpu": "20m"}}, "merge")


async def test_kubectl_knows_accelet(
    user: Client, namespace: str, binaries: Binaries, tmp_path: Path
) -> None:
    await user.create(GPU_TASKS, namespace, make_task("shown"))
    words = ["accelet", "task", "ps", "-n", namespace, "--kubeconfig", str(tmp_path / "alice")]
    environment = {"PATH": f"{_ACCELET.parent}:/bin:/usr/bin", "HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        binaries.path("kubectl"), *words, stdout=PIPE, stderr=PIPE, env=environment
    )
    shown, problem = await process.communicate()

    assert (process.returncode, problem) == (0, b"")
    assert "shown" in shown.decode()


async def test_the_originals_manifest_runs_unchanged_and_goes_on(  # noqa: PLR0917 - fixtures
    originals: dict[str, Any],
    node: Node,
    kubeconfig: Path,
    user: Client,
    client: Client,
    cluster: ControlPlane,
    namespace: str,
    tmp_path: Path,
) -> None:
    image = busybox_image(tmp_path, f"docker.io/{IMAGE}", ["sleep", "2147483647"])
    node.containerd.import_image(image)
    labelled = {"metadata": {"labels": {"falldio.com/gpu": "a100"}}}
    await client.patch(NODES, None, node.name, labelled, "merge")

    async def pod() -> dict[str, Any] | None:
        found = await _found(user, _ORIGINALS, namespace, "gpu-task") or {}
        page = await user.list_page(PODS, namespace, {"labelSelector": "accelet.dev/task=gpu-task"})
        runs = (found.get("status") or {}).get("phase") == "Running"
        return json.loads(bytes(page.items[0])) if runs and page.items else None

    async with (
        _offered(client, node, "falldio.com/gpu", 1),
        running(tmp_path, "scheduler", "--kubeconfig", str(cluster.kubeconfig)),
        _controller(kubeconfig, tmp_path, "serve_original: true\n"),
    ):
        await user.create(_ORIGINALS, namespace, originals)
        await _until(pod)
        first = await pod()
        assert first is not None
        assert first["spec"]["nodeName"] == node.name
        assert first["spec"]["containers"][0]["image"] == IMAGE
        for _ in range(_TICKS):
            await asyncio.sleep(0.5)
            now = await pod()
            assert now is not None
            assert now["metadata"]["uid"] == first["metadata"]["uid"]


_PANICS = [
    ({"memory": ""}, "memory must be an amount above 0"),
    ({"cpu": "many"}, "cpu must be an amount above 0"),
    ({"gpu": ""}, "spec.gpu"),
    ({"gpu-amount": "two"}, "gpu-amount must be a whole number from 1 to 64"),
    ({"gpu-amount": "1500m"}, "gpu-amount must be a whole number from 1 to 64"),
]


async def _may_list(client: Client, resource: ApiResource, namespace: str) -> bool:
    # A definition is served, and its rights are part of `edit`, a moment after they were made.
    try:
        await client.list_page(resource, namespace)
    except (ForbiddenError, NotFoundError, TooManyError):
        return False
    return True
