"""What people look for on the page: a pod, a gang, a namespace, a queue, room; an address keeps the view."""

import pytest

from accelet.fakeapi import FakeApi
from tests.browser import Tab
from tests.e2e.page.conftest import WHOLE
from tests.integration.ui.cluster import (
    CARD,
    EVENTS,
    MARKUP,
    add_card_pod,
    add_event,
    add_gpu_pod,
    add_node,
)
from tests.unit.scheduler.card_values import card

SHOWN = "[...document.querySelectorAll('#tree .node')].map((one) => one.dataset.node)"
WHAT = "document.getElementById('what').innerText"
IS_OPEN = "document.getElementById('details').open"

pytestmark = pytest.mark.timeout(300)


def click(tab: Tab, selector: str) -> None:
    tab.evaluate(f"document.querySelector({selector!r}).click()")


def choose(tab: Tab, select: str, value: str) -> None:
    tab.evaluate(
        f"(() => {{ const one = document.getElementById({select!r}); one.value = {value!r};"
        " one.dispatchEvent(new Event('change')) })()"
    )


def test_a_pod_is_shown_with_its_node_cards_and_events(tab: Tab, api: FakeApi) -> None:
    add_event(api, "ml", "train-0", "Started", "Started container main")
    add_event(api, "ml", "train-0", "BackOff", MARKUP, kind="Warning", at="2026-01-01T00:05:00Z")
    add_event(api, "ml", "train-1", "Started", "of another pod")
    click(tab, "[data-node=gpu-0]")
    click(tab, "#what [data-go='pod:ml/train-0']")
    tab.until(f"{WHAT}.includes('BackOff')")
    said = tab.evaluate(WHAT)
    assert "on node gpu-0" in said
    assert "requests i915 \N{MULTIPLICATION SIGN} 2, tiles \N{MULTIPLICATION SIGN} 4" in said
    assert said.index("BackOff") < said.index("Started container main")
    assert MARKUP in said
    assert "of another pod" not in said
    click(tab, "#what [data-go='node:gpu-0']")
    tab.until(f"{WHAT}.includes('Pods with accelerators')")
    tab.evaluate("history.back()")
    tab.until(f"{WHAT}.includes('BackOff')")


def test_a_pending_gang_is_opened_and_the_map_stays(tab: Tab) -> None:
    click(tab, "#waiting [data-name='ml/sweep'] .link")
    tab.until(IS_OPEN)
    assert "needs 4 nodes" in tab.evaluate(WHAT)
    assert tab.evaluate("document.querySelectorAll('#tree .node').length") == 4
    click(tab, "#what [data-go='pod:ml/sweep-2']")
    tab.until(f"{WHAT}.includes('The API server has none of this pod.')")
    said = tab.evaluate(WHAT)
    assert "gang ml/sweep" in said
    assert "It is pending: needs 4 nodes" in said


def test_what_may_not_be_read_is_said_and_read_again(tab: Tab, api: FakeApi) -> None:
    api.state.unserved |= {EVENTS}
    click(tab, "[data-node=gpu-0]")
    click(tab, "#what [data-go='pod:ml/train-0']")
    tab.until(f"{WHAT}.includes('They cannot be read: ')")
    api.state.unserved -= {EVENTS}
    click(tab, "#what [data-go=read]")
    tab.until(f"{WHAT}.includes('The API server has none of this pod.')")


def test_namespace_and_queue_narrow_map_and_lists(tab: Tab, api: FakeApi) -> None:
    add_card_pod(api, "eval-0", "gpu-2", {1: [0]}, namespace="research")
    add_gpu_pod(api, "late-0", None, 8, labels={"kueue.x-k8s.io/queue-name": "night"})
    add_gpu_pod(api, "llm-1", "other-0", 1, labels={"kueue.x-k8s.io/local-queue-name": "night"})
    tab.until("document.querySelectorAll('#namespace option').length === 3")
    tab.until("document.querySelectorAll('#queue option').length === 2")
    choose(tab, "namespace", "research")
    tab.until(f"{SHOWN}.join() === 'gpu-2'")
    assert tab.evaluate("document.querySelector('#waiting .none').textContent") == "None of them is found."
    choose(tab, "namespace", "")
    choose(tab, "queue", "night")
    tab.until(f"{SHOWN}.join() === 'other-0'")
    assert tab.evaluate(
        "[...document.querySelectorAll('#waiting article')].map((one) => one.dataset.name)"
    ) == ["ml/late-0"]


def test_nodes_with_the_most_whole_free_cards_come_first(tab: Tab) -> None:
    choose(tab, "sort", "cards")
    tab.until("document.querySelectorAll('.domain').length === 0")
    assert tab.evaluate(SHOWN) == ["gpu-2", "other-0", "gpu-0", "gpu-1"]
    assert tab.evaluate("document.querySelector('[data-node=gpu-2] .count').textContent") == "2 whole"


def test_equal_reasons_are_one_line_with_a_count(tab: Tab, api: FakeApi) -> None:
    for number in range(20):
        add_card_pod(api, f"large-{number}", None, {index: [0, 1] for index in range(6)})
    tab.until("document.querySelector('#waiting b').textContent === '22'")
    tab.until("document.querySelectorAll('#waiting article').length === 3")
    line = "[...document.querySelectorAll('#waiting article')].find((one) => one.querySelector('summary'))"
    assert tab.evaluate(f"{line}.querySelector('summary').textContent").startswith("20 for the same reason")
    assert tab.evaluate(f"{line}.querySelectorAll('.names .link').length") == 20
    tab.evaluate(f"{line}.querySelector('summary').click(), {line}.querySelector('.names .link').focus()")
    api.state.delete("api/v1/pods", ("ml", "large-19"))
    tab.until(f"{line}.querySelector('summary').textContent.startsWith('19 for')")
    assert tab.evaluate(f"{line}.contains(document.activeElement)")


def test_search_finds_words_that_people_see_and_no_others(tab: Tab) -> None:
    rows = "[...document.querySelectorAll('#waiting article, #tasks article')].map((one) => one.dataset.name)"
    for text, found in [
        ("priority", []),
        ("since_s", []),
        ("is_ours", []),
        ("needs 4 nodes", ["ml/sweep"]),
        ("2/2 ready", ["ml/train"]),
        ("sweep-3", ["ml/sweep"]),
        ("i915 \N{MULTIPLICATION SIGN} 5", ["ml/wants-much"]),
    ]:
        tab.evaluate(
            f"(() => {{ const one = document.getElementById('search'); one.value = {text!r};"
            " one.dispatchEvent(new Event('input')) })()"
        )
        tab.until(f"({rows}).join() === {','.join(found)!r}")


def test_an_address_keeps_the_view(tab: Tab) -> None:
    choose(tab, "sort", "cards")
    choose(tab, "namespace", "ml")
    click(tab, "#filters [data-filter=wrong]")
    tab.until(f"{SHOWN}.join() === 'gpu-1'")
    click(tab, "[data-node=gpu-1]")
    address = tab.evaluate("location.hash")
    assert address == "#show=wrong&namespace=ml&sort=cards&open=node%3Agpu-1"
    tab.evaluate("void (window.isBefore = true)")
    tab.evaluate("location.reload()")
    tab.until(f"!window.isBefore && {WHOLE} && {IS_OPEN} && {SHOWN}.join() === 'gpu-1'")
    assert tab.evaluate("document.getElementById('namespace').value") == "ml"
    tab.evaluate("document.getElementById('details').close()")
    tab.until("location.hash === '#show=wrong&namespace=ml&sort=cards'")


def test_an_address_that_means_nothing_shows_everything(tab: Tab) -> None:
    tab.evaluate("location.hash = '#show=constructor&sort=__proto__&open=constructor:x&other=1'")
    tab.until(f"{IS_OPEN} && {WHAT}.includes('x is not there any more')")
    tab.evaluate("document.getElementById('details').close()")
    tab.until(f"{SHOWN}.length === 4")
    assert [one for one in tab.told if "Failed to load resource" not in one] == []


def test_a_node_that_goes_while_it_is_open_says_so(tab: Tab, api: FakeApi) -> None:
    add_node(api, "short-lived", "b0/s0/h7", cards=[card(0)])
    tab.until("document.querySelectorAll('.node').length === 5")
    click(tab, "[data-node=short-lived]")
    tab.until(f"{WHAT}.includes({CARD!r})")
    api.state.delete("api/v1/nodes", ("", "short-lived"))
    tab.until(f"{WHAT}.includes('short-lived is not there any more')")
