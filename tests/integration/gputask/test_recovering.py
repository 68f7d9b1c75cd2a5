"""What a controller lives through: its kind is removed, a task has thousands of ranks, labels change."""

from typing import Any

from accelet.fakeapi import Answer, FakeApi, Fault, Json
from tests.integration.gputask.conftest import StartTasks
from tests.integration.gputask.stored import JOBS, PODS, TASKS, ask, stored, task_status
from tests.integration.kube.waiting import eventually

MANY = 2000


def _pod(api: FakeApi, task: Json, rank: int, **status: Any) -> None:
    """As the Job controller and a kubelet leave it."""
    name, job = task["metadata"]["name"], stored(api, JOBS)[f"{task['metadata']['name']}-1"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"{name}-1", "controller": True}
    body = {
        "metadata": {
            "name": f"{name}-1-{rank}",
            "labels": {"accelet.dev/task": name, "accelet.dev/task-uid": task["metadata"]["uid"]},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(rank)},
            "ownerReferences": [{**owner, "uid": job["metadata"]["uid"]}],
        },
        "spec": {"nodeName": f"node-{rank % 100}"},
        "status": status,
    }
    api.state.create(PODS, "ml", body)


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def test_a_label_on_a_task_gives_nobody_anything_to_write(api: FakeApi, start: StartTasks) -> None:
    ask(api, "train", suspend=True)
    async with start():
        await eventually(lambda: task_status(api, "train").get("phase") == "Suspended")
        await eventually(lambda: "train-1" in stored(api, JOBS))
        before = len(api.seen)
        for text in ("one", "two"):
            change = {"metadata": {"labels": {"team": text}, "annotations": {"note": text}}}
            api.state.patch(TASKS, ("ml", "train"), "merge-patch", change)
        ask(api, "last", suspend=True)
        await eventually(lambda: task_status(api, "last").get("phase") == "Suspended")
    written = [seen.path for seen in api.seen[before:] if seen.method in ("POST", "PATCH", "DELETE")]
    assert not [path for path in written if path.endswith(("/train", "/train/status", "/train-1"))]


async def test_the_kind_is_removed_while_the_controller_runs_and_comes_back(
    api: FakeApi, start: StartTasks
) -> None:
    ask(api, "first", suspend=True)
    async with start() as controller:
        await eventually(lambda: task_status(api, "first").get("phase") == "Suspended")
        unknown = Fault(Answer(404, "NotFound"), path="/gputasks", times=1_000_000)
        api.state.delete(TASKS, ("ml", "first"))
        api.faults.append(unknown)
        api.end_watches()
        await eventually(lambda: unknown.hits >= 1)
        assert not controller.done()
        api.state.delete(JOBS, ("ml", "first-1"))
        api.faults.remove(unknown)
        ask(api, "second", suspend=True)
        await eventually(lambda: task_status(api, "second").get("phase") == "Suspended", within_s=30)
    assert list(stored(api, JOBS)) == ["second-1"]


async def test_a_task_of_2000_ranks_is_told_in_few_writes_of_bounded_size(
    api: FakeApi, start: StartTasks
) -> None:
    task = ask(api, "train", replicas=MANY)
    async with start():
        await eventually(lambda: "train-1" in stored(api, JOBS))
    for rank in range(MANY):
        _pod(api, task, rank, **READY)
    api.state.patch(JOBS, ("ml", "train-1"), "merge-patch", {"status": {"active": MANY, "ready": MANY}})
    async with start():
        await eventually(lambda: task_status(api, "train").get("readyReplicas") == MANY, within_s=30)
    status = task_status(api, "train")
    assert (status["phase"], status.get("why", "")) == ("Running", "")
    assert len(status["nodes"]) == 64
    assert status["nodes"][0]["ranks"].startswith("0,100,200")
    assert len(str(status)) < 32_000
    assert api.count(method="PATCH", path="/gputasks/train/status") <= 10
