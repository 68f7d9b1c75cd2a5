"""Plans of pods that ask for cards: nodes, cards and tiles together, and the reason where there are none."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.assignments.assignment import Assignment, unit
from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, parse_own, render_own
from accelet.kube.nodes import Node
from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.room import Room
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX, find_gangs
from accelet.scheduler.placement.plan import Plan, plan_gangs
from tests.fakes.nodes import node
from tests.unit.scheduler.card_values import I915, card, card_container, card_node, card_pod
from tests.unit.scheduler.values import plan, plan_one

XE = "gpu.intel.com/xe"
NEAREST = "nearest is big with 2 cards of up to 2 tiles and 64 GiB"


def bound(planned: Plan) -> list[Pod]:
    """A plan's pods once they run."""
    return [
        replace(
            pod,
            node_name=where,
            phase="Running",
            gates=(),
            annotations={**pod.annotations, ASSIGNMENT_ANNOTATION: render_own(assignment)},
        )
        for (pod, where), assignment in zip(planned.placements, planned.assignments, strict=True)
        if assignment is not None
    ]


def only_assignment(planned: Plan) -> Assignment:
    assert planned.nodes is not None, planned.reason
    (assignment,) = planned.assignments
    assert assignment is not None
    return assignment


def reason(nodes: list[Node], pod: Pod) -> str:
    planned = plan_one(nodes, [pod])
    assert planned.nodes is None
    return planned.reason or ""


def test_a_pod_gets_a_node_a_card_and_a_tile() -> None:
    planned = plan_one([card_node("a", card(0), card(1))], [card_pod("p")])
    assert planned.nodes == ("a",)
    assert only_assignment(planned) == Assignment({"main": {I915: (unit(UnitId("0000-00-00.0"), 0),)}})


def test_pods_that_wait_for_cards_alone_are_no_gang() -> None:
    pods = [card_pod(name, labels={"name": "same"}) for name in "ab"]
    assert [len(gang.pods) for gang in find_gangs(pods)] == [1, 1]
    together = [replace(pod, gates=(CARDS_GATE, f"{GATE_PREFIX}j")) for pod in pods]
    assert [len(gang.pods) for gang in find_gangs(together)] == [2]


def test_a_gang_is_placed_where_both_network_and_cards_have_room() -> None:
    held = bound(plan_one([card_node("n0", card(0))], [card_pod("held")]))
    nodes = [card_node(f"n{i}", card(0), where=f"b{i // 2}/s{i // 2}/h{i}") for i in range(4)]
    gates = (CARDS_GATE, f"{GATE_PREFIX}j")
    pods = [
        card_pod(f"p-{i}", card_container(tiles=2), gates=gates, labels={"job-name": "j"}) for i in range(2)
    ]
    planned = plan_gangs(find_gangs(pods), *_seen(nodes, [*held, *pods]))
    assert [sorted(one.nodes or ()) for one in planned] == [["n2", "n3"]]


def _seen(nodes: list[Node], pods: list[Pod]) -> tuple[Layout, Room]:
    cluster = Cluster(Scheme(), nodes, pods)
    return cluster.layout, cluster.room()


def test_pods_that_are_planned_together_share_no_tile() -> None:
    pods = [card_pod(f"p{i}") for i in range(5)]
    plans = plan([card_node("a", card(0), card(1))], pods)
    tiles = Counter(
        (piece.name, tile)
        for one in plans
        for assignment in one.assignments
        if assignment
        for piece in assignment.pieces("main", I915) or ()
        for tile in piece.tiles
    )
    assert len(tiles) == 4
    assert set(tiles.values()) == {1}
    assert [one.nodes for one in plans].count(None) == 1


def test_whatever_an_init_container_is_assigned_is_charged() -> None:
    sidecar = replace(card_container("sidecar", 2, tiles=2), is_sidecar=True)
    init = (card_container("large", 2, tiles=2), sidecar, card_container("small", tiles=1))
    first = replace(card_pod("first", Container("app")), init_containers=init)
    where = card_node("a", card(0), card(1))
    planned = plan_one([where], [first])
    given = [
        (piece.name, tile)
        for one in (*planned.assignments, *plan_one([where], [card_pod("next"), *bound(planned)]).assignments)
        for name, resources in (one.containers if one else {}).items()
        if name != "large"  # the kubelet gives its devices to the sidecar
        for piece in resources[I915]
        for tile in piece.tiles
    ]
    assert len(given) == len(set(given)) == 4


def test_cards_are_free_again_when_their_pods_have_ended_and_not_before() -> None:
    cluster = Cluster(Scheme(), [card_node("a", card(0, tiles=1))])
    asking = card_pod("p")

    def can_be_placed() -> bool:
        (planned,) = plan_gangs(find_gangs([asking]), cluster.layout, cluster.room())
        return planned.nodes is not None

    (running,) = bound(plan_one([card_node("a", card(0, tiles=1))], [card_pod("held")]))
    cluster.set_pod(running)
    assert not can_be_placed()
    cluster.set_pod(replace(running, deleted_s=1.0))
    assert not can_be_placed(), "it is asked to end and may still run"
    cluster.set_pod(replace(running, phase="Succeeded"))
    assert can_be_placed()


def test_a_card_that_the_kubelet_has_given_whole_is_not_divided() -> None:
    assert "without one i915 card with 1 free tile" in reason(
        [card_node("a", card(0, unassigned=1))], card_pod("p")
    )


def test_cards_out_of_service_are_not_given() -> None:
    labels = {"telemetry.aware.scheduling.p/gas-disable-card0": "true"}
    planned = plan_one([card_node("a", card(0), card(1), labels=labels)], [card_pod("p")])
    assert only_assignment(planned).pieces("main", I915) == (unit(UnitId("0000-01-00.0"), 0),)
    labels = {"telemetry.aware.scheduling.p/gas-tile-disable-card0_gt0": "true"}
    planned = plan_one([card_node("a", card(0), labels=labels)], [card_pod("p")])
    assert only_assignment(planned).pieces("main", I915) == (unit(UnitId("0000-00-00.0"), 1),)


def test_the_group_of_a_disabled_card_is_out_of_service_too() -> None:
    labels = {"x/gas-disable-card0": "PCI_GROUP", "gpu.intel.com/pci-groups": "0.1_2"}
    node_of_three = card_node("a", card(0), card(1), card(2), labels=labels)
    planned = plan_one([node_of_three], [card_pod("p")])
    assert only_assignment(planned).pieces("main", I915) == (unit(UnitId("0000-02-00.0"), 0),)


def test_preferred_cards_and_tiles_come_first() -> None:
    labels = {"x/gas-prefer-gpu": "card1", "x/gas-tile-preferred-card1": "gt1"}
    planned = plan_one([card_node("a", card(0), card(1), labels=labels)], [card_pod("p")])
    assert only_assignment(planned).pieces("main", I915) == (unit(UnitId("0000-01-00.0"), 1),)


def test_links_are_known_from_the_agent_and_from_the_label() -> None:
    asking = card_pod("p", card_container(cards=2, tiles=2), said={"gas-allocate-xelink": "true"})
    want = {unit(UnitId("0000-00-00.0"), 1), unit(UnitId("0000-01-00.0"), 0)}
    by_agent = card_node("a", card(0, links=[(1, 1, 0)]), card(1))
    assert set(only_assignment(plan_one([by_agent], [asking])).pieces("main", I915) or ()) == want
    by_label = card_node("a", card(0), card(1), labels={"gpu.intel.com/xe-links": "0.1-1.0"})
    assert set(only_assignment(plan_one([by_label], [asking])).pieces("main", I915) or ()) == want
    assert reason([card_node("a", card(0), card(1))], asking).startswith(
        "no node ever has 2 linked i915 cards"
    )


def test_a_node_that_publishes_no_cards_still_takes_whole_cards() -> None:
    plain = node("a", gpus=0, more={I915: 2})
    planned = plan_one([plain], [card_pod("p", card_container())])
    assert planned.nodes == ("a",)
    assert planned.assignments == (None,)
    offered = node("a", gpus=0, more={I915: 2, "gpu.intel.com/tiles": 2})
    assert "1 publish no cards" in reason([offered], card_pod("p"))


def test_an_unreadable_inventory_is_said_and_costs_that_node_only() -> None:
    bad = replace(card_node("bad", card(0)), annotations={NODE_CARDS_ANNOTATION: "{"})
    assert "1 publish an unreadable accelet.dev/cards" in reason([bad], card_pod("p"))
    assert plan_one([bad, card_node("good", card(0))], [card_pod("p")]).nodes == ("good",)


def test_an_inventory_that_promises_more_than_allocatable_is_not_believed() -> None:
    promising = card_node("a", card(0), card(1))
    less = replace(promising, allocatable={**promising.allocatable, "gpu.intel.com/tiles": 1})
    assert "1 short of gpu.intel.com/tiles" in reason([less], card_pod("p", card_container(tiles=2)))


@pytest.mark.parametrize(
    ("asking", "said"),
    [
        (
            card_pod("p", card_container(tiles=3)),
            f"no node ever has one i915 card with 3 tiles; {NEAREST}",
        ),
        (
            card_pod("p", card_container(cards=3, tiles=3)),
            f"no node ever has 3 i915 cards with 1 tile each; {NEAREST}",
        ),
        (
            card_pod("p", card_container(tiles=2, memory=65), said={"gas-deny": "card1"}),
            (
                "no node ever has one i915 card among those it allows with 2 tiles and 65 GiB of memory; "
                f"{NEAREST}"
            ),
        ),
        (
            card_pod("p", card_container("a", tiles=2), card_container("b", 2, tiles=4)),
            "no node ever takes its containers together, though each alone; nearest is big with 2 cards",
        ),
    ],
    ids=["tiles", "cards", "memory", "together"],
)
def test_what_never_fits_is_told_at_once_with_the_nearest_node(asking: Pod, said: str) -> None:
    nodes = [card_node("small", card(0, tiles=1, memory=16)), card_node("big", card(0), card(1, memory=None))]
    many = {"gpu.intel.com/tiles": 99, "gpu.intel.com/memory.max": 2**50}
    roomy = [replace(one, allocatable={**one.allocatable, **many}) for one in nodes]
    assert reason(roomy, asking) == said


UNKNOWN = "set `memory` in the configuration of its agent"


def test_who_asks_for_memory_is_told_of_which_cards_it_is_not_known() -> None:
    told = reason([card_node("up", card(0, memory=None))], card_pod("p", card_container(memory=4)))
    assert told == (
        "no node is known to have one i915 card with 4 GiB of memory: "
        f"the memory of card0 on up is not known; {UNKNOWN}"
    )
    small = card_node("small", card(0, memory=2))
    many = card_node("many", *(card(number, memory=None) for number in range(5)), card(5, memory=2))
    told = reason([small, many], card_pod("p", card_container("a", memory=4), card_container("b")))
    assert told == (
        "no node is known to have one i915 card with 4 GiB of memory: "
        f"the memory of card0, card1, card2 and 2 more on many is not known; {UNKNOWN}"
    )


def test_memory_that_is_not_known_is_no_reason_where_something_else_is_missing() -> None:
    nodes = [card_node("up", card(0, memory=None))]
    told = reason(nodes, card_pod("p", card_container(tiles=3, memory=4)))
    assert told == (
        "no node ever has one i915 card with 3 tiles and 4 GiB of memory; "
        "nearest is up with 1 card of up to 2 tiles, whose memory is not known"
    )


def test_cards_whose_memory_is_not_known_are_counted_while_others_are_only_held() -> None:
    nodes = [card_node("known", card(0)), *(card_node(f"up{n}", card(0, memory=None)) for n in range(2))]
    held = bound(plan_one(nodes[:1], [card_pod("held", card_container(memory=64))]))
    (planned,) = plan(nodes, [*held, card_pod("p", card_container(memory=4))])
    assert planned.nodes is None
    assert planned.reason == (
        "needs 1 node, the cluster has 0; of 3 nodes: 2 whose cards' memory is not known "
        "(set `memory` in the agent's configuration), 1 short of gpu.intel.com/memory.max"
    )


def test_whoever_asks_for_no_memory_gets_cards_whose_memory_is_not_known() -> None:
    node = card_node("up", card(0, memory=None))
    assert plan_one([node], [card_pod("p", card_container(tiles=1, millicores=500))]).nodes == ("up",)


def test_a_card_of_known_memory_is_given_beside_one_whose_memory_is_not_known() -> None:
    node = card_node("mixed", card(0, memory=None), card(1, memory=4))
    assigned = only_assignment(plan_one([node], [card_pod("p", card_container(memory=4))]))
    assert assigned == Assignment({"main": {I915: (unit(UnitId("0000-01-00.0")),)}})


def test_who_asks_for_cards_of_the_wrong_driver_is_told_of_which_there_are() -> None:
    battlemage = replace(card(0), resource=XE)
    said = reason([card_node("bmg", battlemage)], card_pod("p"))
    assert said == (
        "no node ever has a card of gpu.intel.com/i915; bmg has 1 card of up to 2 tiles and 64 GiB "
        "of gpu.intel.com/xe: make the pod anew with gpu.intel.com/xe: 1 in resources.limits of main"
    )


def test_no_other_driver_is_proposed_whose_cards_would_not_do_either() -> None:
    said = reason([card_node("bmg", replace(card(0), resource=XE))], card_pod("p", card_container(tiles=3)))
    assert said == "no node ever has one i915 card with 3 tiles; nearest is bmg with none of that kind"


def test_no_other_driver_is_proposed_where_there_are_cards_of_the_one_asked_for() -> None:
    nodes = [card_node("old", card(0, tiles=1)), card_node("bmg", replace(card(0), resource=XE))]
    said = reason(nodes, card_pod("p", card_container(tiles=2)))
    assert "gpu.intel.com/xe" not in said
    assert "nearest is old with 1 card of up to 1 tile" in said


def test_wishes_that_contradict_themselves_are_told() -> None:
    said = reason([card_node("a", card(0))], card_pod("p", card_container(cards=2, tiles=3)))
    assert said.startswith("pod p: container main asks for 3 tiles of 2 cards")


_PARTS = st.sampled_from(
    (
        card_container(tiles=1),
        card_container(tiles=2),
        card_container(cards=2, tiles=2),
        card_container(millicores=400),
        card_container(millicores=700, memory=40),
        card_container(memory=30),
        card_container(),
    )
)
_EVENTS = st.lists(st.one_of(st.integers(0, 9), st.lists(_PARTS, min_size=1, max_size=2)), max_size=25)


@given(_EVENTS)
def test_whatever_comes_and_goes_nothing_is_given_twice(events: list[int | list[Container]]) -> None:
    """Pods come in twos or one, are placed and run, and end in any order; an account of its own is kept."""
    nodes = [card_node("a", card(0), card(1)), card_node("b", card(0, tiles=1, memory=32), card(1))]
    cluster = Cluster(Scheme(), nodes)
    running: list[Pod] = []
    for number, event in enumerate(events):
        if isinstance(event, int):
            if event < len(running):
                cluster.set_pod(replace(running.pop(event), phase="Succeeded"))
            continue
        pods = [card_pod(f"p{number}-{i}", part) for i, part in enumerate(event)]
        for planned in plan_gangs(find_gangs(pods), cluster.layout, cluster.room()):
            running += bound(planned)
            for pod in bound(planned):
                cluster.set_pod(pod)
        _check(nodes, running)


def _check(nodes: list[Node], running: list[Pod]) -> None:
    """No tile twice, nobody who shares a card beside a tile's holder, and no amount above a card's."""
    for where in nodes:
        tiles: Counter[tuple[str, int]] = Counter()
        millicores: Counter[str] = Counter()
        memory: Counter[str] = Counter()
        whole: set[str] = set()
        for pod in running:
            if pod.node_name != where.name:
                continue
            (container,) = pod.containers
            pieces = parse_own(pod.annotations[ASSIGNMENT_ANNOTATION], ["main"]).pieces("main", I915) or ()
            assert len(pieces) == container.requests[I915]
            for piece in pieces:
                tiles.update((piece.name, tile) for tile in piece.tiles)
                whole |= set() if piece.tiles else {piece.name}
                millicores[piece.name] += int(container.requests.get("gpu.intel.com/millicores", 0))
                memory[piece.name] += int(container.requests.get("gpu.intel.com/memory.max", 0))
        assert not tiles or set(tiles.values()) == {1}
        assert not whole & {name for name, _ in tiles}
        assert max(millicores.values(), default=0) <= 1000
        assert all(
            amount <= (32 if where.name == "b" and name.endswith("00-00.0") else 64) * 2**30
            for name, amount in memory.items()
        )
