"""What is said of tasks in Events, for those who read `kubectl describe`."""

from collections.abc import Callable
from typing import Final, Literal

from accelet.gputask.objects.task import GpuTask
from accelet.kinds.gputask import GPU_TASKS, GPUTaskStatus, TaskPhase
from accelet.kube.recording.eventlog import Message, Subject

_MOST_NOTE: Final = 900
_REASONS: Final[dict[TaskPhase, tuple[Literal["Normal", "Warning"], str]]] = {
    "Running": ("Normal", "TaskRunning"),
    "Restarting": ("Warning", "TaskRestarting"),
    "Completed": ("Normal", "TaskCompleted"),
    "Failed": ("Warning", "TaskFailed"),
}


class TaskEvents:
    """Events about tasks; `say` sends them."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        self._say = say

    def tell(self, task: GpuTask, after: GPUTaskStatus) -> None:
        """Tells of a change of phase that people care for, and of a refusal."""
        subject = _subject(task)
        if after.phase != task.status.phase and after.phase in _REASONS:
            kind, reason = _REASONS[after.phase]
            note = after.why or f"attempt {after.attempt}"
            self._say(Message(subject, kind, reason, "CarryOut", note[:_MOST_NOTE]))
        if after.attempt == task.status.attempt and after.in_place > task.status.in_place:
            note = after.last_end[:_MOST_NOTE]
            self._say(Message(subject, "Warning", "RestartedInPlace", "CarryOut", note))
        refused = next((one for one in after.conditions if one.type == "Accepted"), None)
        before = next((one for one in task.status.conditions if one.type == "Accepted"), None)
        if refused is not None and refused.status == "False" and refused.reason != (before and before.reason):
            self._say(Message(subject, "Warning", "TaskRefused", "CarryOut", refused.message[:_MOST_NOTE]))

    def tell_restarts_with_all(self, task: GpuTask) -> None:
        """Tells that the API server knows no restarts in place, so that all ranks begin anew in new pods."""
        note = "this cluster does not restart containers in place; a failed rank has all ranks begin anew"
        self._say(Message(_subject(task), "Warning", "NotInPlace", "CarryOut", note))

    def tell_refused_status(self, task: GpuTask, sentence: str) -> None:
        """Tells that nothing can be written down of a task, which its status cannot say."""
        note = f"its status cannot be written, so no further step is taken: {' '.join(sentence.split())}"
        self._say(Message(_subject(task), "Warning", "StatusRefused", "CarryOut", note[:_MOST_NOTE]))


def _subject(task: GpuTask) -> Subject:
    return Subject(GPU_TASKS.kind, task.name, task.namespace, task.uid, GPU_TASKS.api_version)
