"""`accelet task why` beside the controller: who waits for a queue, for a quota, and in whose words."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelet.cli import main
from accelet.fakeapi import Answer, FakeApi, Fault, Json
from tests.integration.gputask.conftest import StartTasks
from tests.integration.gputask.stored import JOBS, PODS, ask, stored, task_status
from tests.integration.kube.waiting import eventually
from tests.output_forms import read_form

WORKLOADS = "apis/kueue.x-k8s.io/v1beta2/workloads"
_NO_QUOTA = (
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 2 more needed"
)
_EXCEEDED = 'pods "train-1-0-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=0'


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> Path:
    return api.write_kubeconfig(tmp_path / "asked-with")


async def _why(kubeconfig: Path, *more: str) -> str:
    words = ["task", "why", "--kubeconfig", str(kubeconfig), "-n", "ml", "train", *more]
    result = await asyncio.to_thread(CliRunner().invoke, main, words)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def _tell(api: FakeApi, kind: str, truth: str, message: str = "") -> Json:
    """What Kueue says on the Workload of the task's Job, which it makes first where there is none."""
    job = stored(api, JOBS)["train-1"]["metadata"]
    if not stored(api, WORKLOADS):
        labels = {"kueue.x-k8s.io/job-uid": job["uid"]}
        body = {"metadata": {"name": "job-train-1", "labels": labels}, "spec": {"active": True}}
        api.state.create(WORKLOADS, "ml", body)
    said = {"type": kind, "status": truth, "reason": "Pending", "message": message}
    held = (stored(api, WORKLOADS)["job-train-1"].get("status") or {}).get("conditions", [])
    conditions = [one for one in held if one["type"] != kind] + [said]
    patch = {"status": {"conditions": conditions}}
    changed: Json = api.state.patch(WORKLOADS, ("ml", "job-train-1"), "merge-patch", patch)
    return changed


async def test_why_says_in_kueues_words_what_a_task_waits_for_in_its_queue(
    api: FakeApi, start: StartTasks, kubeconfig: Path
) -> None:
    ask(api, "train", queue="team")
    async with start():
        await eventually(lambda: task_status(api, "train").get("phase") == "Queued")
        way = [
            "ml/train  Queued",
            "  its Job is made",
            "  not yet: it may have pods  Queued: waits in the queue team",
        ]
        unseen = "Kueue has made no Workload of its Job yet: does Kueue run, and is there such a queue?"
        assert (await _why(kubeconfig)).splitlines() == [*way, f"  Kueue: {unseen}"]

        _tell(api, "QuotaReserved", "False", _NO_QUOTA)
        assert (await _why(kubeconfig)).splitlines() == [*way, f"  Kueue: it has no quota: {_NO_QUOTA}"]
        told = read_form("task-why", await _why(kubeconfig, "--json"))
        assert told["queued"] == f"it has no quota: {_NO_QUOTA}"

        _tell(api, "QuotaReserved", "True")
        checks = [{"name": "placed", "state": "Retry", "message": "no place for 2 pods"}]
        api.state.patch(
            WORKLOADS, ("ml", "job-train-1"), "merge-patch", {"status": {"admissionChecks": checks}}
        )
        waits = "it has quota, and waits for the check placed, which is Retry: no place for 2 pods"
        assert (await _why(kubeconfig)).splitlines() == [*way, f"  Kueue: {waits}"]

        inactive = {"spec": {"active": False}}
        api.state.patch(WORKLOADS, ("ml", "job-train-1"), "merge-patch", inactive)
        assert (await _why(kubeconfig)).splitlines() == [*way, "  Kueue: its Workload is not active"]

        # Kueue lets it go.
        _tell(api, "Admitted", "True")
        api.state.patch(JOBS, ("ml", "train-1"), "merge-patch", {"spec": {"suspend": False}})
        await eventually(lambda: task_status(api, "train").get("phase") == "Waiting")
        assert "Kueue" not in await _why(kubeconfig)
    assert stored(api, JOBS)["train-1"]["spec"]["suspend"] is False


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (Answer(404, "NotFound"), "serves no Workloads of kueue.x-k8s.io/v1beta2: does Kueue run?"),
        (Answer(403, "Forbidden"), "cannot be read: you may not list Workloads"),
    ],
    ids=["no Kueue", "no right"],
)
async def test_why_says_where_kueue_cannot_be_asked(
    api: FakeApi, start: StartTasks, kubeconfig: Path, refusal: Answer, sentence: str
) -> None:
    api.faults.append(Fault(refusal, method="GET", path="/workloads", times=1000))
    ask(api, "train", queue="team")
    async with start():
        await eventually(lambda: task_status(api, "train").get("phase") == "Queued")
        said = await _why(kubeconfig)
    assert "Queued: waits in the queue team" in said
    assert sentence in said


async def test_why_says_which_quota_refuses_the_pods(
    api: FakeApi, start: StartTasks, kubeconfig: Path
) -> None:
    ask(api, "train")
    async with start():
        await eventually(lambda: "train-1" in stored(api, JOBS))
        job = stored(api, JOBS)["train-1"]["metadata"]
        event = {
            "metadata": {"name": "refused"},
            "involvedObject": {"kind": "Job", "name": "train-1", "uid": job["uid"]},
            "reason": "FailedCreate",
            "message": f"Error creating: {_EXCEEDED}",
        }
        api.state.create("api/v1/events", "ml", event)
        old = {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}
        api.state.patch(JOBS, ("ml", "train-1"), "merge-patch", old)
        await eventually(lambda: "exceeded quota" in task_status(api, "train").get("why", ""))
        assert (await _why(kubeconfig)).splitlines() == [
            "ml/train  Waiting",
            "  its Job is made",
            "  it may have pods",
            f"  not yet: every rank has a node  PodsRefused: Error creating: {_EXCEEDED}",
        ]
    assert stored(api, PODS) == {}


async def test_why_says_which_quota_refuses_the_job(
    api: FakeApi, start: StartTasks, kubeconfig: Path
) -> None:
    sentence = 'jobs.batch "train-1" is forbidden: exceeded quota: small, requested: count/jobs.batch=1'
    api.faults.append(Fault(Answer(403, "Forbidden", sentence), method="POST", path="/jobs", times=1000))
    ask(api, "train")
    async with start():
        await eventually(lambda: "exceeded quota" in task_status(api, "train").get("why", ""))
        assert (await _why(kubeconfig)).splitlines() == [
            "ml/train  Pending",
            f"  not yet: its Job is made  JobRefused: {sentence}",
        ]
    assert stored(api, JOBS) == {}
