"""Moves on a real cluster: who may write what of them, and tasks that are moved though both parties die."""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import HOLDS, MOVES, UNDER_WAY
from accelet.kube.apiresources import JOBS, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError, TooManyError
from tests.e2e.agent import AGENT, wait_for_allocatable
from tests.e2e.card_pods import CARD
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.kustomize import DEPLOY
from tests.e2e.shipped_kinds import RESOURCES
from tests.e2e.test_tasks import client, kubeconfig, namespace, running, user  # noqa: F401 - fixtures

pytestmark = pytest.mark.timeout(300)
_ACCELET = Path(sys.executable).with_name("accelet")
_RBAC = "rbac.authorization.k8s.io"
_BUDGETS = ApiResource("PodDisruptionBudget", "poddisruptionbudgets", "policy")
_RIGHTS = [
    {"apiGroups": ["accelet.dev"], "resources": ["moves"], "verbs": ["get", "list", "create", "patch"]},
    {"apiGroups": ["accelet.dev"], "resources": ["moves/status"], "verbs": ["patch"]},
]
_CARDS = 4
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


@pytest.fixture
def cards(cluster: ControlPlane, node: Node, tmp_path: Path) -> Iterator[None]:
    """4 cards of 2 tiles on the real kubelet, published."""
    with published(cluster, node, tmp_path, _CARDS):
        yield


@contextmanager
def published(cluster: ControlPlane, node: Node, tmp_path: Path, cards: int) -> Iterator[None]:
    """So many cards of 2 tiles on the real kubelet, while it lasts."""
    lines = [f"version: v1\npublish_cards: true\nresources:\n- name: {CARD}\n  backend: simulated"]
    lines += [f"  shares: {cards * 2}\n  assignment: annotations\n  cards:"]
    for card in range(cards):
        nodes = f"nodes: [{{path: /dev/null, mount_path: /dev/dri/card{card}}}]"
        lines.append(f'  - {{pci: "0000:{card + 3:02x}:00.0", card: card{card}, tiles: 2, {nodes}}}')
    config = tmp_path / "agent.yaml"
    config.write_text("\n".join(lines) + "\n")
    words: list[str | Path] = [AGENT, "agent", "--config", config, "--kubeconfig", str(cluster.kubeconfig)]
    process = node.process("agent-moves", [*words, "--node-name", node.name, "--http", "127.0.0.1:0"])
    with process.running():
        wait_for_allocatable(node, CARD, cards * cards * 2, timeout_s=90)
        wait_for_allocatable(node, "gpu.intel.com/tiles", cards * 2, timeout_s=90)
        yield
        config.write_text(config.read_text().replace("publish_cards: true\n", ""))
        wait_until(
            "nothing is published any more",
            lambda: NODE_CARDS_ANNOTATION not in (node.object()["metadata"].get("annotations") or {}),
            timeout_s=30,
            depends_on=[process],
        )
    wait_for_allocatable(node, CARD, 0)


@pytest.fixture
async def proposing(
    cluster: ControlPlane, client: Client, user: Client, tmp_path: Path
) -> AsyncIterator[Sequence[str]]:
    """The command of a scheduler that proposes moves, with the rights that deploy/ gives it."""
    assert user
    applied: list[dict[str, Any]] = []
    for file in ("scheduler.yaml", "moves.yaml"):
        for manifest in yaml.safe_load_all((DEPLOY / file).read_text()):
            resource, metadata = RESOURCES[manifest["kind"]], manifest["metadata"]
            is_tried = manifest["kind"] == "Deployment"
            await client.patch(
                resource, metadata.get("namespace"), metadata["name"], manifest, "apply", dry_run=is_tried
            )
            applied += [manifest] if file == "moves.yaml" else []
    kubeconfig = _kubeconfig(cluster, "kube-system", "accelet-scheduler", tmp_path / "proposing")
    config = tmp_path / "scheduler.yaml"
    config.write_text("version: v1\nmoves: {propose: true, waits_s: 0, most_an_hour: 100}\n")
    yield ("scheduler", "--kubeconfig", str(kubeconfig), "--config", str(config))
    for manifest in applied:
        await client.delete(RESOURCES[manifest["kind"]], None, manifest["metadata"]["name"])


@dataclass(frozen=True)
class _Scene:
    """What a user sees of one namespace."""

    user: Client
    namespace: str

    async def objects(self, resource: ApiResource, **query: str) -> list[dict[str, Any]]:
        page = await self.user.list_page(resource, self.namespace, query)
        return [json.loads(bytes(item)) for item in page.items]

    async def running(self, *tasks: str) -> bool:
        found = {task["metadata"]["name"]: task.get("status") or {} for task in await self.objects(GPU_TASKS)}
        return all(found.get(name, {}).get("phase") == "Running" for name in tasks)

    async def cards(self) -> dict[str, str]:
        """By task, the card of its pod that runs."""
        pods = [pod for pod in await self.objects(PODS) if pod["status"]["phase"] == "Running"]
        return {pod["metadata"]["labels"]["accelet.dev/task"]: _card_of(pod) for pod in pods}

    async def phases(self) -> list[str]:
        """How far the Moves are."""
        return [_phase_of(move) for move in await self.objects(MOVES)]

    async def are_at(self, moves: int, *phases: str) -> bool:
        """Whether so many Moves, or more, are in one of these phases."""
        return sum(phase in phases for phase in await self.phases()) >= moves

    async def has_moved(self, moves: int) -> bool:
        """Whether so many Moves, or more, are done, and no other goes on."""
        found = await self.phases()
        return found.count("Done") >= moves and set(found) <= {"Done", "Withdrawn"}

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """A Move that comes to nothing is looked for again after a minute."""
        try:
            await _until(condition, within_s=180.0)
        except TimeoutError:
            pods = [(pod["metadata"]["name"], pod["status"]["phase"]) for pod in await self.objects(PODS)]
            moves = [(move["metadata"]["name"], move.get("status")) for move in await self.objects(MOVES)]
            raise AssertionError(f"not within 180 s: {what}; pods {pods}; Moves {moves}") from None


def _phase_of(move: dict[str, Any]) -> str:
    return str((move.get("status") or {}).get("phase", "Proposed"))


def _card_of(pod: dict[str, Any]) -> str:
    said = json.loads(pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION])
    (piece,) = said["containers"]["main"][CARD]
    return str(piece["unit"])


@pytest.mark.timeout(900)
async def test_two_moves_let_in_what_they_promise_though_both_parties_are_killed(
    *,
    node: Node,
    cards: None,
    proposing: Sequence[str],
    client: Client,
    user: Client,
    kubeconfig: Path,
    namespace: str,
    tmp_path: Path,
) -> None:
    assert (node, cards) == (node, None)
    scene = _Scene(user, namespace)
    controlling = ("task-controller", "--kubeconfig", str(kubeconfig))
    names = [f"t{number}" for number in range(_CARDS * 2)]
    for name in names:
        await user.create(GPU_TASKS, namespace, _task(name, tiles=1))
    # No disruption is allowed at first.
    budget = {
        "metadata": {"name": "whole"},
        "spec": {"minAvailable": 99, "selector": {"matchLabels": {}}},
    }
    await user.create(_BUDGETS, namespace, budget)
    async with running(tmp_path, *proposing) as first_scheduler, running(tmp_path, *controlling) as first:
        await scene.until("two run on each card", lambda: scene.running(*names))
        kept = {card: name for name, card in (await scene.cards()).items()}
        assert len(kept) == _CARDS, "two on each card"
        left = set(kept.values())
        for name in set(names) - left:
            await client.delete(GPU_TASKS, namespace, name, propagation="Background")
        await scene.until("one is left on each card", partial(_is_left_with, scene, left))
        await user.create(GPU_TASKS, namespace, _task("big0", tiles=2))
        await scene.until("the budget forbids a Move", lambda: scene.are_at(1, "Withdrawn"))
        refused = next(move for move in await scene.objects(MOVES) if _phase_of(move) == "Withdrawn")
        assert "the disruption budget whole lets 0 of its 1 pods be disrupted now" in refused["status"]["why"]
        await client.delete(GPU_TASKS, namespace, "big0", propagation="Background")
        await client.delete(_BUDGETS, namespace, "whole")
        await scene.until("who is not let in is gone", partial(_is_left_with, scene, left))
        await user.create(GPU_TASKS, namespace, _task("big1", tiles=2))
        await scene.until("a Move is held", lambda: scene.are_at(1, *HOLDS, "Done"))
        first_scheduler.kill()
        await first_scheduler.wait()
        async with running(tmp_path, *proposing):
            await scene.until("the first is let in", lambda: scene.running("big1", *left))
            await user.create(GPU_TASKS, namespace, _task("big2", tiles=2))
            await scene.until("a second Move is under way", lambda: scene.are_at(2, *UNDER_WAY, "Done"))
            first.kill()
            await first.wait()
            async with running(tmp_path, *controlling):
                await scene.until("both are let in", lambda: scene.running("big1", "big2", *left))
                await scene.until("both Moves are done", lambda: scene.has_moved(2))
    on = await scene.cards()
    assert on["big1"] != on["big2"]
    assert {on[name] for name in left}.isdisjoint({on["big1"], on["big2"]})
    for task in await scene.objects(GPU_TASKS):
        status = task["status"]
        counted = status["attempt"], status.get("incidents", 0), status.get("disruptions", 0)
        assert counted == (1, 0, 0), "it costs nothing, though its program ends with 0 when it is told to"
    for job in await scene.objects(JOBS):
        assert (job["spec"]["suspend"], job["status"].get("failed", 0)) == (False, 0)


async def _is_left_with(scene: _Scene, names: set[str]) -> bool:
    pods = await scene.objects(PODS)
    return {pod["metadata"]["labels"]["accelet.dev/task"] for pod in pods} == names


def _task(name: str, tiles: int) -> dict[str, Any]:
    container = {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", _SAVES], "cpu": "10m", "memory": "16Mi"}
    return {
        "apiVersion": GPU_TASKS.api_version,
        "kind": "GPUTask",
        "metadata": {"name": name},
        "spec": {
            "container": container,
            "cards": {"tiles": tiles},
            "graceSeconds": 10,
            "move": {"policy": "WhenItHelps", "minRunSeconds": 0, "maxMoves": 10},
        },
    }
