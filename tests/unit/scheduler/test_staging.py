"""Gangs of owners that make their pods in stages: to wait for the later ones would be to wait for ever."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import Condition
from accelet.scheduler.gangs.grouping import find_gangs
from accelet.scheduler.gangs.staging import JobStage, WireDependency, WireJobState, count_indexes, pods_now
from accelet.scheduler.gangs.workload import Workload, parse_workload
from tests.unit.scheduler.values import pod


def _jobset(status: object = None, **spec: object) -> Workload:
    jobs = [
        {"name": "driver", "template": {"spec": {"parallelism": 1}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4}}},
    ]
    body = {
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"replicatedJobs": jobs, **spec},
        "status": {"replicatedJobsStatus": status} if status else {},
    }
    return parse_workload(json.dumps(body).encode())


_IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def test_a_jobset_that_starts_in_order_has_as_many_pods_as_it_makes_now() -> None:
    assert _jobset().size == 9
    assert _jobset(**_IN_ORDER).size == 1
    assert _jobset([{"name": "driver", "ready": 0}], **_IN_ORDER).size == 1
    assert _jobset([{"name": "driver", "ready": 1}], **_IN_ORDER).size == 9


@pytest.mark.parametrize(
    ("status", "state", "size"),
    [
        ("Ready", {"ready": 0}, 1),
        ("Ready", {"ready": 1}, 9),
        ("Complete", {"ready": 1}, 1),
        ("Complete", {"succeeded": 1}, 8),
    ],
)
def test_jobs_that_depend_on_others_count_when_these_are_there(
    status: str, state: dict[str, int], size: int
) -> None:
    jobs = [
        {"name": "driver", "template": {"spec": {}}},
        {
            "name": "workers",
            "replicas": 2,
            "dependsOn": [{"name": "driver", "status": status}],
            "template": {"spec": {"parallelism": 4}},
        },
    ]
    assert _jobset(replicatedJobs=jobs).size == 1
    assert _jobset([{"name": "driver", **state}], replicatedJobs=jobs).size == size


def test_a_job_does_not_wait_for_indexes_that_have_failed_for_good() -> None:
    body = {
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"parallelism": 8, "completions": 8, "backoffLimitPerIndex": 0},
        "status": {"succeeded": 2, "failedIndexes": "1,3-4"},
    }
    assert parse_workload(json.dumps(body).encode()).size == 3


def test_workers_that_come_when_the_leader_is_ready_are_not_waited_for_before() -> None:
    body = {
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "namespace": "ml"},
        "spec": {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4}},
    }
    owner = parse_workload(json.dumps(body).encode())
    assert (owner.size, owner.is_leader_first) == (4, True)

    def member(index: int, **more):  # type: ignore[no-untyped-def]  # a pod
        labels = {
            "leaderworkerset.sigs.k8s.io/name": "serve",
            "leaderworkerset.sigs.k8s.io/worker-index": str(index),
        }
        said = {"leaderworkerset.sigs.k8s.io/size": "4"}
        return pod(f"serve-0-{index}", labels=labels, annotations=said, **more)

    (first,) = find_gangs([member(0)], [owner])
    assert (first.size, first.missing) == (1, 0)
    ready = replace(member(0, on="n0"), conditions=(Condition("Ready", "True"),))
    (second,) = find_gangs([ready, member(1)], [owner])
    assert second.missing == 2
    (whole,) = find_gangs([ready, *(member(index) for index in (1, 2, 3))], [owner])
    assert (whole.missing, len(whole.pods)) == (0, 3)


_COUNTS = st.integers(0, 3)


@given(
    stages=st.lists(st.tuples(_COUNTS, _COUNTS), min_size=1, max_size=4),
    states=st.lists(st.tuples(_COUNTS, _COUNTS), max_size=4),
    depends=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["Ready", "Complete"])), max_size=4),
    in_order=st.booleans(),
)
def test_a_stage_never_waits_for_pods_that_are_not_made_yet(
    stages: list[tuple[int, int]],
    states: list[tuple[int, int]],
    depends: list[tuple[int, str]],
    in_order: bool,
) -> None:
    """Against the rule said in another way: stage by stage, who may make pods at this moment."""
    listed = [
        JobStage(
            f"s{number}",
            replicas,
            parallel,
            [WireDependency(f"s{depends[number][0]}", depends[number][1])] if number < len(depends) else [],
        )
        for number, (replicas, parallel) in enumerate(stages)
    ]
    seen = [WireJobState(f"s{number}", ready, done) for number, (ready, done) in enumerate(states)]
    pods = 0
    for number, stage in enumerate(listed):
        before = listed[:number]
        is_blocked = in_order and any(
            (
                (stage_before := {state.name: state for state in seen}.get(one.name)) is None
                and one.replicas > 0
            )
            or (
                stage_before is not None
                and (stage_before.ready or 0) + (stage_before.succeeded or 0) < one.replicas
            )
            for one in before
            if all(_holds(dependency, listed, seen) for dependency in one.after)
        )
        if not is_blocked and all(_holds(dependency, listed, seen) for dependency in stage.after):
            done = seen[number].succeeded or 0 if number < len(seen) else 0
            pods += max(0, stage.replicas - done) * stage.parallel
    assert pods_now(listed, seen, in_order=in_order) == pods


def _holds(dependency: WireDependency, stages: list[JobStage], states: list[WireJobState]) -> bool:
    for stage, state in zip(stages, states, strict=False):
        if stage.name == dependency.name:
            reached = (state.succeeded or 0) + (0 if dependency.status == "Complete" else state.ready or 0)
            return reached >= stage.replicas
    return False


@given(st.text(max_size=30))
def test_any_text_for_failed_indexes_is_read(text: str) -> None:
    assert count_indexes(text) >= 0


def test_failed_indexes_are_counted() -> None:
    assert [count_indexes(text) for text in ("", "7", "1,3-5", "x", "5-3")] == [0, 1, 4, 0, 0]
