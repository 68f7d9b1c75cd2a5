"""What has become of a pod is read from what its status says now, not from what it said before a reboot."""

import pytest

from tests.e2e.cluster.https_client import Json
from tests.e2e.scenarios.podstatus import state


def pod(container: Json, phase: str = "Running", **status: str) -> Json:
    statuses = [{"name": "main", "containerID": "containerd://abc"} | container]
    return {"status": {"phase": phase, "containerStatuses": statuses} | status}


RUNS: Json = {"state": {"running": {}}}


def test_running_containers_make_a_running_pod() -> None:
    assert state(pod(RUNS)) == "running"


def test_a_status_from_before_the_reboot_decides_nothing() -> None:
    assert state(pod(RUNS), ended={"abc"}) is None
    assert state(pod(RUNS), ended={"abd"}) == "running"


def test_a_rejection_is_told_with_its_words() -> None:
    rejected = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu left"}}
    assert state(rejected) == "rejected: OutOfcpu: no cpu left"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("ContainerCreating", None), ("CrashLoopBackOff", None), ("CreateContainerConfigError", "waiting: no")],
)
def test_a_container_waits_only_where_it_cannot_be_made(reason: str, expected: str | None) -> None:
    waiting = {"state": {"waiting": {"reason": reason, "message": "no"}}}
    assert state(pod(waiting, phase="Pending")) == expected
