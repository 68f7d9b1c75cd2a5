"""Ports of nodes: whoever plans knows who has them, as kube-scheduler does."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.podparser import parse_pod
from accelet.kube.pods import HostPort, Pod
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.shape import shape_of
from accelet.scheduler.cluster.supposing import Arrival
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import Gang, find_gangs
from accelet.scheduler.placement.backlog import Backlog, plan_backlog
from accelet.scheduler.placement.plan import find_places, plan_gang, plan_gangs
from accelet.scheduler.placement.refusals import Refusals
from accelet.scheduler.placement.reservation import Patience
from accelet.scheduler.placement.unlike import USUAL_EFFORT
from tests.fakes.manifests import raw_container, raw_pod
from tests.fakes.nodes import node
from tests.unit.scheduler.values import plan, plan_one, pod

_NODES = [node(f"n{at}", place, gpus=3) for at, place in enumerate(("x/p/1", "x/p/2", "x/q/1", "y/p/1"))]
_ADDRESSES = ("0.0.0.0", "10.0.0.1", "10.0.0.2")


def _taking(name: str, *ports: int | HostPort, **more: object) -> Pod:
    taken = frozenset(port if isinstance(port, tuple) else ("0.0.0.0", "TCP", port) for port in ports)
    return replace(pod(name, **more), host_ports=taken)  # type: ignore[arg-type]


def _gang(name: str, *pods: Iterable[int | HostPort]) -> list[Pod]:
    labels = {"job-name": name}
    return [_taking(f"{name}-{rank}", *ports, labels=labels) for rank, ports in enumerate(pods)]


def _only(pods: Sequence[Pod]) -> Gang:
    (gang,) = find_gangs(pods)
    return gang


def _check_conflict(one: Pod, other: Pod) -> bool:
    """As HostPortInfo.CheckConflict of kube-scheduler says it."""
    for address, protocol, number in one.host_ports:
        used = {a for a, p, n in other.host_ports if (p, n) == (protocol, number)}
        if address == "0.0.0.0" and used:
            return True
        if used & {"0.0.0.0", address}:
            return True
    return False


def _obeys(bound: Sequence[Pod], gated: Sequence[Pod], places: Sequence[str]) -> bool:
    there = [*bound, *(replace(one, node_name=at) for one, at in zip(gated, places, strict=True))]
    on: dict[str, list[Pod]] = {}
    for one in there:
        on.setdefault(one.node_name or "", []).append(one)
    return all(
        len(pods) <= 3 and not any(_check_conflict(*pair) for pair in combinations(pods, 2))
        for pods in on.values()
    )


def _least(bound: Sequence[Pod], gated: Sequence[Pod]) -> int | None:
    layout = Cluster(Scheme(), _NODES).layout
    lengths = [
        layout.tree.length(np.array([layout.leaf_of[name] for name in places]))
        for places in product([one.name for one in _NODES], repeat=len(gated))
        if _obeys(bound, gated, places)
    ]
    return min(lengths, default=None)


_ports = st.frozensets(
    st.tuples(st.sampled_from(_ADDRESSES), st.sampled_from(("TCP", "UDP")), st.sampled_from((80, 81))),
    max_size=2,
)


@st.composite
def _bound(draw: st.DrawFn) -> list[Pod]:
    pods: list[Pod] = []
    for number in range(draw(st.integers(0, 5))):
        one = _taking(f"other-{number}", *draw(_ports), on=draw(st.sampled_from(_NODES)).name)
        if _obeys([*pods, one], (), ()):
            pods.append(one)
    return pods


@given(_bound(), st.lists(_ports, min_size=1, max_size=4), st.booleans())
def test_a_gang_gets_the_best_place_that_ports_allow_and_none_where_there_is_none(
    bound: list[Pod], wanted: list[frozenset[HostPort]], is_alike: bool
) -> None:
    gated = _gang("j", *([wanted[0]] * len(wanted) if is_alike else wanted))
    cluster = Cluster(Scheme(), _NODES, bound)
    decided = plan_gang(_only(gated), cluster.layout, cluster.room())
    least = _least(bound, gated)
    assert (decided.nodes is None) == (least is None), decided.reason
    if decided.nodes is not None:
        assert _obeys(bound, gated, decided.nodes)
        assert decided.distance == least
        assert decided.is_optimal


@given(_bound(), st.lists(st.lists(_ports, min_size=1, max_size=2), min_size=2, max_size=3))
def test_gangs_planned_one_after_the_other_leave_each_other_their_ports(
    bound: list[Pod], gangs: list[list[frozenset[HostPort]]]
) -> None:
    gated = [one for number, wanted in enumerate(gangs) for one in _gang(f"j{number}", *wanted)]
    cluster = Cluster(Scheme(), _NODES, bound)
    plans = plan_gangs(find_gangs(gated), cluster.layout, cluster.room())
    placed = [pair for found in plans for pair in found.placements]
    assert _obeys(bound, [one for one, _ in placed], [at for _, at in placed])


@given(st.lists(st.tuples(st.integers(0, 3), _ports, st.sampled_from((None, "n0", "n1"))), max_size=12))
def test_what_is_known_of_ports_does_not_depend_on_what_happened_before(
    events: list[tuple[int, frozenset[HostPort], str | None]],
) -> None:
    cluster, pods = Cluster(Scheme(), _NODES), dict[str, Pod]()
    for number, ports, at in events:
        one = _taking(f"p{number}", *ports, on=at) if at else None
        if one is None:
            cluster.remove_pod(("ml", f"p{number}"))
            pods.pop(f"p{number}", None)
        else:
            cluster.set_pod(one)
            pods[one.name] = one
        cluster.room()
    fresh = Cluster(Scheme(), _NODES, pods.values())
    for address, protocol, number in product(_ADDRESSES, ("TCP", "UDP"), (80, 81)):
        shapes = [shape_of(_taking("asks", (address, protocol, number)))]
        (known,), (anew,) = (
            one.snapshot().room.amounts.ports.limits(shapes, one.layout.leaf_of, Budget())
            for one in (cluster, fresh)
        )
        assert known.free.tolist() == anew.free.tolist()


def test_a_node_on_which_another_pod_has_the_port_is_no_candidate_and_the_reason_says_so() -> None:
    nodes = [node("a"), node("b")]
    bound = _taking("other", 29500, on="a", gpus=0)
    (decided,) = plan(nodes, [bound, *_gang("j", (29500,))])
    assert decided.nodes == ("b",)
    (decided,) = plan(nodes, [bound, *_gang("j", (29500,), (29500,))])
    assert decided.reason == "needs 2 nodes, the cluster has 1; of 2 nodes: 1 where host port 29500 is taken"
    (decided,) = plan(nodes, [bound, *_gang("j", (29500, 80), (29500, 80))])
    assert decided.reason is not None
    assert decided.reason.endswith("of 2 nodes: 1 where one of its host ports is taken")


def test_two_pods_of_a_gang_with_one_port_in_common_do_not_share_a_node() -> None:
    decided = plan_one([node("a"), node("b")], _gang("j", (80,), (80, 81), ()))
    assert decided.nodes is not None
    assert decided.nodes[0] != decided.nodes[1]


def test_a_released_pod_keeps_its_port_until_it_is_gone() -> None:
    cluster = Cluster(Scheme(), [node("a")])
    cluster.hold(_taking("promised", 80), "a")
    gang = _only(_gang("j", (80,)))
    assert plan_gang(gang, cluster.layout, cluster.room()).nodes is None
    cluster.remove_pod(("ml", "promised"))
    assert plan_gang(gang, cluster.layout, cluster.room()).nodes == ("a",)


def test_a_gang_that_was_refused_is_planned_again_when_its_port_is_free() -> None:
    cluster, refusals = Cluster(Scheme(), [node("a")], [_taking("other", 80, on="a")]), Refusals()
    gang = _only(_gang("j", (80,)))

    def plan_round() -> list[tuple[str, ...] | None]:
        patience = Patience(now_s=1.0, starving_after_s=600.0, waiting_since={})
        return [found.nodes for found in Backlog([gang], cluster.snapshot(), patience, refusals).plans()]

    assert plan_round() == [None]
    cluster.set_pod(_taking("other", on="a"))
    assert plan_round() == [("a",)]


def test_ports_of_pods_that_end_are_waited_for_and_those_of_others_are_not() -> None:
    gang = _only(_gang("j", (80,)))
    patience = Patience(now_s=1000.0, starving_after_s=60.0, waiting_since={gang.key: 0.0}, most_share=1.0)

    def reserved(policy: str) -> bool:
        cluster = Cluster(
            Scheme(), [node("a")], [replace(_taking("other", 80, on="a"), restart_policy=policy)]
        )
        return plan_backlog([gang], cluster.snapshot(), patience).reservation is not None

    assert reserved("Never")
    assert not reserved("Always")


@given(st.lists(st.tuples(_ports, st.sampled_from(("n0", "n1"))), min_size=1, max_size=5))
def test_a_node_still_takes_a_pod_unless_another_one_there_has_a_port_of_its(
    taken: list[tuple[frozenset[HostPort], str]],
) -> None:
    first, *others = (_taking(f"p{at}", *ports, on=on, gpus=0) for at, (ports, on) in enumerate(taken))
    cluster = Cluster(Scheme(), _NODES, others)
    cluster.hold(first, first.node_name or "")
    beside = (other for other in others if other.node_name == first.node_name)
    is_alone = not any(_check_conflict(first, other) for other in beside)
    assert cluster.still_takes(shape_of(first), first.node_name or "", first.key) == is_alone
    for other in others:
        cluster.remove_pod(other.key)
    assert cluster.still_takes(shape_of(first), first.node_name or "", first.key)


def test_supposed_events_free_and_take_ports() -> None:
    other = _taking("other", 80, on="a")
    cluster = Cluster(Scheme(), [node("a")], [other])
    gang = _only(_gang("j", (80,)))
    supposed = cluster.suppose(cluster.snapshot(), [other.key])

    def nodes(room: object) -> tuple[str, ...] | None:
        return plan_gang(gang, cluster.layout, room).nodes  # type: ignore[arg-type]

    assert nodes(supposed.room()) is None
    assert nodes(supposed.room([other.key])) == ("a",)
    assert nodes(supposed.room([other.key], [Arrival(gang.pods[0].key, gang.shapes[0], "a")])) is None
    assert nodes(supposed.room()) is None, "it was changed by asking"


def test_ports_of_sidecars_count_and_those_of_other_init_containers_do_not() -> None:
    def ports(number: int) -> dict[str, object]:
        return {"ports": [{"containerPort": number, "hostPort": number}]}

    init = [raw_container("once") | ports(1), raw_container("along", sidecar=True) | ports(2)]
    raw = raw_pod(initContainers=init, containers=[raw_container() | ports(3)])
    assert {number for _, _, number in parse_pod(raw).host_ports} == {2, 3}


@pytest.mark.parametrize("number", [0, -1, 65_536, 10**12])
def test_what_is_no_port_takes_none(number: int) -> None:
    raw = raw_pod(containers=[raw_container() | {"ports": [{"containerPort": 1, "hostPort": number}]}])
    assert not parse_pod(raw).host_ports


def test_pods_of_very_many_ports_take_a_bounded_amount_of_work() -> None:
    chance = Random(0)
    bound = [_taking(f"b{at}", *range(1, 101), on=f"n{at}") for at in range(200)]
    cluster = Cluster(Scheme(), [node(f"n{at}") for at in range(1000)], bound)
    wanted = [chance.sample(range(1, 2000), 100) for _ in range(300)]
    gang, budget = _only(_gang("j", *wanted)), Budget(USUAL_EFFORT.units)
    find_places(gang, cluster.layout, cluster.room(), USUAL_EFFORT, budget)
    assert budget.left > -USUAL_EFFORT.units / 10
