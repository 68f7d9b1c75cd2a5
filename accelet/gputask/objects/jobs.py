"""Jobs and Services of tasks, as the API server has them."""

import re
from dataclasses import dataclass
from datetime import datetime

from accelet.gputask.objects.names import ATTEMPT, DEADLINE, MAIN, RESTART_ALL_CONTAINERS, WORLD
from accelet.kinds.gputask import GPU_TASKS, Restart
from accelet.kube.objects import (
    ObjectKey,
    RawObject,
    Wire,
    WireCondition,
    WireMetadata,
    WireObject,
    read_object,
    read_owners,
)
from accelet.kube.writing.ownership import controller_of

_MOST_ATTEMPT = 9999
_MOST_MESSAGE = 1000
_LONGEST_NOTE = 16


@dataclass(frozen=True, slots=True)
class JobCondition:
    """One that is True: why the Job ended, or is about to."""

    reason: str
    message: str
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobRules:
    """By which rules a Job fails. It was made with them, and they cannot be changed.

    `fatal` and `disruption` are the places in its podFailurePolicy of the rule for fatal exit codes and of
    the one for disruptions, None where it has none.
    """

    restart: Restart = "All"
    fatal: int | None = None
    disruption: int | None = None


@dataclass(frozen=True, slots=True)
class TaskJob:
    """A Job. Times are seconds since the epoch, 0 where there is none yet.

    `owner_uid` is its controller's. `complete`, `failed`, `failing` and `succeeding` are conditions that
    hold: the last two come while pods are still ending. `completed` are ranks that have succeeded.
    `world` is the number of ranks that its pods were told, as text, None where the Job does not say.
    `deadline_s` is its own deadline, `deadline_of` the task's `deadlineSeconds` from which that comes, both
    None where there is none. `is_deadline_noted` is False for a Job that does not say what its comes from.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    attempt: int
    created_s: float = 0.0
    started_s: float = 0.0
    is_deleted: bool = False
    is_suspended: bool = False
    parallelism: int = 1
    active: int = 0
    succeeded: int = 0
    terminating: int = 0
    completed: str = ""
    complete: JobCondition | None = None
    failed: JobCondition | None = None
    failing: JobCondition | None = None
    succeeding: JobCondition | None = None
    rules: JobRules = JobRules()
    world: str | None = None
    deadline_s: int | None = None
    deadline_of: int | None = None
    is_deadline_noted: bool = False

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    @property
    def is_fatal(self) -> bool:
        """Whether it failed by its rule for fatal exit codes."""
        return self._failed_by(self.rules.fatal)

    @property
    def is_disruption(self) -> bool:
        """Whether it failed by its rule for disruptions."""
        return self._failed_by(self.rules.disruption)

    def _failed_by(self, rule: int | None) -> bool:
        """The Job controller says by which rule in its message (kubernetes/pkg/controller/job)."""
        failed = self.failed or self.failing
        is_by_rule = failed is not None and failed.reason == "PodFailurePolicy"
        return bool(is_by_rule and failed and rule is not None and _names_rule(failed.message, rule))

    @property
    def is_over(self) -> bool:
        return self.complete is not None or self.failed is not None

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is made of it: its pods are being ended, or have."""
        return bool(self.is_deleted or self.is_over or self.failing or self.succeeding)


@dataclass(frozen=True, slots=True)
class TaskService:
    """A Service, and whose it is."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name


class _WireJobCondition(WireCondition, frozen=True):
    message: str | None = None
    last_transition_time: datetime | None = None


class _WireRule(Wire, frozen=True):
    on_exit_codes: Wire | None = None
    on_pod_conditions: list[Wire] | None = None


class _WirePolicy(Wire, frozen=True):
    rules: list[_WireRule] | None = None


class _WireRestartRule(Wire, frozen=True):
    action: str | None = None


class _WireContainer(Wire, frozen=True):
    name: str | None = None
    restart_policy_rules: list[_WireRestartRule] | None = None


class _WirePodSpec(Wire, frozen=True):
    containers: list[_WireContainer] | None = None


class _WireTemplate(Wire, frozen=True):
    spec: _WirePodSpec | None = None


class _WireSpec(Wire, frozen=True):
    suspend: bool | None = None
    parallelism: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: _WirePolicy | None = None
    template: _WireTemplate | None = None


class _WireStatus(Wire, frozen=True):
    start_time: datetime | None = None
    active: int | None = None
    succeeded: int | None = None
    terminating: int | None = None
    completed_indexes: str | None = None
    conditions: list[_WireJobCondition] | None = None


class _WireJob(WireObject, frozen=True):
    spec: _WireSpec
    status: _WireStatus | None = None


def parse_job(raw: RawObject) -> TaskJob:
    """
    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "Job", _WireJob)
    metadata, spec, status = wire.metadata, wire.spec, wire.status or _WireStatus()
    notes = metadata.annotations or {}
    held = {
        one.type: JobCondition(
            one.reason or "", (one.message or "")[:_MOST_MESSAGE], _seconds(one.last_transition_time)
        )
        for one in status.conditions or ()
        if one.status == "True"
    }
    return TaskJob(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        owner_uid=_owner(metadata),
        attempt=_attempt((metadata.labels or {}).get(ATTEMPT, "")),
        created_s=_seconds(metadata.creation_timestamp),
        started_s=_seconds(status.start_time),
        is_deleted=metadata.deletion_timestamp is not None,
        is_suspended=bool(spec.suspend),
        parallelism=1 if spec.parallelism is None else spec.parallelism,
        active=status.active or 0,
        succeeded=status.succeeded or 0,
        terminating=status.terminating or 0,
        completed=status.completed_indexes or "",
        complete=held.get("Complete"),
        failed=held.get("Failed"),
        failing=held.get("FailureTarget"),
        succeeding=held.get("SuccessCriteriaMet"),
        rules=_read_rules(spec),
        world=notes[WORLD][:_LONGEST_NOTE] if WORLD in notes else None,
        deadline_s=spec.active_deadline_seconds,
        deadline_of=_read_number(notes.get(DEADLINE, "")),
        is_deadline_noted=DEADLINE in notes,
    )


def parse_service(raw: RawObject) -> TaskService:
    """
    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    metadata = read_object(raw, "Service", WireObject).metadata
    return TaskService(
        metadata.namespace or "default",
        metadata.name,
        metadata.uid or "",
        metadata.resource_version or "",
        _owner(metadata),
    )


def _read_rules(spec: _WireSpec) -> JobRules:
    policy = spec.pod_failure_policy
    rules = (policy.rules if policy is not None else None) or []
    return JobRules(
        restart=_read_restart(spec),
        fatal=next((index for index, rule in enumerate(rules) if rule.on_exit_codes is not None), None),
        disruption=next((index for index, rule in enumerate(rules) if rule.on_pod_conditions), None),
    )


def _read_restart(spec: _WireSpec) -> Restart:
    """Who begins anew. An API server that knows no such rules of containers leaves them out of the Job."""
    if spec.backoff_limit_per_index is not None:
        return "Rank"
    pod = spec.template.spec if spec.template is not None else None
    main = next((one for one in (pod.containers or () if pod else ()) if one.name == MAIN), None)
    rules = main.restart_policy_rules or () if main is not None else ()
    return "InPlace" if any(rule.action == RESTART_ALL_CONTAINERS for rule in rules) else "All"


def _names_rule(message: str, rule: int) -> bool:
    return re.search(rf"rule at index {rule}\b", message) is not None


def _read_number(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NOTE
    return int(text) if is_number else None


def _owner(metadata: WireMetadata) -> str:
    """The UID of the GPUTask that controls it; nothing else is one, whatever UID it is said to have."""
    owner = controller_of(read_owners(metadata.owner_references))
    is_task = owner is not None and (owner.api_version, owner.kind) == (GPU_TASKS.api_version, GPU_TASKS.kind)
    return owner.uid if owner is not None and is_task else ""


def _attempt(text: str) -> int:
    """The number of an attempt; 0, which none has, for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_ATTEMPT)) else 0


def _seconds(time: datetime | None) -> float:
    return 0.0 if time is None else time.timestamp()
