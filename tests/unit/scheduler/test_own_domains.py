"""A domain for each Job of a JobSet, or each group: beside trying every way, and through its whole life."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.objects import Owner
from accelet.kube.pods import ANY_ADDRESS, Pod
from accelet.kube.selection import NodeTerm, Requirement
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.residents import Occupant
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.exclusive import occupant_of
from accelet.scheduler.gangs.grouping import GANG_MIN, GANG_SIZE, GATE_PREFIX, Gang, GangKey, find_gangs
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL, KUEUE_REQUIRED, REQUIRED_LEVEL
from accelet.scheduler.gangs.rank import JOBSET_GROUP
from accelet.scheduler.gangs.withheld import (
    JOB_SET_EXCLUSIVE,
    JOB_SET_SELECTOR,
    MOST_STAND_INS,
    is_stand_in,
)
from accelet.scheduler.gangs.workload import LEADER_WORKER_EXCLUSIVE, Workload, parse_workload
from accelet.scheduler.placement.checking.promises import find_broken_promise
from accelet.scheduler.placement.plan import Plan, find_places, plan_gang, plan_gangs
from accelet.scheduler.placement.podsets.owndomains import match
from accelet.scheduler.record import placements_of
from accelet.scheduler.state import SchedulerState
from tests.fakes.nodes import node
from tests.unit.scheduler.values import pod

RACK = "example.com/rack"
_PLACES = ("x/p/1", "x/p/2", "x/q/1", "y/p/1", "y/p/2", "y/q/1")
_INDEX = "batch.kubernetes.io/job-completion-index"


def _node(name: str, place: str, rack: str | None, gpus: int = 2) -> Node:
    made = node(name, place, gpus=gpus)
    return replace(made, labels={**made.labels, **({RACK: rack} if rack else {})})


def _of_job(job: int, index: int, *, gpus: int = 1, group: str = "w", **fields: Any) -> Pod:
    name = f"train-{group}-{job}"
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "train",
        JOBSET_GROUP: group,
        "jobset.sigs.k8s.io/job-index": str(job),
        "job-name": name,
        _INDEX: str(index),
    }
    said = {JOB_SET_EXCLUSIVE: RACK} if group == "w" else {}
    return pod(
        f"{name}-{index}", gpus=gpus, labels=labels, annotations=said | fields.pop("said", {}), **fields
    )


def _on(one: Pod, name: str) -> Pod:
    """As this scheduler has placed it."""
    term = NodeTerm((), (Requirement("metadata.name", "In", (name,)),))
    return replace(one, node_name=name, phase="Running", gates=(), required_terms=(term,))


def _job_set(jobs: int, pods: int, others: int = 0) -> Workload:
    each = {"w": pods} | ({"d": others} if others else {})
    return Workload("JobSet", "ml", "train", jobs * pods + others, groups=tuple(each), each=each)


@dataclass(frozen=True)
class _World:
    """Racks by node, GPUs of each pod of a Job, how many pods each Job has, and who is there already."""

    racks: tuple[str | None, ...]
    jobs: int
    pods: int
    gpus: int
    others: int = 0
    strangers: tuple[int, ...] = ()
    first_on: int | None = None

    @property
    def nodes(self) -> list[Node]:
        return [
            _node(f"n{number}", place, rack)
            for number, (place, rack) in enumerate(zip(_PLACES, self.racks, strict=True))
        ]

    @property
    def there(self) -> list[Pod]:
        return [pod(f"s{number}", on=f"n{number}") for number in self.strangers]

    @property
    def gated(self) -> list[Pod]:
        """Leaders, and the others' pods; of the first Job all followers, where its leader has a node."""
        pods = [_of_job(job, 0, gpus=self.gpus) for job in range(self.jobs)]
        if self.first_on is not None:
            pods[0] = _on(pods[0], f"n{self.first_on}")
            pods += [_of_job(0, index, gpus=self.gpus) for index in range(1, self.pods)]
        return pods + [_of_job(0, index, group="d") for index in range(self.others)]

    @property
    def gang(self) -> Gang | None:
        found = find_gangs(self.gated, [_job_set(self.jobs, self.pods, self.others)])
        return found[0] if found else None

    @property
    def cluster(self) -> Cluster:
        bound = [one for one in self.gated if one.node_name]
        return Cluster(Scheme(), self.nodes, [*self.there, *bound], occupant_of=occupant_of)

    def obeys(self, gang: Gang, places: Sequence[int]) -> bool:
        """Judged from what the two controllers promise, and from nothing of the planner."""
        used = Counter(self.strangers)
        used[self.first_on if self.first_on is not None else -1] += self.gpus
        for one, at in zip(gang.pods, places, strict=True):
            used[at] += self.gpus if one.labels[JOBSET_GROUP] == "w" else 1
        if any(amount > 2 for at, amount in used.items() if at >= 0 and at in places):
            return False
        of_job: defaultdict[str, set[str | None]] = defaultdict(set)
        for one, at in zip(gang.pods, places, strict=True):
            of_job[one.labels["job-name"]].add(self.racks[at])
        owned: list[str | None] = []
        for name, racks in of_job.items():
            if not name.startswith("train-w"):
                continue
            is_led = name == "train-w-0" and self.first_on is not None
            if is_led:
                racks |= {self.racks[self.first_on or 0]}
            if len(racks) > 1 or None in racks:
                return False
            if not is_led and any(self.racks[at] in racks for at in self.strangers):
                return False
            owned += racks
        if self.first_on is not None and "train-w-0" not in of_job:
            owned.append(self.racks[self.first_on])
        others = of_job.get("train-d-0", set())
        return len(set(owned)) == len(owned) and not others & set(owned)

    def least(self, gang: Gang) -> int | None:
        layout, pending = self.cluster.layout, {one.key for one in gang.pods}
        lengths = []
        for places in product(range(len(_PLACES)), repeat=len(gang.pods)):
            if self.obeys(gang, places):
                left = iter(places)
                whole = [next(left) if one.key in pending else self.first_on or 0 for one in gang.members]
                lengths.append(layout.tree.length(np.array([layout.leaf_of[f"n{at}"] for at in whole])))
        return min(lengths, default=None)


_WORLDS = st.builds(
    _World,
    racks=st.tuples(*(st.sampled_from(("a", "b", "c", None)) for _ in _PLACES)),
    jobs=st.integers(1, 2),
    pods=st.integers(1, 2),
    gpus=st.integers(1, 2),
    others=st.integers(0, 1),
    strangers=st.lists(st.integers(0, 5), max_size=2, unique=True).map(tuple),
    first_on=st.sampled_from((None, None, 0, 3)),
).filter(lambda world: world.first_on is None or world.racks[world.first_on] is not None)


@given(_WORLDS)
def test_each_job_gets_a_domain_alone_and_the_gang_waits_only_where_there_is_none(world: _World) -> None:
    gang = world.gang
    if gang is None:
        return
    cluster = world.cluster
    plan = plan_gang(gang, cluster.layout, cluster.room())
    assert plan.fault is None
    least = world.least(gang)
    if plan.nodes is None:
        assert least is None or not plan.is_settled
        assert world.others or world.first_on is not None or plan.is_settled, plan.reason
        assert least is None or world.others or world.first_on is not None
        return
    assert world.obeys(gang, [int(name[1:]) for name in plan.nodes])
    assert least is not None
    assert plan.lower_bound <= least <= (plan.distance or 0)
    if plan.is_optimal:
        assert plan.distance == least


@given(_WORLDS, st.data())
def test_the_check_of_finished_plans_tells_who_shares_a_domain(world: _World, data: st.DataObject) -> None:
    gang = world.gang
    if gang is None:
        return
    places = [data.draw(st.integers(0, 5)) for _ in gang.pods]
    cluster = world.cluster
    nodes = [f"n{at}" for at in places]
    broken = find_broken_promise(gang, nodes, (None,) * len(places), cluster.layout, cluster.residents())
    assert (broken is None) == world.obeys(gang, places), broken


@given(st.lists(st.lists(st.integers(0, 5), max_size=4, unique=True), max_size=6))
def test_a_matching_is_found_where_there_is_one(wanted: list[list[int]]) -> None:
    ways = [way for way in permutations(range(6), len(wanted)) if all(map(list.__contains__, wanted, way))]
    found = match(wanted)
    assert (found is not None) == bool(ways)
    assert found is None or tuple(found) in ways


def _racks(count: int, gpus: int = 8) -> list[Node]:
    return [
        _node(f"r{rack}-{number}", f"b/r{rack}/{number}", f"r{rack}", gpus)
        for rack in range(count)
        for number in range(2)
    ]


def _plan(nodes: Sequence[Node], pods: Sequence[Pod], *workloads: Workload) -> Plan:
    (gang,) = find_gangs(pods, workloads)
    cluster = Cluster(Scheme(), nodes, [one for one in pods if one.node_name], occupant_of=occupant_of)
    return plan_gang(gang, cluster.layout, cluster.room())


def test_leaders_are_placed_with_room_for_those_that_are_still_to_be_made() -> None:
    """Two racks have room for one pod, and none of the other fifteen."""
    tight = [_node(f"t{number}", f"a/t{number}/1", f"t{number}", gpus=1) for number in range(2)]
    nodes = [*tight, *_racks(2)]
    plan = _plan(nodes, [_of_job(job, 0) for job in range(2)], _job_set(2, 16))
    assert plan.nodes is not None
    assert {name.split("-")[0] for name in plan.nodes} == {"r0", "r1"}
    assert [one.pod for one in placements_of(plan)] == ["train-w-0-0", "train-w-1-0"]
    assert sum(map(is_stand_in, plan.gang.pods)) == 30


def test_one_job_more_than_there_are_racks_waits_and_says_how_many_there_are() -> None:
    leaders = [_of_job(job, 0) for job in range(3)]
    plan = _plan(_racks(2), leaders, _job_set(3, 4))
    assert plan.is_settled
    assert plan.reason == (
        f'each of 3 Jobs as Job train-w-0 is to have one "{RACK}" to itself ({JOB_SET_EXCLUSIVE}), '
        "with room for 4 pods: 2 of 2 can be had"
    )


def test_a_rack_with_pods_of_others_is_none() -> None:
    there = pod("other", on="r0-0", labels={"job-name": "other"})
    plan = _plan(_racks(1), [there, _of_job(0, 0)], _job_set(1, 4))
    assert plan.reason is not None
    assert "0 of 1 can be had, 1 have pods of others" in plan.reason


def test_while_followers_are_made_nobody_else_comes_into_the_rack() -> None:
    """The leader is bound and pinned; the others' gang would fit beside it."""
    leader = _on(_of_job(0, 0), "r0-0")
    (waiting,) = find_gangs([pod("late", labels={"job-name": "late"})])
    cluster = Cluster(Scheme(), _racks(1), [leader], occupant_of=occupant_of)
    plan = find_places(waiting, cluster.layout, cluster.room())
    assert plan.nodes is None
    assert "in a domain that ml/train has to itself (exclusive-topology)" in (plan.reason or "")


def test_of_two_gangs_planned_after_each_other_the_second_gets_another_rack() -> None:
    other = [replace(one, namespace="b") for one in (_of_job(0, 0),)]
    gangs = find_gangs([_of_job(0, 0), *other], [_job_set(1, 4), replace(_job_set(1, 4), namespace="b")])
    cluster = Cluster(Scheme(), _racks(2), [], occupant_of=occupant_of)
    plans = plan_gangs(gangs, cluster.layout, cluster.room())
    used = [{name.split("-")[0] for name in plan.nodes or ()} for plan in plans]
    assert sorted(map(sorted, used)) == [["r0"], ["r1"]]


def test_followers_join_their_leaders_and_a_gang_waits_for_the_last_of_them() -> None:
    leaders = [_on(_of_job(job, 0), f"r{job}-0") for job in range(2)]
    followers = [
        replace(_of_job(job, index), node_selector={RACK: f"r{job}"})
        for job in range(2)
        for index in range(1, 4)
    ]
    early = _plan(_racks(3), [*leaders, *followers[:-1]], _job_set(2, 4))
    assert early.reason == "waits for 1 of its 8 pods to be created"
    plan = _plan(_racks(3), [*leaders, *followers], _job_set(2, 4))
    assert [name.split("-")[0] for name in plan.nodes or ()] == ["r0"] * 3 + ["r1"] * 3


def test_forty_jobs_each_get_a_rack_though_forty_kinds_of_followers_join_them() -> None:
    """Beyond the number of kinds at which unlike pods are taken for alike."""
    leaders = [_on(_of_job(job, 0), f"r{job}-1") for job in range(40)]
    followers = [
        replace(_of_job(job, index), node_selector={RACK: f"r{job}"})
        for job in range(40)
        for index in range(1, 16)
    ]
    plan = _plan(_racks(40), [*leaders, *followers], _job_set(40, 16))
    assert [name.split("-")[0] for name in plan.nodes or ()] == [
        f"r{job}" for job in range(40) for _ in range(15)
    ]


def test_a_thousand_jobs_each_get_a_rack_alone() -> None:
    leaders = [_of_job(job, 0) for job in range(1_000)]
    plan = _plan(_racks(1_000), leaders, _job_set(1_000, 4))
    assert len({name.split("-")[0] for name in plan.nodes or ()}) == 1_000


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({GANG_MIN: "1"}, "a gang that begins with fewer pods"),
        ({KUEUE_REQUIRED: "rack"}, None),
        ({EXCLUSIVE_LEVEL: "block", REQUIRED_LEVEL: "block"}, None),
    ],
)
def test_what_goes_with_domains_of_their_own_is_placed_and_what_does_not_is_said(
    said: dict[str, str], sentence: str | None
) -> None:
    scheme = Scheme(label_sets=(("block", "rack", "host"),))
    nodes = [
        replace(one, labels={**one.labels, "block": "b", "rack": one.labels[RACK], "host": one.name})
        for one in _racks(2)
    ]
    (gang,) = find_gangs([_of_job(job, 0, said=said) for job in range(1)], [_job_set(1, 4)])
    cluster = Cluster(scheme, nodes, occupant_of=occupant_of)
    plan = plan_gang(gang, cluster.layout, cluster.room())
    if sentence is None:
        assert plan.nodes is not None, plan.reason
    else:
        assert plan.reason is not None
        assert JOB_SET_EXCLUSIVE in plan.reason
        assert sentence in plan.reason


def test_jobs_that_name_two_labels_are_refused_by_a_sentence() -> None:
    other = _of_job(1, 0, said={JOB_SET_EXCLUSIVE: "zone"})
    plan = _plan(_racks(2), [_of_job(0, 0), other], _job_set(2, 2))
    assert plan.reason == f'{JOB_SET_EXCLUSIVE} is "{RACK}" and "zone": the pods of a gang may name one label'


def test_a_label_that_no_node_has_is_named() -> None:
    plan = _plan([node("a")], [_of_job(0, 0)], _job_set(1, 2))
    assert plan.reason is not None
    assert plan.reason.endswith("but no node has that label")


def test_more_pods_than_fit_into_a_plan_are_refused_and_never_made_up() -> None:
    plan = _plan(_racks(1), [_of_job(0, 0)], _job_set(1, 2**31 - 1))
    assert plan.reason is not None
    assert f"{MOST_STAND_INS:,} of its pods or more" in plan.reason


def test_where_no_jobset_is_known_a_sentence_names_what_keeps_pods_from_being_made() -> None:
    said = {GANG_SIZE: "4", JOB_SET_EXCLUSIVE: RACK}
    first = pod("train-0", labels={"job-name": "train"}, annotations=said)
    reason = _plan([node("a")], [first]).reason or ""
    assert reason.startswith("waits for 3 of its 4 pods to be created; by the annotation ")
    assert f"{JOB_SET_EXCLUSIVE} they are created only once the first has a node" in reason


def test_beside_jobsets_own_node_selector_the_annotation_does_nothing() -> None:
    pods = [_of_job(0, index, said={JOB_SET_SELECTOR: "true"}) for index in range(2)]
    assert _plan([node("a")], pods, _job_set(1, 2)).nodes == ("a", "a")


def _leader(size: int = 3, **fields: Any) -> Pod:
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "serve",
        "leaderworkerset.sigs.k8s.io/group-index": "0",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }
    said = {LEADER_WORKER_EXCLUSIVE: RACK, "leaderworkerset.sigs.k8s.io/size": str(size)}
    owner = Owner("StatefulSet", "serve", "u", is_controller=True)
    return pod("serve-0", labels=labels, annotations=said, owner=owner, **fields)


def _leader_worker_set(worker_gpus: int | None) -> Workload:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": worker_gpus}}}
    template = {"spec": {"containers": [container]}}
    own = {} if worker_gpus is None else {"leaderTemplate": template, "workerTemplate": template}
    return parse_workload(
        {
            "kind": "LeaderWorkerSet",
            "metadata": {
                "name": "serve",
                "namespace": "ml",
                "annotations": {LEADER_WORKER_EXCLUSIVE: RACK},
            },
            "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 3, **own}},
        }
    )


@pytest.mark.parametrize(("worker_gpus", "rack"), [(None, "small"), (2, "large"), (8, None)])
def test_a_groups_leader_is_placed_where_its_workers_fit_by_their_own_template(
    worker_gpus: int | None, rack: str | None
) -> None:
    nodes = [_node("s", "a/s/1", "small", gpus=3), _node("l", "b/l/1", "large", gpus=6)]
    plan = _plan(nodes, [_leader(gpus=1)], _leader_worker_set(worker_gpus))
    if rack is None:
        assert plan.reason is not None
        assert plan.reason.startswith("group serve-0 is to have one")
    else:
        assert set(plan.nodes or ()) == {rack[0]}
        assert [one.pod for one in placements_of(plan)] == ["serve-0"]


def test_a_leader_that_lost_its_node_goes_elsewhere_though_its_followers_select_the_old_rack() -> None:
    """JobSet deletes these only once the leader has a node in another rack."""
    stale = [replace(_of_job(0, index), node_selector={RACK: "r0"}) for index in range(1, 4)]
    broken = _node("r0-0", "b/r0/0", "r0", gpus=1)
    plan = _plan([broken, *_racks(3)[2:]], [_of_job(0, 0), *stale], _job_set(1, 4))
    assert {name.split("-")[0] for name in plan.nodes or ()} == {"r1"}
    assert [one.pod for one in placements_of(plan)] == ["train-w-0-0"]


@pytest.mark.parametrize(("was", "now"), [(5, 3), (3, 5)])
def test_a_group_has_as_many_pods_as_when_it_was_made(was: int, now: int) -> None:
    changed = replace(_leader_worker_set(None), size=now)
    plan = _plan([_node("a", "a/a/1", "r", gpus=was)], [_leader(was)], changed)
    assert len(plan.nodes or ()) == was, plan.reason


def test_a_node_that_lost_its_label_under_a_leader_keeps_nobody_from_joining_the_rest() -> None:
    nodes = [_node("a", "b/r0/0", None), *_racks(1)]
    there = [_on(_of_job(0, 0), "a"), _on(_of_job(0, 1), "r0-0")]
    anew = replace(_of_job(0, 2), node_selector={RACK: "r0"})
    plan = _plan(nodes, [*there, anew], _job_set(1, 3))
    assert plan.fault is None
    assert plan.nodes is not None
    assert plan.nodes[0].startswith("r0")


def test_a_rack_into_which_a_node_of_another_job_has_moved_is_not_free() -> None:
    """Job 0 is in two racks since somebody labelled a node anew; Job 1 gets the third."""
    there = [_on(_of_job(0, 0), "r0-0"), _on(_of_job(0, 1), "r1-0")]
    leader = _of_job(1, 0)
    driver = _of_job(0, 0, group="d")
    plan = _plan(_racks(3), [*there, leader], _job_set(2, 2))
    assert {name.split("-")[0] for name in plan.nodes or ()} == {"r2"}
    nodes = [*_racks(2), _node("free", "c/c/1", None)]
    plan = _plan(nodes, [*there, driver], _job_set(1, 2, 1))
    assert plan.nodes == ("free",)


def test_a_driver_for_which_there_is_no_room_says_so_where_no_node_has_the_label_any_more() -> None:
    there = [_on(_of_job(0, index), "a") for index in range(2)]
    plan = _plan([_node("a", "b/r0/0", None)], [*there, _of_job(0, 0, group="d")], _job_set(1, 2, 1))
    assert plan.fault is None
    assert plan.reason is not None
    assert "no place for its 1 other pods" in plan.reason


def test_unlike_pods_find_the_one_rack_of_fifty_in_which_they_fit_node_by_node() -> None:
    """By sums they fit everywhere: a leader of one GPU and two workers of two."""
    bad = [
        _node(f"bad{rack}-{number}", f"a/bad{rack}/{number}", f"bad{rack}", gpus=gpus)
        for rack in range(50)
        for number, gpus in enumerate((3, 1, 1))
    ]
    good = [_node(f"good-{number}", f"b/good/{number}", "good", gpus=4) for number in range(2)]
    plan = _plan([*bad, *good], [_leader(gpus=1)], _leader_worker_set(2))
    assert {name.split("-")[0] for name in plan.nodes or ()} == {"good"}


def test_the_annotation_of_another_kind_says_nothing() -> None:
    driver = _on(_of_job(0, 0, group="d", said={LEADER_WORKER_EXCLUSIVE: "kubernetes.io/os"}), "n0")
    assert occupant_of(driver) == Occupant(GangKey("ml", "train", "JobSet"))


def test_a_port_of_the_leader_alone_keeps_no_worker_from_its_node() -> None:
    port = frozenset({(ANY_ADDRESS, "TCP", 8080)})
    plan = _plan(
        [_node("a", "a/a/1", "r", gpus=6)], [replace(_leader(gpus=1), host_ports=port)], _leader_worker_set(2)
    )
    assert plan.nodes == ("a", "a", "a")


def test_a_pod_that_is_made_anew_waits_for_none_that_has_finished() -> None:
    """Without the annotation too: a JobSet counts all pods of a Job that still runs."""
    owner = Owner("Job", "train-d-0", "u", is_controller=True)
    pods = [_of_job(0, index, group="d", owner=owner) for index in (1, 2)]
    done = replace(_of_job(0, 0, group="d", owner=owner), phase="Succeeded", gates=())
    job = Workload("Job", "ml", "train-d-0", 2, done=1)
    plan = _plan([node("a")], [done, *pods], Workload("JobSet", "ml", "train", 3, each={"d": 3}), job)
    assert plan.nodes == ("a", "a"), plan.reason


def test_pods_to_come_count_as_pods_where_gangs_are_made_part_by_part() -> None:
    """A tenant with one pod for each of many large gangs does not hold up the event loop."""
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for number in range(3):
        name = f"train{number}"
        job_set = replace(_job_set(1, 400), name=name)
        leader = _of_job(0, 0)
        state.set_workload(job_set)
        labels = {**leader.labels, "jobset.sigs.k8s.io/jobset-name": name}
        state.set_pod(replace(leader, name=f"{name}-0", labels=labels))
    assert [state.rebuild_gangs() for _ in range(4)] == [True, True, False, False]
