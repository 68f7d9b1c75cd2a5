"""Pods of a gang that must be beside each other, as kube-scheduler judges them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.podparser import parse_pod
from accelet.kube.selection import MOST_REQUIREMENTS, MOST_TERMS, MOST_VALUES
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.together import MOST_DOMAINS
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX, find_gangs
from accelet.scheduler.placement.backlog import plan_backlog
from accelet.scheduler.placement.plan import Plan, find_places, plan_gang
from accelet.scheduler.placement.reservation import Patience, Reservation, reserve
from tests.fakes.manifests import Raw, raw_container, raw_pod
from tests.fakes.nodes import GPU, node

_BLOCK = "cloud.google.com/gce-topology-block"
_ZONE = "topology.kubernetes.io/zone"
_RACK = "example.com/rack"
_OWN = {"job-name": "j"}
_PLACES = ("x/p/1", "x/p/2", "x/q/1", "y/p/1", "y/q/1")


def _node(name: str, place: str, gpus: int = 2, **labels: str | None) -> Node:
    whole = node(name, place, gpus=gpus)
    named = {_ZONE: labels.get("zone"), _RACK: labels.get("rack")}
    return replace(whole, labels={**whole.labels, **{key: value for key, value in named.items() if value}})


def _term(label: str = _ZONE, selected: Mapping[str, str] = _OWN, **more: Any) -> Raw:
    return {"topologyKey": label, "labelSelector": {"matchLabels": dict(selected)}, **more}


def _raw(rank: int, *terms: Raw, job: str = "j", gpus: int = 1, **more: Any) -> Raw:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return raw_pod(
        f"{job}-{rank}",
        labels={"job-name": job, "app": "a"},
        gates=() if more.get("on") else (f"{GATE_PREFIX}j",),
        containers=[raw_container(requests={GPU: gpus})],
        affinity={"podAffinity": required} if terms else {},
        **more,
    )


def _decide(raws: Sequence[Raw], nodes: Sequence[Node]) -> Plan:
    pods = [parse_pod(raw) for raw in raws]
    cluster = Cluster(Scheme(), nodes, [one for one in pods if one.node_name])
    (gang,) = find_gangs(pods)
    return plan_gang(gang, cluster.layout, cluster.room())


def _is_let_in(
    nodes: Sequence[Node], kept: Sequence[str], places: Sequence[str], keys: Sequence[str]
) -> bool:
    """Whether kube-scheduler lets them in, in some order, one after the other."""
    labels = {one.name: one.labels for one in nodes}

    def goes(order: Sequence[str]) -> bool:
        counted = {(key, labels[at][key]) for at in kept for key in keys if key in labels[at]}
        for at in order:
            if any(key not in labels[at] for key in keys):
                return False
            own = {(key, labels[at][key]) for key in keys}
            if counted and not own <= counted:
                return False
            counted |= own
        return True

    return any(goes(order) for order in set(permutations(places)))


def _least(
    nodes: Sequence[Node], kept: Sequence[str], pods: Sequence[int], keys: Sequence[str]
) -> int | None:
    layout = Cluster(Scheme(), nodes).layout
    room = {one.name: 2 for one in nodes}
    for at in kept:
        room[at] -= 1
    lengths = []
    for places in product([one.name for one in nodes], repeat=len(pods)):
        used = {name: sum(gpus for at, gpus in zip(places, pods, strict=True) if at == name) for name in room}
        if all(used[name] <= room[name] for name in room) and _is_let_in(nodes, kept, places, keys):
            leaves = [layout.leaf_of[name] for name in (*kept, *places)]
            lengths.append(layout.tree.length(np.array(leaves)))
    return min(lengths, default=None)


_VALUES = st.sampled_from(("a", "b", "c", None))
_CLUSTERS = st.lists(st.tuples(st.sampled_from(_PLACES), _VALUES, _VALUES), min_size=2, max_size=5).map(
    lambda drawn: [
        _node(f"n{number}", place, zone=zone, rack=rack) for number, (place, zone, rack) in enumerate(drawn)
    ]
)
_KEYS = st.sampled_from(((_ZONE,), (_BLOCK,), (_RACK,), (_ZONE, _RACK), (_BLOCK, _ZONE)))


@given(_CLUSTERS, _KEYS, st.lists(st.integers(1, 2), min_size=1, max_size=4))
def test_a_gang_gets_the_best_place_that_its_affinity_allows_or_none(
    nodes: list[Node], keys: Sequence[str], pods: list[int]
) -> None:
    """`pods` are the GPUs that each asks for: unlike ones too."""
    terms = [_term(key) for key in keys]
    decided = _decide([_raw(rank, *terms, gpus=gpus) for rank, gpus in enumerate(pods)], nodes)
    least = _least(nodes, (), pods, keys)
    if decided.nodes is None:
        assert least is None or not decided.is_settled
        return
    assert _is_let_in(nodes, (), decided.nodes, keys)
    assert least is not None
    assert decided.distance is not None
    assert least <= decided.distance
    assert decided.lower_bound <= least
    if len(set(pods)) == 1:
        assert decided.distance == least
        assert decided.is_optimal


@given(_CLUSTERS, _KEYS, st.integers(1, 2), st.integers(1, 2), st.randoms(use_true_random=False))
def test_pods_that_come_anew_go_beside_those_that_stay(
    nodes: list[Node], keys: Sequence[str], kept: int, coming: int, chance: Any
) -> None:
    there = [chance.choice(nodes).name for _ in range(kept)]
    labels = {one.name: one.labels for one in nodes}
    if max(there.count(at) for at in there) > 2 or not any(key in labels[at] for key in keys for at in there):
        return  # nobody there counts: not judged
    terms = [_term(key) for key in keys]
    raws = [_raw(rank, *terms, on=at) for rank, at in enumerate(there)]
    raws += [_raw(kept + number, *terms) for number in range(coming)]
    decided = _decide(raws, nodes)
    least = _least(nodes, there, [1] * coming, keys)
    if decided.nodes is None:
        assert least is None
    else:
        assert least is not None
        assert _is_let_in(nodes, there, decided.nodes, keys)


def test_a_gang_waits_where_no_zone_takes_all_of_it_and_the_reason_says_so() -> None:
    nodes = [_node("n0", "x/p/1", zone="a"), _node("n1", "x/q/1", zone="b"), _node("n2", "y/p/1", zone="b")]
    decided = _decide([_raw(rank, _term()) for rank in range(5)], nodes)
    assert decided.is_settled
    assert decided.reason == (
        "needs room for 5 pods, the cluster has 4; of 3 nodes: 1 in another topology.kubernetes.io/zone than"
        " the largest; pod affinity keeps it in one of 2 parts of the cluster"
    )


def test_domains_that_are_a_level_s_are_told_as_that_level() -> None:
    nodes = [_node("n0", "x/p/1", zone="a"), _node("n1", "x/q/1", zone="a"), _node("n2", "y/p/1", zone="b")]
    nodes.append(_node("n3", "y/q/1"))
    decided = _decide([_raw(rank, _term()) for rank in range(5)], nodes)
    assert decided.reason == (
        "needs room for 5 pods in one block, best has 4 (x); of 4 nodes:"
        " 1 without the label topology.kubernetes.io/zone, which the pods' topology spread or affinity needs,"
        " 1 without the label topology.kubernetes.io/zone that pod affinity names"
    )


def test_one_that_comes_anew_waits_beside_the_others_and_the_reason_says_so() -> None:
    nodes = [_node("n0", "x/p/1", gpus=1, zone="a"), _node("n1", "x/p/2", zone="b")]
    decided = _decide([_raw(0, _term(), on="n0"), _raw(1, _term())], nodes)
    assert decided.reason is not None
    assert (
        "1 in another topology.kubernetes.io/zone than the rest of the gang, of pod affinity"
        in decided.reason
    )


def test_of_domains_that_are_no_level_s_the_nearest_is_taken_not_the_largest() -> None:
    nodes = [_node(f"n{n}", place, rack="a") for n, place in enumerate(("x/p/1", "x/q/1", "y/p/1"))]
    nodes += [_node("n3", "y/q/1", rack="b"), _node("n4", "y/q/2", rack="b")]
    decided = _decide([_raw(rank, _term(_RACK)) for rank in range(4)], nodes)
    assert decided.nodes == ("n3", "n3", "n4", "n4")
    assert decided.is_optimal


def test_as_many_domains_as_levels_do_not_have_are_tried_and_no_more() -> None:
    racks = [_node(f"n{n}", f"b{n % 2}/s/{n}", rack=f"r{n // 2}") for n in range(2 * MOST_DOMAINS)]
    raws = [_raw(rank, _term(_RACK)) for rank in range(3)]
    decided = _decide(raws, racks)
    assert decided.nodes is not None
    assert decided.is_optimal
    assert len({int(name[1:]) // 2 for name in decided.nodes}) == 1, "a rack is on two blocks"
    too_many = [*racks, _node("m0", "b0/s/m", rack="last"), _node("m1", "b1/s/m", rack="last")]
    free = _decide(raws, too_many)
    assert free.nodes is not None
    assert len({name if name[0] == "m" else int(name[1:]) // 2 for name in free.nodes}) > 1, "not judged"


_CROSSING = [_node("n0", "x/p/1", gpus=1, zone="a"), _node("n1", "x/p/2", gpus=1, zone="b")]


@pytest.mark.parametrize(
    "term",
    [
        _term(selected={"app": "a"}),
        _term(selected={"job-name": "other"}),
        _term(namespaces=["elsewhere"]),
        _term(namespaces=["default", "elsewhere"]),
        _term(namespaceSelector={}),
        _term(namespaceSelector={"matchLabels": {"team": "a"}}),
        _term(labelSelector=None),
    ],
    ids=["of others too", "others alone", "elsewhere", "two namespaces", "all", "by labels", "no pods"],
)
def test_what_is_not_exact_is_left_out(term: Raw) -> None:
    assert _decide([_raw(rank, term) for rank in range(2)], _CROSSING).nodes == ("n0", "n1")
    assert _decide([_raw(rank, _term()) for rank in range(2)], _CROSSING).nodes is None


@pytest.mark.parametrize("more", [{}, {"namespaceSelector": {"matchLabels": {"team": "a"}}}])
def test_one_term_that_is_not_judged_leaves_out_the_others(more: Raw) -> None:
    """Who is not selected by all of them counts for none."""
    terms = _term(), _term(_RACK, {"app": "a"}, **more)
    racked = [replace(one, labels={**one.labels, _RACK: "r"}) for one in _CROSSING]
    assert _decide([_raw(rank, *terms) for rank in range(2)], racked).nodes == ("n0", "n1")
    assert _decide([_raw(rank, *terms) for rank in range(2)], _CROSSING).nodes is None


def test_a_rule_that_only_some_of_the_pods_have_is_left_out() -> None:
    assert _decide([_raw(0, _term()), _raw(1)], _CROSSING).nodes == ("n0", "n1")


def test_gangs_alike_but_for_their_affinity_are_judged_each_by_its_own() -> None:
    pods = [parse_pod(_raw(rank, _term())) for rank in range(2)]
    pods += [replace(parse_pod(_raw(rank, job="k")), created_s=2e9) for rank in range(2)]
    cluster = Cluster(Scheme(), _CROSSING, [])
    patience = Patience(now_s=1.0, starving_after_s=600.0, waiting_since={})
    found = plan_backlog(find_gangs(pods), cluster.snapshot(), patience)
    assert [one.nodes for one in found.plans] == [None, ("n0", "n1")]


def test_nodes_are_kept_for_a_starving_gang_within_one_domain() -> None:
    pods = [parse_pod(_raw(rank, _term())) for rank in range(3)]
    nodes = [_node("n0", "x/p/1", zone="a"), _node("n1", "x/q/1", zone="b"), _node("n2", "y/p/1", zone="b")]
    nodes.append(_node("n3", "x/q/2", zone="a"))
    busy = raw_pod("o", on="n2", containers=[raw_container(requests={GPU: 2})], restartPolicy="Never")
    full = raw_pod("f", on="n0", containers=[raw_container(requests={GPU: 2})])
    cluster = Cluster(Scheme(), nodes, [parse_pod(busy), parse_pod(full)])
    (gang,) = find_gangs(pods)
    patience = Patience(now_s=700.0, starving_after_s=600.0, waiting_since={gang.key: 1.0}, most_share=1.0)
    found = plan_backlog([gang], cluster.snapshot(), patience)
    assert found.reservation is not None
    assert found.reservation.nodes == {"n1", "n2"}


def test_nodes_stay_kept_though_another_domain_has_become_as_good() -> None:
    pods = [parse_pod(_raw(rank, _term())) for rank in range(3)]
    nodes = [_node("n0", "x/p/1", zone="a"), _node("n1", "x/q/1", zone="b"), _node("n2", "y/p/1", zone="b")]
    nodes.append(_node("n3", "x/q/2", zone="a"))
    whole = [raw_container(requests={GPU: 2})]
    busy = [
        parse_pod(raw_pod(f"o-{on}", on=on, containers=whole, restartPolicy="Never")) for on in ("n2", "n0")
    ]
    cluster = Cluster(Scheme(), nodes, busy)
    (gang,) = find_gangs(pods)
    patience = Patience(now_s=700.0, starving_after_s=600.0, waiting_since={gang.key: 1.0})
    for kept in ({"n1", "n2"}, {"n0", "n3"}):
        former = Reservation(gang.key, frozenset(kept), until_s=900.0)
        found = reserve(gang, cluster.snapshot(), cluster.room(), patience, former)
        assert found is not None
        assert found.nodes == kept
        assert found.until_s == 900.0


def test_hostile_terms_are_bounded() -> None:
    many = [_term(f"key-{number}") for number in range(MOST_TERMS + 1)]
    assert parse_pod(_raw(0, *many)).together_with is None
    assert parse_pod(_raw(0, *many[1:])).together_with is not None
    keys = [_term(f"key-{number}") for number in range(MOST_TERMS)]
    nodes = [_node("n0", "x/p/1"), _node("n1", "x/p/2")]
    decided = _decide([_raw(rank, *keys) for rank in range(2)], nodes)
    assert decided.reason is not None
    assert len(decided.reason) < 500


def test_what_one_pod_says_of_others_is_bounded_in_all() -> None:
    """What is kept for the next pods of a template stays after its pods have gone."""
    values = [f"v{number}" for number in range(MOST_VALUES)]
    keys = [{"key": f"k{number}", "operator": "In", "values": values} for number in range(MOST_REQUIREMENTS)]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": keys}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spread = {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    both = {"podAffinity": required, "podAntiAffinity": required}
    raw = raw_pod("p", containers=[raw_container()], affinity=both, topologySpreadConstraints=[spread])
    parsed = parse_pod(raw)
    assert (parsed.together_with, parsed.apart_from, parsed.spread) == (None, frozenset(), frozenset())
    few = {"matchExpressions": [{**one, "values": values[:30]} for one in keys]}
    term["labelSelector"] = spread["labelSelector"] = few
    parsed = parse_pod(raw)
    assert parsed.together_with
    assert [one.size for one in parsed.apart_from] == [1 + 31 * MOST_REQUIREMENTS]
    assert parsed.spread


def test_pods_of_another_group_of_a_leader_worker_set_count_so_that_it_is_not_judged() -> None:
    name = {"leaderworkerset.sigs.k8s.io/name": "serve"}
    pods = [parse_pod(_raw(rank, _term(selected=name))) for rank in range(2)]
    pods = [replace(pod, labels={**pod.labels, **name}) for pod in pods]
    (gang,) = find_gangs(pods)
    cluster = Cluster(Scheme(), _CROSSING, [])
    assert plan_gang(gang, cluster.layout, cluster.room()).nodes == ("n0", "n1")


def test_the_first_ranks_of_a_gang_are_beside_each_other_too() -> None:
    """For all of the pods the zones are no level's, for the first two of them they are the blocks."""
    nodes = [_node("n0", "x/p/1", gpus=1, zone="a", rack="old")]
    nodes.append(_node("n1", "y/p/1", gpus=1, zone="b", rack="old"))
    nodes.append(_node("n2", "z/p/1", gpus=1, zone="a", rack="new"))
    racks = ("old", "old", "new")
    raws = [_raw(rank, _term(), nodeSelector={_RACK: chosen}) for rank, chosen in enumerate(racks)]
    (gang,) = find_gangs([parse_pod(raw) for raw in raws])
    cluster = Cluster(Scheme(), nodes, [])
    assert plan_gang(replace(gang, least=2), cluster.layout, cluster.room()).nodes is None


def test_many_terms_of_many_pods_cost_no_more_than_a_gang_may_take() -> None:
    """Each pod is asked of each requirement, again for each number of ranks that it may begin with."""
    selected = {"job-name": "j", **{f"key-{number}": "v" for number in range(MOST_REQUIREMENTS - 2)}}
    terms = [_term(f"label-{number}", selected) for number in range(MOST_TERMS)]
    first = parse_pod(_raw(0, *terms))
    labels = {**first.labels, **selected}
    pods = [replace(first, name=f"j-{rank}", labels=labels) for rank in range(8_000)]
    (gang,) = find_gangs(pods)
    cluster = Cluster(Scheme(), _CROSSING, [])
    for least, is_settled in ((None, False), (2, True)):  # two of them are asked of in no time
        budget = Budget(400_000)
        decided = find_places(replace(gang, least=least), cluster.layout, cluster.room(), budget=budget)
        assert decided.nodes is None
        assert decided.is_settled is is_settled
        assert -1_000 <= budget.left < 400_000
