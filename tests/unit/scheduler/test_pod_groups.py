"""Gangs of Kubernetes' own PodGroups."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import Owner
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GANG_MIN, GATE_PREFIX, Gang, find_gangs
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.gangs.workload import Workload, parse_workload
from accelet.scheduler.state import SchedulerState
from tests.fakes.manifests import raw_pod
from tests.fakes.nodes import SUBBLOCK, node
from tests.unit.scheduler import values
from tests.unit.scheduler.values import plan_one


def _group(name: str = "g", **spec: Any) -> Workload:
    body = {"metadata": {"name": name, "namespace": "ml"}, "spec": spec}
    return parse_workload(json.dumps(body).encode(), "PodGroup")


def _gang_of(count: int) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": count}}}


def _pods(count: int, job: str = "j", **fields: Any) -> list[Pod]:
    owner = Owner("Job", job, f"uid-{job}", is_controller=True)
    return [
        values.pod(f"{job}-{rank}", labels={"job-name": job}, owner=owner, pod_group="g", **fields)
        for rank in range(count)
    ]


def _only(pods: list[Pod], *workloads: Workload) -> Gang:
    (gang,) = find_gangs(pods, workloads)
    return gang


def test_the_group_is_the_gang_and_its_size_is_the_owners() -> None:
    gang = _only(_pods(2), _group(**_gang_of(2)), Workload("Job", "ml", "j", 3))
    assert (gang.key.kind, gang.key.name) == ("PodGroup", "g")
    assert (gang.size, gang.least, gang.lacking, gang.missing) == (3, 2, 0, 1)


def test_a_group_of_several_jobs_has_the_pods_of_all() -> None:
    pods = [*_pods(1), *_pods(2, "k")]
    workloads = [Workload("Job", "ml", "j", 1), Workload("Job", "ml", "k", 3)]
    gang = _only(pods, _group(**_gang_of(4)), *workloads)
    assert (gang.size, gang.least, gang.lacking) == (4, None, 1)


def test_each_group_of_a_jobset_is_a_gang_of_its_own() -> None:
    pods = [replace(pod, labels={"jobset.sigs.k8s.io/jobset-name": "set"}) for pod in _pods(2)]
    workloads = [Workload("JobSet", "ml", "set", 8), Workload("Job", "ml", "j", 2)]
    assert _only(pods, _group(**_gang_of(2)), *workloads).size == 2


def test_without_an_owner_who_is_known_the_least_is_waited_for() -> None:
    gang = _only(_pods(2), _group(**_gang_of(3)))
    assert (gang.size, gang.lacking) == (None, 1)


def test_the_topology_key_is_the_required_level() -> None:
    topology: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": SUBBLOCK}]}}
    nodes = [node(f"n{s}{h}", f"b0/s{s}/h{s}{h}") for s in range(2) for h in range(1 + s)]
    jobs = [Workload("Job", "ml", "j", 2)]
    found = plan_one(nodes, _pods(2, gpus=8), [_group(**_gang_of(2), **topology), *jobs])
    assert found.nodes == ("n10", "n11")
    elsewhere: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "example.com/hall"}]}}
    found = plan_one(nodes, _pods(2, gpus=8), [_group(**_gang_of(2), **elsewhere), *jobs])
    assert found.reason is not None
    assert found.reason.startswith(
        'the topology key of its PodGroup is "example.com/hall", but the labels of'
    )


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {**_gang_of(2), "parentCompositePodGroupName": "all"},
            'its PodGroup g is part of the CompositePodGroup "all": groups of groups are not placed',
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "its PodGroup g has 2 topology constraints: one is served",
        ),
        (_gang_of(3), "minCount of its PodGroup is 3, but the gang has 2 pods"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_sentence(spec: dict[str, Any], sentence: str) -> None:
    assert _only(_pods(2), _group(**spec), Workload("Job", "ml", "j", 2)).objection == sentence


def test_a_group_that_is_not_there_is_waited_for_and_two_levels_are_one_too_many() -> None:
    assert _only(_pods(1)).objection == "its PodGroup is not there, or may not be read"
    topology: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": SUBBLOCK}]}}
    gang = _only(_pods(1, annotations={REQUIRED_LEVEL: "host"}), _group(**topology))
    assert gang.objection == f"both {REQUIRED_LEVEL} and its PodGroup name a required level: one may"


@given(st.integers(0, 2**32))
def test_no_fewer_than_the_group_asks_for_and_no_more_than_there_are_begin(seed: int) -> None:
    random = Random(seed)
    size, free = random.randint(1, 6), random.randint(0, 6)
    least, own = random.randint(1, size), random.choice((None, random.randint(1, size)))
    annotations = {GANG_MIN: str(own)} if own else {}
    nodes = [node(f"n{number}", f"b0/s0/h{number}", gpus=1) for number in range(free)]
    pods = _pods(size, gpus=1, annotations=annotations)
    found = plan_one(nodes, pods, [_group(**_gang_of(least)), Workload("Job", "ml", "j", size)])
    needed = max(least, own or 0)
    placed = len(found.nodes or ())
    assert placed == (min(size, free) if free >= needed else 0)


def test_a_rank_that_is_made_anew_when_others_are_done_needs_no_more_than_are_left() -> None:
    gang = _only(_pods(1), _group(**_gang_of(3)), Workload("Job", "ml", "j", 2, done=2))
    assert (gang.objection, gang.size, gang.least) == (None, 2, None)
    gang = _only(_pods(2), _group(**_gang_of(5)), Workload("Job", "ml", "j", 2, done=2))
    assert gang.objection == "minCount of its PodGroup is 5, but the gang has 4 pods"


def test_a_gang_follows_its_group_and_its_owner() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for pod in _pods(2):
        state.set_pod(pod)
    assert state.gangs()[0].objection is not None
    state.set_workload(_group(**_gang_of(1)))
    assert (state.gangs()[0].objection, state.gangs()[0].size) == (None, None)
    state.set_workload(Workload("Job", "ml", "j", 2))
    assert (state.gangs()[0].size, state.gangs()[0].least) == (2, 1)
    state.set_workload(_group(**_gang_of(2)))
    assert state.gangs()[0].least is None
    state.remove_workload("PodGroup", "ml", "g")
    assert state.gangs()[0].objection is not None


def test_a_pod_says_its_group_and_nonsense_is_told() -> None:
    body = raw_pod("p", schedulingGroup={"podGroupName": "g"})
    assert parse_pod(json.dumps(body).encode()).pod_group == "g"
    with pytest.raises(MalformedObjectError):
        _group(schedulingPolicy={"gang": {"minCount": "many"}})
