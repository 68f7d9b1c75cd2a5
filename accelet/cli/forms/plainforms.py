"""The forms of what commands print as plain mappings; tests hold the commands to them."""

from typing import Any

import msgspec

from accelet.fakekubelet.conformance.runner import Result
from accelet.kinds.gputask import GPUTaskSpec, GPUTaskStatus
from accelet.kinds.move import MoveSpec, MoveStatus
from accelet.kinds.slicerequest import SliceRequestSpec, SliceRequestStatus


class PlannedPod(msgspec.Struct, frozen=True):
    """`assignment` has the cards of containers that get any, in words."""

    pod: str
    node: str
    assignment: dict[str, str] = {}


class PlannedVictim(msgspec.Struct, frozen=True):
    name: str
    priority: int
    pods: list[str]


class PlannedPreemption(msgspec.Struct, frozen=True):
    """Who would be evicted, and where the job would be then; nobody and null where that does not help.

    `settled`: no other set of victims is better.
    """

    victims: list[PlannedVictim]
    placements: list[PlannedPod] | None
    settled: bool


class PlannedJob(msgspec.Struct, frozen=True):
    """`placements` is null for a job that must wait; then `reason` says why.

    `preemption` stands there with --preempt, where others may be evicted for the job.
    """

    name: str
    placements: list[PlannedPod] | None
    distance: int | None
    lower_bound: int | None
    optimal: bool
    reason: str | None
    preemption: PlannedPreemption | None = None


class PlannedJobs(msgspec.Struct, frozen=True):
    jobs: list[PlannedJob]


class JudgedChecks(msgspec.Struct, frozen=True):
    checks: list[Result]


class ShownSlice(msgspec.Struct, frozen=True):
    """A SliceRequest; its status always has a phase."""

    namespace: str
    name: str
    spec: SliceRequestSpec
    status: SliceRequestStatus


class ShownSlices(msgspec.Struct, frozen=True):
    slices: list[ShownSlice]


class OfflineSlice(msgspec.Struct, frozen=True):
    """`body` is what the provider would be sent; `environment` (--workers) what the first worker is told."""

    owner: str
    replicated_job: str | None
    index: int
    accelerator: str
    topology: str
    hosts: int
    chips_per_host: int
    machine_type: str
    placement: dict[str, Any] | None
    body: dict[str, Any]
    environment: dict[str, str] | None = None


class RefusedOwner(msgspec.Struct, frozen=True):
    owner: str
    replicated_job: str | None
    reason: str


class OfflineSlices(msgspec.Struct, frozen=True):
    slices: list[OfflineSlice]
    refused: list[RefusedOwner]


class ShownTask(msgspec.Struct, frozen=True):
    """A GPUTask; its status always has a phase."""

    namespace: str
    name: str
    spec: GPUTaskSpec
    status: GPUTaskStatus


class ShownMove(msgspec.Struct, frozen=True):
    """A Move of a task; its status always has a phase."""

    name: str
    spec: MoveSpec
    status: MoveStatus


class ExplainedTask(ShownTask, frozen=True):
    """With why Kueue holds its Job, empty unless it does; and all of its Moves, the newest last."""

    queued: str
    moves: list[ShownMove]


class FollowedMove(msgspec.Struct, frozen=True):
    move: ShownMove


class ShownTasks(msgspec.Struct, frozen=True):
    tasks: list[ShownTask]


class KubeletEvent(msgspec.Struct, frozen=True):
    """One line of `accelet fake-kubelet --json`; `t` is seconds since it began."""

    t: float
    event: str
    resource: str | None
    pod: str | None
    container: str | None
    devices: list[str]
    detail: str
