"""A world for `decide`: an API server with versions, the Job controller, kubelets, and what evicts pods."""

import random
from dataclasses import dataclass, field, replace

from accelet.gputask.deciding.decide import decide, is_read_before_told
from accelet.gputask.deciding.status import record_of, status_of
from accelet.gputask.deciding.view import (
    CreateJob,
    CreateService,
    DeleteJob,
    DeleteTask,
    EndsRead,
    ReadEnds,
    SetDeadline,
    SetReplicas,
    SetSuspended,
    TaskAction,
    TaskStep,
    TaskView,
)
from accelet.gputask.objects.jobs import JobCondition, TaskJob, parse_job
from accelet.gputask.objects.manifests import job_body
from accelet.gputask.objects.pods import TaskPod
from accelet.gputask.objects.ranks import write_ranks
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.gputask import GPUTaskSpec, GPUTaskStatus, TaskContainer, TaskFailure

FATAL = 42
BEGIN_S = 1_000_000.0


def make_task(**changes: object) -> GpuTask:
    """A task of two ranks that has just been made; `spec` changes its spec."""
    given = changes.pop("spec", {})
    assert isinstance(given, dict)
    spec = GPUTaskSpec(**{"container": TaskContainer(image="app"), "replicas": 2, **given})
    task = GpuTask("ml", "train", "task-uid", "1", 1, False, spec, GPUTaskStatus())
    return replace(task, **changes)  # type: ignore[arg-type]  # of this class


def failure(**values: object) -> TaskFailure:
    return TaskFailure(**values)  # type: ignore[arg-type]  # of this class


@dataclass
class SimPod:
    """`done`: the program came to its end, whatever its exit code says; `refusal`: its kubelet's word."""

    job: str
    rank: int
    phase: str = "Pending"
    deleted: bool = False
    disrupted: bool = False
    counted: bool = False
    suspended: bool = False
    done: bool = False
    code: int = 0
    refusal: str = ""
    uid: str = ""
    node: str = ""
    asked_by: str = ""
    saved_for: str = ""
    restarts: int = 0
    running_s: float = 0.0


@dataclass
class SimJob:
    """`made` is what it was made as: its rules stay those."""

    made: TaskJob
    failure: TaskFailure
    uid: str
    attempt: int
    ranks: int
    suspended: bool
    version: int = 1
    made_s: float = 0.0
    completed: set[int] = field(default_factory=set)
    failures: dict[int, int] = field(default_factory=dict)
    failing: JobCondition | None = None
    failed: JobCondition | None = None
    complete: bool = False
    counted: bool = False


@dataclass(frozen=True)
class TaskThought:
    """A step that a leader has decided on, and of which version of the task."""

    view: TaskView
    step: TaskStep
    version: int


class TaskWorld:
    """`stubborn` is how often a program that is told to end ends with 0; `faulty` how often one fails;
    `refusing` how often a kubelet does not admit a pod.
    """

    def __init__(
        self, chance: random.Random, task: GpuTask, *, stubborn: float = 0.5, faulty: float = 0.2
    ) -> None:
        self.chance, self.task = chance, task
        self.stubborn, self.faulty, self.refusing = stubborn, faulty, 0.0
        self.version = 1
        self.now_s = BEGIN_S
        self.jobs: dict[str, SimJob] = {}
        self.pods: list[SimPod] = []
        self.lost: dict[str, set[int]] = {}
        self.done: dict[str, set[int]] = {}
        self.ends: EndsRead | None = None
        self.has_service = False
        self.is_gone = False
        self.made = 0
        self.pods_made = 0
        self.incidents = 0
        self.disruptions = 0

    # What a leader does.

    def think(self) -> TaskThought:
        view = self.view()
        step = decide(view)
        assert decide(view) == step
        return TaskThought(view, step, self.version)

    def act(self, thought: TaskThought) -> None:
        """Carries it out as the controller does: written first; writes of another version are refused."""
        record = thought.step.record
        after = status_of(thought.view, record)
        if after != thought.view.task.status and not is_read_before_told(thought.view, thought.step):
            if thought.version != self.version or self.is_gone:
                return
            before = record_of(self.task.status)
            assert not before.outcome or record_of(after) == before, "an end was taken back"
            self.task = replace(self.task, status=after)
            self.version += 1
        action = thought.step.action
        is_fenced = isinstance(action, CreateJob) and thought.version != self.version
        # A create names no version: what holds a leader back that another one has followed is its lease.
        if record == thought.view.record and action is not None and not is_fenced:
            self.perform(action)

    def perform(self, action: TaskAction) -> None:
        match action:
            case CreateService():
                self.has_service = True
            case CreateJob(attempt, deadline_s):
                self.create(attempt, deadline_s)
            case DeleteJob(job):
                self.delete(job.uid)
            case SetSuspended() | SetReplicas() | SetDeadline():
                self.patch(action)
            case ReadEnds(job):
                self.ends = EndsRead(job.uid, job.completed, frozenset(self._ended(job.uid)))
            case DeleteTask():
                self.is_gone = True
            case _:
                pass

    def patch(self, action: SetSuspended | SetReplicas | SetDeadline) -> None:
        """A change of a Job; refused for any version but the newest."""
        found = self.jobs.get(action.job.uid)
        if found is None or str(found.version) != action.job.resource_version:
            return
        found.version += 1
        match action:
            case SetSuspended(_, suspended):
                found.suspended = suspended
            case SetReplicas(_, replicas):
                found.ranks = replicas
            case SetDeadline(_, deadline_s, deadline_of):
                noted = {"deadline_s": deadline_s, "deadline_of": deadline_of, "is_deadline_noted": True}
                found.made = replace(found.made, **noted)  # type: ignore[arg-type]  # of this class

    def create(self, attempt: int, deadline_s: int | None = None) -> None:
        if any(job.attempt == attempt for job in self.jobs.values()):
            return  # AlreadyExists, and it is ours
        live = [job for job in self.jobs.values() if not (job.failed or job.complete)]
        assert not live, "two Jobs at a time"
        self.made += 1
        uid = f"job-{self.made}"
        spec = self.task.spec
        made = parse_job(job_body(self.task, attempt, "a.b/gate-", deadline_s))
        self.jobs[uid] = SimJob(
            made, self.task.failure, uid, attempt, spec.replicas, spec.suspend, made_s=self.now_s
        )

    def delete(self, uid: str) -> None:
        if self.jobs.pop(uid, None) is not None:
            for pod in self.pods:
                pod.deleted |= pod.job == uid
            self.pods = [pod for pod in self.pods if pod.job != uid or pod.phase in ("Pending", "Running")]

    def view(self) -> TaskView:
        task = replace(self.task, resource_version=str(self.version))
        record = record_of(task.status)
        jobs = tuple(self._job(job) for job in self.jobs.values())
        pods = tuple(self._pod(pod) for pod in self.pods)
        for job in jobs:
            self.done.setdefault(job.uid, set()).update(self._ended(job.uid))
        uids = [job.uid for job in jobs if job.attempt == record.attempt]
        done = frozenset(self.done[uids[0]] if uids else ())
        return TaskView(
            task,
            record,
            jobs,
            pods,
            self.now_s,
            has_service=self.has_service,
            done=done,
            ends=self.ends,
        )

    def forget(self) -> None:
        """The leader dies; the next one sees what there is by then."""
        self.done, self.ends = {}, None

    def _ended(self, job: str) -> set[int]:
        """The ranks whose pods are there and ended by themselves."""
        return {
            pod.rank for pod in self.pods if pod.job == job and pod.phase == "Succeeded" and not pod.deleted
        }

    def _job(self, job: SimJob) -> TaskJob:
        own = [pod for pod in self.pods if pod.job == job.uid and pod.phase in ("Pending", "Running")]
        done = JobCondition("CompletionsReached", "") if job.complete else None
        return replace(
            job.made,
            namespace="ml",
            name=f"train-{job.attempt}",
            uid=job.uid,
            resource_version=str(job.version),
            owner_uid=self.task.uid,
            attempt=job.attempt,
            created_s=job.made_s,
            started_s=job.made_s,
            is_suspended=job.suspended,
            parallelism=job.ranks,
            active=sum(not pod.deleted for pod in own),
            succeeded=len(job.completed),
            terminating=sum(pod.deleted for pod in own),
            completed=write_ranks(job.completed),
            complete=done,
            failed=job.failed,
            failing=job.failing,
        )

    def _pod(self, pod: SimPod) -> TaskPod:
        return TaskPod(
            namespace="ml",
            name=pod.uid,
            uid=pod.uid,
            task_uid=self.task.uid,
            job_uid=pod.job if pod.job in self.jobs else "",
            rank=pod.rank,
            phase=pod.phase,
            node=pod.node or ("a-node" if pod.phase != "Pending" else ""),
            is_ready=pod.phase == "Running",
            is_deleted=pod.deleted,
            is_disrupted=pod.disrupted,
            refusal=pod.refusal,
            exit_code=pod.code if pod.phase in ("Succeeded", "Failed") and not pod.refusal else None,
            asked_by=pod.asked_by,
            saved_for=pod.saved_for,
            restarts=pod.restarts,
            running_s=pod.running_s if pod.phase == "Running" else 0.0,
            former_code=pod.code if pod.restarts else None,
        )

    # What others do.

    def run_jobs(self) -> None:
        """The Job controller."""
        for job in list(self.jobs.values()):
            if not (job.failed or job.complete):
                self._count(job)
                self._go_on(job)

    def _count(self, job: SimJob) -> None:
        for pod in [pod for pod in self.pods if pod.job == job.uid and not pod.counted]:
            if pod.phase not in ("Succeeded", "Failed"):
                continue
            pod.counted = True
            if pod.suspended or job.failing is not None:
                pass  # it was told to end by the Job itself
            elif pod.phase == "Succeeded":
                job.completed.add(pod.rank)
                if not pod.done:
                    self.lost.setdefault(job.uid, set()).add(pod.rank)
            else:
                self._count_failure(job, pod)
        self.pods = [pod for pod in self.pods if not (pod.counted and pod.deleted)]

    def _count_failure(self, job: SimJob, pod: SimPod) -> None:
        failure, rules = job.failure, job.made.rules
        if pod.code in failure.fatal_exit_codes:
            text = f"exit code matching FailJob rule at index {rules.fatal}"
            job.failing = JobCondition("PodFailurePolicy", text)
        elif pod.disrupted and rules.restart != "Rank":
            text = f"has condition DisruptionTarget matching FailJob rule at index {rules.disruption}"
            job.failing = JobCondition("PodFailurePolicy", text)
        elif pod.disrupted and failure.forgive_disruptions:
            return
        elif rules.restart != "Rank":
            job.failing = JobCondition("BackoffLimitExceeded", "Job has reached the backoff limit")
        else:
            job.failures[pod.rank] = job.failures.get(pod.rank, 0) + 1
            if job.failures[pod.rank] > failure.retries:
                job.failing = JobCondition("FailedIndexes", "Job has failed indexes")

    def _go_on(self, job: SimJob) -> None:
        live = [pod for pod in self.pods if pod.job == job.uid and pod.phase in ("Pending", "Running")]
        if job.failing is not None:
            for pod in live:
                pod.deleted = True
            if not live:
                job.failed = job.failing
        elif job.suspended:
            for pod in live:
                pod.deleted = pod.suspended = True
        elif set(range(job.ranks)) <= job.completed:
            job.complete = True
        else:
            self._fill(job, live)

    def _fill(self, job: SimJob, live: list[SimPod]) -> None:
        for pod in live:
            if pod.rank >= job.ranks:
                pod.deleted = pod.suspended = True  # it ends by the Job's will, and counts for nothing
        taken = {pod.rank for pod in live}
        for rank in range(job.ranks):
            if rank not in job.completed and rank not in taken:
                assert not any(
                    pod.rank == rank and pod.phase in ("Pending", "Running") for pod in self.pods
                ), "a rank runs twice"
                self.pods_made += 1
                self.pods.append(SimPod(job.uid, rank, uid=f"pod-{self.pods_made}"))

    def run_pod(self) -> None:
        """A kubelet: one pod starts, or ends."""
        live = [pod for pod in self.pods if pod.phase in ("Pending", "Running")]
        if not live:
            return
        pod = self.chance.choice(live)
        if pod.deleted:
            is_lenient = pod.phase == "Running" and self.chance.random() < self.stubborn
            self.end(pod, 0 if is_lenient else 143)
        elif pod.phase == "Pending" and self.chance.random() < self.refusing:
            self.refuse(pod)
        elif pod.phase == "Pending":
            self.start(pod)
        elif self.chance.random() < self.faulty:
            self.end(pod, FATAL if self.chance.random() < 0.1 else 1)
        else:
            pod.done = True
            self.end(pod, 0)

    def refuse(self, pod: SimPod, reason: str = "UnexpectedAdmissionError") -> None:
        """A kubelet does not admit it."""
        pod.refusal = reason
        self.end(pod, 1)

    def end_told(self, code: int) -> None:
        """Ends all pods that were told to end."""
        for pod in [pod for pod in self.pods if pod.deleted and pod.phase in ("Pending", "Running")]:
            self.end(pod, code)

    def start(self, pod: SimPod) -> None:
        pod.phase, pod.running_s = "Running", self.now_s

    def end(self, pod: SimPod, code: int) -> None:
        job = self.jobs.get(pod.job)
        is_failure = (
            code and not (pod.deleted or pod.refusal) and code not in self.task.failure.fatal_exit_codes
        )
        if job is not None and job.made.rules.restart == "InPlace" and is_failure:
            pod.code, pod.done, pod.restarts = code, False, pod.restarts + 1
            self.start(pod)  # by its kubelet
            return
        pod.code, pod.phase = code, "Failed" if code else "Succeeded"
        if pod.done:
            return
        if pod.job not in self.jobs:
            self.pods.remove(pod)

    def evict(self) -> None:
        live = [pod for pod in self.pods if pod.phase in ("Pending", "Running") and not pod.deleted]
        if live:
            pod = self.chance.choice(live)
            pod.deleted = pod.disrupted = True

    def collect(self) -> None:
        """Somebody deletes the pod of a rank that has ended: the collector of garbage, or a lost node."""
        ended = [pod for pod in self.pods if pod.phase == "Succeeded" and pod.counted]
        if ended:
            self.pods.remove(self.chance.choice(ended))
