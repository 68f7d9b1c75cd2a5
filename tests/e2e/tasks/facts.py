"""What docs/gputask.md says of Jobs and kubelets, seen on a real kubelet: `make e2e-tasks`.

Named so that `make e2e` does not collect it.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.cluster.node import Node
from tests.e2e.tasks.plainjobs import (
    FAILING,
    GATED,
    IGNORED,
    RESTS,
    SAVES,
    SLOW,
    PlainJobs,
    is_disrupted,
    is_running,
    is_told,
    rank_of,
)

pytestmark = pytest.mark.timeout(300)
_ACCOUNT = "/api/v1/namespaces/{}/serviceaccounts/default"


@pytest.fixture
def jobs(cluster: ControlPlane, node: Node) -> Iterator[PlainJobs]:
    assert node.is_ready()
    name = f"facts-{time.time_ns():x}"
    cluster.client.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    while cluster.client.try_get(_ACCOUNT.format(name)) is None:
        pass
    yield PlainJobs(cluster.client, name)
    cluster.client.send("DELETE", f"/api/v1/namespaces/{name}")


def test_a_program_that_saves_and_exits_0_counts_as_done_when_evicted_and_not_when_suspended(
    jobs: PlainJobs,
) -> None:
    jobs.make("evicted", SAVES, **FAILING)
    jobs.make("suspended", SAVES, **FAILING)
    jobs.evict(jobs.running("evicted")[0]["metadata"]["name"])
    jobs.running("suspended")
    jobs.patch("suspended", {"suspend": True})
    jobs.condition_comes("evicted", "Complete")
    assert jobs.status("evicted")["completedIndexes"] == "0"
    jobs.wait("suspended", "its pod is gone", lambda pods: not pods)
    jobs.patch("suspended", {"suspend": False})
    jobs.running("suspended")
    status = jobs.status("suspended")
    assert (status.get("succeeded", 0), status.get("failed", 0)) == (0, 0)


def test_suspend_and_resume_costs_nothing_keeps_what_is_done_and_waits_for_the_old_pods(
    jobs: PlainJobs,
) -> None:
    ends = 'case "$HOSTNAME" in *-1) exit 0;; esac; ' + SLOW
    jobs.make("moved", ends, ranks=2, **FAILING)
    jobs.wait("moved", "rank 1 is done", lambda _: jobs.status("moved").get("completedIndexes") == "1")
    (old,) = jobs.wait("moved", "rank 0 runs", lambda pods: any(map(is_running, pods)))[:1]
    jobs.patch("moved", {"suspend": True})
    jobs.patch("moved", {"suspend": False})
    both: list[list[Json]] = []

    def has_followed(pods: list[Json]) -> bool:
        live = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]
        both.append(live)
        return any(pod["metadata"]["uid"] != old["metadata"]["uid"] and is_running(pod) for pod in live)

    pods = jobs.wait("moved", "rank 0 runs again", has_followed)
    assert max(len(live) for live in both) == 1
    new = next(pod for pod in pods if is_running(pod))
    assert rank_of(new) == 0
    status = jobs.status("moved")
    assert (status["completedIndexes"], status.get("failed", 0)) == ("1", 0)


def test_a_deleted_pod_counts_as_failed_whatever_the_failure_policy_says(jobs: PlainJobs) -> None:
    jobs.make("deleted", RESTS, **IGNORED)
    jobs.make("gated", RESTS, pod=GATED, podReplacementPolicy="Failed", **IGNORED)
    (held,) = jobs.wait("gated", "its pod is there", len)
    jobs.delete(held["metadata"]["name"])
    (pod,) = jobs.running("deleted")
    jobs.delete(pod["metadata"]["name"])
    assert jobs.condition_comes("deleted", "Failed")["reason"] == "BackoffLimitExceeded"
    assert jobs.status("deleted")["failed"] == 1
    assert jobs.condition_comes("gated", "Failed")["reason"] == "BackoffLimitExceeded"


def test_an_eviction_costs_nothing_only_where_the_policy_says_so(jobs: PlainJobs, say: Progress) -> None:
    jobs.make("ignored", RESTS, **IGNORED)
    jobs.make("counted", RESTS)
    jobs.make("held", RESTS, pod=GATED, podReplacementPolicy="Failed", **IGNORED)
    (held,) = jobs.wait("held", "its pod is there", len)
    jobs.evict(held["metadata"]["name"])
    (old,), (other,) = jobs.running("ignored"), jobs.running("counted")
    for pod in (old, other):
        jobs.evict(pod["metadata"]["name"])
    disrupted = jobs.wait("ignored", "its pod is disrupted", lambda pods: any(map(is_disrupted, pods)))
    reasons = {one.get("reason") for pod in disrupted for one in pod["status"]["conditions"]}
    assert "EvictionByEvictionAPI" in reasons
    assert jobs.condition_comes("counted", "Failed")["reason"] == "BackoffLimitExceeded"
    began_s = time.monotonic()
    (new,) = jobs.wait("ignored", "a successor runs", lambda pods: [p for p in pods if is_running(p)])[-1:]
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    say(f"the successor of an evicted pod ran {time.monotonic() - began_s:.0f} s later")
    assert jobs.condition("ignored", "Failed") is None
    jobs.wait("held", "a successor waits", lambda pods: _others(pods, held))
    assert jobs.condition("held", "Failed") is None


def _others(pods: list[Json], old: Json) -> list[Json]:
    return [pod for pod in pods if pod["metadata"]["uid"] != old["metadata"]["uid"]]


def test_a_disruption_ends_all_ranks_and_the_job_has_failed_when_all_have_ended(jobs: PlainJobs) -> None:
    jobs.make("gang", SLOW, ranks=3, **FAILING)
    jobs.make("led", 'case "$HOSTNAME" in *-0) exit 0;; esac; ' + SLOW, ranks=3, **_LED)
    pods = jobs.running("gang", 3)
    jobs.evict(pods[0]["metadata"]["name"])
    failing = jobs.condition_comes("gang", "FailureTarget")
    assert failing["reason"] == "PodFailurePolicy"
    assert "has condition DisruptionTarget" in failing["message"]
    assert jobs.condition("gang", "Failed") is None
    assert all(is_told(pod) for pod in jobs.pods("gang"))
    jobs.condition_comes("gang", "Failed")
    status = jobs.status("gang")
    assert (status.get("terminating", 0), status.get("active", 0), status["failed"]) == (0, 0, 3)
    jobs.condition_comes("led", "SuccessCriteriaMet")
    jobs.condition_comes("led", "Complete")
    assert jobs.status("led")["completedIndexes"] == "0"


_LED: dict[str, Any] = {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}


def test_what_of_a_job_can_be_changed_and_who_goes_when_it_shrinks(jobs: PlainJobs) -> None:
    jobs.make("shaped", RESTS, ranks=2, **IGNORED)
    jobs.running("shaped", 2)
    for count in (4, 1):
        jobs.patch("shaped", {"parallelism": count, "completions": count})
        pods = jobs.running("shaped", count)
        assert [rank_of(pod) for pod in pods] == list(range(count))
    jobs.patch("shaped", {"backoffLimit": 3, "activeDeadlineSeconds": 3000})
    for change in (
        {"podFailurePolicy": FAILING["podFailurePolicy"]},
        _LED,
        {"backoffLimitPerIndex": 2},
        {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
    ):
        with pytest.raises(RefusedError, match="422"):
            jobs.patch("shaped", change)


def test_an_eviction_can_name_its_pod_and_can_be_tried(jobs: PlainJobs) -> None:
    jobs.make("named", RESTS, **IGNORED)
    (pod,) = jobs.running("named")
    name = pod["metadata"]["name"]
    with pytest.raises(RefusedError, match="409"):
        jobs.evict(name, preconditions={"uid": "00000000-0000-0000-0000-000000000000"})
    jobs.evict(name, dryRun=["All"])
    assert is_running(jobs.pod(name))
    half = {"limits": {"example.com/gpu": "1500m"}}
    container = {"name": "main", "image": "none", "resources": half}
    with pytest.raises(RefusedError, match="must be an integer"):
        jobs.make("half", RESTS, pod={"containers": [container]})
