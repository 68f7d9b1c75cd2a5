"""`accelet cards` at an API server: what the scheduler has given, and what goes wrong on the way."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prometheus_client import CollectorRegistry

from accelet.assignments.assignment import Assignment, unit
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.cli import main
from accelet.cli.reading.objectlists import list_card_objects
from accelet.fakeapi import Answer, Drop, Fault, Hang
from accelet.kube.kubeconfig import Kubeconfig
from accelet.runtime.probes import ProbeServer
from accelet.scheduler.cards.account import Use
from accelet.scheduler.cards.lingering import PAGE, LingeringPod, render_lingering
from accelet.scheduler.cards.needs import Amounts
from tests.integration.kube.waiting import eventually
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.world import CARD, NODES, PODS, World
from tests.unit.cli.test_claimed_cards import claim, given_device, slices_of
from tests.unit.dra.strategies import gpu, gpus
from tests.unit.scheduler.card_values import card

SLICES = "apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "apis/resource.k8s.io/v1/resourceclaims"


def run(kubeconfig: Path | None, *flags: str) -> Result:
    arguments = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    return CliRunner().invoke(main, ["cards", *arguments, *flags], catch_exceptions=False)


async def look(kubeconfig: Path) -> dict[tuple[str, str, int], list[str]]:
    """The holders of each tile that has any, by node, card and tile."""
    result = await asyncio.to_thread(run, kubeconfig, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return {
        (node["name"], card["id"], tile["tile"]): tile["holders"]
        for node in json.loads(result.stdout)["nodes"]
        for card in node["cards"]
        for tile in card["tiles"]
        if tile["holders"]
    }


def assigned(world: World, *names: str) -> dict[tuple[str, str, int], list[str]]:
    """The same as the pods' own annotations have it."""
    found = {}
    for name in names:
        pieces: list[dict[str, Any]] = (world.assigned(name) or {})["main"][CARD]
        for piece in pieces:
            for tile in piece["tiles"]:
                found[world.node_of(name) or "", piece["unit"], tile] = [f"ml/{name}/main"]
    return found


@pytest.fixture
def kubeconfig(world: World, tmp_path: Path) -> Path:
    return world.api.write_kubeconfig(tmp_path / "kubeconfig")


async def test_holders_are_those_the_scheduler_has_written_until_their_containers_have_ended(
    world: World, start: Start, kubeconfig: Path
) -> None:
    world.add_card_node("n0", card(0), card(1))
    world.add_card_node("n1", card(0))
    async with start():
        names = [f"p{number}" for number in range(4)]
        for name in names:
            world.add_card_pod(name, tiles=1)
        await eventually(lambda: not world.gated() and not world.plans())
        assert await look(kubeconfig) == assigned(world, *names)
        world.end_pod("p0")
        assert await look(kubeconfig) == assigned(world, *names[1:])


async def test_what_a_plan_gives_is_held_before_the_pod_is_bound(
    world: World, start: Start, kubeconfig: Path
) -> None:
    world.is_binding = False
    world.add_card_node("n0", card(0))
    async with start():
        world.add_card_pod("p", tiles=2)
        await eventually(lambda: not world.gated())
        held = {("n0", card(0).id, tile): ["ml/p/main"] for tile in (0, 1)}
        assert await look(kubeconfig) == held


def test_who_may_not_see_plans_sees_the_rest(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    world.api.faults.append(Fault(Answer(403, "Forbidden"), path="configmaps"))
    result = run(kubeconfig)
    assert result.exit_code == 0
    assert "about to release is not shown: GET /api/v1/configmaps: 403 Forbidden" in result.stderr
    assert "2 of 2 tiles free" in result.stdout


def test_an_object_that_is_malformed_loses_no_other(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    world.add_card_node("n1", card(0))
    world.state.patch(NODES, ("", "n1"), "merge-patch", {"status": {"allocatable": {"cpu": "many"}}})
    result = run(kubeconfig)
    assert result.exit_code == 0
    assert "not shown: Node n1: status.allocatable[cpu]" in result.stderr
    assert "n0  2 of 2 tiles free" in result.stdout


def test_a_list_that_grows_too_old_is_asked_for_anew(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    world.api.faults.append(Fault(Answer(410, "Expired"), path="pods"))
    result = run(kubeconfig)
    assert (result.exit_code, result.stderr) == (0, "")
    assert world.api.count(path="pods") == 2


def test_a_forged_assignment_is_warned_of(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    said = render_own(Assignment({"main": {CARD: (unit(card(0).id, 1),)}}))
    for name in ("honest", "forged"):
        world.add_card_pod(name, {ASSIGNMENT_ANNOTATION: said}, tiles=1)
        world.state.patch(PODS, ("ml", name), "merge-patch", {"spec": {"nodeName": "n0"}})
    result = run(kubeconfig)
    assert result.exit_code == 0
    assert "tile 1 is held by ml/forged/main and ml/honest/main" in " ".join(result.stdout.split())
    assert "Warning: 1 card with holders that cannot hold it together" in result.stdout


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Fault(Answer(403, "Forbidden"), path="pods"), "GET /api/v1/pods: 403 Forbidden: injected"),
        (Fault(Answer(401, "Unauthorized"), times=9), "401 Unauthorized"),
        (Fault(Answer(500, "InternalError"), path="nodes"), "GET /api/v1/nodes: 500 InternalError"),
        (Fault(Drop(), times=9), "GET /api/v1/configmaps: "),
    ],
)
def test_what_the_api_server_refuses_is_one_sentence_and_exits_with_1(
    world: World, kubeconfig: Path, fault: Fault, sentence: str
) -> None:
    world.api.faults.append(fault)
    result = run(kubeconfig)
    assert (result.exit_code, result.stdout) == (1, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


async def test_an_api_server_that_does_not_answer_is_waited_for_so_long_only(
    world: World, kubeconfig: Path
) -> None:
    world.api.faults.append(Fault(Hang(), path="pods"))
    with pytest.raises(TimeoutError):
        await list_card_objects(Kubeconfig((kubeconfig,)), within_s=0.2)


def test_without_a_way_to_the_api_server_it_says_what_to_give() -> None:
    result = run(None)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no service account in this pod" in result.stderr
    assert "give --kubeconfig FILE" in result.stderr


def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "kubeconfig"
    wrong.write_text("[]")
    result = run(wrong)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"kubeconfig {wrong}" in result.stderr


async def test_pods_deleted_by_force_are_asked_of_the_scheduler(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    held = Use("main", CARD, unit(card(0).id, 1), Amounts(1))
    gone = LingeringPod("ml", "ghost", "u-1", "n0", (held,))
    pages = {PAGE: lambda: render_lingering([gone])}
    server = ProbeServer(("127.0.0.1", 0), CollectorRegistry(), lambda: (), pages=pages)
    try:
        asked = f"--scheduler=127.0.0.1:{server.port}"
        result = await asyncio.to_thread(run, kubeconfig, asked, "--json")
        drawn = await asyncio.to_thread(run, kubeconfig, asked)
    finally:
        server.close()
    (node,) = json.loads(result.stdout)["nodes"]
    (holder,) = node["cards"][0]["holders"]
    assert (holder["container"], holder["tiles"], holder["is_lingering"]) == ("ml/ghost/main", [1], True)
    assert "tile 1 ml/ghost/main (deleted by force)" in drawn.stdout


async def test_a_scheduler_that_does_not_tell_is_a_note(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    result = await asyncio.to_thread(run, kubeconfig, f"--scheduler={address}")
    assert result.exit_code == 0
    assert f"Pods deleted by force are not shown: the scheduler at {address} does not tell" in result.stderr
    assert "card0" in result.stdout
    wrong = await asyncio.to_thread(run, kubeconfig, "--scheduler=here")
    assert wrong.exit_code == 2
    assert "write HOST:PORT" in wrong.stderr


def serve_by_claims(world: World) -> None:
    """Two cards of node n0 are served through DRA; a claim holds a tile of the first."""
    for number, body in enumerate(slices_of(gpus(gpu(0x40, tiles=2), gpu(0x41, tiles=2)))):
        body["spec"]["nodeName"] = body["spec"]["pool"]["name"] = "n0"
        world.state.create(SLICES, "", {**body, "metadata": {"name": f"slice-{number}"}})
    result = {**given_device("gpu-0000-40-00-0-tile-1"), "pool": "n0"}
    world.state.create(CLAIMS, "ml", claim("training", result))


def test_both_ways_of_holding_are_counted(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    said = render_own(Assignment({"main": {CARD: (unit(card(0).id, 0),)}}))
    world.add_card_pod("p", {ASSIGNMENT_ANNOTATION: said}, tiles=1)
    world.state.patch(PODS, ("ml", "p"), "merge-patch", {"spec": {"nodeName": "n0"}})
    serve_by_claims(world)
    result = run(kubeconfig)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "n0  4 of 6 tiles free, 1 of 3 cards wholly free" in result.stdout
    assert "tile 0 ml/p/main" in result.stdout
    assert "tile 1 ml/training" in result.stdout


def test_who_may_not_see_claims_sees_the_rest(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    serve_by_claims(world)
    world.api.faults.append(Fault(Answer(403, "Forbidden"), path="resourceclaims"))
    result = run(kubeconfig)
    assert result.exit_code == 0
    assert "Cards that are served through DRA are not shown: GET /apis/resource.k8s.io" in result.stderr
    assert "n0  2 of 2 tiles free" in result.stdout


def test_a_cluster_without_claims_has_nothing_to_say_of_them(world: World, kubeconfig: Path) -> None:
    world.add_card_node("n0", card(0))
    world.api.faults.append(Fault(Answer(404, "NotFound"), path="resourceslices"))
    result = run(kubeconfig)
    assert (result.exit_code, result.stderr) == (0, "")
