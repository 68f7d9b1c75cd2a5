"""What the API server answers to writes, and who else is at work, one row a test."""

from itertools import pairwise

import pytest

from accelet.fakeapi import Answer, FakeApi, Fault
from tests.integration.gputask.conftest import StartTasks
from tests.integration.gputask.stored import JOBS, TASKS, ask, stored, task_status
from tests.integration.kube.waiting import eventually


async def test_two_controllers_make_one_job_an_attempt_and_delete_no_pod(
    api: FakeApi, start: StartTasks
) -> None:
    names = [f"task-{number}" for number in range(10)]
    async with start(), start():
        for name in names:
            ask(api, name, onFailure={"restart": "All", "retries": 1})
        await eventually(lambda: len(stored(api, JOBS)) == len(names), within_s=60)
        failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"}
        for name in names:
            api.state.patch(JOBS, ("ml", f"{name}-1"), "merge-patch", {"status": {"conditions": [failed]}})
        await eventually(lambda: all(f"{name}-2" in stored(api, JOBS) for name in names), within_s=60)
        await eventually(lambda: all(task_status(api, name)["attempt"] == 2 for name in names), within_s=60)
    assert api.count(method="POST", path="/jobs") == 2 * len(names)
    assert [task_status(api, name)["incidents"] for name in names] == [1] * len(names)
    assert api.count(method="DELETE", path="/pods") == 0


@pytest.mark.parametrize("status", [429, 500, 503, 504])
async def test_what_the_api_server_cannot_do_now_is_done_later(
    api: FakeApi, start: StartTasks, status: int
) -> None:
    wait_s = 1 if status == 429 else None
    for path in ("/jobs", "/gputasks"):
        method = "POST" if path == "/jobs" else "PATCH"
        refusal = Answer(status, "Later", retry_after_s=wait_s)
        api.faults.append(Fault(refusal, method=method, path=path, times=2))
    ask(api, "train")
    async with start():
        await eventually(lambda: task_status(api, "train").get("job") == "train-1", within_s=30)
    assert list(stored(api, JOBS)) == ["train-1"]


@pytest.mark.parametrize("status", [429, 503])
async def test_who_asks_for_patience_is_asked_no_sooner_and_that_is_told(
    api: FakeApi, start: StartTasks, status: int
) -> None:
    busy = Answer(status, "TooManyRequests", "too many requests", retry_after_s=2)
    api.faults.append(Fault(busy, method="POST", path="/jobs", times=3))
    ask(api, "train")
    async with start():
        await eventually(lambda: _accepted(api, "train") == ("False", "ApiBusy"))
        told = "the API server cannot do it now, and is asked again: too many requests"
        assert task_status(api, "train")["why"] == told
        for number in range(20):  # news of the task are no reason to ask sooner, nor is another wish
            labels = {"metadata": {"labels": {"n": str(number)}}}
            api.state.patch(TASKS, ("ml", "train"), "merge-patch", labels)
        changed = {"metadata": {"generation": 2}, "spec": {"ttlSeconds": 3600}}
        api.state.patch(TASKS, ("ml", "train"), "merge-patch", changed)
        await eventually(lambda: task_status(api, "train").get("observedGeneration") == 2)
        await eventually(lambda: _accepted(api, "train") == ("True", "JobMade"), within_s=60)
    assert list(stored(api, JOBS)) == ["train-1"]
    asked_s = [seen.at_s for seen in api.seen if seen.method == "POST" and seen.path.endswith("/jobs")]
    assert len(asked_s) == 4
    assert min(after - before for before, after in pairwise(asked_s)) > 1.9


async def test_a_status_that_the_api_server_takes_later_is_sent_no_sooner(
    api: FakeApi, start: StartTasks
) -> None:
    busy = Answer(429, "TooManyRequests", "too many requests", retry_after_s=2)
    api.faults.append(Fault(busy, method="PATCH", path="/gputasks/train", times=2))
    ask(api, "train", suspend=True)
    async with start():
        await eventually(lambda: api.count(method="PATCH", path="/gputasks/train") == 1)
        for number in range(20):
            labels = {"metadata": {"labels": {"n": str(number)}}}
            api.state.patch(TASKS, ("ml", "train"), "merge-patch", labels)
        await eventually(lambda: task_status(api, "train").get("phase") == "Suspended", within_s=60)
    sent_s = [seen.at_s for seen in api.seen if seen.method == "PATCH" and "/gputasks/train" in seen.path]
    assert min(after - before for before, after in pairwise(sent_s[:3])) > 1.9


async def test_in_a_namespace_that_ends_nothing_is_tried_again_and_that_is_told(
    api: FakeApi, start: StartTasks
) -> None:
    """As the API server's check of namespaces answers, with the cause that it names."""
    sentence = "unable to create new content in namespace ml because it is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": "it ends", "field": "metadata.namespace"}
    ending = Fault(
        Answer(403, "Forbidden", sentence, causes=(cause,)),
        method="POST",
        path="/namespaces/ml/jobs",
        times=1000,
    )
    api.faults.append(ending)
    ask(api, "train")
    async with start():
        await eventually(lambda: _accepted(api, "train") == ("False", "NamespaceEnds"))
        assert task_status(api, "train")["why"] == sentence
        changed = {"metadata": {"generation": 2}, "spec": {"replicas": 2, "rendezvous": "None"}}
        api.state.patch(TASKS, ("ml", "train"), "merge-patch", changed)
        await eventually(lambda: task_status(api, "train").get("observedGeneration") == 2)
        body = {"metadata": {"name": "next", "generation": 1}, "spec": {"container": {"image": "app"}}}
        api.state.create(TASKS, "other", body)
        await eventually(lambda: "next-1" in stored(api, JOBS))
        assert api.count(method="POST", path="/namespaces/ml/jobs") == 1
        assert _accepted(api, "train") == ("False", "NamespaceEnds")

        # It has ended, and somebody makes one of its name, with a task of the same name.
        api.state.delete(TASKS, ("ml", "train"))
        ending.times = ending.hits
        ask(api, "train")
        await eventually(lambda: "train-1" in stored(api, JOBS))
    assert api.count(method="POST", path="/namespaces/ml/jobs") == 2


async def test_in_a_namespace_that_is_gone_a_task_harms_no_other_and_is_forgotten(
    api: FakeApi, start: StartTasks
) -> None:
    gone = Answer(404, "NotFound", 'namespaces "ml" not found')
    api.faults.append(Fault(gone, method="POST", path="/namespaces/ml/jobs", times=1000))
    ask(api, "train")
    async with start():
        await eventually(lambda: api.count(method="POST", path="/namespaces/ml/jobs") > 0)
        api.state.delete(TASKS, ("ml", "train"))
        body = {"metadata": {"name": "next", "generation": 1}, "spec": {"container": {"image": "app"}}}
        api.state.create(TASKS, "other", body)
        await eventually(lambda: "next-1" in stored(api, JOBS))
    assert list(stored(api, JOBS)) == ["next-1"]


async def test_a_task_that_is_deleted_is_left_to_the_collector(api: FakeApi, start: StartTasks) -> None:
    body = {"metadata": {"name": "train", "generation": 1, "finalizers": ["example.com/kept"]}}
    api.state.create(TASKS, "ml", {**body, "spec": {"container": {"image": "app"}, "suspend": True}})
    async with start():
        await eventually(lambda: task_status(api, "train").get("phase") == "Suspended")
        api.state.delete(TASKS, ("ml", "train"))
        api.state.patch(TASKS, ("ml", "train"), "merge-patch", {"spec": {"suspend": False}})
        ask(api, "last")
        await eventually(lambda: task_status(api, "last").get("job") == "last-1")
    assert stored(api, JOBS)["train-1"]["spec"]["suspend"] is True
    assert stored(api, TASKS)["train"]["metadata"]["deletionTimestamp"]


async def test_a_task_made_anew_takes_no_job_over_that_its_forerunner_left(
    api: FakeApi, start: StartTasks
) -> None:
    first = ask(api, "train")
    async with start():
        await eventually(lambda: "train-1" in stored(api, JOBS))
        left = stored(api, JOBS)["train-1"]
        assert left["metadata"]["ownerReferences"][0]["uid"] == first["metadata"]["uid"]
        api.state.delete(TASKS, ("ml", "train"))
        api.state.patch(JOBS, ("ml", "train-1"), "merge-patch", {"metadata": {"ownerReferences": []}})
        ask(api, "train")
        await eventually(lambda: "is not this task's" in task_status(api, "train").get("why", ""))
    assert stored(api, JOBS)["train-1"]["metadata"]["uid"] == left["metadata"]["uid"]
    assert stored(api, JOBS)["train-1"]["metadata"]["ownerReferences"] == []


async def test_a_task_that_the_job_api_refuses_is_told_and_tried_again_when_it_changes(
    api: FakeApi, start: StartTasks
) -> None:
    refusal = Answer(422, "Invalid", 'Job.batch "train-1" is invalid: spec.template: no')
    api.faults.append(Fault(refusal, method="POST", path="/jobs", times=1))
    ask(api, "train")
    async with start():
        await eventually(lambda: "is invalid: spec.template: no" in task_status(api, "train").get("why", ""))
        changed = {"metadata": {"generation": 2}, "spec": {"replicas": 2}}
        api.state.patch(TASKS, ("ml", "train"), "merge-patch", changed)
        await eventually(lambda: "train-1" in stored(api, JOBS))
    assert api.count(method="POST", path="/jobs") == 2


async def test_a_task_without_room_for_its_status_is_told_so_once_and_harms_no_other(
    api: FakeApi, start: StartTasks
) -> None:
    """Its owner changes it again and again meanwhile; she may have made it a byte smaller than the bound."""
    too_large = Answer(500, raw=b'{"message": "etcdserver: request is too large", "code": 500}')
    api.faults.append(Fault(too_large, method="PATCH", path="/gputasks/huge", times=1000))
    ask(api, "huge")
    async with start():
        await eventually(lambda: _told(api, "huge") == ["StatusRefused"])
        for number in range(20):
            api.state.patch(
                TASKS, ("ml", "huge"), "merge-patch", {"metadata": {"labels": {"n": str(number)}}}
            )
            ask(api, f"task-{number}")
        await eventually(lambda: len(stored(api, JOBS)) == 20)
    assert api.count(method="PATCH", path="/gputasks/huge") == 1
    assert "huge-1" not in stored(api, JOBS)


def _told(api: FakeApi, name: str) -> list[str]:
    events = stored(api, "apis/events.k8s.io/v1/events").values()
    return [one["reason"] for one in events if one["regarding"]["name"] == name]


def _accepted(api: FakeApi, name: str) -> tuple[str, str]:
    held = {one["type"]: one for one in task_status(api, name).get("conditions", ())}
    one = held.get("Accepted", {})
    return one.get("status", ""), one.get("reason", "")
