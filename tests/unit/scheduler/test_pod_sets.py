"""Pod sets of a gang that each ask for a level of their own, against every placement there is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.objects import Owner
from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme, Tree
from accelet.scheduler.errors import BrokenPlanError
from accelet.scheduler.gangs.grouping import GANG_MIN, GANG_SIZE, find_gangs
from accelet.scheduler.gangs.levels import (
    KUEUE_GROUP,
    KUEUE_PREFERRED,
    KUEUE_REQUIRED,
    KUEUE_SLICE_LAYERS,
    KUEUE_SLICE_LEVEL,
    REQUIRED_LEVEL,
)
from accelet.scheduler.gangs.podsets import WORKER_INDEX
from accelet.scheduler.gangs.rankslices import KUEUE_SLICE_SIZE
from accelet.scheduler.gangs.workload import Workload, parse_workload
from accelet.scheduler.placement.plan import Plan, check_plan
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.values import plan_one, pod

LABELS = Scheme().label_sets[0]
_JOBSET = "jobset.sigs.k8s.io/"
_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class JobOf:
    """A replicated Job of a JobSet: so many pods of so many GPUs each, and what it asks for."""

    name: str
    pods: int
    gpus: int = 1
    required: int | None = None
    preferred: int | None = None
    layers: tuple[tuple[int, int], ...] = ()
    """Size and level."""

    on: Mapping[int, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def annotations(self) -> dict[str, str]:
        said = dict(self.more)
        if self.required is not None:
            said[KUEUE_REQUIRED] = LABELS[self.required]
        if self.preferred is not None:
            said[KUEUE_PREFERRED] = LABELS[self.preferred]
        if len(self.layers) == 1:
            (size, level) = self.layers[0]
            said |= {KUEUE_SLICE_SIZE: str(size), KUEUE_SLICE_LEVEL: LABELS[level]}
        elif self.layers:
            layers = [{"topology": LABELS[level], "size": size} for size, level in self.layers]
            said[KUEUE_SLICE_LAYERS] = json.dumps(layers)
        return said


def _pods(*jobs: JobOf) -> list[Pod]:
    return [
        pod(
            f"m-{job.name}-0-{index}",
            gpus=job.gpus,
            labels={
                f"{_JOBSET}jobset-name": "m",
                f"{_JOBSET}replicatedjob-name": job.name,
                f"{_JOBSET}job-index": "0",
                f"{_JOBSET}job-global-index": str(number),
                _INDEX: str(index),
            },
            annotations=job.annotations,
            owner=Owner("Job", f"m-{job.name}-0", f"uid-{job.name}", is_controller=True),
            on=job.on.get(index),
        )
        for number, job in enumerate(jobs)
        for index in range(job.pods)
    ]


def _jobset(*jobs: JobOf) -> Workload:
    replicated = [
        {
            "name": job.name,
            "replicas": 1,
            "template": {"spec": {"parallelism": job.pods, "completions": job.pods}},
        }
        for job in jobs
    ]
    raw = {"metadata": {"name": "m", "namespace": "ml"}, "spec": {"replicatedJobs": replicated}}
    return parse_workload(json.dumps(raw).encode(), "JobSet")


def _plan(nodes: Sequence[Node], *jobs: JobOf) -> Plan:
    found = plan_one(nodes, _pods(*jobs), [_jobset(*jobs)])
    assert found.fault is None, found.reason
    return found


def _racks(*gpus: int, width: int = 1) -> list[Node]:
    """Sub-blocks of one block, each of `width` nodes with so many GPUs in all of their hosts."""
    return [
        node(f"n{rack}{at}", f"b0/s{rack}/h{rack}{at}", gpus=count)
        for rack, count in enumerate(gpus)
        for at in range(width)
    ]


@st.composite
def _clusters(draw: st.DrawFn) -> list[Node]:
    places = [
        f"b{block}/s{block}{sub}/h{block}{sub}{host}"
        for block, sub, host in product(range(2), range(2), range(2))
    ]
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=5))
    return [node(f"n{at}", place, gpus=draw(st.integers(0, 4))) for at, place in enumerate(sorted(chosen))]


@st.composite
def _jobs(draw: st.DrawFn, *, most_gpus: int = 1) -> list[JobOf]:
    count = draw(st.integers(2, 3))
    found = []
    for name in "abc"[:count]:
        pods = draw(st.integers(1, 4 if count == 2 else 2))
        gpus = draw(st.integers(1, most_gpus))
        required = draw(st.none() | st.integers(0, 2))
        layers: tuple[tuple[int, int], ...] = ()
        size = draw(st.sampled_from([size for size in range(1, pods + 1) if pods % size == 0]))
        level = draw(st.none() | st.integers(0, 2))
        if level is not None:
            layers = ((size, level),)
            if level < 2 and draw(st.booleans()):
                inner = draw(st.sampled_from([one for one in range(1, size + 1) if size % one == 0]))
                layers = ((size, level), (inner, draw(st.integers(level + 1, 2))))
        found.append(JobOf(name, pods, gpus, required, layers=layers))
    return found


def _obeys(tree: Tree, jobs: Sequence[JobOf], leaves: Sequence[int]) -> bool:
    first = 0
    for job in jobs:
        own = list(leaves[first : first + job.pods])
        first += job.pods
        rules = [(job.pods, job.required)] if job.required is not None else []
        for size, level in (*rules, *job.layers):
            assert level is not None
            for at in range(0, len(own), size):
                if len({int(tree.codes[level][leaf]) for leaf in own[at : at + size]}) > 1:
                    return False
    return True


def _fits(nodes: Sequence[Node], jobs: Sequence[JobOf], leaves: Sequence[int]) -> bool:
    needs = [job.gpus for job in jobs for _ in range(job.pods)]
    taken = np.zeros(len(nodes), dtype=np.int64)
    np.add.at(taken, list(leaves), needs)
    return all(int(used) <= one.allocatable[GPU] for used, one in zip(taken, nodes, strict=True))


def _least(nodes: Sequence[Node], jobs: Sequence[JobOf], whole: int | None = None) -> int | None:
    """The least distance of all placements that obey, those of pods which are placed being given.

    All are in one domain of the level `whole`.
    """
    layout = Cluster(Scheme(), nodes).layout
    given_: list[int | None] = [
        layout.leaf_of[job.on[at]] if at in job.on else None for job in jobs for at in range(job.pods)
    ]
    options = [range(len(nodes)) if leaf is None else (leaf,) for leaf in given_]
    lengths = [
        sum(layout.tree.length(np.array(pair)) for pair in pairwise(leaves))
        for leaves in product(*options)
        if _fits(layout.nodes, jobs, leaves)
        and _obeys(layout.tree, jobs, leaves)
        and (whole is None or len(set(layout.tree.codes[whole][list(leaves)].tolist())) == 1)
    ]
    return min(lengths, default=None)


def _judge(nodes: Sequence[Node], jobs: Sequence[JobOf], *, is_exact: bool, whole: int | None = None) -> None:
    decided = _plan(nodes, *jobs)
    if whole is not None:  # what a pod requires for the whole gang stands for what its set requires
        jobs = [replace(job, required=None) for job in jobs]
    least = _least(nodes, jobs, whole)
    if decided.nodes is None:
        assert least is None or not (is_exact or decided.is_settled), decided.reason
        assert decided.is_settled or not is_exact or any(job.on for job in jobs), "sums alone decide"
        return
    layout = Cluster(Scheme(), nodes).layout
    there = {one.name: at for one, at in decided.placements}
    leaves = [
        layout.leaf_of[job.on.get(at) or there[f"m-{job.name}-0-{at}"]]
        for job in jobs
        for at in range(job.pods)
    ]
    assert _fits(layout.nodes, jobs, leaves)
    assert _obeys(layout.tree, jobs, leaves)
    assert least is not None
    assert decided.distance == layout.tree.length(np.array(leaves))
    assert decided.lower_bound <= least
    assert not decided.is_optimal or decided.distance == least


@given(_clusters(), _jobs(), st.none() | st.integers(0, 2))
def test_like_pods_get_a_place_if_there_is_one_each_set_and_slice_in_its_domain(
    nodes: list[Node], jobs: list[JobOf], whole: int | None
) -> None:
    said = {} if whole is None else {REQUIRED_LEVEL: Scheme().levels[whole]}
    _judge(nodes, [replace(job, more=said) for job in jobs], is_exact=True, whole=whole)


@given(_clusters(), st.integers(1, 3), st.integers(0, 2), st.data())
def test_sets_that_are_all_alike_get_the_least_distance_that_there_is(
    nodes: list[Node], pods: int, level: int, data: st.DataObject
) -> None:
    size = data.draw(st.sampled_from([one for one in range(1, pods + 1) if pods % one == 0]))
    layers = data.draw(st.sampled_from([(), ((size, 2),)]))
    jobs = [JobOf(name, pods, required=level, layers=layers) for name in "ab"]
    _judge(nodes, jobs, is_exact=True)
    decided = _plan(nodes, *jobs)
    assert decided.nodes is None or decided.is_optimal


@given(_clusters(), _jobs(most_gpus=3))
def test_sets_of_unlike_pods_are_placed_as_they_ask_or_refused_only_where_there_is_no_place(
    nodes: list[Node], jobs: list[JobOf]
) -> None:
    _judge(nodes, jobs, is_exact=False)


@given(_clusters(), _jobs(), st.lists(st.integers(0, 2), min_size=3, max_size=3))
def test_all_sets_are_at_their_preferred_levels_if_they_can_be(
    nodes: list[Node], jobs: list[JobOf], levels: list[int]
) -> None:
    wishing = [replace(job, preferred=level) for job, level in zip(jobs, levels, strict=False)]
    bound = [
        replace(job, required=max(level, -1 if job.required is None else job.required))
        for job, level in zip(jobs, levels, strict=False)
    ]
    decided = _plan(nodes, *wishing)
    assert (decided.nodes is None) == (_least(nodes, jobs) is None)
    if _least(nodes, bound) is not None:
        layout = Cluster(Scheme(), nodes).layout
        leaves = [layout.leaf_of[at] for at in decided.nodes or ()]
        assert _obeys(layout.tree, bound, leaves)
        assert decided.lower_bound <= (decided.distance or 0)


@given(_clusters(), _jobs(), st.data())
def test_lost_pods_join_the_rest_of_their_set_and_slice_if_there_is_room(
    nodes: list[Node], jobs: list[JobOf], data: st.DataObject
) -> None:
    first = _plan(nodes, *jobs)
    assume(first.nodes is not None)
    there = {one.name: at for one, at in first.placements}
    lost = data.draw(st.sets(st.sampled_from(sorted(there)), min_size=1))
    gone = data.draw(st.sampled_from([one.name for one in nodes]))
    left = [one for one in nodes if one.name != gone]
    after = [
        replace(
            job,
            on={
                at: there[name]
                for at in range(job.pods)
                if (name := f"m-{job.name}-0-{at}") not in lost and there[name] != gone
            },
        )
        for job in jobs
    ]
    assume(left and any(job.on for job in after))
    _judge(left, after, is_exact=True)


def test_two_replicated_jobs_get_a_rack_each_though_no_rack_has_room_for_both() -> None:
    jobs = [JobOf(name, 4, required=1) for name in "ab"]
    decided = _plan(_racks(3, 4, 4), *jobs)
    assert decided.nodes == ("n10",) * 4 + ("n20",) * 4
    assert decided.is_optimal
    short = _plan(_racks(3, 4, 3), *jobs)
    assert short.reason == "pod set a, pod set b: each fits alone, but not all together in the cluster"
    assert short.is_settled
    full = _plan(_racks(3, 4), *jobs)
    assert full.reason == "needs room for 8 pods, the cluster has 7"
    many = [JobOf(name, 300, layers=((1, 1),)) for name in "ab"]
    assert _plan(_racks(3, 4), *many).reason == "needs room for 600 pods, the cluster has 7"
    none = _plan(_racks(9, 3, width=1), JobOf("a", 4, required=1), JobOf("b", 10, required=1))
    assert none.reason == "for pod set b, needs room for 10 pods in one sub-block, best has 9 (b0/s0)"


def test_a_set_that_asks_for_nothing_is_bound_to_nothing() -> None:
    nodes = [*_racks(4), node("far", "b1/s9/h9", gpus=2)]
    decided = _plan(nodes, JobOf("lead", 1, gpus=2), JobOf("work", 4, required=1))
    assert decided.nodes == ("far", *("n00",) * 4)
    short = _plan(nodes, JobOf("lead", 1, gpus=2), JobOf("work", 5, required=1))
    assert short.reason == "for pod set work, needs room for 5 pods in one sub-block, best has 4 (b0/s0)"


def test_all_jobs_of_one_replicated_job_are_one_set() -> None:
    pods = _pods(JobOf("a", 2, required=1), JobOf("b", 2, required=1))
    group = f"{_JOBSET}replicatedjob-name"
    one = [replace(each, labels={**each.labels, group: "a"}) for each in pods]
    assert plan_one(_racks(2, 2), pods).nodes is not None
    assert plan_one(_racks(2, 2), one).nodes is None
    assert plan_one(_racks(2, 4), one).nodes is not None


def test_our_annotations_hold_for_the_gang_and_count_before_kueues() -> None:
    ours = {REQUIRED_LEVEL: "block"}
    jobs = [JobOf(name, 4, required=1, more=ours) for name in "ab"]
    assert _plan([*_racks(3, 3, 2), node("far", "b1/s9/h9", gpus=8)], *jobs).nodes is not None
    far = [node("x", "b0/s0/h0", gpus=4), node("y", "b1/s1/h1", gpus=4)]
    assert _plan(far, *(JobOf(name, 4, required=1) for name in "ab")).nodes is not None
    assert _plan(far, *jobs).nodes is None


def test_a_preferred_level_is_kept_by_each_set_that_can() -> None:
    wide = [*_racks(4, 4), node("far", "b1/s9/h9", gpus=8)]
    decided = _plan(wide, JobOf("a", 4, preferred=1), JobOf("b", 4, preferred=1))
    assert decided.nodes is not None
    assert len(set((decided.nodes or ())[:4])) == len(set((decided.nodes or ())[4:])) == 1
    decided = _plan(_racks(5, 4, 1), JobOf("a", 6, preferred=1), JobOf("b", 4, preferred=1))
    assert len(set((decided.nodes or ())[6:])) == 1, "a does not fit into any, b does"


def test_a_leader_and_its_workers_of_one_group_share_a_rack() -> None:
    group = {KUEUE_GROUP: "g"}
    jobs = [JobOf("lead", 1, gpus=2, required=1, more=group), JobOf("work", 4, required=1, more=group)]
    assert len(set(_plan(_racks(4, 2, 6), *jobs).nodes or ())) == 1
    short = _plan(_racks(4, 2, 5), *jobs)
    assert (short.reason or "").startswith("for pod sets lead and work, ")
    apart = [replace(jobs[0], required=0), jobs[1]]
    assert _plan(_racks(9), *apart).reason == (
        f'pod sets lead and work of {KUEUE_GROUP} "g" name different levels'
    )
    assert _plan(_racks(9), jobs[0], replace(jobs[1], layers=((2, 2),))).reason == (
        f"pod sets lead and work have both {KUEUE_GROUP} and slices: one may"
    )
    third = JobOf("more", 1, required=1, more=group)
    assert _plan(_racks(9), *jobs, third).reason == f'3 pod sets are of {KUEUE_GROUP} "g": two may be'


def _group_of(size: int, leader: Mapping[str, str], worker: Mapping[str, str]) -> list[Pod]:
    lws = "leaderworkerset.sigs.k8s.io/"
    return [
        pod(
            "l-0" if index == 0 else f"l-0-{index}",
            labels={
                f"{lws}name": "l",
                f"{lws}group-index": "0",
                WORKER_INDEX: str(index),
                f"{lws}size": str(size),
            },
            annotations=dict(worker if index else leader),
        )
        for index in range(size)
    ]


def _leader_worker_set(size: int, *, has_leader: bool) -> Workload:
    template: dict[str, object] = {"size": size, "workerTemplate": {}}
    if has_leader:
        template["leaderTemplate"] = {"spec": {"containers": []}}
    raw = {"metadata": {"name": "l", "namespace": "ml"}, "spec": {"leaderWorkerTemplate": template}}
    return parse_workload(json.dumps(raw).encode(), "LeaderWorkerSet")


def test_of_a_leader_worker_set_the_leader_is_a_set_if_it_has_a_template() -> None:
    said = {KUEUE_REQUIRED: LABELS[1]}
    alike = _group_of(5, said, said)
    assert plan_one(_racks(4, 1), alike, [_leader_worker_set(5, has_leader=False)]).nodes is None
    assert plan_one(_racks(4, 1), alike, [_leader_worker_set(5, has_leader=True)]).nodes is not None
    unlike = _group_of(5, {}, said)
    assert plan_one(_racks(4, 1), unlike).nodes == ("n10", *("n00",) * 4)
    sliced = _group_of(5, {}, {KUEUE_SLICE_SIZE: "2", KUEUE_SLICE_LEVEL: LABELS[1]})
    nodes = plan_one(_racks(2, 1, 2), sliced, [_leader_worker_set(5, has_leader=True)]).nodes or ()
    assert nodes[1] == nodes[2] != nodes[3] == nodes[4], "workers are counted from 1"


def test_two_layers_of_slices_of_one_set_are_nested() -> None:
    racks = [node(f"n{rack}{at}", f"b0/s{rack}/h{rack}{at}", gpus=2) for rack in range(2) for at in range(2)]
    layers = json.dumps([{"topology": LABELS[1], "size": 4}, {"topology": LABELS[2], "size": 2}])
    pods = [
        pod(
            f"j-{rank}", labels={"job-name": "j", _INDEX: str(rank)}, annotations={KUEUE_SLICE_LAYERS: layers}
        )
        for rank in range(8)
    ]
    assert plan_one(racks, pods).nodes == ("n00", "n00", "n01", "n01", "n10", "n10", "n11", "n11")
    odd = [node(f"x{at}", f"b0/s9/x{at}", gpus=gpus) for at, gpus in enumerate((3, 1))]
    assert plan_one(odd, pods[:4]).reason == (
        "needs room for 4 pods in slices of 4 in one sub-block each and slices of 2 in one host each, the "
        "cluster has 0"
    )
    assert plan_one([*odd, *racks[:2]], pods[:4]).nodes == ("n00", "n00", "n01", "n01")
    short = plan_one(racks[:3], pods)
    assert short.reason == (
        "needs room for 8 pods in slices of 4 in one sub-block each and slices of 2 in one host each, the "
        "cluster has 4"
    )
    bound = {0: "n00", 1: "n00", 2: "n01", 4: "n10", 5: "n10", 6: "n11", 7: "n11"}
    kept = [
        replace(one, node_name=bound.get(rank), gates=() if rank in bound else one.gates)
        for rank, one in enumerate(pods)
    ]
    assert plan_one(racks, kept).nodes == ("n01",)
    assert plan_one([racks[0], *racks[2:]], kept).nodes is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "not a list of one to three layers"),
        ("[" * 5000, "not a list of one to three layers"),
        ('[{"topology": "x", "size": 0}]', "not a list of one to three layers"),
        ('[{"topology": "x", "size": 4}, {"topology": "y", "size": 3}]', "slices of 3, which do not divide"),
        ('[{"topology": "x", "size": 3}]', "begins with slices of 3, which does not divide the 4 pods of"),
        ('[{"topology": "x", "size": 4}]', 'is "x", but the labels of the levels are'),
        (
            json.dumps([{"topology": LABELS[2], "size": 4}, {"topology": LABELS[0], "size": 2}]),
            "does not go from wide levels to narrow ones",
        ),
    ],
)
def test_layers_that_say_nothing_clear_are_refused_with_a_sentence(text: str, reason: str) -> None:
    alone = [
        pod(f"j-{rank}", labels={"job-name": "j", _INDEX: str(rank)}, annotations={KUEUE_SLICE_LAYERS: text})
        for rank in range(4)
    ]
    assert reason in (plan_one(_racks(8), alone).reason or "")
    two = _plan(_racks(8), JobOf("a", 4, more={KUEUE_SLICE_LAYERS: text}), JobOf("b", 1))
    assert reason in (two.reason or "")


def test_sentences_name_the_set() -> None:
    label = _plan(_racks(9), JobOf("a", 1, more={KUEUE_REQUIRED: "rack"}), JobOf("b", 1)).reason or ""
    assert label.startswith(f'pod set a: {KUEUE_REQUIRED} is "rack", but the labels of the levels are')
    pods = _pods(JobOf("a", 2, required=1), JobOf("b", 1))
    pods[1] = replace(pods[1], annotations={KUEUE_REQUIRED: LABELS[0]})
    assert (plan_one(_racks(9), pods).reason or "").endswith("the pods of pod set a must agree")
    odd = _plan(_racks(9), JobOf("a", 3, layers=((2, 1),)), JobOf("b", 1)).reason
    assert odd == f"{KUEUE_SLICE_SIZE} is 2, which does not divide the 3 pods of pod set a"


def test_no_more_sets_and_slices_are_placed_than_can_be_chosen_for_together() -> None:
    jobs = [JobOf("a", 129, gpus=0, layers=((1, 2),)), JobOf("b", 1, gpus=0)]
    refused = _plan(_racks(9), *jobs)
    assert refused.reason == "its pod sets and slices with pods to be placed are 129; 128 are placed"
    assert refused.is_settled
    assert _plan(_racks(9, 9, 9), replace(jobs[0], pods=128), jobs[1]).nodes is not None
    alike = [JobOf(name, 80, gpus=0, layers=((1, 2),)) for name in "ab"]
    assert _plan(_racks(9, 9, 9), *alike).is_optimal, "sets and slices that are all alike are no such choice"


def test_a_gang_that_may_begin_with_fewer_does_so_with_whole_slices_of_its_sets() -> None:
    few = {GANG_MIN: "4", GANG_SIZE: "7"}
    jobs = [JobOf("a", 3, more=few), JobOf("b", 4, layers=((2, 1),), more=few)]
    decided = _plan(_racks(3, 2, 1), *jobs)
    assert [one.name for one, _ in decided.placements] == [
        *(f"m-a-0-{at}" for at in range(3)),
        "m-b-0-0",
        "m-b-0-1",
    ]


def test_a_plan_that_parts_a_set_or_a_slice_of_it_is_found_to_be_broken() -> None:
    nodes = _racks(8, 8, width=2)
    cluster = Cluster(Scheme(), nodes)
    jobs = [JobOf("a", 2, required=1), JobOf("b", 2, layers=((2, 2),))]
    (gang,) = find_gangs(_pods(*jobs))

    def check(*places: str) -> None:
        check_plan(Plan(gang, places, (None,) * 4), cluster.layout, cluster.room().residents)

    check("n00", "n01", "n10", "n10")
    with pytest.raises(BrokenPlanError, match="pod set a must share one"):
        check("n00", "n10", "n10", "n10")
    with pytest.raises(BrokenPlanError, match="slice 0 of its ranks must share one"):
        check("n00", "n01", "n10", "n11")


def test_pods_of_a_host_of_their_own_are_placed_by_sets_too() -> None:
    exclusive = {"accelet.dev/exclusive": "true"}
    jobs = [JobOf(name, 2, required=1, more=exclusive) for name in "ab"]
    decided = _plan(_racks(8, 8, width=2), *jobs)
    assert sorted(decided.nodes or ()) == ["n00", "n01", "n10", "n11"]
    assert _plan(_racks(8, 8, 8, width=1), *jobs).nodes is None


def test_a_pod_of_two_containers_is_of_its_set_whatever_it_asks_for() -> None:
    pods = _pods(JobOf("a", 2, required=2), JobOf("b", 1))
    pods[1] = replace(pods[1], containers=(Container("main", {"cpu": 1, GPU: 3}),))
    assert len(set((plan_one(_racks(2, 4), pods).nodes or ())[:2])) == 1
