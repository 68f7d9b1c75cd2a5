"""The page without a mouse and without good eyes: judged by axe-core, by keys, and at 400 pixels."""

from pathlib import Path
from typing import Any

import pytest

from accelet.fakeapi import FakeApi
from tests.browser import Tab, open_tab
from tests.e2e import axe
from tests.e2e.page.conftest import WHOLE
from tests.integration.ui.cluster import NODES, PODS, TASKS, add_card_pod, add_node, fill_large
from tests.integration.ui.conftest import page_of
from tests.unit.scheduler.card_values import card

FOCUS = """(({ tagName, id, dataset, parentElement }) =>
  [tagName, id || dataset.filter || parentElement.dataset.node || parentElement.parentElement.dataset.key
    || parentElement.parentElement.dataset.name || ''])(document.activeElement)"""
# The letters in each line of a text: the browser's own boxes of them.
BROKEN = """[...document.querySelectorAll('bdi, .part, .resource, .why, td b')].filter((one) => {
  if (!one.checkVisibility({ contentVisibilityAuto: true })) return false;
  const range = document.createRange();
  range.selectNodeContents(one);
  const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
  return lines.size > 1 && one.textContent.length / lines.size < 8;
}).map((one) => one.textContent)"""

pytestmark = pytest.mark.timeout(300)


def focus(tab: Tab) -> list[Any]:
    """What has the focus: the tag, and what it stands for."""
    found: list[Any] = tab.evaluate(FOCUS)
    return found


def draws(tab: Tab) -> int:
    return int(tab.evaluate("document.documentElement.dataset.draws"))


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_nothing(tab: Tab, width: int, is_dark: bool) -> None:
    tab.look(width=width, height=900, dark=is_dark)
    assert axe.judge(tab) == []
    tab.evaluate("document.querySelector('[data-node=gpu-1]').click()")
    tab.until("document.getElementById('details').open")
    assert axe.judge(tab) == []
    tab.evaluate("document.getElementById('details').close(); document.getElementById('help').click()")
    assert axe.judge(tab) == []


def test_axe_finds_what_is_wrong(tab: Tab) -> None:
    """Otherwise it would find nothing for not looking."""
    tab.evaluate("document.getElementById('help').removeAttribute('aria-label')")
    tab.evaluate(
        "document.getElementById('help').replaceChildren(), document.getElementById('help').title = ''"
    )
    assert {one.rule for one in axe.judge(tab)} == {"button-name"}


def test_every_tile_says_what_it_is_and_who_holds_it(tab: Tab) -> None:
    names = tab.evaluate(
        "[...document.querySelectorAll('[data-node=gpu-0] [data-tile]')].map((one) => one.ariaLabel)"
    )
    assert len(names) == 8
    assert names[0] == "card0 tile 0: held, ml/train-0/main"
    assert names[-1] == "card3 tile 1: free"


def test_focus_stays_through_filters_changes_and_time(tab: Tab, api: FakeApi) -> None:
    tab.evaluate("document.querySelector('#filters [data-filter=closed]').focus()")
    tab.press("Enter", "\r")
    tab.until("document.querySelectorAll('.node').length < 4")
    assert focus(tab) == ["BUTTON", "closed"]
    tab.evaluate("document.querySelector('#filters [data-filter=all]').click()")
    tab.until("document.querySelectorAll('.node').length === 4")
    tab.evaluate("document.querySelector('[data-node=gpu-0] button').focus()")
    drawn = draws(tab)
    api.state.delete(PODS, ("ml", "serve-7c9"))
    tab.until("document.querySelectorAll('[data-node=gpu-0] .tile.held').length === 4")
    assert focus(tab) == ["BUTTON", "gpu-0"]
    tab.evaluate("document.querySelector('#tasks [data-name=\"ml/sweep\"] .link').focus()")
    api.state.patch(TASKS, ("ml", "sweep"), "merge-patch", {"status": {"why": "it is being looked at"}})
    tab.until("document.querySelector('#tasks').textContent.includes('being looked at')")
    assert focus(tab) == ["BUTTON", "ml/sweep"]
    assert draws(tab) > drawn


def test_focus_goes_on_to_what_is_beside_what_is_gone(tab: Tab, api: FakeApi) -> None:
    add_node(api, "gpu-1b", "b0/s0/h9", cards=[card(0)])
    tab.until("document.querySelectorAll('.node').length === 5")
    tab.evaluate("document.querySelector('[data-node=gpu-1] button').focus()")
    api.state.delete(NODES, ("", "gpu-1"))
    tab.until("document.querySelectorAll('.node').length === 4")
    assert focus(tab) == ["BUTTON", "gpu-1b"]
    tab.press("c", "c")
    tab.until("document.querySelectorAll('.node').length === 0")
    assert focus(tab)[0] == "SUMMARY"


def test_ages_grow_and_take_no_focus(tab: Tab) -> None:
    tab.evaluate("document.querySelector('#waiting .link').focus()")
    held = focus(tab)
    age = tab.evaluate("document.querySelector('#waiting .age').textContent")
    tab.until(f"document.querySelector('#waiting .age').textContent !== {age!r}")
    assert held[0] == "BUTTON"
    assert focus(tab) == held


def test_names_stay_in_one_piece_on_a_telephone(tab: Tab, api: FakeApi) -> None:
    add_node(api, "gke-europe-west4-accelerators-8f2c-x7k2", "block-europe-west4-b/s9/h9", cards=[card(0)])
    add_card_pod(
        api, "resnet-training-worker-00017-7c9f8", "gke-europe-west4-accelerators-8f2c-x7k2", {0: [0]}
    )
    tab.look(width=400, height=800, dark=False)
    tab.until("document.querySelectorAll('.node').length === 5")
    assert tab.evaluate(BROKEN) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    tab.evaluate("document.querySelector('[data-node^=gke]').click()")
    tab.until("document.getElementById('what').textContent.includes('resnet-training')")
    assert tab.evaluate(BROKEN) == []
    assert tab.evaluate("document.querySelector('dialog[open]').scrollWidth") <= 400


def test_the_focus_is_kept_in_a_large_cluster_that_comes_anew(tmp_path: Path) -> None:
    with FakeApi() as api:
        fill_large(api, nodes=70, cards=2)
        with page_of(api.write_kubeconfig(tmp_path / "kubeconfig")) as page, open_tab() as tab:
            tab.open(page.next_link())
            tab.until(f"{WHOLE} && document.querySelectorAll('summary').length > 10")
            tab.press("e", "e")
            tab.until("document.querySelectorAll('.node').length === 70")
            tab.evaluate("document.querySelector('[data-node=node-0042] button').focus()")
            add_node(api, "node-0042b", "b6/s30/h99", cards=[card(0)])
            tab.until("document.querySelectorAll('.node').length === 71")
            assert focus(tab) == ["BUTTON", "node-0042"]
