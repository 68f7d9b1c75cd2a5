"""The task controller against an API server, with its answers lost, refused and foreign."""

from typing import Any

from accelet.fakeapi import Answer, Drop, FakeApi, Fault, Json
from tests.integration.gputask.conftest import StartTasks
from tests.integration.kube.waiting import eventually

TASKS = "apis/accelet.dev/v1alpha1/gputasks"
JOBS, SERVICES, PODS = "apis/batch/v1/jobs", "api/v1/services", "api/v1/pods"


def _ask(api: FakeApi, name: str, **spec: Any) -> Json:
    body = {"metadata": {"name": name, "generation": 1}, "spec": {"container": {"image": "app"}, **spec}}
    made: Json = api.state.create(TASKS, "ml", body)
    return made


def _objects(api: FakeApi, resource: str) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in api.state.list(resource, {}, None)["items"]}


def _status(api: FakeApi, name: str) -> Json:
    status: Json = _objects(api, TASKS)[name].get("status") or {}
    return status


def _reason(api: FakeApi, name: str, kind: str) -> str:
    found = [one for one in _status(api, name).get("conditions", ()) if one["type"] == kind]
    return str(found[0].get("reason", "")) if found else ""


def _end(api: FakeApi, job: str, kind: str, reason: str = "", message: str = "") -> None:
    condition = {"type": kind, "status": "True", "reason": reason, "message": message}
    api.state.patch(JOBS, ("ml", job), "merge-patch", {"status": {"conditions": [condition]}})


async def test_a_task_is_a_job_and_a_service_that_it_owns_and_ends_as_the_job_does(
    api: FakeApi, start: StartTasks
) -> None:
    made = _ask(api, "train", replicas=2)
    async with start():
        await eventually(lambda: _status(api, "train").get("job") == "train-1")
        owners = [
            one["metadata"]["ownerReferences"][0]
            for one in (_objects(api, JOBS)["train-1"], _objects(api, SERVICES)["train"])
        ]
        assert [one["uid"] for one in owners] == [made["metadata"]["uid"]] * 2
        assert all(one["controller"] for one in owners)
        _end(api, "train-1", "Complete")
        await eventually(lambda: _status(api, "train").get("phase") == "Completed")
    assert _status(api, "train")["attempt"] == 1


async def test_an_incident_is_followed_by_another_job_and_the_old_ones_go(
    api: FakeApi, start: StartTasks
) -> None:
    _ask(api, "train", onFailure={"restart": "All", "retries": 5})
    async with start():
        for attempt in (1, 2, 3):
            await eventually(lambda: f"train-{attempt}" in _objects(api, JOBS))  # noqa: B023 - awaited here
            _end(api, f"train-{attempt}", "Failed", "BackoffLimitExceeded", "limit")
        await eventually(lambda: _objects(api, JOBS).keys() == {"train-3", "train-4"})
    assert _status(api, "train")["incidents"] == 3
    deletions = [seen for seen in api.seen if seen.method == "DELETE"]
    assert {seen.body["propagationPolicy"] for seen in deletions} == {"Background"}
    assert not [seen for seen in deletions if "/pods/" in seen.path]


async def test_a_rank_whose_pod_is_gone_when_nobody_watched_runs_again(
    api: FakeApi, start: StartTasks
) -> None:
    tasks = {name: _ask(api, name)["metadata"]["uid"] for name in ("lost", "kept")}
    async with start():
        await eventually(lambda: _objects(api, JOBS).keys() == {"lost-1", "kept-1"})
    owner = {"kind": "Job", "name": "kept-1", "uid": _objects(api, JOBS)["kept-1"]["metadata"]["uid"]}
    pod = {
        "name": "kept-1-0",
        "labels": {"accelet.dev/task": "kept", "accelet.dev/task-uid": tasks["kept"]},
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
        "ownerReferences": [{**owner, "apiVersion": "batch/v1", "controller": True}],
    }
    api.state.create(PODS, "ml", {"metadata": pod, "spec": {}, "status": {"phase": "Succeeded"}})
    for name in tasks:
        ended = {"status": {"completedIndexes": "0", "succeeded": 1}}
        api.state.patch(JOBS, ("ml", f"{name}-1"), "merge-patch", ended)
        _end(api, f"{name}-1", "Complete")
    async with start():
        await eventually(lambda: _status(api, "kept").get("phase") == "Completed")
        await eventually(lambda: "lost-2" in _objects(api, JOBS))
    assert _status(api, "lost")["disruptions"] == 1
    assert _status(api, "kept")["attempt"] == 1


async def test_what_is_somebody_elses_is_left_alone_and_told(api: FakeApi, start: StartTasks) -> None:
    job = api.state.create(JOBS, "ml", {"metadata": {"name": "train-1"}, "spec": {}})
    service = api.state.create(SERVICES, "ml", {"metadata": {"name": "serve"}, "spec": {}})
    _ask(api, "train")
    _ask(api, "serve", replicas=2)
    async with start():
        await eventually(lambda: _reason(api, "train", "Accepted") == "NameTaken")
        await eventually(lambda: _reason(api, "serve", "Accepted") == "NameTaken")
    assert _objects(api, JOBS)["train-1"] == job
    assert _objects(api, SERVICES)["serve"] == service
    assert "is not this task's" in _status(api, "train")["why"]


async def test_a_job_that_was_made_though_the_answer_was_lost_is_made_once(
    api: FakeApi, start: StartTasks
) -> None:
    api.faults.append(Fault(Drop(after=True), method="POST", path="/jobs", times=2))
    _ask(api, "train")
    async with start():
        await eventually(lambda: _status(api, "train").get("job") == "train-1")
    assert list(_objects(api, JOBS)) == ["train-1"]


async def test_a_refusal_is_told_in_the_words_of_the_api_server(api: FakeApi, start: StartTasks) -> None:
    refusal = Answer(403, "Forbidden", 'jobs.batch "train-1" is forbidden: exceeded quota: small')
    api.faults.append(Fault(refusal, method="POST", path="/jobs", times=1000))
    _ask(api, "train")
    async with start():
        await eventually(lambda: "exceeded quota: small" in _status(api, "train").get("why", ""))
    assert _reason(api, "train", "Accepted") == "JobRefused"
    assert api.count(method="POST", path="/jobs") <= 3


async def test_a_conflict_is_decided_anew(api: FakeApi, start: StartTasks) -> None:
    api.faults.append(Fault(Answer(409, "Conflict"), method="PATCH", path="/gputasks", times=3))
    _ask(api, "train", suspend=True)
    async with start():
        await eventually(lambda: _status(api, "train").get("phase") == "Suspended")
        api.state.patch(TASKS, ("ml", "train"), "merge-patch", {"spec": {"suspend": False}})
        await eventually(lambda: _objects(api, JOBS)["train-1"]["spec"]["suspend"] is False)


async def test_a_job_that_was_changed_meanwhile_is_changed_as_it_is_now(
    api: FakeApi, start: StartTasks
) -> None:
    """By whom does not matter: the queue, a person, the Job controller."""
    _ask(api, "train", suspend=True)
    async with start():
        await eventually(lambda: _status(api, "train").get("phase") == "Suspended")
        api.faults.append(Fault(Answer(409, "Conflict"), method="PATCH", path="/jobs/train-1", times=3))
        api.state.patch(TASKS, ("ml", "train"), "merge-patch", {"spec": {"suspend": False}})
        await eventually(lambda: _objects(api, JOBS)["train-1"]["spec"]["suspend"] is False)
        await eventually(lambda: _status(api, "train").get("phase") == "Waiting")
    assert api.count(method="PATCH", path="/jobs/train-1") == 4
    assert _objects(api, JOBS).keys() == {"train-1"}


async def test_a_controller_that_starts_among_tasks_that_rest_writes_none_of_them(
    api: FakeApi, start: StartTasks
) -> None:
    for index in range(20):
        _ask(api, f"task-{index}", suspend=index % 2 == 0)
    async with start():
        await eventually(lambda: all(_status(api, name).get("job") for name in _objects(api, TASKS)))
        await eventually(
            lambda: {_status(api, f"task-{n}").get("phase") for n in (0, 1)} == {"Suspended", "Waiting"}
        )
        for index in range(1, 20, 2):
            _end(api, f"task-{index}-1", "Complete")
        await eventually(
            lambda: all(_status(api, f"task-{n}").get("phase") == "Completed" for n in range(1, 20, 2))
        )
        await eventually(
            lambda: all(_status(api, f"task-{n}").get("phase") == "Suspended" for n in range(0, 20, 2))
        )
    before, count = _objects(api, TASKS), len(api.seen)
    async with start():
        _ask(api, "last")
        await eventually(lambda: _status(api, "last").get("job") == "last-1")
    after = _objects(api, TASKS)
    assert {name: after[name] for name in before} == before
    written = {seen.path for seen in api.seen[count:] if seen.method in ("POST", "PATCH", "DELETE")}
    assert not [path for path in written if "task-" in path and "lease" not in path]


async def test_why_ranks_are_missing_is_read_from_the_events_of_their_job_until_they_run(
    api: FakeApi, start: StartTasks
) -> None:
    made = _ask(api, "train")
    async with start():
        await eventually(lambda: "train-1" in _objects(api, JOBS))
        job = _objects(api, JOBS)["train-1"]
        event = {
            "metadata": {"name": "refused"},
            "involvedObject": {"kind": "Job", "name": "train-1", "uid": job["metadata"]["uid"]},
            "reason": "FailedCreate",
            "message": "no PriorityClass with name urgent was found",
        }
        api.state.create("api/v1/events", "ml", event)
        old = {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}
        api.state.patch(JOBS, ("ml", "train-1"), "merge-patch", old)
        await eventually(lambda: _reason(api, "train", "Placed") == "PodsRefused", within_s=20)
        assert _status(api, "train")["why"] == "no PriorityClass with name urgent was found"
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-1", "controller": True}
        pod = {
            "name": "train-1-0",
            "labels": {"accelet.dev/task": "train", "accelet.dev/task-uid": made["metadata"]["uid"]},
            "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
            "ownerReferences": [{**owner, "uid": job["metadata"]["uid"]}],
        }
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.state.create(PODS, "ml", {"metadata": pod, "spec": {"nodeName": "node"}, "status": ready})
        api.state.patch(JOBS, ("ml", "train-1"), "merge-patch", {"status": {"active": 1}})
        await eventually(lambda: _status(api, "train").get("phase") == "Running")
    assert not _status(api, "train").get("why")
    assert _reason(api, "train", "Placed") == "Placed"
