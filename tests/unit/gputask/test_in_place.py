"""Ranks that start again in their pods: what counts, who is waited for, and what templates may not change."""

import json
from dataclasses import replace
from typing import Any

import pytest

from accelet.gputask.deciding.decide import decide
from accelet.gputask.deciding.view import TaskTimes
from accelet.gputask.objects.jobs import parse_job
from accelet.gputask.objects.manifests import job_body, restarting_all
from accelet.gputask.objects.overlay import OverlayError, lay_over
from accelet.gputask.objects.pods import parse_pod
from tests.unit.gputask.test_deciding import _end, _run, _start
from tests.unit.gputask.world import TaskWorld, failure, make_task

_HANGS_S = TaskTimes().in_place_s
_PREFIX = "a.b/gate-"


def _begin(retries: int = 2, **spec: Any) -> TaskWorld:
    given = {"replicas": 2, **spec}
    return _start(**given, on_failure=failure(restart="InPlace", retries=retries))


def _look(world: TaskWorld) -> None:
    """What is to be done now is done, as far as time plays no part."""
    for _ in range(5):
        world.act(world.think())
        world.run_jobs()


def test_ranks_that_all_start_again_keep_their_job_and_cost_one_retry() -> None:
    world = _begin()
    _end(world, 1, 7)
    _end(world, 0, 9)
    _look(world)
    world.now_s += 10 * _HANGS_S
    _look(world)
    status = world.task.status

    assert (status.attempt, status.phase) == (1, "Running")
    assert (status.in_place, status.incidents, status.retries_left) == (1, 0, 1)
    assert status.last_end == "rank 0 ended with exit code 9 and was started again in its pod"
    assert len(world.jobs) == 1


def test_a_rank_that_hangs_has_all_begin_anew_and_costs_no_further_retry() -> None:
    world = _begin(retries=1)
    _end(world, 1, 7)
    _look(world)
    world.now_s += _HANGS_S - 1
    _look(world)
    assert world.task.status.attempt == 1
    world.now_s += 1
    _run(world, lambda: world.task.status.attempt == 2)
    status = world.task.status

    assert (status.in_place, status.incidents, status.disruptions, status.retries_left) == (0, 1, 0, 0)
    assert status.last_end == (
        "rank 1 ended with exit code 7 and was started again in its pod; "
        "rank 0 did not start again within 60 s"
    )


def test_the_wait_for_peers_counts_from_the_last_that_started_again() -> None:
    world = _begin(replicas=3)
    _end(world, 0, 1)
    _look(world)
    world.now_s += _HANGS_S - 1
    _end(world, 1, 1)
    world.now_s += _HANGS_S - 1
    _look(world)
    assert world.task.status.attempt == 1
    _end(world, 2, 1)
    world.now_s += 10 * _HANGS_S
    _look(world)
    assert (world.task.status.attempt, world.task.status.in_place) == (1, 1)


def test_a_rank_that_starts_late_is_met_and_not_waited_for() -> None:
    world = _begin()
    world.pods[1].phase, world.pods[1].running_s = "Pending", 0.0
    _end(world, 0, 1)
    world.now_s += 10 * _HANGS_S
    _look(world)
    world.start(world.pods[1])  # after the other one, by the clocks of their nodes
    world.now_s += 10 * _HANGS_S
    _look(world)
    assert (world.task.status.attempt, world.task.status.phase) == (1, "Running")


def test_a_peer_that_is_done_already_has_all_begin_anew() -> None:
    world = _begin()
    _end(world, 0, 0)
    _end(world, 1, 1)
    world.now_s += _HANGS_S
    _run(world, lambda: world.task.status.attempt == 2)
    assert "rank 0 did not start again" in world.task.status.last_end


def test_an_elastic_task_goes_on_without_a_rank() -> None:
    world = _begin(min_replicas=1)
    _end(world, 1, 1)
    world.now_s += 10 * _HANGS_S
    _look(world)
    assert (world.task.status.attempt, world.task.status.in_place) == (1, 1)


def test_once_the_retries_are_used_up_the_task_has_failed() -> None:
    world = _begin(retries=1)
    for _ in range(2):
        _end(world, 0, 3)
        _end(world, 1, 3)
        _look(world)
    _run(world, lambda: world.task.status.phase == "Failed")
    status = world.task.status

    assert status.conditions[-1].reason == "RetriesUsed"
    assert status.why == "rank 0 ended with exit code 3 and was started again in its pod"
    assert all(pod.deleted for pod in world.pods), "nothing runs on"


def test_incidents_of_former_pods_still_count_after_the_task_was_suspended() -> None:
    world = _begin(retries=1)
    _end(world, 0, 3)
    _end(world, 1, 3)
    _look(world)
    for suspended in (True, False):
        spec = world.task.spec
        world.task = replace(world.task, spec=type(spec)(**{**_fields(spec), "suspend": suspended}))
        world.version += 1
        _run(world, lambda: len(world.pods) == (0 if suspended else 2))  # noqa: B023 - called at once
        _look(world)
    assert (world.task.status.in_place, world.task.status.incidents) == (0, 1)
    for pod in world.pods:
        world.start(pod)
    _end(world, 0, 3)
    _run(world, lambda: world.task.status.phase == "Failed")
    assert world.task.status.attempt == 1


def _fields(spec: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}


def test_a_fatal_exit_code_and_an_eviction_are_never_in_place() -> None:
    task = make_task(spec={"on_failure": failure(restart="InPlace", fatal_exit_codes=(42, 3))})
    body = job_body(task, 1, _PREFIX, None)
    (main,) = body["spec"]["template"]["spec"]["containers"]

    assert main["restartPolicy"] == "Never"
    assert main["restartPolicyRules"] == [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0, 3, 42]}}
    ]
    actions = [rule["action"] for rule in body["spec"]["podFailurePolicy"]["rules"]]
    assert (actions, body["spec"]["backoffLimit"]) == (["FailJob", "FailJob"], 0)


def test_a_job_without_the_rule_is_one_of_which_all_begin_anew() -> None:
    task = make_task(spec={"on_failure": failure(restart="InPlace", retries=3)})
    whole, without = (job_body(one, 1, _PREFIX, None) for one in (task, restarting_all(task)))
    assert "restartPolicyRules" not in without["spec"]["template"]["spec"]["containers"][0]
    assert (parse_job(whole).rules.restart, parse_job(without).rules.restart) == ("InPlace", "All")

    world = _begin()
    for job in world.jobs.values():
        job.made = replace(job.made, rules=replace(job.made.rules, restart="All"))
    step = decide(world.view())
    assert (step.action, step.record.attempt) == (None, 1), "it is not made anew for that"


def test_what_a_kubelet_says_of_a_container_that_it_started_again() -> None:
    """As a kubelet 1.36 reports it."""
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ml"},
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "main",
                    "restartCount": 2,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:10Z"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "RestartingAllContainers"}},
                },
                {"name": "aside", "restartCount": 9, "state": {"running": {}}},
            ],
        },
    }
    pod = parse_pod(raw)
    assert (pod.restarts, pod.former_code, pod.running_s) == (2, None, 1_767_225_610.0)


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ({"name": "main", "restartPolicyRules": None}, "restartPolicyRules"),
        ({"name": "main", "restartPolicy": "Always"}, "restartPolicy"),
        ({"name": "aside", "restartPolicyRules": [{"action": "RestartAllContainers"}]}, "restartPolicyRules"),
    ],
)
def test_a_template_has_no_say_in_who_starts_again(container: dict[str, Any], field: str) -> None:
    task = make_task(spec={"on_failure": failure(restart="InPlace")})
    made = job_body(task, 1, _PREFIX, None)["spec"]["template"]

    with pytest.raises(OverlayError, match=rf"{field}: say onFailure.restart instead"):
        lay_over(made, json.dumps({"spec": {"containers": [container]}}))
    sidecar = {"spec": {"initContainers": [{"name": "s", "image": "s", "restartPolicy": "Always"}]}}
    assert lay_over(made, json.dumps(sidecar))
