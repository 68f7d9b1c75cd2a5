"""A task that is packed on a real kubelet, and then leaves a card that is taken out of service.

Named so that `make e2e` does not collect it: `make e2e-tasks`.
"""

# ruff: noqa: F811 - fixtures of other modules

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES
from accelet.kube.apiresources import JOBS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.scheduler.moves.finding.relocating import DRAIN
from tests.e2e.card_pods import CARD
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.tasks.waiting import until
from tests.e2e.test_tasks import (  # noqa: F401 - fixtures
    client,
    controller_words,
    kubeconfig,
    namespace,
    running,
    user,
)
from tests.e2e.test_tasks_moves import cards, proposing  # noqa: F401 - fixtures

_TILES = 8
_FIRST_BUS = 3
"""That of card0 among the simulated cards."""

_SAVES = 'trap "exit 0" TERM; sleep 3600 & wait'


def _task(name: str, policy: str) -> dict[str, Any]:
    container = {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", _SAVES], "cpu": "10m", "memory": "16Mi"}
    move = {"policy": policy, "minRunSeconds": 0}
    spec = {"container": container, "cards": {"tiles": 1}, "graceSeconds": 10, "move": move}
    head = {"apiVersion": GPU_TASKS.api_version, "kind": "GPUTask", "metadata": {"name": name}}
    return {**head, "spec": spec}


async def _objects(user: Client, namespace: str, resource: ApiResource) -> list[dict[str, Any]]:
    return [json.loads(bytes(item)) for item in (await user.list_page(resource, namespace)).items]


async def _cards(user: Client, namespace: str) -> dict[str, str]:
    """By task, the card of its pod that is ready and stays."""
    found = {}
    for pod in await _objects(user, namespace, PODS):
        said = pod["status"].get("conditions", ())
        is_ready = any((one["type"], one["status"]) == ("Ready", "True") for one in said)
        if is_ready and "deletionTimestamp" not in pod["metadata"]:
            assigned = json.loads(pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION])
            (piece,) = assigned["containers"]["main"][CARD]
            found[pod["metadata"]["labels"]["accelet.dev/task"]] = str(piece["unit"])
    return found


@pytest.fixture
def packing(proposing: Sequence[str]) -> Sequence[str]:
    """The command of a scheduler that proposes to pack, too."""
    config = Path(proposing[-1])
    settings = yaml.safe_load(config.read_text())
    settings["moves"] |= {"packs": True, "most_improvements_an_hour": 100}
    config.write_text(yaml.safe_dump(settings))
    return proposing


@pytest.mark.timeout(400)
async def test_a_lone_tile_joins_another_and_then_leaves_a_card_that_is_taken_out_of_service(
    *,
    node: Node,
    cards: None,
    packing: Sequence[str],
    client: Client,
    user: Client,
    kubeconfig: Path,
    namespace: str,
    tmp_path: Path,
) -> None:
    assert cards is None
    names = [f"t{number}" for number in range(_TILES)]
    for name in names:
        await user.create(GPU_TASKS, namespace, _task(name, "Never"))

    async def on() -> dict[str, str]:
        return await _cards(user, namespace)

    async def are_done(*kinds: str) -> bool:
        moves = await _objects(user, namespace, MOVES)
        done = [one["spec"]["gain"]["kind"] for one in moves if one.get("status", {}).get("phase") == "Done"]
        assert not [one for one in moves if one["spec"]["gain"]["kind"] not in kinds], moves
        return sorted(done) == sorted(kinds)

    async with (
        running(tmp_path, *packing),
        running(tmp_path, *controller_words(kubeconfig, tmp_path)),
    ):
        await until("every tile is used", lambda: _all_run(on, names))
        by_card = {card: name for name, card in (await on()).items()}
        anchor, mover, *_ = by_card.values()
        for name in set(names) - {anchor, mover}:
            await client.delete(GPU_TASKS, namespace, name, propagation="Background")
        await until("two are left", lambda: _are_just(user, namespace, {anchor, mover}))
        before = await on()
        assert before[anchor] != before[mover]
        allowed = {"spec": {"move": {"policy": "WhenItHelps"}}}
        await client.patch(GPU_TASKS, namespace, mover, allowed, "merge")
        await until("it is packed", lambda: are_done("Packs"))
        await until("it runs again", lambda: _all_run(on, [anchor, mover]))
        packed = await on()
        assert packed == {anchor: before[anchor], mover: before[anchor]}

        label = f"gpu.intel.com/gas-disable-card{int(packed[mover].split('-')[1], 16) - _FIRST_BUS}"
        drained = {"metadata": {"labels": {label: "true"}, "annotations": {DRAIN: "cards"}}}
        try:
            await client.patch(NODES, None, node.name, drained, "merge")
            await until("it leaves the card", lambda: are_done("Packs", "Drain"))
            await until("it runs elsewhere", lambda: _all_run(on, [anchor, mover]))
        finally:
            restored = {"metadata": {"labels": {label: None}, "annotations": {DRAIN: None}}}
            await client.patch(NODES, None, node.name, restored, "merge")
        after = await on()
    assert after[anchor] == before[anchor], "who may not be moved stays"
    assert after[mover] != before[anchor]
    for task in await _objects(user, namespace, GPU_TASKS):
        status = task["status"]
        counted = status["attempt"], status.get("incidents", 0), status.get("disruptions", 0)
        assert counted == (1, 0, 0), "it costs nothing, though its program ends with 0 when it is told to"
    for job in await _objects(user, namespace, JOBS):
        assert (job["spec"]["suspend"], job["status"].get("failed", 0)) == (False, 0)


async def _all_run(on: Callable[[], Awaitable[dict[str, str]]], names: Sequence[str]) -> bool:
    return set(names) <= (await on()).keys()


async def _are_just(user: Client, namespace: str, names: set[str]) -> bool:
    pods = await _objects(user, namespace, PODS)
    return {pod["metadata"]["labels"]["accelet.dev/task"] for pod in pods} == names
