"""Pods of tasks, as far as their task is concerned."""

from dataclasses import dataclass
from datetime import datetime

from accelet.gputask.objects.names import MAIN, RANK, SAVE, SAVED, TASK_UID
from accelet.kinds.gputask import MOST_RANKS
from accelet.kinds.waiting import WAITING_ANNOTATION, WaitingReason, parse_waiting
from accelet.kube.objects import (
    ObjectKey,
    RawObject,
    Wire,
    WireCondition,
    WireObject,
    read_object,
    read_owners,
    share_text,
)
from accelet.kube.writing.ownership import controller_of

_LONGEST_UID = 63
_LONGEST_WORD = 63
_LONGEST_TEXT = 400
_REMOVED = "RestartingAllContainers"
"""With this reason kubelets say 137 for a container that they removed, however it had ended."""

_BEGIN_KEPT = 100
"""Of a longer text its end is kept too, where runtimes say what it comes from."""


@dataclass(frozen=True, slots=True)
class TaskPod:
    """A pod with the label of a task. `rank` is None where it has none.

    `job_uid` is of the Job that controls it, empty for one that was orphaned. `is_disrupted`: it was evicted,
    preempted, or lost with its node. `refusal` is why its kubelet did not admit it, in a word, empty if it
    did, and `refusal_text` in its sentence. `waiting` is why its container does not start, `exit_code` and
    `end_reason` how it ended, `waiting_text` and `end_text` the runtime's sentences. `unscheduled` is why
    kube-scheduler has no node for it. `accepted_s` is when its kubelet saw it, in seconds since the epoch.
    `asked_by` is the Move for which its program was asked to save, `saved_for` that for which it says it has.
    `wait` is why it has no node, as the scheduler says. `ends_by_s` is when one that is deleted should have
    ended, in seconds since the epoch, 0 for any other. `restarts` is how often its program was started again
    in place, `running_s` since when it runs by its node's clock, `former_code` how it had ended before.
    """

    namespace: str
    name: str
    uid: str
    task_uid: str
    job_uid: str
    rank: int | None
    phase: str = "Pending"
    node: str = ""
    is_gated: bool = False
    is_ready: bool = False
    is_deleted: bool = False
    is_disrupted: bool = False
    refusal: str = ""
    refusal_text: str = ""
    waiting: str = ""
    waiting_text: str = ""
    exit_code: int | None = None
    end_reason: str = ""
    end_text: str = ""
    unscheduled: str = ""
    accepted_s: float = 0.0
    asked_by: str = ""
    saved_for: str = ""
    wait: WaitingReason | None = None
    resource_version: str = ""
    ends_by_s: float = 0.0
    restarts: int = 0
    running_s: float = 0.0
    former_code: int | None = None

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_done(self) -> bool:
        """Whether its program came to its own end: what was told to end may say so with exit code 0 too."""
        return self.phase == "Succeeded" and not (self.is_deleted or self.is_disrupted)


class _WireNamed(Wire, frozen=True):
    name: str


class _WireSpec(Wire, frozen=True):
    node_name: str | None = None
    scheduling_gates: list[_WireNamed] | None = None


class _WireWaiting(Wire, frozen=True):
    reason: str | None = None
    message: str | None = None


class _WireTerminated(Wire, frozen=True):
    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None


class _WireCondition(WireCondition, frozen=True):
    message: str | None = None


class _WireRunning(Wire, frozen=True):
    started_at: datetime | None = None


class _WireState(Wire, frozen=True):
    running: _WireRunning | None = None
    waiting: _WireWaiting | None = None
    terminated: _WireTerminated | None = None


class _WireContainer(Wire, frozen=True):
    name: str | None = None
    state: _WireState | None = None
    last_state: _WireState | None = None
    restart_count: int | None = None


class _WireStatus(Wire, frozen=True):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[_WireCondition] | None = None
    init_container_statuses: list[_WireContainer] | None = None
    container_statuses: list[_WireContainer] | None = None
    start_time: datetime | None = None


class _WirePod(WireObject, frozen=True):
    spec: _WireSpec
    status: _WireStatus | None = None


def parse_pod(raw: RawObject) -> TaskPod:
    """
    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "Pod", _WirePod)
    metadata, spec, status = wire.metadata, wire.spec, wire.status or _WireStatus()
    held = {one.type for one in status.conditions or () if one.status == "True"}
    annotations = metadata.annotations or {}
    owner = controller_of(read_owners(metadata.owner_references))
    # What a sidecar does counts where the program says nothing.
    containers = sorted(status.container_statuses or (), key=lambda one: one.name != MAIN)
    states = [one.state for one in containers if one.state is not None]
    before = [one.state for one in status.init_container_statuses or () if one.state is not None]
    waits = next((one.waiting for one in [*before, *states] if one.waiting and one.waiting.reason), None)
    ended = next((one.terminated for one in states if one.terminated), None)
    refusal = _refusal(status)
    main = next((one for one in containers if one.name == MAIN), _WireContainer())
    running, former = (main.state or _WireState()).running, (main.last_state or _WireState()).terminated
    return TaskPod(
        namespace=share_text(metadata.namespace or "default"),
        name=metadata.name,
        uid=metadata.uid or "",
        task_uid=share_text((metadata.labels or {}).get(TASK_UID, "")),
        job_uid=share_text(owner.uid) if owner is not None and owner.kind == "Job" else "",
        rank=_rank(annotations.get(RANK, "")),
        phase=share_text(status.phase or "Pending"),
        node=share_text(spec.node_name or ""),
        is_gated=bool(spec.scheduling_gates),
        is_ready="Ready" in held,
        is_deleted=metadata.deletion_timestamp is not None,
        is_disrupted="DisruptionTarget" in held,
        refusal=share_text(refusal),
        refusal_text=_sentence(status.message) if refusal else "",
        waiting=share_text((waits.reason or "")[:_LONGEST_WORD]) if waits is not None else "",
        waiting_text=_sentence(waits.message) if waits is not None else "",
        exit_code=ended.exit_code if ended is not None else None,
        end_reason=share_text((ended.reason or "")[:_LONGEST_WORD]) if ended is not None else "",
        end_text=_sentence(ended.message) if ended is not None else "",
        unscheduled=_unscheduled(status),
        accepted_s=status.start_time.timestamp() if status.start_time is not None else 0.0,
        asked_by=share_text(annotations.get(SAVE, "").partition(" ")[0][:_LONGEST_UID]),
        saved_for=share_text(annotations.get(SAVED, "")[:_LONGEST_UID]),
        wait=parse_waiting(annotations.get(WAITING_ANNOTATION, "")),
        resource_version=metadata.resource_version or "",
        # The API server adds the grace period to the time of the request.
        ends_by_s=metadata.deletion_timestamp.timestamp() if metadata.deletion_timestamp is not None else 0.0,
        restarts=max(0, main.restart_count or 0),
        running_s=running.started_at.timestamp() if running and running.started_at else 0.0,
        former_code=former.exit_code if former and former.reason != _REMOVED else None,
    )


def _refusal(status: _WireStatus) -> str:
    """Kubelets give the pods that they do not admit a phase and a reason, and their containers no status."""
    is_refused = status.phase == "Failed" and not status.container_statuses
    return (status.reason or "")[:_LONGEST_WORD] if is_refused else ""


def _unscheduled(status: _WireStatus) -> str:
    """What kube-scheduler says in the condition PodScheduled of a pod for which it has no node."""
    said = (one for one in status.conditions or () if one.type == "PodScheduled" and one.status == "False")
    return next((_sentence(one.message) for one in said if one.reason == "Unschedulable"), "")


def _sentence(text: str | None) -> str:
    """What somebody says, on one line and of bounded length."""
    line = " ".join((text or "")[:65_536].split())
    if len(line) <= _LONGEST_TEXT:
        return line
    return f"{line[:_BEGIN_KEPT]} … {line[_BEGIN_KEPT - _LONGEST_TEXT + 3 :]}"


def _rank(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_RANKS))):
        return None
    return int(text)
