"""What a decision about a task is made of, and what it comes to."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, Literal

from accelet.control.walltime import left_s
from accelet.gputask.objects.jobs import TaskJob
from accelet.gputask.objects.pods import TaskPod
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.move import Move, MovePhase

MOST_PATIENCE_S: Final = 3600.0
"""What was refused is tried again after that time at the latest."""

OVERDUE_S: Final = 60.0
"""A pod that has not ended so long after its grace period is told of: its kubelet is slow, or gone."""

Outcome = Literal["", "Completed", "Failed"]


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """How patient to be, in seconds.

    Between two attempts `first_pause_s`, doubled for each attempt in a row that was over before `long_run_s`,
    up to `longest_pause_s`. After `quiet_s` in which ranks are missing or held it is asked why. Where a rank
    has started again in its pod, its peers must have done so within `in_place_s`.
    """

    first_pause_s: float = 10.0
    longest_pause_s: float = 300.0
    long_run_s: float = 600.0
    quiet_s: float = 5.0
    in_place_s: float = 60.0


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What is written down of a task: the part of its status that decisions rest on.

    Attempt 0: none has begun. `in_place` are the incidents of its Job after which ranks started again in
    their pods. `done` are the ranks of its Job that were seen to end by themselves. Times are
    seconds since the epoch.
    """

    attempt: int = 0
    incidents: int = 0
    disruptions: int = 0
    quick_ends: int = 0
    in_place: int = 0
    last_end: str = ""
    job_uid: str = ""
    done: str = ""
    is_given_up: bool = False
    started_s: float = 0.0
    attempt_s: float = 0.0
    retry_s: float = 0.0
    outcome: Outcome = ""
    reason: str = ""
    message: str = ""
    ended_s: float = 0.0

    def fold_restarts(self) -> "TaskRecord":
        """The same once the pods are gone: incidents in place count like any others."""
        return replace(self, incidents=self.incidents + self.in_place, in_place=0)

    def end(self, outcome: Outcome, reason: str, message: str, now_s: float) -> "TaskRecord":
        return replace(self, outcome=outcome, reason=reason, message=message, ended_s=now_s)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why something could not be made, and when to try again.

    It holds for a generation of the task; `of_any` for each, since the API server said it of itself.
    """

    reason: str
    message: str
    generation: int
    retry_s: float
    tries: int = 1
    of_any: bool = False

    def concerns(self, task: GpuTask) -> bool:
        return self.of_any or self.generation == task.generation


@dataclass(frozen=True, slots=True)
class JobReport:
    """What the Events of a Job said when they were read last: why ranks are missing or held.

    `starting` is what those of the pod `pod_uid` said: why its container does not run.
    """

    job_uid: str
    asked_s: float
    again_s: float
    refused: str = ""
    waiting: str = ""
    pod_uid: str = ""
    starting: str = ""


@dataclass(frozen=True, slots=True)
class EndsRead:
    """The ranks whose pods had ended by themselves when they were read, for a Job of these `completed`."""

    job_uid: str
    completed: str
    done: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class TaskView:
    """Everything that the next decision about a task depends on.

    `jobs` are those that the task controls. `pods` have its label, whoever controls them by now. `done` are
    ranks of the present Job that were seen to end by themselves, `ends` those that were read for it. `moves`
    are the task's, ended or not; `forbidden_move` is the sentence of a disruption budget that lets none of
    them begin. `refused` has, by its class, what the API server refused to do and when to ask again.
    """

    task: GpuTask
    record: TaskRecord
    jobs: tuple[TaskJob, ...]
    pods: tuple[TaskPod, ...]
    now_s: float
    has_service: bool = False
    done: frozenset[int] = frozenset()
    ends: EndsRead | None = None
    obstacle: Obstacle | None = None
    report: JobReport | None = None
    times: TaskTimes = field(default_factory=TaskTimes)
    moves: tuple[Move, ...] = ()
    forbidden_move: str = ""
    refused: "Mapping[type[TaskAction], Obstacle]" = field(default_factory=dict)

    def refused_s(self, action: "TaskAction") -> float:
        """For how many seconds an action is not tried, of a sort that was refused; 0 if it may be."""
        found = self.refused.get(type(action))
        is_present = found is not None and found.concerns(self.task)
        return self.left_s(found.retry_s, MOST_PATIENCE_S) if found is not None and is_present else 0.0

    def left_s(self, until_s: float, most_s: float) -> float:
        """What is left of a wait of `most_s` at most, however clocks jump."""
        return left_s(until_s, self.now_s, most_s)

    @property
    def hindered_s(self) -> float:
        """For how long what is in the way is left alone."""
        obstacle = self.present_obstacle
        return self.left_s(obstacle.retry_s, MOST_PATIENCE_S) if obstacle is not None else 0.0

    @property
    def live_moves(self) -> tuple[Move, ...]:
        """Those that have not ended: what is under way first, then the oldest."""
        live = (move for move in self.moves if not move.has_ended)
        return tuple(sorted(live, key=lambda move: (not move.is_under_way, move.created_s, move.name)))

    @property
    def move(self) -> Move | None:
        """The one Move that may be carried out."""
        return next(iter(self.live_moves), None)

    @property
    def job(self) -> TaskJob | None:
        """The Job of the present attempt."""
        return next((one for one in self.jobs if one.attempt == self.record.attempt), None)

    @property
    def own_pods(self) -> tuple[TaskPod, ...]:
        """The pods of the present attempt's Job."""
        job = self.job
        return () if job is None else tuple(pod for pod in self.pods if pod.job_uid == job.uid)

    @property
    def live_pods(self) -> tuple[TaskPod, ...]:
        """Pods of any attempt whose containers may be running, or will."""
        return tuple(pod for pod in self.pods if not pod.has_ended)

    @property
    def overdue_pods(self) -> tuple[TaskPod, ...]:
        """Live pods that should have ended `OVERDUE_S` ago, by their ranks: of lost nodes, most often."""
        late = (pod for pod in self.live_pods if self._overdue_in_s(pod) <= 0)
        return tuple(sorted(late, key=lambda pod: (pod.rank is None, pod.rank or 0, pod.name)))

    @property
    def next_overdue_s(self) -> float | None:
        """After how many seconds the next pod is overdue; None where none will be."""
        wait_s = min((left for pod in self.live_pods if (left := self._overdue_in_s(pod)) > 0), default=inf)
        return None if wait_s == inf else wait_s

    def _overdue_in_s(self, pod: TaskPod) -> float:
        return pod.ends_by_s + OVERDUE_S - self.now_s if pod.ends_by_s else inf

    @property
    def present_ends(self) -> EndsRead | None:
        """What was read of the pods of the present Job since it counts those ranks as done."""
        ends, job = self.ends, self.job
        is_present = ends is not None and job is not None and ends.job_uid == job.uid
        return ends if is_present and ends and job and ends.completed == job.completed else None

    @property
    def noted(self) -> str:
        """Why its ranks wait, as the scheduler says on one of them; empty where it does not."""
        return next((pod.wait.text for pod in self.own_pods if pod.is_gated and pod.wait is not None), "")

    @property
    def present_obstacle(self) -> Obstacle | None:
        """What is in the way of the task as it is written now."""
        obstacle = self.obstacle
        return obstacle if obstacle is not None and obstacle.concerns(self.task) else None

    @property
    def present_report(self) -> JobReport | None:
        """What was said of the present Job."""
        report, job = self.report, self.job
        return report if report is not None and job is not None and report.job_uid == job.uid else None


@dataclass(frozen=True, slots=True)
class CreateService:
    """Make the Service by which the ranks find each other."""


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Make the Job of this attempt, with so many seconds to run."""

    attempt: int
    deadline_s: int | None


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete this Job and its pods."""

    job: TaskJob


@dataclass(frozen=True, slots=True)
class SetSuspended:
    """Suspend or resume this Job."""

    job: TaskJob
    suspended: bool


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Give this Job so many ranks."""

    job: TaskJob
    replicas: int


@dataclass(frozen=True, slots=True)
class SetDeadline:
    """Give this Job so many seconds from its own start, as follows from `deadline_of` of its task."""

    job: TaskJob
    deadline_s: int | None
    deadline_of: int | None


@dataclass(frozen=True, slots=True)
class AskWhy:
    """Read the Events of this Job, and of a pod that has a node and does not start."""

    job: TaskJob
    again_s: float
    pod: TaskPod | None = None


@dataclass(frozen=True, slots=True)
class ReadEnds:
    """Read which pods of this Job ended by themselves."""

    job: TaskJob


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Delete the task, whose time to live is over."""


@dataclass(frozen=True, slots=True)
class AskToSave:
    """Write on these pods that this Move is about to begin, for their programs to read."""

    move: Move
    pods: tuple[TaskPod, ...]


@dataclass(frozen=True, slots=True)
class AdvanceMove:
    """Write down that this Move has come to a phase; refused where it has changed since it was seen."""

    move: Move
    phase: MovePhase
    reason: str
    why: str = ""
    save_by_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DeleteMove:
    """Delete a Move that has ended."""

    move: Move


TaskAction = (
    CreateService
    | CreateJob
    | DeleteJob
    | SetSuspended
    | SetReplicas
    | SetDeadline
    | AskWhy
    | ReadEnds
    | DeleteTask
    | AskToSave
    | AdvanceMove
    | DeleteMove
)


@dataclass(frozen=True, slots=True)
class TaskStep:
    """What comes next. A record that is not written down yet is written first, and nothing is done.

    `again_s`: a decision by then may be another, without any event.
    """

    record: TaskRecord
    action: TaskAction | None = None
    again_s: float | None = None
