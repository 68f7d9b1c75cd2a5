"""What is kept up with events is what would be seen if everything came at once, and what the commands say."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.assignments.assignment import Assignment, unit
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.kube.pods import Container, Pod
from accelet.kube.watching.store import Change
from accelet.overview.bounds import MOST_CARDS
from accelet.overview.nodes import box_node, extended_of
from accelet.overview.picture import AboutBox, NodeBox, Picture, PlanBox, WaitingBox
from accelet.overview.seen import SeenCluster, bounded
from accelet.overview.waiting import MOST_PLANNED, plan_waiting
from accelet.scheduler.cards.view import view_cluster
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX, GangKey
from accelet.scheduler.record import Placement, Record
from accelet.scheduler.settings import DEFAULT_SETTINGS
from tests.fakes.nodes import GPU, node
from tests.fakes.pods import pod
from tests.unit.scheduler.card_values import I915, card

NAMES = ("n0", "n1", "n2")


def card_pod(name: str, on: str | None, number: int, tiles: Sequence[int]) -> Pod:
    said = render_own(Assignment({"main": {I915: (unit(card(number).id, *tiles),)}}))
    asks = {I915: 1, "gpu.intel.com/tiles": len(tiles)}
    main = Container("main", requests=asks, limits=asks)
    notes = {ASSIGNMENT_ANNOTATION: said} if on else {}
    return pod(name, main, on=on, gates=() if on else (CARDS_GATE,), annotations=notes)


def look(seen: SeenCluster) -> Picture:
    while seen.rebuild(most=2):
        pass
    gangs, snapshot = seen.waiting()
    return seen.picture(gangs, plan_waiting(gangs, snapshot))


def filled(nodes: Mapping[str, Node], pods: Mapping[str, Pod], plans: Mapping[str, Record]) -> SeenCluster:
    seen = SeenCluster(DEFAULT_SETTINGS)
    for one in nodes.values():
        seen.see_node(Change("added", ("", one.name), None, one))
    for each in pods.values():
        seen.see_pod(Change("added", each.key, None, each), 0.0)
    for plan in plans.values():
        seen.see_record(Change("added", plan.key, None, plan))
    return seen


@pytest.mark.parametrize("label", ["queue-name", "local-queue-name"])
def test_pods_are_shown_with_their_queue_and_gangs_with_their_pods(label: str) -> None:
    labels = {f"kueue.x-k8s.io/{label}": "night"}
    bound = replace(card_pod("bound", "n0", 0, [0]), labels=labels)
    waits = replace(card_pod("waits", None, 0, [0]), labels=labels)
    picture = look(filled({"n0": node("n0", "b0/s0/n0", cards=[card(0)])}, {"a": bound, "b": waits}, {}))
    box = picture.nodes["n0"]
    assert isinstance(box, NodeBox)
    assert [(one.name, one.queue) for one in box.pods] == [("ml/bound", "night")]
    (gang,) = picture.waiting.values()
    assert isinstance(gang, WaitingBox)
    assert (gang.names, gang.queue) == (("ml/waits",), "night")


nodes = st.builds(
    lambda name, cards, ready, gpus: node(
        name, "b0/s0/" + name, cards=[card(n) for n in range(cards)], ready=ready, gpus=gpus
    ),
    st.sampled_from(NAMES),
    st.integers(0, 3),
    st.sampled_from(["True", "False"]),
    st.integers(0, 2),
)
pods = st.builds(
    card_pod,
    st.sampled_from(["p0", "p1", "p2", "p3"]),
    st.sampled_from([None, *NAMES]),
    st.integers(0, 3),
    st.sampled_from([(), (0,), (1,), (0, 1)]),
)
plans = st.builds(
    lambda name, to: Record(GangKey("ml", name, "pod"), (Placement(name, f"uid-{name}", to),), 0, 0),
    st.sampled_from(["p0", "p1"]),
    st.sampled_from(NAMES),
)
steps = st.lists(
    st.tuples(st.sampled_from(["put", "take"]), st.one_of(nodes, pods, plans), st.booleans()), max_size=14
)


@given(steps)
def test_picture_kept_up_with_events_is_the_one_of_everything_at_once(
    history: "list[tuple[str, Node | Pod | Record, bool]]",
) -> None:
    seen = SeenCluster(DEFAULT_SETTINGS)
    known: dict[type, dict[str, Node | Pod | Record]] = {Node: {}, Pod: {}, Record: {}}
    for what, value, looks in history:
        name = value.gang.name if isinstance(value, Record) else value.name
        mine = known[type(value)]
        before = mine.get(name)
        if what == "take" and before is None:
            continue
        after = value if what == "put" else None
        mine.pop(name, None)
        if after is not None:
            mine[name] = after
        see(seen, value, before, after)
        if looks:
            look(seen)
    seen.let_go(10_000.0)
    others = filled(known[Node], known[Pod], known[Record])  # type: ignore[arg-type]
    assert look(seen) == look(others)


def see(seen: SeenCluster, value: Node | Pod | Record, before: object, after: object) -> None:
    kind = "added" if before is None else "deleted" if after is None else "modified"
    match value:
        case Node():
            seen.see_node(Change(kind, ("", value.name), before, after))  # type: ignore[arg-type]
        case Pod():
            seen.see_pod(Change(kind, value.key, before, after), 0.0)  # type: ignore[arg-type]
        case Record():
            seen.see_record(Change(kind, value.key, before, after))  # type: ignore[arg-type]


@given(
    st.lists(nodes, max_size=3, unique_by=lambda one: one.name),
    st.lists(pods, max_size=4, unique_by=lambda one: one.name),
)
def test_cards_are_those_that_the_command_shows(some: list[Node], running: list[Pod]) -> None:
    seen = filled({one.name: one for one in some}, {one.name: one for one in running}, {})
    picture = look(seen)
    view = view_cluster(some, seen.state.cluster.cards)
    for shown in view.nodes:
        box = picture.nodes[shown.name]
        assert isinstance(box, NodeBox)
        mine = [(one, extended_of(one)) for one in running if one.node_name == shown.name]
        original = next(one for one in some if one.name == shown.name)
        assert box == box_node(original, shown, seen.state.cluster.scheme, mine, GATE_PREFIX)
        assert [card.tiles for card in box.cards] == [
            tuple(t.state for t in card.tiles) for card in shown.cards
        ]
    about = picture.about["cluster"]
    assert isinstance(about, AboutBox)
    assert [(one.resource, one.tiles_free) for one in about.totals if one.cards] == [
        (one.resource, one.tiles_free) for one in view.totals
    ]


def test_gang_waits_with_the_planners_sentence_and_a_plan_with_what_is_bound() -> None:
    wide = pod("wide", Container("main", requests={GPU: 9}, limits={GPU: 9}), gates=[f"{GATE_PREFIX}wide"])
    going = {name: pod(name, gates=[f"{GATE_PREFIX}going"]) for name in ("g0", "g1")}
    plan = Record(GangKey("ml", "going", "gate"), tuple(Placement(n, f"uid-{n}", "n0") for n in going), 0, 0)
    going["g0"] = pod("g0", on="n0")
    seen = filled({"n0": node("n0", "b/s/h")}, {"wide": wide, **going}, {"going": plan})
    picture = look(seen)
    box = picture.waiting["gate/ml/wide"]
    assert isinstance(box, WaitingBox)
    assert (box.fits, box.reason) == (
        False,
        "needs 1 node, the cluster has 0; of 1 nodes: 1 short of nvidia.com/gpu",
    )
    assert [(one.resource, one.taken) for one in box.asks] == [(GPU, 9)]
    carried = picture.plans["gate/ml/going"]
    assert isinstance(carried, PlanBox)
    assert (carried.pods, carried.bound, [seat.node for seat in carried.seats]) == (2, 1, ["n0", "n0"])


@pytest.mark.parametrize(
    ("conditions", "gates", "said"),
    [
        ((), (), "default-scheduler has not placed it yet"),
        ((Condition("PodScheduled", "False", "Unschedulable"),), (), "finds no node for it"),
        ((), ("example.com/gate",), "held by the gate example.com/gate"),
    ],
)
def test_pod_of_another_scheduler_waits_with_what_it_waits_for(
    conditions: tuple[Condition, ...], gates: tuple[str, ...], said: str
) -> None:
    asking = pod("other", Container("main", requests={GPU: 1}, limits={GPU: 1}), gates=gates)
    seen = filled({}, {"other": replace(asking, conditions=conditions)}, {})
    box = look(seen).waiting["pod/ml/other"]
    assert isinstance(box, WaitingBox)
    assert said in box.reason
    assert not box.is_ours


def test_gangs_behind_many_wait_without_being_planned() -> None:
    wanting = {
        f"p{number}": pod(f"p{number}", gates=[CARDS_GATE], created_s=float(number))
        for number in range(MOST_PLANNED + 2)
    }
    boxes = look(filled({}, wanting, {})).waiting
    behind = [
        box.name for box in boxes.values() if isinstance(box, WaitingBox) and "waits behind" in box.reason
    ]
    assert sorted(behind) == [f"ml/p{MOST_PLANNED}", f"ml/p{MOST_PLANNED + 1}"]


def test_more_than_is_shown_is_told() -> None:
    boxes = {f"n{number}": NodeBox() for number in range(5)}
    notes: list[str] = []
    assert sorted(bounded(boxes, 3, "nodes", notes)) == ["n0", "n1", "n2"]
    assert notes == ["2 more nodes are not shown: the page shows 3"]


def test_what_was_seen_first_is_shown_whatever_others_are_named() -> None:
    boxes = {name: NodeBox() for name in ("z", "y", "b", "a")}
    assert list(bounded(boxes, 2, "nodes", [])) == ["z", "y"]


rows = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 9)), unique=True, max_size=20)


@given(rows, st.integers(1, 12))
def test_no_namespace_pushes_another_out(some: list[tuple[str, int]], most: int) -> None:
    """Each has its part, as far as it has rows; of its own those that were seen first."""
    names = [f"{namespace}/p{number}" for namespace, number in some]
    boxes = {f"pod/{name}": WaitingBox(name=name, pods=1, reason="") for name in names}
    shown = [box.name for box in bounded(boxes, most, "rows", []).values() if isinstance(box, WaitingBox)]
    assert len(shown) == min(most, len(names))
    has = {one: [name for name in names if name.startswith(f"{one}/")] for one in "abc"}
    gets = {one: [name for name in names if name in shown and name in has[one]] for one in has}
    for one, its in has.items():
        assert gets[one] == its[: len(gets[one])]
        if len(gets[one]) < len(its):
            assert len(gets[one]) >= max(len(other) for other in gets.values()) - 1


def test_node_of_many_cards_is_shown_with_some_and_how_many_more() -> None:
    many = node("n0", "b0/s0/n0", cards=[card(number) for number in range(MOST_CARDS + 2)])
    picture = look(filled({"n0": many}, {}, {}))
    box, about = picture.nodes["n0"], picture.about["cluster"]
    assert isinstance(box, NodeBox)
    assert isinstance(about, AboutBox)
    assert (len(box.cards), box.more_cards) == (MOST_CARDS, 2)
    assert [one.cards for one in about.totals if one.cards] == [MOST_CARDS + 2]
