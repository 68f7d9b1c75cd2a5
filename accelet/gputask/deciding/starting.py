"""Why the program of a rank does not run, as kube-scheduler, kubelet and runtime say it of the pod."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from accelet.gputask.objects.pods import TaskPod

_IMAGE: Final[Mapping[str, str]] = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "ErrImageNeverPull": "its image is not on the node and may not be pulled",
    "ImageInspectError": "its image cannot be read",
    "InvalidImageName": "its image has no valid name",
}
_CONTAINER: Final[Mapping[str, str]] = {
    "CreateContainerConfigError": "its container cannot be configured",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its program cannot be started",
}
_QUIET: Final = ("", "ContainerCreating", "PodInitializing")
"""What a kubelet says while it gets a container ready, whatever is in the way."""

_NEVER_RAN: Final = ("StartError", "ContainerCannotRun")
_SHELL_CODES: Final[Mapping[int, str]] = {
    126: "its shell may not run that command",
    127: "its shell found no such command",
}


@dataclass(frozen=True, slots=True)
class Unstarted:
    """Why a rank does not run: a word for conditions, and a sentence."""

    reason: Literal["ImagePull", "NotStarted"]
    text: str


def why_unstarted(pods: Iterable[TaskPod], silent_uid: str, said: str) -> Unstarted | None:
    """Of the lowest rank that has a node and says why it does not run; None where none does.

    `said` is what the Events of the pod `silent_uid` tell, of which its kubelet says nothing.
    """
    for pod in _by_rank(pods):
        if pod.is_ready or not pod.node:
            continue
        if (found := _say_waiting(pod)) is not None:
            return found
        if said and pod.uid == silent_uid:
            return Unstarted("NotStarted", f"{_name(pod)}: {said}")
    return None


def silent_pod(pods: Iterable[TaskPod]) -> TaskPod | None:
    """The lowest rank that has a node and does not run, of which its kubelet does not say why."""
    silent = (pod for pod in _by_rank(pods) if pod.node and pod.phase == "Pending")
    return next((pod for pod in silent if pod.waiting in _QUIET and not pod.is_deleted), None)


def why_unscheduled(pods: Iterable[TaskPod]) -> str:
    """What kube-scheduler says of the lowest rank that has no node, no gate, and no place; empty for none."""
    for pod in _by_rank(pods):
        if pod.unscheduled and not pod.node and not pod.is_gated:
            # It goes on to tell of preemption, node by node.
            first = pod.unscheduled.partition(" preemption: ")[0].rstrip(". ")
            return f"kube-scheduler has no node for rank {pod.rank}: {first}"
    return ""


def say_end(pod: TaskPod) -> str:
    """How a rank failed, in a sentence."""
    rank, code = f"rank {pod.rank}", pod.exit_code
    if code is None:
        return f"{rank} failed"
    if pod.end_reason in _NEVER_RAN:
        return (
            f"{rank} could not be started: {pod.end_text}" if pod.end_text else f"{rank} could not be started"
        )
    if pod.end_reason == "OOMKilled":
        return f"{rank} used more memory than its container may (OOMKilled) and ended with exit code {code}"
    hint = f": {_SHELL_CODES[code]}" if code in _SHELL_CODES else ""
    return f"{rank} ended with exit code {code}{hint}"


def say_restart(pod: TaskPod) -> str:
    """That a rank failed and was started again in its pod, in a sentence."""
    code = pod.exit_code if pod.exit_code is not None else pod.former_code
    ended = "failed" if code is None else f"ended with exit code {code}"
    return f"rank {pod.rank} {ended} and was started again in its pod"


def say_refusal(pod: TaskPod) -> str:
    """Why a kubelet did not admit a rank, in a sentence."""
    more = f": {pod.refusal_text}" if pod.refusal_text else ""
    return f"a kubelet did not admit rank {pod.rank}: {pod.refusal}{more}"


def _say_waiting(pod: TaskPod) -> Unstarted | None:
    if pod.waiting in _QUIET:
        return None
    what = _IMAGE.get(pod.waiting) or _CONTAINER.get(pod.waiting) or "its container waits"
    more = f": {pod.waiting_text}" if pod.waiting_text else ""
    reason: Literal["ImagePull", "NotStarted"] = "ImagePull" if pod.waiting in _IMAGE else "NotStarted"
    return Unstarted(reason, f"{_name(pod)}: {what} ({pod.waiting}){more}")


def _by_rank(pods: Iterable[TaskPod]) -> list[TaskPod]:
    """Those that have not ended, in order."""
    live = (pod for pod in pods if not pod.has_ended)
    return sorted(live, key=lambda pod: (pod.rank is None, pod.rank or 0, pod.name))


def _name(pod: TaskPod) -> str:
    return f"rank {pod.rank} on node {pod.node}"
