"""Pods of a gang that must be spread over nodes, as kube-scheduler judges pods that are not pinned."""

from collections import Counter
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
from accelet.kube.selection import MOST_SKEW, MOST_TERMS
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX, find_gangs
from accelet.scheduler.placement.backlog import plan_backlog
from accelet.scheduler.placement.plan import Plan, plan_gang
from accelet.scheduler.placement.reservation import Patience
from tests.fakes.manifests import Raw, raw_container, raw_pod
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.values import plan_one

_HOST = "kubernetes.io/hostname"
_OWN = {"job-name": "j"}


def _node(name: str, place: str, *, is_labelled: bool = True) -> Node:
    whole = node(name, place, gpus=3)
    labels = {key: value for key, value in whole.labels.items() if is_labelled or key != _HOST}
    return replace(whole, labels=labels)


_NODES = [
    _node("n0", "x/p/1"),
    _node("n1", "x/p/2"),
    _node("n2", "x/q/1"),
    _node("n3", "y/p/1"),
    _node("bare", "x/p/3", is_labelled=False),
]


def _constraint(most: int = 1, selected: Mapping[str, str] = _OWN, **more: Any) -> Raw:
    return {
        "maxSkew": most,
        "topologyKey": _HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(selected)},
        **more,
    }


def _raw(rank: int, *constraints: Raw, job: str = "j", **more: Any) -> Raw:
    return raw_pod(
        f"{job}-{rank}",
        labels={"job-name": job, "app": "a"},
        gates=() if more.get("on") else (f"{GATE_PREFIX}j",),
        containers=[raw_container(requests={GPU: 1})],
        topologySpreadConstraints=list(constraints),
        **more,
    )


def _decide(raws: Sequence[Raw], nodes: Sequence[Node] = _NODES) -> Plan:
    pods = [parse_pod(raw) for raw in raws]
    cluster = Cluster(Scheme(), nodes, [one for one in pods if one.node_name])
    (gang,) = find_gangs(pods)
    return plan_gang(gang, cluster.layout, cluster.room())


def _is_let_in(kept: Sequence[str], places: Sequence[str], most: int) -> bool:
    """Whether kube-scheduler lets them in, in some order, one after the other."""
    there = [one.name for one in _NODES if _HOST in one.labels]

    def goes(order: Sequence[str]) -> bool:
        counts = Counter(kept)
        for at in order:
            if at not in there or counts[at] + 1 - min(counts[name] for name in there) > most:
                return False
            counts[at] += 1
        return True

    return any(goes(order) for order in set(permutations(places)))


def _least(kept: Sequence[str], count: int, most: int) -> int | None:
    layout = Cluster(Scheme(), _NODES).layout
    lengths = [
        layout.tree.length(np.array([layout.leaf_of[name] for name in (*kept, *places)]))
        for places in product([one.name for one in _NODES], repeat=count)
        if max(Counter((*kept, *places)).values()) <= 3 and _is_let_in(kept, places, most)
    ]
    return min(lengths, default=None)


@given(st.integers(1, 3), st.integers(1, 2))
def test_a_gang_of_fewer_pods_than_nodes_gets_the_best_place_that_its_spread_allows(
    count: int, most: int
) -> None:
    decided = _decide([_raw(rank, _constraint(most)) for rank in range(count)])
    assert decided.nodes is not None
    assert _is_let_in((), decided.nodes, most)
    assert decided.distance == _least((), count, most)
    assert decided.is_optimal


@given(st.lists(st.sampled_from(("n0", "n1", "n3")), min_size=1, max_size=2), st.integers(1, 2))
def test_pods_that_come_anew_are_spread_beside_those_that_stay(kept: list[str], most: int) -> None:
    raws = [_raw(rank, _constraint(most), on=at) for rank, at in enumerate(kept)]
    decided = _decide([*raws, _raw(len(kept), _constraint(most))])
    assert decided.nodes is not None
    assert _is_let_in(kept, decided.nodes, most)
    assert decided.distance == _least(kept, 1, most)


@given(st.integers(1, 4), st.integers(1, 3))
def test_spread_refuses_no_gang_that_kube_scheduler_would_let_in(count: int, most: int) -> None:
    if _least((), count, most) is not None:
        assert _decide([_raw(rank, _constraint(most)) for rank in range(count)]).nodes is not None


def test_as_many_pods_as_nodes_and_more_are_not_judged() -> None:
    """Once there is one on every node, each may have one more."""
    decided = _decide([_raw(rank, _constraint()) for rank in range(8)])
    assert decided.nodes is not None


def test_a_gang_waits_where_too_few_of_its_nodes_are_free_and_the_reason_says_so() -> None:
    others = [raw_pod(f"o-{at}", on=f"n{at}", containers=[raw_container(requests={GPU: 3})]) for at in (0, 1)]
    nodes = [one for one in _NODES if one.name != "bare"]
    cluster = Cluster(Scheme(), nodes, [parse_pod(raw) for raw in others])
    (gang,) = find_gangs([parse_pod(_raw(rank, _constraint())) for rank in range(3)])
    assert plan_gang(gang, cluster.layout, cluster.room()).nodes is None
    bare = [_node("bare", "x/p/3", is_labelled=False)]
    cluster = Cluster(Scheme(), [*nodes, *bare], [parse_pod(raw) for raw in others])
    decided = plan_gang(gang, cluster.layout, cluster.room())
    assert decided.reason is not None
    assert "1 without the label kubernetes.io/hostname" in decided.reason


@pytest.mark.parametrize(
    "constraint",
    [
        _constraint(selected={"app": "a"}),
        _constraint(selected={"job-name": "other"}),
        _constraint(topologyKey="topology.kubernetes.io/zone", whenUnsatisfiable="ScheduleAnyway"),
        _constraint(whenUnsatisfiable="ScheduleAnyway"),
        _constraint(labelSelector=None),
    ],
    ids=["pods of others too", "others alone", "another key", "a preference", "no pods"],
)
def test_what_is_not_exact_or_no_rule_is_left_out(constraint: Raw) -> None:
    assert len({*(_decide([_raw(rank, constraint) for rank in range(2)]).nodes or ())}) == 1


def test_a_node_without_the_label_of_a_spread_is_none_for_the_pod() -> None:
    by_zone = _constraint(topologyKey="topology.kubernetes.io/zone")
    gang = [parse_pod(_raw(rank, by_zone)) for rank in range(2)]
    nodes = [replace(one, labels={**one.labels, "topology.kubernetes.io/zone": "z"}) for one in _NODES[1:3]]
    assert {*(plan_one([_NODES[0], *nodes], gang).nodes or ())} <= {one.name for one in nodes}
    assert plan_one([*_NODES], gang).nodes is None


def test_a_rule_that_only_some_of_the_pods_have_is_left_out() -> None:
    assert len({*(_decide([_raw(0, _constraint()), _raw(1)]).nodes or ())}) == 1


def test_keys_of_labels_count_as_in_a_selector() -> None:
    keys = _constraint(selected={}, matchLabelKeys=["job-name"])
    decided = _decide([_raw(rank, keys) for rank in range(2)])
    assert decided.nodes == ("n0", "n1")


def test_gangs_alike_but_for_their_spread_are_judged_each_by_its_own() -> None:
    pods = [parse_pod(_raw(rank, _constraint())) for rank in range(2)]
    pods += [replace(parse_pod(_raw(rank, job="k")), created_s=2e9) for rank in range(2)]
    full = [
        raw_pod(f"o-{at}", on=f"n{at}", containers=[raw_container(requests={GPU: 3})]) for at in (1, 2, 3)
    ]
    nodes = [one for one in _NODES if one.name != "bare"]
    cluster = Cluster(Scheme(), nodes, [parse_pod(raw) for raw in full])
    patience = Patience(now_s=1.0, starving_after_s=600.0, waiting_since={})
    found = plan_backlog(find_gangs(pods), cluster.snapshot(), patience)
    assert [one.nodes for one in found.plans] == [None, ("n0", "n0")]


def test_hostile_constraints_are_bounded() -> None:
    many = [_constraint(most=number) for number in range(1, 10 * MOST_TERMS)]
    assert len(parse_pod(_raw(0, *many)).spread) == MOST_TERMS
    (term,) = parse_pod(_raw(0, _constraint(most=2**31 - 1))).spread
    assert term.most == MOST_SKEW
    assert not parse_pod(_raw(0, _constraint(most=0))).spread
