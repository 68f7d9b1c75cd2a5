"""The page over real HTTP: what it tells, how it follows the cluster, and how it ends."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from accelet.cli import main
from accelet.control.installed import explain_install
from accelet.fakeapi import Answer, Drop, FakeApi, Fault, Hang
from tests.integration.ui.browsing import Browsing, ask
from tests.integration.ui.cluster import (
    CARD,
    MARKUP,
    NODES,
    PODS,
    TASKS,
    add_card_pod,
    add_node,
    add_task,
    fill_small,
)
from tests.integration.ui.conftest import PageProcess
from tests.unit.scheduler.card_values import card

Start = Callable[..., AbstractContextManager[PageProcess]]


def said_by_cards(kubeconfig: Path) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Of each card what `accelet cards --json` says: its tiles and their holders."""
    result = CliRunner().invoke(
        main, ["cards", "--json", "--kubeconfig", str(kubeconfig)], catch_exceptions=False
    )
    return {
        (node["name"], one["id"]): (
            [tile["state"] for tile in one["tiles"]],
            sorted(holder["container"] for holder in one["holders"]),
            one["health"],
            one["in_service"],
            one["millicores_free"],
            one["memory_free_bytes"],
        )
        for node in json.loads(result.stdout)["nodes"]
        for one in node["cards"]
    }


def said_by_page(picture: dict[str, dict[str, Any]]) -> dict[tuple[str, str], tuple[Any, ...]]:
    return {
        (name, one["id"]): (
            one["tiles"],
            sorted(holder["name"] for holder in one.get("holders", ())),
            one.get("ill") or "Healthy",
            not one.get("is_closed"),
            one.get("millicores_free", 0),
            one.get("memory_free_bytes"),
        )
        for name, node in picture["nodes"].items()
        for one in node.get("cards", ())
    }


def test_page_says_what_the_commands_say_and_follows_the_cluster(
    api: FakeApi, start: Start, tmp_path: Path
) -> None:
    fill_small(api)
    with start() as page, Browsing(page.next_link()) as browsing:
        browsing.follow()
        picture = browsing.whole()
        assert said_by_page(picture) == said_by_cards(tmp_path / "kubeconfig")
        assert picture["waiting"]["Job/ml/sweep"]["reason"].startswith("needs 4 nodes, the cluster has 0")
        assert picture["plans"]["pod/ml/soon-0"]["seats"] == [{"pod": "soon-0", "node": "gpu-2"}]
        assert {key: one["phase"] for key, one in picture["tasks"].items()} == {
            "ml/train": "Running",
            "ml/sweep": "Waiting",
        }
        assert picture["slices"]["ml/train-0"]["hosts"] == "4/4"
        assert picture["nodes"]["other-0"]["amounts"] == [
            {"resource": "nvidia.com/gpu", "offered": 8, "taken": 6}
        ]
        version = browsing.version
        api.state.delete(PODS, ("ml", "train-0"))
        browsing.until(lambda seen: all("train-0" not in str(one) for one in seen["nodes"].values()))
        assert browsing.version > version
        api.state.delete(NODES, ("", "gpu-1"))
        browsing.until(lambda seen: "gpu-1" not in seen["nodes"])
        assert said_by_page(browsing.picture) == said_by_cards(tmp_path / "kubeconfig")
        assert page.end() == 0
        assert not [line for line in page.said if "Traceback" in line]


def test_cluster_without_our_kinds_says_so_and_learns_of_them(api: FakeApi, start: Start) -> None:
    api.state.unserved |= {TASKS, "apis/accelet.dev/v1alpha1/slicerequests"}
    add_node(api, "n0", cards=[card(0)])
    with start() as page, Browsing(page.next_link()) as browsing:
        browsing.follow()
        about = browsing.whole()["about"]["cluster"]
        assert {"GPUTask", "SliceRequest"}.isdisjoint(about["kinds"])
        assert {"Node", "Pod"} <= set(about["kinds"])
        assert about.get("notes", []) == []


def test_what_may_not_be_seen_is_told_and_the_rest_is_shown(api: FakeApi, start: Start) -> None:
    add_node(api, "n0", cards=[card(0)])
    add_node(api, "n1", cards=[card(0)])
    api.state.patch(NODES, ("", "n1"), "merge-patch", {"status": {"allocatable": {"cpu": "many"}}})
    api.faults.append(Fault(Answer(403, "Forbidden", "you may not"), path="gputasks", times=1000))
    with start() as page, Browsing(page.next_link()) as browsing:
        browsing.follow()
        picture = browsing.whole()
        assert list(picture["nodes"]) == ["n0"]
        notes = "\n".join(picture["about"]["cluster"]["notes"])
        assert "gputasks are not shown: GET /apis/accelet.dev/v1alpha1/gputasks: 403 Forbidden" in notes
        assert "not shown: Node n1: status.allocatable[cpu]" in notes


def test_hostile_texts_are_bounded_and_one_bad_object_harms_no_other(api: FakeApi, start: Start) -> None:
    add_node(api, "n0", cards=[card(0, ill=MARKUP)])
    add_task(api, "loud", {"phase": "Waiting", "why": MARKUP + "x" * 900})
    add_task(api, "bad", {"phase": "No such phase"})
    with start() as page, Browsing(page.next_link()) as browsing:
        browsing.follow()
        picture = browsing.until(lambda seen: "ml/loud" in seen.get("tasks", {}) and seen.get("nodes"))
        assert picture["nodes"]["n0"]["cards"][0]["ill"] == MARKUP
        assert picture["tasks"]["ml/loud"]["why"].startswith(MARKUP)
        assert len(picture["tasks"]["ml/loud"]["why"]) <= 501
        assert "ml/bad" not in picture["tasks"]


def test_page_goes_on_when_the_api_server_comes_back(api: FakeApi, start: Start) -> None:
    add_node(api, "n0", cards=[card(0)])
    with start() as page, Browsing(page.next_link()) as browsing:
        browsing.follow()
        browsing.whole()
        api.faults.append(Fault(Drop(), path="/api/v1/nodes", times=2))
        api.end_watches(broken=True)
        add_card_pod(api, "late", "n0", {0: [0]})
        browsing.until(lambda seen: seen["nodes"]["n0"]["cards"][0]["tiles"] == ["held", "free"])
        assert browsing.picture["nodes"]["n0"]["cards"][0]["resource"] == CARD


@pytest.mark.timeout(180)
@pytest.mark.parametrize("action", [Hang(), Drop()], ids=["hung", "refused"])
def test_page_tells_how_long_the_api_server_has_been_silent(
    api: FakeApi, start: Start, action: Hang | Drop
) -> None:
    add_node(api, "n0", cards=[card(0)])
    with start() as page, Browsing(page.next_link()) as browsing:
        browsing.follow()
        browsing.whole()
        browsing.listen(
            lambda heard: heard["api_s"] < 10 and {"nodes", "pods"} <= heard["resources_s"].keys()
        )
        dead = Fault(action, times=1_000_000)
        api.faults.append(dead)
        api.is_stalled = True
        if isinstance(action, Drop):
            api.end_watches(broken=True)
        browsing.listen(lambda heard: heard["api_s"] > 15 and heard["resources_s"]["nodes"] > 15)
        api.faults.remove(dead)
        browsing.listen(lambda heard: heard["api_s"] < 10)


def test_a_quiet_cluster_is_not_a_silent_one(api: FakeApi, start: Start) -> None:
    """Its watches tell nothing, so that it is asked; none of the answers is a change of the picture."""
    api.bookmark_s = None
    add_node(api, "n0", cards=[card(0)])
    with start() as page, Browsing(page.next_link()) as browsing:
        browsing.follow()
        browsing.whole()
        asked = api.count(path="/version")
        browsing.listen(lambda heard: api.count(path="/version") > asked and heard["api_s"] < 10)


def test_page_names_its_cluster(api: FakeApi, start: Start) -> None:
    with start() as page, Browsing(page.next_link()) as browsing:
        browsing.follow()
        about = browsing.whole()["about"]["cluster"]
        assert (about["context"], about["cluster"], about["server"]) == ("fake", "fake", api.url)


def test_no_api_server_is_one_sentence(tmp_path: Path) -> None:
    with FakeApi() as api:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
    result = run("--kubeconfig", str(kubeconfig))
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "Connection refused" in result.stderr


def test_port_that_is_taken_is_one_sentence(api: FakeApi, tmp_path: Path) -> None:
    kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
    taken = api.url.rpartition(":")[2]
    result = run("--kubeconfig", str(kubeconfig), "--port", taken)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"127.0.0.1:{taken}: Address already in use; choose another --port\n"


def test_it_needs_its_extra_and_nobody_else_does() -> None:
    """As it is where `pip install accelet` was all."""
    hidden = "import sys; sys.modules['starlette'] = None; sys.modules['uvicorn'] = None; "
    code = hidden + "from accelet.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", code]
    without = subprocess.run([*words, "ui"], capture_output=True, text=True, check=False)
    assert (without.returncode, without.stdout) == (1, "")
    assert without.stderr == f"Error: ui needs starlette: {explain_install('ui')}\n"
    other = subprocess.run([*words, "cards", "--help"], capture_output=True, text=True, check=False)
    assert other.returncode == 0


def test_links_are_not_in_logs_and_each_is_offered_once(api: FakeApi, start: Start) -> None:
    with start() as page:
        link = page.next_link()
        browsing = Browsing(link)
        second = page.next_link()
        assert second != link
        assert ask(browsing.host, link.partition(browsing.host)[2]).status == 403
        assert Browsing(second).folder != browsing.folder
        assert page.end() == 0
        assert sum(link in line for line in page.said) == 1
        assert not any(browsing.folder in line or browsing.cookie in line for line in page.said)


def run(*flags: str) -> "subprocess.CompletedProcess[str]":
    command = Path(sys.executable).with_name("accelet")
    return subprocess.run([command, "ui", *flags], capture_output=True, text=True, check=False)
