"""Moves through the task controller, with the parts of scheduler, Job controller and kubelet played here."""

from functools import partial
from typing import Any

from accelet.fakeapi import Answer, Drop, FakeApi, Fault, Json
from tests.fakes.manifests import raw_pod
from tests.integration.gputask.conftest import StartTasks
from tests.integration.kube.waiting import eventually as eventually_within

TASKS, MOVES = "apis/accelet.dev/v1alpha1/gputasks", "apis/accelet.dev/v1alpha1/moves"
JOBS, PODS = "apis/batch/v1/jobs", "api/v1/pods"
BUDGETS = "apis/policy/v1/poddisruptionbudgets"
eventually = partial(eventually_within, within_s=60.0)
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def _ask(api: FakeApi, **move: Any) -> Json:
    spec = {"container": {"image": "app"}, "move": {"policy": "WhenItHelps", **move}}
    made: Json = api.state.create(TASKS, "ml", {"metadata": {"name": "train", "generation": 1}, "spec": spec})
    return made


def _run_pod(api: FakeApi, name: str, node: str, task: Json) -> Json:
    """A pod of the task's Job that runs on a node."""
    job = api.state.collection(JOBS).objects["ml", "train-1"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-1", "controller": True}
    body = raw_pod(name, on=node, labels={}, gates=())
    body["metadata"] |= {
        "labels": {"accelet.dev/task": "train", "accelet.dev/task-uid": task["metadata"]["uid"]},
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
        "ownerReferences": [{**owner, "uid": job["metadata"]["uid"]}],
    }
    made: Json = api.state.create(PODS, "ml", {**body, "status": READY})
    return made


def _propose(api: FakeApi, task: Json, pod: Json) -> None:
    place = {"rank": 0, "podUid": pod["metadata"]["uid"], "fromNode": "n0", "toNode": "n1"}
    spec = {
        "task": {"name": "train", "uid": task["metadata"]["uid"], "attempt": 1},
        "takes": {"pods": 1},
        "places": [place],
        "gain": {"kind": "LetsIn", "text": "would let in a gang"},
        "validUntil": "2100-01-01T00:00:00Z",
    }
    api.state.create(MOVES, "ml", {"metadata": {"name": "train-1"}, "spec": spec})


def _hold(api: FakeApi) -> None:
    """As the scheduler does, once it was approved."""
    api.state.patch(MOVES, ("ml", "train-1"), "merge-patch", {"status": {"phase": "Held"}})


def _status(api: FakeApi) -> Json:
    status: Json = api.state.collection(MOVES).objects["ml", "train-1"].get("status") or {}
    return status


def _is_suspended(api: FakeApi) -> bool:
    return bool(api.state.collection(JOBS).objects["ml", "train-1"]["spec"].get("suspend"))


async def _begin(api: FakeApi, **move: Any) -> tuple[Json, Json]:
    task = _ask(api, **move)
    await eventually(lambda: ("ml", "train-1") in api.state.collection(JOBS).objects)
    pod = _run_pod(api, "train-1-0-a", "n0", task)
    _propose(api, task, pod)
    await eventually(lambda: _status(api).get("phase") == "Approved")
    return task, pod


async def test_a_held_move_is_carried_out_by_suspend_and_resume(api: FakeApi, start: StartTasks) -> None:
    async with start():
        task, _ = await _begin(api)
        assert not _is_suspended(api), "nothing is done before the new place is held"
        _hold(api)
        await eventually(lambda: _is_suspended(api))
        assert _status(api)["phase"] == "Leaving", "written before it was done"
        api.state.delete(PODS, ("ml", "train-1-0-a"))
        await eventually(lambda: not _is_suspended(api))
        _run_pod(api, "train-1-0-b", "n1", task)
        await eventually(lambda: _status(api).get("phase") == "Done")
    assert _status(api)["reason"] == "Arrived"
    assert not [seen for seen in api.seen if seen.method == "DELETE" and "/pods/" in seen.path]


async def test_a_controller_that_begins_anew_in_the_middle_goes_on(api: FakeApi, start: StartTasks) -> None:
    api.faults.append(Fault(Drop(after=True), method="PATCH", path="/jobs", times=2))
    api.faults.append(Fault(Answer(409, "Conflict"), method="PATCH", path="/moves", times=2))
    async with start():
        task, _ = await _begin(api)
        _hold(api)
        await eventually(lambda: _is_suspended(api))
    api.state.delete(PODS, ("ml", "train-1-0-a"))
    async with start():
        await eventually(lambda: not _is_suspended(api))
    _run_pod(api, "train-1-0-b", "n1", task)
    async with start():
        await eventually(lambda: _status(api).get("phase") == "Done")


async def test_a_task_that_is_deleted_while_it_moves_goes_and_another_of_its_name_does_not_move(
    api: FakeApi, start: StartTasks
) -> None:
    api.state.collects_garbage = True
    async with start():
        await _begin(api)
        _hold(api)
        await eventually(lambda: _is_suspended(api))
        api.state.delete(TASKS, ("ml", "train"))
        await eventually(lambda: ("ml", "train-1") not in api.state.collection(JOBS).objects)
        left = _status(api)
        again = _ask(api)
        await eventually(lambda: ("ml", "train-1") in api.state.collection(JOBS).objects)
        pod = _run_pod(api, "train-1-0-b", "n0", again)

        def runs() -> bool:
            status = api.state.collection(TASKS).objects["ml", "train"].get("status") or {}
            return status.get("phase") == "Running"

        await eventually(runs)
    assert not _is_suspended(api)
    assert _status(api) == left, "a Move of another task is nobody's"
    assert api.state.collection(PODS).objects["ml", "train-1-0-b"]["metadata"] == pod["metadata"]


async def test_a_disruption_budget_is_asked_before_the_program_is_disturbed(
    api: FakeApi, start: StartTasks
) -> None:
    selector = {"matchLabels": {"accelet.dev/task": "train"}}
    budget = {"metadata": {"name": "whole"}, "spec": {"selector": selector}}
    api.state.create(BUDGETS, "ml", {**budget, "status": {"disruptionsAllowed": 0}})
    async with start():
        await _begin(api, saveSeconds=60)
        _hold(api)
        await eventually(lambda: _status(api).get("phase") == "Withdrawn")
    assert _status(api)["why"] == "the disruption budget whole lets 0 of its 1 pods be disrupted now"
    assert not _is_suspended(api)
    assert not [seen for seen in api.seen if seen.method == "PATCH" and "/pods/" in seen.path]


async def test_a_program_with_time_is_asked_on_its_pod(api: FakeApi, start: StartTasks) -> None:
    async with start():
        await _begin(api, saveSeconds=3600)
        _hold(api)

        def annotations() -> Json:
            said: Json = api.state.collection(PODS).objects["ml", "train-1-0-a"]["metadata"]["annotations"]
            return said

        await eventually(lambda: "accelet.dev/save" in annotations())
        uid = api.state.collection(MOVES).objects["ml", "train-1"]["metadata"]["uid"]
        asked, _, until = annotations()["accelet.dev/save"].partition(" ")
        assert (asked, _status(api)["phase"]) == (uid, "Saving")
        assert until
        assert not _is_suspended(api)
        saved = {"metadata": {"annotations": {"accelet.dev/saved": uid}}}
        api.state.patch(PODS, ("ml", "train-1-0-a"), "merge-patch", saved)
        await eventually(lambda: _is_suspended(api))
    assert [one["reason"] for one in _status(api)["conditions"] if one["type"] == "Leaving"] == ["Saved"]
