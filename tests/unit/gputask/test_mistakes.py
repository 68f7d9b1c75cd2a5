"""The mistakes that people make with tasks, each with the sentence that a task's status has for it.

The words of kubelet, runtime and kube-scheduler are those that Kubernetes 1.36 with containerd 2 writes.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.deciding.decide import decide
from accelet.gputask.deciding.refusals import obstacle_after
from accelet.gputask.deciding.said import read_events, read_pod_events
from accelet.gputask.deciding.status import status_of
from accelet.gputask.deciding.view import AskWhy, JobReport, TaskView
from accelet.gputask.objects.jobs import JobCondition
from accelet.gputask.objects.pods import parse_pod
from accelet.kinds.gputask import MOST_WHY
from accelet.kube.errors import ForbiddenError, InvalidError
from tests.unit.gputask.world import TaskWorld, make_task


@dataclass(frozen=True)
class Mistake:
    """What the cluster says: the status of the pod of rank 0, Events of it and of the Job, or a refusal."""

    sentence: str
    status: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[tuple[str, str]] = ()
    job_events: Sequence[tuple[str, str]] = ()
    refusal: Any = None
    is_over: bool = False


def _waits(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    return {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]}


def _ended(reason: str, code: int, message: str = "") -> dict[str, Any]:
    state = {"terminated": {"reason": reason, "exitCode": code, "message": message}}
    return {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}


def _unscheduled(message: str) -> dict[str, Any]:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [said]}


_CREATING = _waits("ContainerCreating")
_RANK = "rank 0 on node n1: "
_SCHEDULER = "kube-scheduler has no node for rank 0: 0/1 nodes are available: "
_PREEMPTION = ". preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."

MISTAKES: dict[str, Mistake] = {
    "a Secret for variables is missing": Mistake(
        f'{_RANK}its container cannot be configured (CreateContainerConfigError): secret "token" not found',
        _waits("CreateContainerConfigError", 'secret "token" not found'),
    ),
    "a ConfigMap for variables is missing": Mistake(
        f'{_RANK}its container cannot be configured (CreateContainerConfigError): configmap "c" not found',
        _waits("CreateContainerConfigError", 'configmap "c" not found'),
    ),
    "a Secret for a volume is missing": Mistake(
        f'{_RANK}a volume cannot be mounted: MountVolume.SetUp failed for volume "volume-0" :'
        ' secret "token" not found',
        _CREATING,
        [("FailedMount", 'MountVolume.SetUp failed for volume "volume-0" : secret "token" not found')],
    ),
    "a ConfigMap for a volume is missing": Mistake(
        f'{_RANK}a volume cannot be mounted: MountVolume.SetUp failed for volume "volume-0" :'
        ' configmap "c" not found',
        _CREATING,
        [("FailedMount", 'MountVolume.SetUp failed for volume "volume-0" : configmap "c" not found')],
    ),
    "a claim is missing": Mistake(
        f'{_SCHEDULER}persistentvolumeclaim "corpus" not found',
        _unscheduled('0/1 nodes are available: persistentvolumeclaim "corpus" not found' + _PREEMPTION),
    ),
    "a claim has no volume": Mistake(
        f"{_SCHEDULER}pod has unbound immediate PersistentVolumeClaims",
        _unscheduled(
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims" + _PREEMPTION
        ),
    ),
    "the folder of a volume is missing": Mistake(
        f"{_RANK}a volume cannot be mounted: MountVolume.SetUp failed for volume",
        _CREATING,
        [
            (
                "FailedMount",
                'MountVolume.SetUp failed for volume "data" : no such folder',
            )
        ],
    ),
    "a taint is not tolerated": Mistake(
        f"{_SCHEDULER}1 node(s) had untolerated taint(s)",
        _unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint(s)" + _PREEMPTION),
    ),
    "no node has the labels": Mistake(
        f"{_SCHEDULER}1 node(s) didn't match Pod's node affinity/selector",
        _unscheduled(
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector" + _PREEMPTION
        ),
    ),
    "too much memory is asked for": Mistake(
        f"{_SCHEDULER}1 Insufficient memory",
        _unscheduled("0/1 nodes are available: 1 Insufficient memory" + _PREEMPTION),
    ),
    "an image is not there": Mistake(
        f"{_RANK}its image cannot be pulled (ErrImagePull): rpc error: code = NotFound",
        _waits(
            "ErrImagePull", "rpc error: code = NotFound desc = failed to pull and unpack image: not found"
        ),
    ),
    "an image is not there for longer": Mistake(
        f'{_RANK}its image cannot be pulled (ImagePullBackOff): Back-off pulling image "app"',
        _waits("ImagePullBackOff", 'Back-off pulling image "app": ErrImagePull: not found'),
    ),
    "an image has no valid name": Mistake(
        f"{_RANK}its image has no valid name (InvalidImageName)",
        _waits("InvalidImageName", 'Failed to apply default image tag "App:": couldn\'t parse image name'),
    ),
    "a command is misspelt": Mistake(
        "rank 0 could not be started: failed to create containerd task",
        _ended(
            "StartError",
            128,
            "failed to create containerd task: OCI runtime create failed: runc create"
            ' failed: unable to start container process: exec: "trian": executable file not found in $PATH',
        ),
        is_over=True,
    ),
    "a command of a shell is misspelt": Mistake(
        "rank 0 ended with exit code 127: its shell found no such command", _ended("Error", 127), is_over=True
    ),
    "the memory is too small": Mistake(
        "rank 0 used more memory than its container may (OOMKilled) and ended with exit code 137",
        _ended("OOMKilled", 137),
        is_over=True,
    ),
    "an image has no command": Mistake(
        f"{_RANK}its container cannot be made (CreateContainerError): no command specified",
        _waits("CreateContainerError", "no command specified"),
    ),
    "a path is not one to mount at": Mistake(
        'rank 0 could not be started: error mounting "/x" to rootfs at "/proc/x": cannot be mounted because',
        _ended(
            "StartError",
            128,
            'error mounting "/x" to rootfs at "/proc/x": cannot be mounted because it is inside /proc',
        ),
        is_over=True,
    ),
    "a working directory is a file": Mistake(
        "rank 0 could not be started: error during container init: mkdir /bin/sh: not a directory",
        _ended("StartError", 128, "error during container init: mkdir /bin/sh: not a directory"),
        is_over=True,
    ),
    "a program cannot be started yet": Mistake(
        f"{_RANK}its program cannot be started (RunContainerError): the runtime is busy",
        _waits("RunContainerError", "the runtime is busy"),
    ),
    "an image runs as root where it may not": Mistake(
        f"{_RANK}its container cannot be configured (CreateContainerConfigError): container has runAsNonRoot",
        _waits("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
    ),
    "the network of a pod cannot be made": Mistake(
        f"{_RANK}its pod cannot be set up: Failed to create pod sandbox: rpc error",
        _CREATING,
        [
            (
                "FailedCreatePodSandBox",
                "Failed to create pod sandbox: rpc error: no runtime",
            )
        ],
    ),
    "a kubelet has no such device any more": Mistake(
        "a kubelet did not admit rank 0: UnexpectedAdmissionError: Allocate failed due to no healthy devices",
        {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": "Allocate failed due to no healthy devices present",
        },
        is_over=True,
    ),
    "a service account is missing": Mistake(
        'looking up service account ml/robot: serviceaccount "robot" not found',
        job_events=[
            (
                "FailedCreate",
                (
                    'Error creating: pods "train-1-0-" is forbidden: looking up service account ml/robot:'
                    ' serviceaccount "robot" not found'
                ),
            )
        ],
    ),
    "a PriorityClass is missing": Mistake(
        "no PriorityClass with name high was found",
        job_events=[
            (
                "FailedCreate",
                'Error creating: pods "x" is forbidden: no PriorityClass with name high was found',
            )
        ],
    ),
    "a namespace lets no such pod in": Mistake(
        'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        job_events=[
            (
                "FailedCreate",
                (
                    'Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest":'
                    " allowPrivilegeEscalation != false"
                ),
            )
        ],
    ),
    "a quota is used up": Mistake(
        "exceeded quota: small, requested: pods=1",
        job_events=[
            (
                "FailedCreate",
                'Error creating: pods "x" is forbidden: exceeded quota: small, requested: pods=1',
            )
        ],
    ),
    "two volumes are at one path": Mistake(
        'spec.template.spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/data": must be unique',
        refusal=InvalidError(
            "POST jobs",
            422,
            "Invalid",
            'Job.batch "train-1" is invalid: '
            "spec.template.spec.containers[0].volumeMounts[1].mountPath: Invalid value:"
            ' "/data": must be unique',
        ),
    ),
    "a quota of Jobs is used up": Mistake(
        "exceeded quota: small, requested: count/jobs.batch=1",
        refusal=ForbiddenError(
            "POST jobs", 403, "Forbidden", "exceeded quota: small, requested: count/jobs.batch=1"
        ),
    ),
}


def _begun(**spec: Any) -> TaskView:
    """A task of one rank whose Job has been made a minute ago, and which has no pod yet."""
    world = TaskWorld(random.Random(1), make_task(spec={"replicas": 1, **spec}), faulty=0.0)
    while not world.jobs or not world.task.status.job_uid:
        world.act(world.think())
    view = world.view()
    return replace(view, now_s=view.now_s + 60.0)


_BEGUN = _begun()


def _pod(status: Mapping[str, Any]) -> Any:
    owner = {"kind": "Job", "name": "train-1", "uid": "job-1", "controller": True}
    metadata = {
        "name": "train-1-0-x",
        "namespace": "ml",
        "uid": "pod-1",
        "labels": {"accelet.dev/task-uid": "task-uid"},
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
        "ownerReferences": [owner],
    }
    node = {} if status.get("conditions") else {"nodeName": "n1"}
    return parse_pod({"metadata": metadata, "spec": node, "status": dict(status)})


def _events(told: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"reason": reason, "message": message, "lastTimestamp": "2030-01-01T00:00:00Z"}
        for reason, message in told
    ]


def _see(mistake: Mistake, view: TaskView = _BEGUN) -> TaskView:
    """The view of a task in which somebody made it, once the controller has asked what it asks."""
    if mistake.refusal is not None:
        obstacle = obstacle_after(mistake.refusal, view.task, None, view.now_s)
        return replace(view, obstacle=obstacle)
    pods = (_pod(mistake.status),) if mistake.status else ()
    jobs = tuple(replace(job, active=len(pods)) for job in view.jobs)
    if mistake.is_over:
        failed = JobCondition("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        jobs = tuple(replace(job, failed=failed) for job in jobs)
    view = replace(view, pods=pods, jobs=jobs)
    action = decide(view).action
    if isinstance(action, AskWhy):
        report = read_events(_events(mistake.job_events), action.job.uid, view.now_s, action.again_s)
        if action.pod is not None:
            starting = read_pod_events(_events(mistake.events))
            report = replace(report, pod_uid=action.pod.uid, starting=starting)
        view = replace(view, report=report)
    return view


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_has_its_sentence(name: str) -> None:
    mistake = MISTAKES[name]
    view = _see(mistake)
    status = status_of(view, decide(view).record)

    assert mistake.sentence in status.why
    assert len(status.why) <= MOST_WHY


def test_there_are_twenty_at_least() -> None:
    assert len({mistake.sentence for mistake in MISTAKES.values()}) == len(MISTAKES) >= 20


def test_a_pod_that_starts_is_asked_about_only_when_it_takes_long() -> None:
    started = {"startTime": "2030-01-01T00:00:00Z", **_CREATING}
    pod = _pod(started)
    jobs = tuple(replace(job, active=1) for job in _BEGUN.jobs)
    view = replace(_BEGUN, pods=(pod,), jobs=jobs, now_s=pod.accepted_s + 2.0)

    assert (decide(view).action, decide(view).again_s) == (None, 3.0)
    assert decide(replace(view, now_s=pod.accepted_s + 5.0)).action == AskWhy(jobs[0], 5.0, pod)


def test_what_was_in_the_way_before_an_image_is_pulled_is_not_told_any_more() -> None:
    def event(reason: str, second: int) -> dict[str, Any]:
        return {"reason": reason, "message": "m", "lastTimestamp": f"2030-01-01T00:00:{second:02}Z"}

    assert read_pod_events([event("FailedMount", 1), event("Pulling", 2)]) == "its image is being pulled"
    assert read_pod_events([event("FailedMount", 1), event("Started", 2)]) == ""
    assert read_pod_events([event("Started", 1), event("FailedMount", 1)]) == "a volume cannot be mounted: m"
    assert read_pod_events([event("Scheduled", 1), {"reason": 7}]) == ""


def test_how_the_program_ended_is_told_and_not_how_a_sidecar_did() -> None:
    def ended(name: str, code: int) -> dict[str, Any]:
        return {"name": name, "state": {"terminated": {"exitCode": code, "reason": "Error"}}}

    pod = _pod({"phase": "Failed", "containerStatuses": [ended("agent", 0), ended("main", 7)]})

    assert pod.exit_code == 7


def test_of_a_text_that_is_too_long_begin_and_end_are_kept() -> None:
    message = "begin " + "x" * 5000 + " executable file not found in $PATH"
    pod = _pod(_ended("StartError", 128, message))

    assert pod.end_text.startswith("begin ")
    assert pod.end_text.endswith("executable file not found in $PATH")
    assert len(pod.end_text) <= 400


_TEXT = st.text(max_size=700) | st.text(alphabet='a "\n\t<', min_size=300, max_size=3000)


@given(
    _TEXT,
    _TEXT,
    st.sampled_from(["waits", "ended", "refused", "unscheduled", "events"]),
)
def test_whatever_a_cluster_says_fits_a_status(reason: str, message: str, where: str) -> None:
    """Whoever may write pods or Events chooses all of it."""
    statuses: dict[str, dict[str, Any]] = {
        "waits": _waits(reason, message),
        "ended": _ended(reason, 1, message),
        "refused": {"phase": "Failed", "reason": reason, "message": message},
        "unscheduled": _unscheduled(message),
        "events": _CREATING,
    }
    mistake = Mistake("", statuses[where], [("FailedMount", message)], is_over=where in ("ended", "refused"))
    view = _see(mistake)
    status = status_of(view, decide(view).record)

    texts = [status.why, status.last_end, *(one.message for one in status.conditions)]
    assert all(len(text) <= MOST_WHY for text in texts)
    msgspec.convert(msgspec.to_builtins(status), type(status))


def test_a_report_of_another_pod_says_nothing_of_this_one() -> None:
    view = _see(MISTAKES["a Secret for a volume is missing"])
    assert isinstance(view.report, JobReport)
    other = replace(view, report=replace(view.report, pod_uid="another"))

    assert status_of(other, other.record).why == "0 of 1 ranks are ready"
