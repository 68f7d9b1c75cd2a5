"""What an owner of pods says about their number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, Wire, WireMetadata, WireObject, read_object
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.drivers import (
    WireDynamicAllocation,
    WireExecutor,
    WireReplicaState,
    WireWorkerGroup,
    mpi_pods_now,
    ray_pods,
    spark_pods,
)
from accelet.scheduler.gangs.jobs import (
    SUSPENDED,
    JobTerms,
    WireFailurePolicy,
    forgives_disruption,
    is_queued,
    may_suspend,
    retries_left,
)
from accelet.scheduler.gangs.podgroups import (
    POD_GROUP,
    PodGroupTerms,
    WireConstraints,
    WireSchedulingPolicy,
    pod_group_terms,
)
from accelet.scheduler.gangs.staging import JobStage, WireDependency, WireJobState, count_indexes, pods_now

_NO_INDEXES: Mapping[str, int] = MappingProxyType({})


def no_indexes() -> Mapping[str, int]:
    return _NO_INDEXES


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that makes pods: `size` of them are to run at one time.

    `groups` names its kinds of pods in rank order, where it has some (`launcher`, `worker`). Of a
    LeaderWorkerSet, `size` is that of one group; `is_leader_first` says that the other pods are made when the
    leader (the driver of a Spark application) is ready. Of pods that are made in stages, only those count
    that are made now; `done` more are not needed any more, since they have succeeded or failed for good. A
    Job ends `deadline_s` after `started_s` at the latest, if it says so, and has
    `job_terms`. `is_queued` says that Kueue admits it.
    A PodGroup has no size of its own but `pod_group`. Where its pods are numbered, `indexes` has how many
    numbers there are of each of its kinds of pods, that of a Job without a name: pods beyond are on their way
    out. Of a JobSet, `each` has how many pods one Job of each kind has at a time; of a LeaderWorkerSet whose
    groups have domains to themselves, `worker` is what its workers are made of, if that is a template of its
    own.
    """

    kind: str
    namespace: str
    name: str
    size: int
    done: int = 0
    uid: str = ""
    resource_version: str = field(default="", compare=False)
    groups: tuple[str, ...] = ()
    is_leader_first: bool = False
    started_s: float | None = None
    deadline_s: int | None = None
    job_terms: JobTerms | None = None
    is_queued: bool = False
    pod_group: PodGroupTerms | None = None
    indexes: Mapping[str, int] = field(default_factory=no_indexes)
    each: Mapping[str, int] = field(default_factory=no_indexes)
    worker: Pod | None = None

    @property
    def ends_by_s(self) -> float | None:
        """When it has its pods end at the latest, None where nobody knows; they are given time to do so."""
        if self.started_s is None or self.deadline_s is None:
            return None
        return self.started_s + self.deadline_s


class _WireReplicas(Wire, frozen=True):
    replicas: int | None = None


class _WireJobSpec(Wire, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None


class _WireJobTemplate(Wire, frozen=True):
    spec: _WireJobSpec


class _WireReplicatedJob(Wire, frozen=True):
    name: str
    template: _WireJobTemplate
    replicas: int | None = None
    depends_on: list[WireDependency] | None = None


class _WireGroup(Wire, frozen=True):
    size: int | None = None
    leader_template: dict[str, object] | None = None
    worker_template: dict[str, object] | None = None


_WireGroups = dict[str, _WireReplicas] | None


class _WireSpec(Wire, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    active_deadline_seconds: int | None = None
    suspend: bool | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: WireFailurePolicy | None = None
    replicas: int | None = None
    replicated_jobs: list[_WireReplicatedJob] | None = None
    leader_worker_template: _WireGroup | None = None
    # An object with an order in a JobSet, a word in a LeaderWorkerSet.
    startup_policy: dict[str, str] | str | None = None
    pytorch_replica_specs: _WireGroups = None
    tf_replica_specs: _WireGroups = None
    mpi_replica_specs: _WireGroups = None
    jax_replica_specs: _WireGroups = None
    xgb_replica_specs: _WireGroups = None
    paddle_replica_specs: _WireGroups = None
    launcher_creation_policy: str | None = None
    worker_group_specs: list[WireWorkerGroup] | None = None
    executor: WireExecutor | None = None
    dynamic_allocation: WireDynamicAllocation | None = None
    scheduling_policy: WireSchedulingPolicy | None = None
    scheduling_constraints: WireConstraints | None = None
    parent_composite_pod_group_name: str | None = None


class _WireStatus(Wire, frozen=True):
    start_time: datetime | None = None
    active: int | None = None
    terminating: int | None = None
    failed: int | None = None
    succeeded: int | None = None
    failed_indexes: str | None = None
    replicated_jobs_status: list[WireJobState] | None = None
    replica_statuses: dict[str, WireReplicaState] | None = None


class _WireWorkload(WireObject, frozen=True):
    kind: str | None = None
    spec: _WireSpec | None = None
    status: _WireStatus | None = None


_INDEXED = "Indexed"
_LONGEST_S = 2**31
_MANY = 2**31 - 1
"""The API server's `backoffLimit` of a Job that limits the retries of each index."""

RAY_HEAD = "headgroup"
LEADER_WORKER_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"

_RANK_ORDER = ("launcher", "master", "chief", "scheduler", "ps", "server", "worker", "evaluator")
"""Kubeflow's kinds of pods as their frameworks count ranks; others follow by name."""


def group_order(group: str) -> tuple[int, str]:
    """Sorts the kinds of pods of one Kubeflow job."""
    known = group.lower()
    return (_RANK_ORDER.index(known) if known in _RANK_ORDER else len(_RANK_ORDER), known)


def parse_workload(raw: RawObject, kind: str = "") -> Workload:
    """A Job, JobSet, LeaderWorkerSet, a Kubeflow job, a PodGroup, or any object with `spec.replicas`.

    Items of the API server's lists do not say their `kind`.

    Raises:
        MalformedObjectError: a field is not what the API promises, or none says how many pods there are.
    """
    wire = read_object(raw, kind or "workload", _WireWorkload)
    kind = wire.kind or kind
    metadata, spec, status = wire.metadata, wire.spec or _WireSpec(), wire.status or _WireStatus()
    group = _pod_group_terms(metadata.name, spec) if kind == POD_GROUP else None
    size, groups = (0, ()) if group else _size_with_head(kind, spec) or _size(kind, spec, status)
    if size is None:
        problem = "does not say how many pods run at a time"
        raise MalformedObjectError(kind, metadata.namespace or "", metadata.name, "spec", problem)
    return Workload(
        kind=kind,
        namespace=metadata.namespace or "default",
        name=metadata.name,
        size=max(size, 0),
        done=_done(spec, max(size, 0)) if kind == "Job" else 0,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        groups=groups,
        is_leader_first=spec.startup_policy == "LeaderReady" or kind == "SparkApplication",
        started_s=status.start_time.timestamp() if status.start_time and kind == "Job" else None,
        deadline_s=_deadline_s(spec) if kind == "Job" else None,
        job_terms=_job_terms(metadata, spec, status) if kind == "Job" else None,
        is_queued=is_queued(metadata.labels or {}),
        pod_group=group,
        indexes=_indexes(kind, spec),
        each={job.name: _parallel(job.template.spec, done=0) for job in spec.replicated_jobs or ()},
        worker=_worker(metadata, spec),
    )


def _worker(metadata: WireMetadata, spec: _WireSpec) -> Pod | None:
    """What the workers of a group are made of, where leaders have another template and get nodes first."""
    group = spec.leader_worker_template
    if group is None or group.leader_template is None or group.worker_template is None:
        return None
    if LEADER_WORKER_EXCLUSIVE not in (metadata.annotations or {}):
        return None
    named = {"name": f"{metadata.name}-worker", "namespace": metadata.namespace or "default"}
    return parse_pod({"metadata": named, "spec": group.worker_template.get("spec")})


def _indexes(kind: str, spec: _WireSpec) -> Mapping[str, int]:
    """How many indexes there are by kind of pods, where their controllers number them so."""
    found: dict[str, int] = {}
    if kind == "Job" and spec.completion_mode == _INDEXED and spec.completions is not None:
        found[""] = spec.completions
    for job in spec.replicated_jobs or ():
        of_job = job.template.spec
        if of_job.completion_mode == _INDEXED and of_job.completions is not None:
            found[job.name] = of_job.completions
    for name, group in (_replicas(spec) or {}).items():
        found[name.lower()] = 1 if group.replicas is None else group.replicas
    return found


def _pod_group_terms(name: str, spec: _WireSpec) -> PodGroupTerms:
    parent = spec.parent_composite_pod_group_name
    return pod_group_terms(name, spec.scheduling_policy, spec.scheduling_constraints, parent)


def _size_with_head(kind: str, spec: _WireSpec) -> tuple[int, tuple[str, ...]] | None:
    """That of an owner of one pod of its own kind that directs the others; None for other owners."""
    if kind == "RayCluster":
        workers = spec.worker_group_specs or ()
        return ray_pods(workers), (RAY_HEAD, *(group.group_name for group in workers))
    if kind == "SparkApplication":
        return spark_pods(spec.executor or WireExecutor(), spec.dynamic_allocation), ("driver", "executor")
    return None


def _replicas(spec: _WireSpec) -> _WireGroups:
    """The kinds of pods of a Kubeflow job."""
    return (
        spec.pytorch_replica_specs
        or spec.tf_replica_specs
        or spec.mpi_replica_specs
        or spec.jax_replica_specs
        or spec.xgb_replica_specs
        or spec.paddle_replica_specs
    )


def _size(kind: str, spec: _WireSpec, status: _WireStatus) -> tuple[int | None, tuple[str, ...]]:
    replicas = _replicas(spec)
    if replicas:
        sizes = {name: 1 if group.replicas is None else group.replicas for name, group in replicas.items()}
        groups = tuple(sorted((group.lower() for group in replicas), key=group_order))
        if spec.launcher_creation_policy == "WaitForWorkersReady":
            sizes = dict(mpi_pods_now(sizes, status.replica_statuses or {}))
        return sum(sizes.values()), groups
    if spec.replicated_jobs is not None:
        stages = [
            JobStage(
                job.name,
                1 if job.replicas is None else job.replicas,
                _parallel(job.template.spec, done=0),
                job.depends_on or (),
            )
            for job in spec.replicated_jobs
        ]
        policy = spec.startup_policy if isinstance(spec.startup_policy, dict) else {}
        in_order = policy.get("startupPolicyOrder") == "InOrder"
        pods = pods_now(stages, status.replicated_jobs_status or (), in_order=in_order)
        return pods, tuple(stage.name for stage in stages)
    if spec.leader_worker_template is not None:
        size = spec.leader_worker_template.size
        is_split = spec.leader_worker_template.leader_template is not None
        return 1 if size is None else size, ("leader", "worker") if is_split else ()
    if kind == "Job":
        job = _WireJobSpec(spec.parallelism, spec.completions)
        done = (status.succeeded or 0) + count_indexes(status.failed_indexes or "")
        return _parallel(job, done=done), ()
    return spec.replicas, ()


def _job_terms(metadata: WireMetadata, spec: _WireSpec, status: _WireStatus) -> JobTerms:
    annotations = metadata.annotations or {}
    is_ours = bool(spec.suspend) and SUSPENDED in annotations
    return JobTerms(
        forgives_disruption=forgives_disruption(spec.pod_failure_policy),
        retries_left=(
            _MANY
            if spec.backoff_limit_per_index is not None and spec.backoff_limit is None
            else retries_left(spec.backoff_limit, status.failed)
        ),
        retries_each=spec.backoff_limit_per_index,
        may_suspend=may_suspend(
            annotations, metadata.labels or {}, [owner.kind for owner in metadata.owner_references or ()]
        ),
        is_suspended_by_us=is_ours,
        # Counted only where somebody looks at it: every change of it would have the gang made anew.
        pods_left=(status.active or 0) + (status.terminating or 0) if is_ours else 0,
    )


def _done(spec: _WireSpec, size: int) -> int:
    """By how many fewer than at its begin a Job runs at a time."""
    return max(0, _parallel(_WireJobSpec(spec.parallelism, spec.completions), done=0) - size)


def _deadline_s(spec: _WireSpec) -> int | None:
    given = spec.active_deadline_seconds
    return None if given is None else max(0, min(given, _LONGEST_S))


def _parallel(spec: _WireJobSpec, *, done: int) -> int:
    """How many pods of a Job are to run at a time: no more than have not yet succeeded or failed for good."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions - done)
