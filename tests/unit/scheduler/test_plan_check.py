"""The check of finished plans finds each broken promise; what the planner makes it lets through."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from accelet.assignments.assignment import Assignment
from accelet.kube.nodes import Node
from accelet.kube.pods import Container, Pod
from accelet.kube.selection import HOSTNAME, NodeTerm, PodTerm, Requirement, SpreadTerm, Taint
from accelet.scheduler.cards.needs import ALLOW, DENY, LINKED, SAME_CARD, SINGLE_NUMA
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.residents import Residents
from accelet.scheduler.cluster.shape import Reach
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.errors import BrokenPlanError
from accelet.scheduler.gangs.grouping import (
    EXCLUSIVE,
    GANG_MIN,
    GANG_SIZE,
    GATE_PREFIX,
    Gang,
    GangKey,
    find_gangs,
)
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.gangs.rankslices import SLICE_LEVEL, SLICE_SIZE
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.placement.checking.promises import find_broken_promise
from accelet.scheduler.placement.plan import Plan, check_plan, find_places, plan_gang, take_places
from accelet.scheduler.preemption.search import find_preemption
from accelet.scheduler.preemption.victims import Victim
from accelet.scheduler.record import placements_of
from tests.fakes import pods as fakes
from tests.fakes.nodes import node
from tests.unit.scheduler.card_values import card, card_container, card_node, card_pod
from tests.unit.scheduler.instances import random_instance
from tests.unit.scheduler.values import pod

_INDEX = "batch.kubernetes.io/job-completion-index"
_OF_JOB = frozenset((Requirement("job-name", "In", ("j",)),))
_APART = PodTerm(frozenset(("ml",)), _OF_JOB)

_NODES = (
    node("a1", "a/a/1"),
    node("a2", "a/a/2"),
    node("b1", "b/b/1", features=("Restarts",)),
    node("full", "a/a/3", gpus=1),
    node("away", "a/a/4", taints=(Taint("gone", "NoSchedule"),)),
)


def _rank(rank: int, said: dict[str, str] | None = None, **fields: Any) -> Pod:
    one = pod(f"j-{rank}", labels={"job-name": "j", _INDEX: str(rank)}, annotations=said or {}, gpus=2)
    return replace(one, **fields)


def _gang(count: int = 2, said: dict[str, str] | None = None, **fields: Any) -> Gang:
    return _of([_rank(rank, said, **fields) for rank in range(count)])


def _of(pods: Sequence[Pod]) -> Gang:
    (gang,) = find_gangs(pods)
    assert gang.objection is None
    return gang


def _judge(
    gang: Gang, *nodes: str, there: Sequence[Pod] = (), given: Sequence[Assignment | None] = ()
) -> str:
    cluster = Cluster(Scheme(), _NODES, there)
    assignments = tuple(given) or (None,) * len(nodes)
    return find_broken_promise(gang, nodes, assignments, cluster.layout, cluster.residents()) or ""


def _bound(name: str, on: str, **fields: Any) -> Pod:
    return replace(pod(name, gpus=7, on=on), **fields)


_WITH_PORT: dict[str, Any] = {"host_ports": frozenset((("0.0.0.0", "TCP", 80),))}
_TERM = (NodeTerm((Requirement("nowhere", "Exists"),)),)


@pytest.mark.parametrize(
    ("gang", "good", "bad", "there", "says"),
    [
        (_gang(), ("a1", "a2"), ("a1",), (), "places for 2 pods"),
        (_gang(), ("a1", "a1"), ("a1", "a9"), (), "does not exist"),
        (replace(_gang(), excluded=frozenset(("a2",))), ("a1", "a1"), ("a1", "a2"), (), "refused"),
        (_gang(), ("a1", "a1"), ("a1", "away"), (), "tainted gone"),
        (_gang(node_selector={HOSTNAME: "a1"}), ("a1", "a1"), ("a1", "a2"), (), "select"),
        (_gang(features=frozenset(("Restarts",))), ("b1", "b1"), ("b1", "a1"), (), "does not declare"),
        (_gang(), ("a1", "a2"), ("full", "a1"), (), "free"),
        (_gang(4), ("a1",) * 4, ("a1",) * 4, (_bound("x", "a2"),), ""),
        (_gang(), ("a1", "a1"), ("a1", "a2"), (_bound("x", "a2"),), "free"),
        (_gang(2, {REQUIRED_LEVEL: "block"}), ("a1", "a2"), ("a1", "b1"), (), "must share one block"),
        (_gang(2, {EXCLUSIVE: "true"}), ("a1", "a2"), ("a1", "a1"), (), "node of its own"),
        (
            _gang(4, {SLICE_SIZE: "2", SLICE_LEVEL: "host"}),
            ("a1", "a1", "b1", "b1"),
            ("a1", "b1", "b1", "a1"),
            (),
            "slice 0 of its ranks must share one host",
        ),
        (_gang(apart_from=frozenset((_APART,))), ("a1", "a2"), ("a1", "a1"), (), "must not share a node"),
        (
            _gang(spread=frozenset((SpreadTerm(1, PodTerm(frozenset(("ml",)), _OF_JOB)),))),
            ("a1", "a2"),
            ("a1", "a1"),
            (),
            "topology spread allows 1",
        ),
        (
            _of([_rank(0, **_WITH_PORT), _rank(1)]),
            ("a1", "a2"),
            ("a2", "a1"),
            (_bound("x", "a2", containers=(), **_WITH_PORT),),
            "host port 80",
        ),
    ],
)  # fmt: skip
def test_each_promise_that_is_broken_is_found(
    gang: Gang, good: Sequence[str], bad: Sequence[str], there: Sequence[Pod], says: str
) -> None:
    assert _judge(gang, *good, there=there) == ""
    assert says in _judge(gang, *bad, there=there)
    assert bool(_judge(gang, *bad, there=there)) == bool(says)


def test_two_pods_of_a_plan_do_not_get_one_host_port() -> None:
    one = frozenset((("127.0.0.1", "TCP", 80),))
    gang = _of([_rank(0, **_WITH_PORT), _rank(1, host_ports=one), _rank(2)])
    assert "host port 80" in _judge(replace(gang, is_exclusive=False), "a1", "a1", "a2")
    assert _judge(replace(gang, is_exclusive=False), "a1", "a2", "a1") == ""


def test_volumes_that_a_node_cannot_reach_are_found() -> None:
    gang = _gang()
    rules = replace(gang.shapes[0].rules, reaches=frozenset((Reach(_TERM, "volume v"),)))
    reaching = replace(gang, shapes=(replace(gang.shapes[0], rules=rules),) * 2)
    assert "volume" in _judge(reaching, "a1", "a2")


def test_a_plan_joins_the_members_that_have_a_place() -> None:
    said = {REQUIRED_LEVEL: "block"}
    gang = _of([_rank(0, said, node_name="b1", gates=()), _rank(1, said)])
    assert _judge(gang, "b1") == ""
    assert "in another than the rest" in _judge(gang, "a1")
    alone = replace(gang, required_level=None, is_exclusive=True)
    assert "of its own" in _judge(alone, "b1")
    sliced = {SLICE_SIZE: "2", SLICE_LEVEL: "host"}
    of_slice = _of([_rank(0, sliced, node_name="b1", gates=()), _rank(1, sliced)])
    assert "slice 0" in _judge(of_slice, "a1")
    apart: dict[str, Any] = {"apart_from": frozenset((_APART,))}
    kept_apart = _of([_rank(0, node_name="b1", gates=(), **apart), _rank(1, **apart)])
    assert "must not share" in _judge(kept_apart, "b1")


def test_no_gang_begins_with_fewer_pods_than_it_needs() -> None:
    gang = _gang(4, {GANG_SIZE: "4", GANG_MIN: "3"})
    assert _judge(gang.first(3), *("a1",) * 3) == ""
    assert "begins with 2 pods, but needs 3" in _judge(gang.first(2), *("a1",) * 2)
    whole = _gang(4, {GANG_SIZE: "4"})
    assert "begins with" in _judge(whole.first(3), *("a1",) * 3)


_CARDS = (
    card_node("c", card(0, links=[(0, 1, 0)], numa=0), card(1, numa=1), card(2, ill="hot")),
    card_node("d", card(5, tiles=1)),
    node("plain", more={"gpu.intel.com/i915": 4}),
)


def _first(one: Pod, there: Sequence[Pod] = ()) -> tuple[Plan, Layout, Residents]:
    cluster = Cluster(Scheme(), _CARDS, there)
    (gang,) = find_gangs([one])
    plan = take_places(find_places(gang, cluster.layout, cluster.room()), cluster.layout, cluster.room())
    assert plan.nodes is not None, plan.reason
    return plan, cluster.layout, cluster.residents()


def _with_tiles(card_number: int, *tiles: int) -> Callable[[Assignment], Assignment]:
    def change(given: Assignment) -> Assignment:
        return _mapped(given, lambda name: (f"0000-{card_number:02x}-00.0", frozenset(tiles)))

    return change


def _mapped(given: Assignment, to: Callable[[str], tuple[str, frozenset[int]]]) -> Assignment:
    return Assignment(
        {
            name: {
                resource: tuple(replace(one, name=to(one.name)[0], tiles=to(one.name)[1]) for one in pieces)
                for resource, pieces in of_container.items()
            }
            for name, of_container in given.containers.items()
        }
    )


@pytest.mark.parametrize(
    ("one", "change", "says"),
    [
        (card_pod("p"), lambda _: None, "no cards"),
        (card_pod("p"), _with_tiles(0, 0, 1), "2 tiles"),
        (card_pod("p"), _with_tiles(0, 7), "not in service"),
        (card_pod("p"), _with_tiles(2, 0), "not in service"),
        (card_pod("p"), _with_tiles(9, 0), "not there"),
        (card_pod("p", said={DENY: "card0"}), _with_tiles(0, 0), "does not want"),
        (card_pod("p", said={ALLOW: "card1"}), _with_tiles(0, 0), "does not want"),
        (card_pod("p"), lambda _: Assignment({}), "no cards"),
        (
            card_pod("p", card_container(cards=2, tiles=2)),
            _with_tiles(0, 0),
            "a card twice",
        ),
        (
            card_pod("p", card_container(cards=2, tiles=2), said={LINKED: "true"}),
            lambda given: _mapped(given, lambda name: (name, frozenset((1,)))),
            "not linked",
        ),
        (
            card_pod("p", *(card_container(name, tiles=1) for name in "ab"), said={SAME_CARD: "a,b"}),
            lambda given: replace(
                given,
                containers={**given.containers, "a": _with_tiles(1, 0)(given).containers["a"]}
                if given.containers["b"]["gpu.intel.com/i915"][0].name.startswith("0000-00")
                else {**given.containers, "a": _with_tiles(0, 0)(given).containers["a"]},
            ),
            "another card",
        ),
        (
            card_pod("p", card_container(memory=60)),
            lambda given: _mapped(given, lambda _: ("0000-00-00.0", frozenset((0,)))),
            "1 tiles",
        ),
    ],
)  # fmt: skip
def test_each_wrong_assignment_is_found(
    one: Pod, change: Callable[[Assignment], Assignment | None], says: str
) -> None:
    plan, layout, residents = _first(one)
    assert check_plan(plan, layout, residents).is_checked
    (given,) = plan.assignments
    assert given is not None
    with pytest.raises(BrokenPlanError, match=says):
        check_plan(replace(plan, nodes=("c",), assignments=(change(given),)), layout, residents)


def test_memory_of_a_card_whose_memory_is_not_known_is_no_promise() -> None:
    cluster = Cluster(Scheme(), [card_node("c", card(0), card(1, memory=None))], ())
    (gang,) = find_gangs([card_pod("p", card_container(memory=4))])
    plan = take_places(find_places(gang, cluster.layout, cluster.room()), cluster.layout, cluster.room())
    (given,) = plan.assignments
    assert given is not None
    assert check_plan(plan, cluster.layout, cluster.residents()).is_checked
    moved = replace(plan, assignments=(_with_tiles(1)(given),))
    with pytest.raises(BrokenPlanError, match="whose memory is not known"):
        check_plan(moved, cluster.layout, cluster.residents())


def _on_card_1(one: Pod) -> tuple[Plan, Layout, Residents]:
    """A plan for a pod that gets card 1 of node c, which has more of everything."""
    plan, layout, residents = _first(one)
    (given,) = plan.assignments
    assert given is not None
    (piece,) = given.containers["main"]["gpu.intel.com/i915"]
    moved = _with_tiles(1, *range(len(piece.tiles)))(given)
    return replace(plan, nodes=("c",), assignments=(moved,)), layout, residents


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"tiles": 1}, "somebody else's"),
        ({"memory": 40}, "of memory"),
        ({"millicores": 600}, "of millicores"),
    ],
)
def test_what_others_have_of_a_card_is_not_given_twice(asked: dict[str, Any], says: str) -> None:
    plan, layout, residents = _on_card_1(card_pod("p", card_container(**asked)))
    checked = check_plan(plan, layout, residents)
    cluster = Cluster(Scheme(), _CARDS)
    (placement,) = placements_of(checked)
    cluster.hold(replace(plan.gang.pods[0], name="other"), placement.node, placement.assignment)
    with pytest.raises(BrokenPlanError, match=says):
        check_plan(plan, layout, cluster.residents())


def test_cards_of_several_numa_nodes_are_found() -> None:
    asking = card_pod("p", card_container(cards=2, millicores=200))
    plan, layout, residents = _first(asking)
    said = replace(asking, annotations={SINGLE_NUMA: "true"})
    (gang,) = find_gangs([said])
    with pytest.raises(BrokenPlanError, match="NUMA"):
        check_plan(replace(plan, gang=gang), layout, residents)


def test_a_plan_that_nobody_has_checked_is_not_written() -> None:
    cluster = Cluster(Scheme(), _NODES)
    plan = plan_gang(_gang(), cluster.layout, cluster.room())
    assert len(placements_of(plan)) == 2
    with pytest.raises(BrokenPlanError):
        placements_of(replace(plan, is_checked=False))


def test_a_broken_plan_is_a_fault_and_no_plan() -> None:
    cluster = Cluster(Scheme(), _NODES)
    room = cluster.room()
    full = Cluster(Scheme(), _NODES, [_bound(f"x-{one.name}", one.name) for one in _NODES])
    room.residents.by_node = full.residents().by_node
    plan = plan_gang(_gang(), cluster.layout, room)
    assert plan.nodes is None
    assert isinstance(plan.fault, BrokenPlanError)
    assert "is not carried out, by a fault of the scheduler: pods like j-0 would take" in (plan.reason or "")


def test_nobody_is_evicted_for_a_plan_that_breaks_a_promise() -> None:
    (gang,) = find_gangs([replace(one, priority=9) for one in _gang().pods])
    there = [_bound(f"x-{one.name}", one.name) for one in _NODES]
    cluster = Cluster(Scheme(), _NODES, there)
    victims = [Victim(GangKey("ml", one.name, "Job"), 0, (one,)) for one in there]
    supposed = cluster.suppose(cluster.snapshot(), [one.key for one in there])
    found = find_preemption(gang, victims, supposed)
    assert found.victims
    assert found.plan is not None
    assert found.plan.is_checked
    # Others are there of whom the planner does not know.
    unknown = [replace(one, name=f"unknown-{one.name}") for one in there]
    supposed.now.amounts.residents.by_node = Cluster(Scheme(), _NODES, unknown).residents().by_node
    broken = find_preemption(gang, victims, supposed)
    assert not broken.victims
    assert broken.plan is not None
    assert isinstance(broken.plan.fault, BrokenPlanError)


def test_plans_of_random_clusters_keep_their_promises_and_places_that_do_not_are_refused() -> None:
    found = 0
    for seed in range(300):
        random = Random(seed)
        instance = random_instance(random)
        cluster = Cluster(instance.scheme, instance.nodes, instance.bound)
        (gang,) = find_gangs(instance.gated)
        leaves = [random.randrange(len(instance.nodes)) for _ in instance.gated]
        nodes = [instance.nodes[leaf].name for leaf in leaves]
        broken = find_broken_promise(gang, nodes, (None,) * len(nodes), cluster.layout, cluster.residents())
        assert (broken is None) == instance.obeys(leaves), f"{seed}: {broken}"
        found += broken is None
    assert 10 < found < 290


def _unlike(seed: int) -> tuple[list[Node], list[Pod], dict[str, tuple[int, int]]]:
    """More than 24 kinds of pods that must share one block; blocks of two nodes, by name what these have."""
    random = Random(seed)
    count = random.randint(25, 32)
    wants = random.sample(range(1, 60), count)
    total = sum(wants)
    rooms = {
        f"b{block}": (max(1, int(total * share)), max(1, int(total * other)))
        for block in range(3)
        for share, other in [(random.uniform(0.2, 0.75), random.uniform(0.2, 0.75))]
    }
    nodes = [
        replace(
            node(f"{block}-{at}", f"{block}/s{at}/h{block}{at}", gpus=0),
            allocatable={"cpu": Fraction(cpus, 10), "pods": 110},
        )
        for block, both in rooms.items()
        for at, cpus in enumerate(both)
    ]
    pods = [
        fakes.pod(
            f"j-{rank}",
            Container("main", {"cpu": Fraction(want, 10)}),
            labels={"job-name": "j", _INDEX: str(rank)},
            annotations={REQUIRED_LEVEL: "block"},
            gates=(f"{GATE_PREFIX}j",),
        )
        for rank, want in enumerate(wants)
    ]
    return nodes, pods, rooms


def _fits(wants: Sequence[int], one: int, other: int) -> bool:
    """Whether some of these fit into the one and the rest into the other: every sum that can be had."""
    sums = 1
    for want in wants:
        sums |= sums << want
    total = sum(wants)
    return any(sums >> there & 1 for there in range(max(0, total - other), min(one, total) + 1))


def test_gangs_of_more_kinds_than_are_searched_stay_within_their_level() -> None:
    placed = possible = 0
    for seed in range(60):
        nodes, pods, rooms = _unlike(seed)
        (gang,) = find_gangs(pods)
        assert len(set(gang.shapes)) > 24
        cluster = Cluster(Scheme(), nodes)
        plan = plan_gang(gang, cluster.layout, cluster.room())
        assert plan.fault is None, (seed, plan.reason)
        wants = [int(one.containers[0].requests["cpu"] * 10) for one in gang.pods]
        is_possible = any(_fits(wants, *both) for both in rooms.values())
        possible += is_possible
        if plan.nodes is None:
            assert not (plan.is_settled and is_possible), f"{seed}: it was said to be impossible"
            continue
        placed += 1
        assert is_possible, seed
        assert len({name.partition("-")[0] for name in plan.nodes}) == 1, seed
        for one in set(plan.nodes):
            block, _, at = one.partition("-")
            held = sum(want for want, name in zip(wants, plan.nodes, strict=True) if name == one)
            assert held <= rooms[block][int(at)], seed
    assert 10 < possible < 60
    assert placed >= 0.9 * possible


def test_unlike_pods_with_a_required_level_are_not_divided_between_blocks() -> None:
    nodes = [
        replace(node(f"{block}-{at}", f"{block}/s/h{at}"), allocatable={"cpu": cpus, "pods": 110})
        for block, cpus in (("big", 50), ("small", 25))
        for at in range(2)
    ]
    pods = [
        replace(
            _rank(rank, {REQUIRED_LEVEL: "block"}),
            containers=(Container("main", {"cpu": Fraction(38, 10) + Fraction(rank - 13, 10)}),),
        )
        for rank in range(26)
    ]
    cluster = Cluster(Scheme(), nodes)
    plan = plan_gang(_of(pods), cluster.layout, cluster.room())
    assert plan.nodes is None or len({name.partition("-")[0] for name in plan.nodes}) == 1
    assert plan.fault is None, plan.reason


def test_slices_that_are_partly_done_stay_within_the_required_level() -> None:
    said = {SLICE_SIZE: "2", SLICE_LEVEL: "host", REQUIRED_LEVEL: "block"}
    nodes = [node("a1", "a/a/1", gpus=2), node("b1", "b/b/1", gpus=4), node("b2", "b/b/2", gpus=4)]
    (gang,) = find_gangs([_rank(rank, said) for rank in (1, 2, 3)], [Workload("Job", "ml", "j", 3, done=1)])
    cluster = Cluster(Scheme(), nodes)
    plan = plan_gang(gang, cluster.layout, cluster.room())
    assert plan.nodes is not None, plan.reason
    assert {name[0] for name in plan.nodes} == {"b"}


def test_plans_are_checked_by_the_cards_that_nodes_publish_now() -> None:
    cluster = Cluster(Scheme(), [card_node("a", card(0, unassigned=1))])
    assert plan_gang(_of([card_pod("p")]), cluster.layout, cluster.room()).nodes is None
    cluster.set_node(card_node("a", card(0)))
    assert plan_gang(_of([card_pod("p")]), cluster.layout, cluster.room()).nodes == ("a",)
