"""Pods of a gang that are not to be on one node with others of it, as kube-scheduler judges it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.podparser import parse_pod
from accelet.kube.selection import MOST_REQUIREMENTS, MOST_TERMS, MOST_VALUES
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.residents import Residents
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.errors import BrokenPlanError
from accelet.scheduler.gangs.grouping import GATE_PREFIX, find_gangs
from accelet.scheduler.placement.backlog import plan_backlog
from accelet.scheduler.placement.plan import Plan, check_plan, find_places, plan_gang
from accelet.scheduler.placement.reservation import Patience
from accelet.scheduler.placement.unlike import USUAL_EFFORT
from tests.fakes.manifests import Raw, raw_container, raw_pod
from tests.fakes.nodes import GPU, node

_HOST = "kubernetes.io/hostname"


def _node(name: str, place: str, *, gpus: int = 3, is_labelled: bool = True) -> Node:
    whole = node(name, place, gpus=gpus)
    labels = {key: value for key, value in whole.labels.items() if is_labelled or key != _HOST}
    return replace(whole, labels=labels)


_NODES = [
    _node("n0", "x/p/1"),
    _node("n1", "x/p/2"),
    _node("n2", "x/q/1"),
    _node("bare", "y/p/1", is_labelled=False),
]


def _term(selector: Mapping[str, Any] | None, key: str = _HOST, **more: Any) -> Raw:
    return {"topologyKey": key, **({"labelSelector": selector} if selector is not None else {}), **more}


def _raw(rank: int, labels: Mapping[str, str], terms: Sequence[Raw], **more: Any) -> Raw:
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
    return raw_pod(
        f"p-{rank}",
        labels={"job-name": "j", **labels},
        gates=() if "on" in more else (f"{GATE_PREFIX}j",),
        containers=[raw_container(requests={GPU: 1})],
        affinity=affinity,
        **more,
    )


def _decide(raws: Sequence[Raw], nodes: Sequence[Any] = _NODES) -> Plan:
    pods = [parse_pod(raw) for raw in raws]
    cluster = Cluster(Scheme(), nodes, [one for one in pods if one.node_name])
    (gang,) = find_gangs(pods)
    return plan_gang(gang, cluster.layout, cluster.room())


def _selects(term: Mapping[str, Any], owner: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """What AffinityTerm.Matches of kube-scheduler says, from the raw objects."""
    if term["topologyKey"] != _HOST or "labelSelector" not in term:
        return False
    if other["namespace"] not in (term.get("namespaces") or [owner["namespace"]]):
        return False
    labels = other["labels"]
    for key, value in term["labelSelector"].get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for one in term["labelSelector"].get("matchExpressions", []):
        holds = {
            "In": labels.get(one["key"]) in one.get("values", []),
            "NotIn": one["key"] not in labels or labels[one["key"]] not in one.get("values", []),
            "Exists": one["key"] in labels,
            "DoesNotExist": one["key"] not in labels,
        }
        if not holds[one["operator"]]:
            return False
    return True


def _terms(raw: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = raw["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return found


def _obeys(raws: Sequence[Mapping[str, Any]], places: Sequence[str]) -> bool:
    if any(places.count(at) > 3 for at in set(places)):
        return False
    return not any(
        places[i] == places[k] != "bare"
        and any(_selects(term, raws[i]["metadata"], raws[k]["metadata"]) for term in _terms(raws[i]))
        for i, k in permutations(range(len(raws)), 2)
    )


def _least(raws: Sequence[Mapping[str, Any]]) -> int | None:
    layout = Cluster(Scheme(), _NODES).layout
    bound = [raw["spec"].get("nodeName") for raw in raws]
    choices = [[at] if at else [one.name for one in _NODES] for at in bound]
    lengths = [
        layout.tree.length(np.array([layout.leaf_of[name] for name in places]))
        for places in product(*choices)
        if _obeys(raws, places)
    ]
    return min(lengths, default=None)


_labels = st.fixed_dictionaries({}, optional={"app": st.sampled_from("ab"), "role": st.sampled_from("xy")})
_key = st.sampled_from(("app", "role"))
_expression = st.one_of(
    st.builds(
        lambda key, op, values: {"key": key, "operator": op, "values": values},
        _key,
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from("abxy"), min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda key, op: {"key": key, "operator": op}, _key, st.sampled_from(("Exists", "DoesNotExist"))
    ),
)
_selector = st.one_of(
    st.builds(lambda labels: {"matchLabels": labels}, _labels),
    st.builds(lambda some: {"matchExpressions": some}, st.lists(_expression, max_size=2)),
)
_a_term = st.builds(
    lambda selector, key, more: _term(selector, key, **more),
    st.one_of(_selector, st.none()),
    st.sampled_from((_HOST, _HOST, _HOST, "zone")),
    st.sampled_from(({}, {}, {"namespaces": ["ml"]}, {"namespaces": ["other"]})),
)


@st.composite
def _gangs(draw: st.DrawFn) -> list[Raw]:
    kinds = draw(st.lists(st.tuples(_labels, st.lists(_a_term, max_size=2)), min_size=1, max_size=2))
    ranks = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    return [_raw(rank, *kind) for rank, kind in enumerate(ranks)]


@given(_gangs())
def test_a_gang_gets_the_best_place_that_its_anti_affinity_allows(raws: list[Raw]) -> None:
    decided, least = _decide(raws), _least(raws)
    assert (decided.nodes is None) == (least is None), decided.reason
    if decided.nodes is not None:
        assert _obeys(raws, decided.nodes)
        assert decided.distance == least
        assert decided.is_optimal


@given(_gangs(), st.data())
def test_pods_that_come_anew_keep_away_from_those_that_stay(raws: list[Raw], data: st.DataObject) -> None:
    assume(len(raws) > 1)
    first = data.draw(st.sampled_from([one.name for one in _NODES]))
    raws[0]["spec"]["nodeName"] = first
    del raws[0]["spec"]["schedulingGates"]
    decided, least = _decide(raws), _least(raws)
    assert (decided.nodes is None) == (least is None), decided.reason
    if decided.nodes is not None:
        assert _obeys(raws, [first, *decided.nodes])


def test_a_launcher_without_rules_is_kept_apart_by_those_of_the_workers() -> None:
    apart = _term({"matchLabels": {"job-name": "j"}})
    raws = [_raw(0, {}, []), *(_raw(rank, {}, [apart]) for rank in (1, 2))]
    decided = _decide(raws, [_node("a", "x/p/1"), _node("b", "x/p/2"), _node("c", "x/p/3")])
    assert decided.nodes is not None
    assert sorted(decided.nodes) == ["a", "b", "c"]
    decided = _decide(raws, [_node("a", "x/p/1"), _node("b", "x/p/2")])
    assert decided.nodes is None


_ROLE = {name: {"role": name} for name in ("server", "worker")}


def _servers_and_workers(roles: Sequence[str], who_avoids: str = "worker") -> list[Raw]:
    """Pods of two roles, of which one avoids the nodes of the other."""
    (avoided,) = set(_ROLE) - {who_avoids}
    apart = [_term({"matchLabels": {"job-name": "j", **_ROLE[avoided]}})]
    return [_raw(rank, _ROLE[role], apart if role == who_avoids else []) for rank, role in enumerate(roles)]


@pytest.mark.parametrize("who_avoids", ["server", "worker"])
def test_workers_that_avoid_the_nodes_of_several_servers_share_none_with_them(who_avoids: str) -> None:
    raws = _servers_and_workers(["server", "worker", "worker", "server", "worker", "worker"], who_avoids)
    nodes = [_node("a", "x/p/1"), _node("b", "x/p/2", gpus=4)]
    decided = _decide(raws, nodes)
    assert decided.nodes == ("a", "b", "b", "a", "b", "b")
    assert decided.is_optimal
    decided = _decide(raws, [*nodes[:1], _node("b", "x/p/2", gpus=3)])
    assert decided.nodes is None
    assert decided.is_settled
    assert decided.reason == (
        "each of its 6 unlike pods fits alone, but not all together in the cluster, "
        "where pod anti-affinity keeps some of them apart"
    )


def test_a_plan_with_servers_and_workers_on_one_node_is_not_carried_out() -> None:
    raws = _servers_and_workers(["server", "server", "worker", "worker"])
    nodes = [_node("a", "x/p/1", gpus=4), _node("b", "x/p/2", gpus=4)]
    decided, layout = _decide(raws, nodes), Cluster(Scheme(), nodes).layout
    assert check_plan(decided, layout, Residents()).is_checked
    with pytest.raises(BrokenPlanError, match=r"pods p-2 and p-\d must not share a node, but would share a"):
        check_plan(replace(decided, nodes=("a", "a", "a", "b")), layout, Residents())


def _can_share_out(free: Sequence[int], servers: int, workers: int) -> bool:
    """Whether some nodes have room for the servers, and the others for the workers."""
    sums = {0}
    for gpus in free:
        sums |= {one + gpus for one in sums}
    return any(one >= servers and sum(free) - one >= workers for one in sums)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=24),
    st.integers(2, 60),
    st.integers(2, 60),
    st.booleans(),
)
def test_groups_too_large_to_try_all_places_find_one_or_there_is_none(
    free: list[int], servers: int, workers: int, is_mixed: bool
) -> None:
    roles = [*["server"] * servers, *["worker"] * workers]
    roles = roles[::2] + roles[1::2] if is_mixed else roles
    nodes = [_node(f"n{at}", f"x/{at // 4}/{at}", gpus=gpus) for at, gpus in enumerate(free)]
    raws = _servers_and_workers(roles)
    decided = _decide(raws, nodes)
    assert (decided.nodes is not None) == _can_share_out(free, servers, workers)
    if decided.nodes is None:
        assert decided.is_settled
        return
    at = {role: {node for node, of in zip(decided.nodes, roles, strict=True) if of == role} for role in _ROLE}
    assert not at["server"] & at["worker"]


def test_groups_of_unlike_pods_find_places_apart() -> None:
    raws = _servers_and_workers([*["server"] * 8, *["worker"] * 80])
    for rank, raw in enumerate(raws):
        raw["spec"]["containers"][0]["resources"]["requests"] = {GPU: 1 + rank % 3}
    nodes = [_node(f"n{at}", f"x/{at // 8}/{at}", gpus=8) for at in range(40)]
    decided = _decide(raws, nodes)
    assert decided.nodes is not None
    assert not set(decided.nodes[:8]) & set(decided.nodes[8:])


def test_pods_that_share_no_node_and_are_unlike_find_the_nodes_that_they_need() -> None:
    apart = _term({"matchLabels": {"job-name": "j"}})
    raws = [_raw(rank, {}, [apart]) for rank in range(40)]
    for rank, raw in enumerate(raws):
        raw["spec"]["containers"][0]["resources"]["requests"] = {GPU: 1 + rank % 5}
    nodes = [_node(f"n{at}", f"x/p/{at}", gpus=1 + at % 5) for at in range(40)]
    decided = _decide(raws, nodes)
    assert decided.nodes is not None
    assert len(set(decided.nodes)) == 40


@pytest.mark.parametrize(
    "term",
    [
        _term({"matchLabels": {"a": "b"}}, namespaceSelector={"matchLabels": {"team": "x"}}),
        _term({"matchLabels": {"a": "b"}}, key="topology.kubernetes.io/zone"),
        _term({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
        _term({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        _term({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"] * (MOST_VALUES + 1)}]}),
        _term({"matchLabels": {f"k{n}": "v" for n in range(MOST_REQUIREMENTS + 1)}}),
        _term({}, namespaces=[f"n{n}" for n in range(MOST_VALUES + 1)]),
        _term(None),
    ],
)
def test_terms_that_pods_alone_do_not_tell_or_that_are_too_large_are_left_out(term: Raw) -> None:
    parsed = parse_pod(_raw(0, {}, [term]))
    assert not parsed.apart_from
    assert parsed.has_pod_rules


def test_a_selector_of_all_namespaces_selects_pods_of_any() -> None:
    (term,) = parse_pod(_raw(0, {}, [_term({}, namespaceSelector={})])).apart_from
    assert term.selects("anywhere", {})


@pytest.mark.parametrize("written", [[], [{"key": "hash", "operator": "In", "values": ["1"]}]])
def test_keys_of_labels_count_whether_the_api_server_has_written_them_or_not(written: list[Raw]) -> None:
    term = _term({"matchExpressions": written}, matchLabelKeys=["hash", "missing"], mismatchLabelKeys=["app"])
    (read,) = parse_pod(_raw(0, {"hash": "1", "app": "a"}, [term])).apart_from
    assert read.selects("ml", {"hash": "1", "app": "b"})
    assert not read.selects("ml", {"hash": "2", "app": "b"})
    assert not read.selects("ml", {"hash": "1", "app": "a"})


def test_terms_beyond_a_number_are_left_out() -> None:
    terms = [_term({"matchLabels": {"n": str(n)}}) for n in range(10 * MOST_TERMS)]
    assert len(parse_pod(_raw(0, {}, terms)).apart_from) == MOST_TERMS


def test_gangs_alike_but_for_their_rules_are_judged_each_by_its_own() -> None:
    apart = [_term({"matchLabels": {"job-name": "j"}})]
    pods = [parse_pod(_raw(rank, {}, apart)) for rank in range(2)]
    pods += [
        replace(parse_pod(_raw(rank, {"job-name": "k"}, [])), name=f"k-{rank}", created_s=2e9)
        for rank in range(2)
    ]
    cluster = Cluster(Scheme(), [_node("a", "x/p/1")])
    patience = Patience(now_s=1.0, starving_after_s=600.0, waiting_since={})
    found = plan_backlog(find_gangs(pods), cluster.snapshot(), patience)
    assert [one.nodes for one in found.plans] == [None, ("a", "a")]


def test_terms_of_very_many_pods_take_a_bounded_amount_of_work() -> None:
    raws = [
        _raw(
            rank, {"n": str(rank)}, [_term({"matchLabels": {"n": f"{rank}-{n}"}}) for n in range(MOST_TERMS)]
        )
        for rank in range(300)
    ]
    pods = [parse_pod(raw) for raw in raws]
    cluster = Cluster(Scheme(), [_node(f"n{at}", f"x/p/{at}") for at in range(1000)])
    (gang,) = find_gangs(pods)
    budget = Budget(USUAL_EFFORT.units)
    find_places(gang, cluster.layout, cluster.room(), USUAL_EFFORT, budget)
    assert budget.left > -USUAL_EFFORT.units / 10
