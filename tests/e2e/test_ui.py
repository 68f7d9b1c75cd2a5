"""The page in a real browser: on a real cluster it says what `accelet cards` says; no text is markup."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from accelet.assignments.assignment import Assignment, unit
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.fakeapi import FakeApi, Fault, Hang
from tests.browser import Tab, open_tab
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.simulated_nodes import card_nodes
from tests.fakes.nodes import place
from tests.integration.ui.cluster import MARKUP, PODS, add_card_pod, add_node, add_task, fill_small
from tests.integration.ui.cluster import NODES as CLUSTER_NODES
from tests.integration.ui.conftest import page_of
from tests.screenshots import picture_of_cards
from tests.unit.scheduler.card_values import I915, card

ACCELET = Path(sys.executable).with_name("accelet")
ARTEFACTS = "ACCELET_ARTEFACTS"
WHOLE = "document.documentElement.dataset.whole === 'true'"
TILES = """[...document.querySelectorAll('#tree .node')].flatMap((node) =>
  [...node.querySelectorAll('.card[data-card]')].flatMap((card) =>
    [...card.querySelectorAll('.tile')].map((tile) => [
      node.dataset.node, card.dataset.card, Number(tile.dataset.tile), tile.dataset.state,
      tile.title.split('\\n').slice(1)])))"""
NODES = {f"page-{number}": [card(0), card(1)] for number in range(2)}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def tab() -> Iterator[Tab]:
    with open_tab() as tab:
        tab.look(width=1280, height=800, dark=False)
        yield tab


def keep(tab: Tab, name: str, folder: Path) -> None:
    """A picture of what is seen now, where it can be looked at afterwards."""
    kept = Path(os.environ.get(ARTEFACTS, folder))
    kept.mkdir(parents=True, exist_ok=True)
    assert tab.screenshot(kept / f"{name}.png").stat().st_size > 1000


@contextmanager
def holding(workloads: Workloads, holders: dict[str, tuple[str, int, tuple[int, ...]]]) -> Iterator[None]:
    """Pods that are bound to nodes and hold tiles of a card there."""
    pods = []
    for name, (node, number, tiles) in holders.items():
        said = render_own(Assignment({"main": {I915: (unit(card(number).id, *tiles),)}}))
        asks = {I915: "1", "gpu.intel.com/tiles": str(len(tiles))}
        main = {"name": "main", "image": BUSYBOX_IMAGE, "resources": {"limits": asks}}
        spec = {"nodeName": node, "containers": [main], "terminationGracePeriodSeconds": 0}
        metadata = {"name": name, "namespace": "default", "annotations": {ASSIGNMENT_ANNOTATION: said}}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    path = "/api/v1/namespaces/default/pods"
    try:
        for pod in pods:
            workloads.client.send("POST", path, pod)
        yield
    finally:
        for name in holders:
            workloads.client.send("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})


def said_by_cards(kubeconfig: Path) -> list[list[Any]]:
    words = [str(ACCELET), "cards", "--json", "--kubeconfig", str(kubeconfig)]
    shown = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return sorted(
        [node["name"], one["id"], tile["tile"], tile["state"], sorted(tile["holders"])]
        for node in shown["nodes"]
        for one in node["cards"]
        for tile in one["tiles"]
    )


def said_by_page(tab: Tab) -> list[list[Any]]:
    return sorted([*found[:4], sorted(found[4])] for found in tab.evaluate(TILES))


def test_page_says_what_the_command_says_on_a_real_cluster(
    cluster: ControlPlane, workloads: Workloads, tab: Tab, tmp_path: Path
) -> None:
    holders = {"page-train": ("page-0", 0, (0, 1)), "page-serve": ("page-1", 1, (0,))}
    with card_nodes(cluster.client, NODES), page_of(Path(cluster.kubeconfig)) as page:
        tab.open(page.next_link())
        tab.until(f"{WHOLE} && document.querySelectorAll('#tree .node').length >= 2")
        with holding(workloads, holders):
            tab.until("document.querySelectorAll('#tree .tile.held').length === 3")
            assert said_by_page(tab) == said_by_cards(Path(cluster.kubeconfig))
            keep(tab, "real-cluster", tmp_path)
            kept = Path(os.environ.get(ARTEFACTS, tmp_path))
            with open_tab() as terminal:
                picture_of_cards(terminal, Path(cluster.kubeconfig), tmp_path, kept / "accelet-cards.png")
                text = terminal.evaluate("document.body.innerText")
            assert "tiles 0,1 default/page-train/main" in text
            assert "tile 0 default/page-serve/main" in text
        tab.until("document.querySelectorAll('#tree .tile.held').length === 0")
        assert said_by_page(tab) == said_by_cards(Path(cluster.kubeconfig))
        assert page.end() == 0


def test_texts_of_others_are_never_markup_and_nothing_else_is_asked(tab: Tab, tmp_path: Path) -> None:
    with FakeApi() as api:
        fill_small(api)
        add_node(api, "hostile", labels=place(MARKUP, "s9", "h9"), cards=[card(0, ill=MARKUP)])
        add_task(api, "loud", {"phase": "Waiting", "why": MARKUP, "where": MARKUP, "lastEnd": MARKUP})
        gate = {"schedulingGates": [{"name": MARKUP}]}
        asks = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
        body = {"metadata": {"name": "gated"}, "spec": {**gate, "containers": [{"name": "main", **asks}]}}
        api.state.create(PODS, "ml", body)
        with page_of(api.write_kubeconfig(tmp_path / "kubeconfig")) as page:
            tab.open(page.next_link())
            tab.until(f"{WHOLE} && document.querySelectorAll('.node').length === 5")
            tab.evaluate("document.querySelector('[data-node=hostile]').click()")
            text = tab.evaluate("document.body.innerText")
            assert text.count(MARKUP) >= 5
            assert tab.evaluate("document.title") == "fake - accelet"
            assert tab.evaluate("document.querySelectorAll('img').length") == 1
            assert tab.evaluate("document.querySelectorAll('script').length") == 1
            assert all(address.startswith(f"http://127.0.0.1:{page.port}/") for address in tab.requested)
            keep(tab, "hostile-texts", tmp_path)


def test_page_is_found_through_by_keys_in_light_and_dark(tab: Tab, tmp_path: Path) -> None:
    with FakeApi() as api:
        fill_small(api)
        with page_of(api.write_kubeconfig(tmp_path / "kubeconfig")) as page:
            tab.open(page.next_link())
            tab.until(f"{WHOLE} && document.querySelectorAll('.node').length === 4")
            colour = "getComputedStyle(document.body).backgroundColor"
            light = tab.evaluate(colour)
            tab.look(width=1280, height=800, dark=True)
            assert tab.evaluate(colour) != light
            keep(tab, "small-dark", tmp_path)
            tab.press("t", "t")
            tab.until(f"{colour} === {json.dumps(light)}")
            tab.press("/", "/")
            tab.until("document.activeElement.id === 'search'")
            for letter in "serve-7c9":
                tab.press(letter, letter)
            tab.until("document.querySelectorAll('.node').length === 1")
            assert tab.evaluate("document.querySelectorAll('.tile.hit').length") == 1
            tab.press("Escape")
            tab.until("document.querySelectorAll('.node').length === 4")
            tab.evaluate("document.querySelector('.node').focus()")
            first = tab.evaluate("document.activeElement.dataset.node")
            tab.press("ArrowRight")
            tab.until(f"document.activeElement.dataset.node !== {json.dumps(first)}")
            tab.evaluate("document.activeElement.click()")
            tab.until("document.getElementById('details').open")
            assert "ml/train-1/main" in tab.evaluate("document.getElementById('what').innerText")


BARS = """[...document.querySelectorAll('#totals .total .bar i')].map((part) =>
  [part.className.split(' ')[1], Number(part.style.flexGrow)])"""
FILTERS = """Object.fromEntries([...document.querySelectorAll('#filters button')].map((one) =>
  [one.dataset.filter, Number(one.querySelector('b').textContent)]))"""
FIGURES = """[...document.querySelectorAll('#what table:first-of-type tbody tr')].map((row) =>
  [...row.children].slice(2, 5).map((cell) => cell.textContent))"""


def test_free_is_what_pods_can_still_get_in_bars_filters_and_figures(tab: Tab, tmp_path: Path) -> None:
    with FakeApi() as api:
        add_node(api, "untouched", cards=[card(0)])
        add_node(api, "split", cards=[card(0)])
        add_node(api, "taken", cards=[card(0)])
        add_node(api, "shared", cards=[card(0)])
        add_node(api, "ill", cards=[card(0, ill="it is wedged")])
        add_node(api, "cordoned", cards=[card(0)])
        add_node(api, "plain")
        api.state.patch(CLUSTER_NODES, ("", "cordoned"), "merge-patch", {"spec": {"unschedulable": True}})
        add_card_pod(api, "one", "split", {0: [1]})
        add_card_pod(api, "all", "taken", {0: [0, 1]})
        add_card_pod(api, "some", "shared", {0: []})
        with page_of(api.write_kubeconfig(tmp_path / "kubeconfig")) as page:
            tab.open(page.next_link())
            tab.until(f"{WHOLE} && document.querySelectorAll('.node').length === 7")
            tab.until("document.querySelectorAll('#tree .tile.held').length === 3")
            assert tab.evaluate(BARS) == [["held", 3], ["shared", 2], ["closed", 4], ["free", 3]]
            counts = tab.evaluate(FILTERS)
            assert counts == {"all": 7, "free": 1, "partly": 1, "full": 4, "wrong": 1, "closed": 2}
            assert counts["free"] + counts["partly"] + counts["full"] == 6
            for name in ("taken", "ill", "cordoned"):
                tab.evaluate(f"document.querySelector('[data-node={name}]').click()")
                assert tab.evaluate(FIGURES) == [["0", "0 of 64 GiB", "0 of 300"]]
                tab.evaluate("document.getElementById('details').close()")
            keep(tab, "free", tmp_path)


JUDGED = (
    "import(document.querySelector('script').src.replace('page.js', 'liveness.js')).then((m) => m.judge({}))"
)
STATE = "[document.getElementById('state').className, document.getElementById('state').textContent]"


@pytest.mark.parametrize(
    ("ages", "judged"),
    [
        ("3, {pods: 140}", ["live", "live"]),
        ("25, {pods: 25}", ["wait", "the API server is silent: this is how it was"]),
        ("65, {pods: 65}", ["bad", "the API server is silent: this is how it was"]),
        ("3, {pods: 160, nodes: 3}", ["wait", "nothing is heard of pods"]),
        ("3, {pods: 160, nodes: 310}", ["bad", "nothing is heard of pods, nodes"]),
    ],
)
def test_silence_turns_amber_then_red(tab: Tab, tmp_path: Path, ages: str, judged: list[str]) -> None:
    with FakeApi() as api, page_of(api.write_kubeconfig(tmp_path / "kubeconfig")) as page:
        tab.open(page.next_link())
        tab.until(WHOLE)
        assert tab.evaluate(JUDGED.replace("{}", ages))[:2] == judged


def test_page_whose_api_server_hangs_is_not_live_and_is_again(tab: Tab, tmp_path: Path) -> None:
    with FakeApi() as api:
        fill_small(api)
        with page_of(api.write_kubeconfig(tmp_path / "kubeconfig")) as page:
            tab.open(page.next_link())
            tab.until(f"{WHOLE} && {STATE}[0] === 'live'")
            dead = Fault(Hang(), times=1_000_000)
            api.faults.append(dead)
            api.is_stalled = True
            tab.until(f"{STATE}[0] === 'wait'")
            assert tab.evaluate(STATE)[1] == "the API server is silent: this is how it was"
            tab.until(f"{STATE}[0] === 'bad'", within_s=120)
            assert "pods: " in tab.evaluate("document.getElementById('state').title")
            keep(tab, "silent", tmp_path)
            api.faults.remove(dead)
            api.is_stalled = False
            tab.until(f"{STATE}[0] === 'live'")


def test_page_whose_own_server_stands_still_is_not_live(tab: Tab, tmp_path: Path) -> None:
    with FakeApi() as api:
        fill_small(api)
        with page_of(api.write_kubeconfig(tmp_path / "kubeconfig")) as page:
            tab.open(page.next_link())
            tab.until(f"{WHOLE} && {STATE}[0] === 'live'")
            assert tab.evaluate("document.title") == "fake - accelet"
            page.process.send_signal(signal.SIGSTOP)
            tab.until(f"{STATE}[0] === 'wait'")
            page.process.send_signal(signal.SIGCONT)
            tab.until(f"{STATE}[0] === 'live'")
