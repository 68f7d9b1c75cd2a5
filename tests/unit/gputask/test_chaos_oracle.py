"""The oracle of `make e2e-tasks` finds what it is there for."""

import json
from typing import Any

import pytest

from tests.e2e.tasks.oracle import judge, read_runs, read_watch

TASK = {"metadata": {"name": "heals-a"}, "spec": {"replicas": 2}}
STATUS = {
    "phase": "Completed",
    "attempt": 2,
    "incidents": 1,
    "disruptions": 0,
    "conditions": [{"type": "Completed", "reason": "Succeeded"}],
}
RUNS = """
heals-a-1-0 u1 start 1.0
heals-a-1-1 u2 start 1.1
heals-a-1-0 u1 end:3 2.0
heals-a-1-1 u2 told 2.1
heals-a-1-1 u2 end:143 2.2
heals-a-2-0 u3 start 4.0
heals-a-2-1 u4 start 4.1
heals-a-2-0 u3 end:0 5.0
heals-a-2-1 u4 end:0 5.1
"""


def _event(body: dict[str, Any], owner: str, kind: str = "MODIFIED") -> str:
    body["metadata"]["ownerReferences"] = [{"name": owner, "uid": "task-uid", "controller": True}]
    return json.dumps({"type": kind, "object": body}) + "\n"


def _job(attempt: int, uid: str = "") -> str:
    name = f"heals-a-{attempt}"
    return _event({"metadata": {"name": name, "uid": uid or f"job-{attempt}"}}, "heals-a")


def _pod(attempt: int, rank: int, phase: str, *, uid: str = "", **status: Any) -> str:
    annotations = {"batch.kubernetes.io/job-completion-index": str(rank)}
    metadata = {"uid": uid or f"pod-{attempt}-{rank}", "annotations": annotations}
    ran = {"containerStatuses": [{}]} | status
    return _event({"metadata": metadata, "status": {"phase": phase, **ran}}, f"heals-a-{attempt}")


JOBS = _job(1) + _job(2)
PODS = "".join(
    _pod(attempt, rank, phase)
    for attempt in (1, 2)
    for phase in ("Running", "Failed" if attempt == 1 else "Succeeded")
    for rank in (0, 1)
)


def _wrong(runs: str = RUNS, jobs: str = JOBS, pods: str = PODS, **status: Any) -> list[str]:
    seen = read_watch(jobs, pods)
    found = judge(TASK, {**STATUS, **status}, read_runs(runs.strip()), seen.attempts["heals-a"])
    return [*found, *seen.beside]


def test_a_history_as_it_should_be_is_not_objected_to() -> None:
    assert _wrong() == []
    assert _wrong(pods=PODS + '{"type": "MODI') == []
    assert _wrong(RUNS.replace("heals-a-1-1 u2 start 1.1\n", "")) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"phase": "Failed"}, "ended as Failed"),
        ({"incidents": 2}, "2 incidents were counted, and 1 to 1 happened"),
        ({"incidents": 0, "disruptions": 1}, "0 incidents were counted, and 1 to 1 happened"),
        ({"attempt": 3}, "of 3 attempts there were Jobs for [1, 2]"),
        ({"runs": RUNS.replace("u4 end:0", "u4 end:143")}, "ended with 143"),
        ({"runs": RUNS.replace("heals-a-2-1 u4 end:0 5.1\n", "")}, "came to their end: [0]"),
        ({"runs": RUNS + "heals-a-2-1 u5 start 6.0\n"}, "rank 1 of attempt 2 ran 2 times"),
        ({"runs": RUNS.replace("u2 end:143 2.2", "u2 end:143 4.5")}, "attempt 2 began before attempt 1"),
        ({"runs": RUNS.replace("u1 end:3", "u1 end:0")}, "was given up, and nothing had happened"),
        ({"jobs": JOBS + _job(2, "another")}, "attempt 2 had 2 Jobs"),
        ({"pods": _pod(1, 0, "Running") + _pod(2, 1, "Running")}, "ran beside rank 0 of attempt 1"),
        ({"pods": _pod(1, 0, "Running") + _pod(1, 0, "Running", uid="twin")}, "ran beside rank 0"),
    ],
)
def test_what_is_wrong_is_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert any(sentence in one for one in _wrong(**changes)), _wrong(**changes)


def test_what_a_kubelet_refused_may_count_or_not() -> None:
    refused = PODS + _pod(1, 1, "Failed", containerStatuses=[])
    for incidents in (0, 1):
        assert _wrong(pods=refused, incidents=incidents, disruptions=1 - incidents) == []
