"""GPUTasks as the API server has them."""

from dataclasses import dataclass, replace

import msgspec

from accelet.gputask.objects.names import APPROVE
from accelet.kinds.gputask import GPUTaskSpec, GPUTaskStatus, Restart, TaskContainer, TaskFailure
from accelet.kube.objects import ObjectKey, RawObject, WireMetadata, WireObject, read_object, read_owners
from accelet.kube.writing.ownership import controller_of

_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class GpuTask:
    """One GPUTask. `status` is what the API server has of it; `owner_uid` its controller's, or empty.

    `approves` names a Move that people allow.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    is_deleted: bool
    spec: GPUTaskSpec
    status: GPUTaskStatus
    owner_uid: str = ""
    approves: str = ""

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    @property
    def failure(self) -> TaskFailure:
        return self.spec.on_failure or TaskFailure()

    @property
    def restart(self) -> Restart:
        """Who begins anew when one rank fails: a lone rank needs nobody else."""
        return self.failure.restart or ("All" if self.spec.replicas > 1 else "Rank")

    @property
    def least(self) -> int:
        """With how many ranks it may begin."""
        return self.spec.min_replicas or self.spec.replicas

    @property
    def is_elastic(self) -> bool:
        """Whether it may begin with fewer than all."""
        return self.least < self.spec.replicas

    @property
    def meets(self) -> bool:
        """Whether the ranks are told where they meet, by a Service and in their environment."""
        return (self.spec.rendezvous or ("Env" if self.spec.replicas > 1 else "None")) == "Env"


class _WireMetadata(WireMetadata, frozen=True):
    generation: int | None = None


class _WireTask(WireObject, frozen=True):
    metadata: _WireMetadata
    spec: GPUTaskSpec
    status: GPUTaskStatus | None = None


def parse_task(raw: RawObject) -> GpuTask:
    """The GPUTask that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the kind promises.
    """
    wire = read_object(raw, "GPUTask", _WireTask)
    metadata = wire.metadata
    owner = controller_of(read_owners(metadata.owner_references))
    return GpuTask(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        generation=metadata.generation or 0,
        is_deleted=metadata.deletion_timestamp is not None,
        spec=wire.spec,
        status=wire.status or GPUTaskStatus(),
        owner_uid=owner.uid if owner is not None else "",
        approves=(metadata.annotations or {}).get(APPROVE, "")[:_LONGEST_NAME],
    )


def parse_kept_task(raw: RawObject) -> GpuTask:
    """The same without what its pods are made of: that may be a megabyte, and counts for a Job alone.

    Raises:
        MalformedObjectError: a field is not what the kind promises.
    """
    task = parse_task(raw)
    container = TaskContainer(image=task.spec.container.image)
    spec = msgspec.structs.replace(
        task.spec,
        container=container,
        template="",
        pod_labels={},
        pod_annotations={},
        security_context=None,
        image_pull_secrets=(),
    )
    return replace(task, spec=spec)
