"""GPUTasks of falldio.com/v1 are carried out by GPUTasks of ours, where that is asked for."""

from functools import partial
from typing import Any

from accelet.fakeapi import Answer, FakeApi, Fault, Json
from tests.integration.gputask.conftest import StartTasks
from tests.integration.gputask.stored import JOBS, PODS, TASKS, stored
from tests.integration.kube.waiting import eventually

ORIGINALS = "apis/falldio.com/v1/gputasks"
SPEC = {"memory": "1Gi", "cpu": "500m", "gpu": "a100", "gpu-amount": "2", "priority": ""}


def _ask(api: FakeApi, name: str, **spec: Any) -> Json:
    body = {"metadata": {"name": name}, "spec": {**SPEC, **spec}}
    made: Json = api.state.create(ORIGINALS, "ml", body)
    return made


def _status(api: FakeApi, name: str) -> Json:
    status: Json = stored(api, ORIGINALS)[name].get("status") or {}
    return status


async def test_an_original_owns_a_task_and_tells_how_far_it_is(api: FakeApi, start: StartTasks) -> None:
    made = _ask(api, "gpu-task")
    async with start(serve_original=True):
        await eventually(lambda: _status(api, "gpu-task").get("phase") == "Waiting")
        task, job = stored(api, TASKS)["gpu-task"], stored(api, JOBS)["gpu-task-1"]
        assert task["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        template = job["spec"]["template"]["spec"]
        assert template["nodeSelector"] == {"falldio.com/gpu": "a100"}
        assert template["containers"][0]["resources"]["limits"]["falldio.com/gpu"] == "2"
        end = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
        api.state.patch(JOBS, ("ml", "gpu-task-1"), "merge-patch", end)
        await eventually(lambda: _status(api, "gpu-task").get("phase") == "Completed")
    count = len(api.seen)
    async with start(serve_original=True):
        _ask(api, "last")
        await eventually(lambda: "last" in stored(api, TASKS))
    written = [seen.path for seen in api.seen[count:] if seen.method in ("POST", "PATCH")]
    assert not [path for path in written if "gpu-task" in path]


async def test_nothing_is_made_of_originals_unless_that_is_asked_for(api: FakeApi, start: StartTasks) -> None:
    _ask(api, "gpu-task")
    body = {"metadata": {"name": "ours", "generation": 1}, "spec": {"container": {"image": "app"}}}
    api.state.create(TASKS, "ml", body)
    async with start():
        await eventually(lambda: "ours-1" in stored(api, JOBS))
    assert list(stored(api, TASKS)) == ["ours"]
    assert not [seen for seen in api.seen if "falldio" in seen.path]


async def test_while_pods_of_the_original_controller_are_about_the_answer_is_a_sentence(
    api: FakeApi, start: StartTasks
) -> None:
    labels = {"app": "gpu-task"}
    api.state.create(PODS, "ml", {"metadata": {"name": "old", "labels": labels}, "spec": {}})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    owned = {"name": "web", "labels": labels, "ownerReferences": [owner]}
    api.state.create(PODS, "other", {"metadata": owned, "spec": {}})
    _ask(api, "gpu-task")
    api.state.create(ORIGINALS, "other", {"metadata": {"name": "free"}, "spec": SPEC})
    async with start(serve_original=True):
        await eventually(lambda: _status(api, "gpu-task").get("phase") == "Refused")
        await eventually(lambda: "free" in stored(api, TASKS))
    assert "pod old (app=gpu-task) has no owner" in _status(api, "gpu-task")["why"]
    assert list(stored(api, TASKS)) == ["free"]


async def test_a_task_of_the_name_that_is_somebody_elses_is_left_alone(
    api: FakeApi, start: StartTasks
) -> None:
    body = {"metadata": {"name": "gpu-task", "generation": 1}, "spec": {"container": {"image": "app"}}}
    api.state.create(TASKS, "ml", body)
    _ask(api, "gpu-task")
    _ask(api, "wrong", **{"gpu-amount": "many"})
    async with start(serve_original=True):
        await eventually(lambda: "is not made of it" in _status(api, "gpu-task").get("why", ""))
        await eventually(lambda: "whole number from 1 to 64" in _status(api, "wrong").get("why", ""))
    assert stored(api, TASKS)["gpu-task"]["spec"] == body["spec"]
    assert "wrong" not in stored(api, TASKS)


async def test_the_pods_of_a_namespace_are_looked_at_once_for_all_its_originals(
    api: FakeApi, start: StartTasks
) -> None:
    api.state.create(PODS, "ml", {"metadata": {"name": "old", "labels": {"app": "gpu-task"}}, "spec": {}})
    names = [f"task-{number}" for number in range(8)]
    for name in names:
        _ask(api, name)
    async with start(serve_original=True):
        await eventually(lambda: all(_status(api, name).get("phase") == "Refused" for name in names))
        api.state.create(ORIGINALS, "other", {"metadata": {"name": "free"}, "spec": SPEC})
        await eventually(lambda: "free" in stored(api, TASKS))
    assert api.count(method="GET", path="namespaces/ml/pods") <= 2


async def test_an_original_that_is_refused_is_left_alone_for_a_while_whatever_is_written_on_it(
    api: FakeApi, start: StartTasks
) -> None:
    api.faults.append(Fault(Answer(422, "Invalid"), method="POST", path="namespaces/ml/gputasks", times=1000))
    _ask(api, "gpu-task")
    async with start(serve_original=True):
        await eventually(lambda: _status(api, "gpu-task").get("phase") == "Refused")
        for number in range(5):
            note = {"metadata": {"annotations": {"example.com/note": str(number)}}}
            api.state.patch(ORIGINALS, ("ml", "gpu-task"), "merge-patch", note)
            # It is made after the news of the note has been looked at: both are of one watch and one queue.
            name = f"free-{number}"
            api.state.create(ORIGINALS, "other", {"metadata": {"name": name}, "spec": SPEC})
            await eventually(partial(_is_made, api, name))
    assert api.count(method="POST", path="namespaces/ml/gputasks") <= 2


def _is_made(api: FakeApi, name: str) -> bool:
    return name in stored(api, TASKS)
