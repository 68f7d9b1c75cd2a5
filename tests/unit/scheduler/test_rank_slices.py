"""Slices of a gang: so many ranks in a row in one domain, against every placement there is."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.objects import Owner
from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import ROOT, Ints, Scheme, Tree
from accelet.scheduler.gangs.grouping import GANG_MIN, GANG_SIZE, find_gangs
from accelet.scheduler.gangs.levels import KUEUE_SLICE_LEVEL, REQUIRED_LEVEL
from accelet.scheduler.gangs.rankslices import KUEUE_SLICE_SIZE, SLICE_LEVEL, SLICE_SIZE
from accelet.scheduler.gangs.workload import Workload, parse_workload
from accelet.scheduler.placement.backlog import plan_backlog
from accelet.scheduler.placement.identical import Shortfall, place_identical
from accelet.scheduler.placement.knapsack import RankSlices
from accelet.scheduler.placement.reservation import Patience
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.values import plan_one, pod

_HOST_LABEL = "cloud.google.com/gce-topology-host"
_INDEX = "batch.kubernetes.io/job-completion-index"
_JOB = Owner("Job", "j", "uid-j", is_controller=True)


@st.composite
def _clusters(draw: st.DrawFn) -> list[Node]:
    """Up to six nodes, several of them maybe in one host."""
    places = [
        f"b{block}/s{block}{sub}/h{block}{sub}{host}"
        for block, sub, host in product(range(2), range(3), range(2))
    ]
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=6))
    return [node(f"n{at}", place, gpus=draw(st.integers(0, 4))) for at, place in enumerate(sorted(chosen))]


@st.composite
def _slices(draw: st.DrawFn) -> RankSlices:
    """Slices, of which each may be made of smaller ones."""
    size, level = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    inner = None
    if level < 2 and draw(st.booleans()):
        divisors = [one for one in range(1, size + 1) if size % one == 0]
        inner = RankSlices(draw(st.sampled_from(divisors)), draw(st.integers(level + 1, 2)))
    return RankSlices(size, level, inner)


def _gang(count: int, size: int, level: str, **said: str) -> list[Pod]:
    texts = {SLICE_SIZE: str(size), SLICE_LEVEL: level} | {
        {"required": REQUIRED_LEVEL, "least": GANG_MIN, "of": GANG_SIZE}[key]: text
        for key, text in said.items()
    }
    return [_rank(rank, texts) for rank in range(count)]


def _rank(rank: int, texts: dict[str, str], on: str | None = None) -> Pod:
    labels = {"job-name": "j", _INDEX: str(rank)}
    return pod(f"j-{rank}", labels=labels, annotations=texts, owner=_JOB, on=on)


def _job(parallelism: int, done: int = 0) -> Workload:
    raw = {
        "metadata": {"name": "j", "namespace": "ml"},
        "spec": {"parallelism": parallelism, "completions": parallelism},
        "status": {"succeeded": done},
    }
    return parse_workload(json.dumps(raw).encode(), "Job")


def _obeys(tree: Tree, leaves: Sequence[int], slices: RankSlices) -> bool:
    for layer in slices.layers:
        codes = tree.codes[layer.level][np.array(leaves, dtype=np.int64)]
        if any(len(set(codes[at : at + layer.size].tolist())) > 1 for at in range(0, len(codes), layer.size)):
            return False
    return True


def _least(tree: Tree, slots: Sequence[int], pods: int, slices: RankSlices) -> int | None:
    """Slice by slice, every run of leaves after every state that all runs before it can have left."""
    states: dict[tuple[tuple[int, ...], int | None], int] = {(tuple(slots), None): 0}
    for _ in range(pods // slices.size):
        following: dict[tuple[tuple[int, ...], int | None], int] = {}
        for (room, last), length in states.items():
            for run in product([leaf for leaf, left in enumerate(room) if left], repeat=slices.size):
                left = tuple(have - run.count(leaf) for leaf, have in enumerate(room))
                if min(left) < 0 or not _obeys(tree, run, slices):
                    continue
                pairs = pairwise(run if last is None else (last, *run))
                here = length + sum(tree.length(np.array(pair)) for pair in pairs)
                state = left, run[-1]
                following[state] = min(here, following.get(state, here))
        states = following
    return min(states.values(), default=None)


def _slots(nodes: Sequence[Node]) -> tuple[Tree, Ints]:
    layout = Cluster(Scheme(), nodes).layout
    return layout.tree, np.array([one.allocatable[GPU] for one in layout.nodes], dtype=np.int64)


def _inside(tree: Tree, slots: Ints, within: int) -> Iterator[Ints]:
    """The slots of each domain, with none elsewhere."""
    for domain in range(tree.domain_count(within)) if within != ROOT else (None,):
        scope = slice(None) if domain is None else tree.leaves(within, domain)
        inside = np.zeros_like(slots)
        inside[scope] = slots[scope]
        yield inside


@given(_clusters(), _slices(), st.integers(1, 3), st.integers(ROOT, 2))
def test_slices_get_the_least_distance_that_there_is_or_there_is_none(
    nodes: list[Node], slices: RankSlices, count: int, within: int
) -> None:
    pods = min(count, max(1, 6 // slices.size)) * slices.size
    tree, slots = _slots(nodes)
    found = place_identical(tree, slots, pods, within, slices)
    lengths = [_least(tree, inside.tolist(), pods, slices) for inside in _inside(tree, slots, within)]
    least = min((length for length in lengths if length is not None), default=None)
    if isinstance(found, Shortfall):
        assert least is None
        return
    assert tree.length(found) == least
    assert _obeys(tree, found.tolist(), slices)
    assert (np.bincount(found, minlength=len(slots)) <= slots).all()
    assert within == ROOT or len(set(tree.codes[within][found].tolist())) == 1


@given(_clusters(), st.integers(1, 3), st.integers(0, 2), st.data())
def test_lost_pods_join_their_slices_and_whole_slices_get_a_place_if_there_is_one(
    nodes: list[Node], size: int, level: int, data: st.DataObject
) -> None:
    tree, slots = _slots(nodes)
    slices = RankSlices(size, level)
    whole = place_identical(tree, slots, 2 * size, ROOT, slices)
    assume(not isinstance(whole, Shortfall))
    assert not isinstance(whole, Shortfall)
    names = [Cluster(Scheme(), nodes).layout.nodes[leaf].name for leaf in whole]
    lost = data.draw(st.sets(st.integers(0, 2 * size - 1), min_size=1))
    texts = {SLICE_SIZE: str(size), SLICE_LEVEL: Scheme().levels[level]}
    pods = [_rank(rank, texts, None if rank in lost else names[rank]) for rank in range(2 * size)]
    gone = data.draw(st.sampled_from([one.name for one in nodes]))
    assume(gone not in {names[rank] for rank in range(2 * size) if rank not in lost})
    left = [one for one in nodes if one.name != gone]
    decided = plan_one(left, pods, [_job(2 * size)])
    there = {one.name: one.node_name for one in pods if one.node_name}
    if decided.nodes is None:
        assert not _can_be_repaired(left, there, lost, slices)
    else:
        there |= {one.name: at for one, at in decided.placements}
        after, _ = _slots(left)
        leaf_of = Cluster(Scheme(), left).layout.leaf_of
        leaves = [leaf_of[there[f"j-{rank}"]] for rank in range(2 * size)]
        assert _obeys(after, leaves, slices)
        assert decided.distance == after.length(np.array(leaves))


def _can_be_repaired(
    nodes: Sequence[Node], kept: Mapping[str, str], lost: Collection[int], slices: RankSlices
) -> bool:
    """Whether any choice of a node for each lost rank obeys."""
    layout = Cluster(Scheme(), nodes).layout
    _, slots = _slots(nodes)
    for choice in product(range(len(nodes)), repeat=len(lost)):
        chosen = iter(choice)
        leaves = [
            next(chosen) if rank in lost else layout.leaf_of[kept[f"j-{rank}"]]
            for rank in range(len(kept) + len(lost))
        ]
        if (np.bincount(leaves, minlength=len(slots)) <= slots).all() and _obeys(layout.tree, leaves, slices):
            return True
    return False


def _hosts(*gpus: int) -> list[Node]:
    """Hosts of one sub-block and so many GPUs, of a node each."""
    return [node(f"n{at}", f"b0/s0/h{at}", gpus=count) for at, count in enumerate(gpus)]


def test_each_four_ranks_share_a_host_and_all_share_a_block() -> None:
    far = [node(f"m{at}", f"b1/s1/m{at}", gpus=4) for at in range(2)]
    decided = plan_one([*_hosts(6, 3, 5), *far], _gang(8, 4, "host", required="block"))
    assert (
        decided.nodes == ("n0",) * 4 + ("n2",) * 4
        or decided.nodes == ("n2",) * 4 + ("n0",) * 4
        or (decided.nodes == ("m0",) * 4 + ("m1",) * 4)
    )
    decided = plan_one([*_hosts(6, 3, 3), far[0]], _gang(8, 4, "host", required="block"))
    assert decided.reason == (
        "needs room for 8 pods in slices of 4 in one host each in one block, best has 4 (b0)"
    )


def test_kueues_annotations_mean_the_same_and_ours_count_before_them() -> None:
    texts = {KUEUE_SLICE_SIZE: "2", KUEUE_SLICE_LEVEL: _HOST_LABEL}
    assert plan_one(_hosts(3, 3), [_rank(rank, texts) for rank in range(4)]).nodes == ("n0", "n0", "n1", "n1")
    both = texts | {SLICE_SIZE: "3", SLICE_LEVEL: "host"}
    nodes = plan_one(_hosts(3, 3), [_rank(rank, both) for rank in range(6)]).nodes
    assert nodes == ("n0",) * 3 + ("n1",) * 3


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({SLICE_SIZE: "2"}, f"of the annotations {SLICE_SIZE} and {SLICE_LEVEL}, or Kueue's, one is missing"),
        (
            {KUEUE_SLICE_SIZE: "2"},
            f"of the annotations {SLICE_SIZE} and {SLICE_LEVEL}, or Kueue's, one is missing",
        ),
        (
            {SLICE_LEVEL: "host", KUEUE_SLICE_SIZE: "2"},
            f"of the annotations {SLICE_SIZE} and {SLICE_LEVEL}, or Kueue's, one is missing",
        ),
        (
            {SLICE_SIZE: "3", SLICE_LEVEL: "host"},
            f"{SLICE_SIZE} is 3, which does not divide the 4 pods of the gang",
        ),
        ({SLICE_SIZE: "0", SLICE_LEVEL: "host"}, f'{SLICE_SIZE} is "0", not a number of pods'),
        (
            {SLICE_SIZE: "2", SLICE_LEVEL: "rack"},
            f'{SLICE_LEVEL} is "rack", but the levels are block, subblock, host',
        ),
    ],
)
def test_what_says_nothing_of_slices_that_can_be_placed_is_refused_with_a_sentence(
    texts: dict[str, str], reason: str
) -> None:
    assert plan_one(_hosts(8), [_rank(rank, texts) for rank in range(4)]).reason == reason


def test_slices_are_of_all_pods_of_a_gang_which_have_ranks_and_are_alike() -> None:
    texts = {SLICE_SIZE: "2", SLICE_LEVEL: "host"}
    pods = [_rank(rank, texts) for rank in range(4)]
    one = replace(pods[3], annotations={})
    assert plan_one(_hosts(8), [*pods[:3], one]).reason == (
        f"{SLICE_LEVEL} is for all pods of a gang, but pod j-3 has it not"
    )
    unranked = [replace(one, labels={"job-name": "j"}) for one in pods]
    assert "completionMode Indexed" in (plan_one(_hosts(8), unranked).reason or "")
    larger = pod("j-3", gpus=2, labels=pods[3].labels, annotations=texts, owner=_JOB)
    assert plan_one(_hosts(8), [*pods[:3], larger]).reason == (
        "its pods are unlike, and slices are placed of like pods alone"
    )


def test_a_gang_that_may_begin_with_fewer_begins_with_whole_slices() -> None:
    decided = plan_one(_hosts(3, 3, 1), _gang(8, 2, "host", least="3"))
    assert [one.name for one, _ in decided.placements] == ["j-0", "j-1", "j-2", "j-3"]
    assert plan_one(_hosts(3, 1, 1), _gang(8, 2, "host", least="3")).nodes is None
    late = [_rank(rank, dict(_gang(1, 2, "host", least="3")[0].annotations)) for rank in range(5)]
    decided = plan_one(_hosts(8), late, [_job(8)])
    assert [one.name for one, _ in decided.placements] == ["j-0", "j-1", "j-2", "j-3"], (
        "the next is not whole"
    )


def test_a_host_that_dies_takes_a_slice_with_it_which_gets_another_host() -> None:
    texts = {SLICE_SIZE: "2", SLICE_LEVEL: "host"}
    kept = {0: "n0", 1: "n0", 4: "n2", 5: "n2"}
    pods = [_rank(rank, texts, kept.get(rank)) for rank in range(6)]
    assert plan_one(_hosts(2, 0, 3, 1, 2), pods, [_job(6)]).nodes == ("n4", "n4")
    decided = plan_one(_hosts(2, 0, 3, 1, 1), pods, [_job(6)])
    assert decided.nodes is None
    assert (decided.reason or "").startswith("to join the 4 pods of the gang that are placed, ")


def test_of_a_job_some_of_whose_ranks_are_done_the_others_stay_in_their_slices() -> None:
    texts = {SLICE_SIZE: "2", SLICE_LEVEL: "host"}
    pods = [_rank(rank, texts, "n1" if rank == 3 else None) for rank in (1, 2, 3)]
    assert plan_one(_hosts(1, 2), pods, [_job(4, done=1)]).nodes == ("n0", "n1")
    assert plan_one(_hosts(2, 2), pods[:2], [_job(4, done=2)]).nodes is not None


def test_gangs_alike_but_for_their_slices_are_judged_each_by_its_own() -> None:
    sliced = _gang(4, 2, "host")
    plain = [
        replace(one, name=f"k-{rank}", labels={"job-name": "k"}, owners=(), annotations={}, created_s=9.0)
        for rank, one in enumerate(sliced)
    ]
    patience = Patience(now_s=100.0, starving_after_s=600.0)
    cluster = Cluster(Scheme(), _hosts(1, 1, 1, 1))
    plans = plan_backlog(find_gangs([*sliced, *plain]), cluster.snapshot(), patience).plans
    assert [found.nodes is None for found in plans] == [True, False]


def test_no_nodes_are_kept_for_slices_that_are_never_placed() -> None:
    gang = _gang(2, 2, "host")
    gang[1] = replace(gang[1], containers=(Container("main", {"cpu": 1, GPU: 2}),))
    busy = replace(pod("x", on="n0", gpus=4, labels={"job-name": "x"}), restart_policy="Never")
    cluster = Cluster(Scheme(), _hosts(4), [busy, *gang])
    found = plan_backlog(
        find_gangs([busy, *gang]), cluster.snapshot(), Patience(now_s=100.0, starving_after_s=0.0)
    )
    assert found.reservation is None


def test_nodes_are_kept_only_where_whole_slices_fit() -> None:
    busy = [
        replace(pod(f"x{at}", on=f"n{at}", gpus=count, labels={"job-name": "x"}), restart_policy="Never")
        for at, count in enumerate((3, 3, 4))
    ]
    gang = _gang(8, 4, "host")
    starved = Patience(now_s=100.0, starving_after_s=0.0)

    def kept(*gpus: int) -> frozenset[str] | None:
        cluster = Cluster(Scheme(), _hosts(*gpus), [*busy, *gang])
        reservation = plan_backlog(find_gangs([*busy, *gang]), cluster.snapshot(), starved).reservation
        return None if reservation is None else reservation.nodes

    assert kept(3, 3, 4) is None
    assert (kept(3, 4, 4) or set()) >= {"n1", "n2"}


def test_what_is_to_be_placed_at_least_is_whole_slices() -> None:
    (gang,) = find_gangs(_gang(6, 2, "host", least="3"))
    assert [one.name for one in gang.least_part.pods] == ["j-0", "j-1", "j-2", "j-3"]
    texts = dict(_gang(1, 2, "host", least="3")[0].annotations)
    (gang,) = find_gangs([_rank(rank, texts, "n0" if rank == 0 else None) for rank in range(4)], [_job(4)])
    assert [one.name for one in gang.least_part.pods] == ["j-1", "j-2", "j-3"]
