"""JobSets, Jobs and the like as values: what they say about their pods, and whether they still want them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import (
    RawObject,
    Wire,
    WireCondition,
    WireObject,
    read_conditions,
    read_labels,
    read_object,
)
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod

_ENDS: Final = frozenset(("Complete", "Completed", "Failed"))
"""Conditions by which a Job or a JobSet says that it is over."""


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """One kind of Job of an owner: `replicas` Jobs of `parallelism` pods like `pod`.

    `replicated_job` is None for a Job that is its own template, and the name of a RayCluster's group.
    `completions` is None for a work queue.
    `annotations` are those of the Job, `pod` has those of its pods. `service` is the headless Service by
    which the pods find each other, None if they have no names.

    `others` are further pods on the same slice, which must ask for the same; `objection` is why there are
    no slices for it, whatever its pods ask for. `asker` is what has these pods, for sentences.
    """

    replicated_job: str | None
    replicas: int
    parallelism: int
    completions: int | None
    is_indexed: bool
    pod: Pod
    annotations: Mapping[str, str]
    service: str | None = None
    others: tuple[Pod, ...] = ()
    objection: str | None = None
    asker: str = "the Job"


@dataclass(frozen=True, slots=True)
class JobOwner:
    """A JobSet, Job, LeaderWorkerSet or RayCluster.

    `controller` is the kind of what made it, None if a person did.
    `is_of_groups`: each of its slices serves alone, and their number may change while it lives.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str]
    is_suspended: bool
    is_finished: bool
    is_deleted: bool
    templates: tuple[JobTemplate, ...]
    controller: str | None = None
    is_of_groups: bool = False

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


class WireTemplateMetadata(Wire, frozen=True):
    """What a template says of its pods."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class WireTemplate(Wire, frozen=True):
    """A template of pods as it comes from the API server."""

    spec: dict[str, object]
    metadata: WireTemplateMetadata | None = None


class _WireJobSpec(Wire, frozen=True):
    template: WireTemplate
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None


class _WireStatus(Wire, frozen=True):
    conditions: list[WireCondition] | None = None


class _WireJob(WireObject, frozen=True):
    spec: _WireJobSpec
    status: _WireStatus | None = None


class _WireJobTemplate(Wire, frozen=True):
    spec: _WireJobSpec
    metadata: WireTemplateMetadata | None = None


class _WireReplicatedJob(Wire, frozen=True):
    name: str
    template: _WireJobTemplate
    replicas: int | None = None


class _WireNetwork(Wire, frozen=True):
    enable_dns_hostnames: bool | None = msgspec.field(default=None, name="enableDNSHostnames")
    subdomain: str | None = None


class _WireJobSetSpec(Wire, frozen=True):
    replicated_jobs: list[_WireReplicatedJob] | None = None
    suspend: bool | None = None
    network: _WireNetwork | None = None


class _WireJobSet(WireObject, frozen=True):
    spec: _WireJobSetSpec
    status: _WireStatus | None = None


def parse_job(raw: RawObject) -> JobOwner:
    """The Job that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "Job", _WireJob)
    subdomain = wire.spec.template.spec.get("subdomain")
    service = subdomain if isinstance(subdomain, str) and subdomain else None
    is_indexed = wire.spec.completion_mode == "Indexed"
    template = _read_template(None, 1, wire.spec, wire, is_indexed=is_indexed, service=service)
    return read_owner("Job", wire, wire.status, (template,), is_suspended=bool(wire.spec.suspend))


def parse_job_set(raw: RawObject) -> JobOwner:
    """The JobSet that `raw` describes. As its webhook does, an absent completionMode is Indexed.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "JobSet", _WireJobSet)
    network = wire.spec.network or _WireNetwork()
    service = None if network.enable_dns_hostnames is False else network.subdomain or wire.metadata.name
    templates = tuple(
        _read_template(
            job.name,
            1 if job.replicas is None else job.replicas,
            job.template.spec,
            wire,
            is_indexed=job.template.spec.completion_mode in (None, "Indexed"),
            metadata=job.template.metadata,
            service=service,
        )
        for job in wire.spec.replicated_jobs or ()
    )
    return read_owner("JobSet", wire, wire.status, templates, is_suspended=bool(wire.spec.suspend))


def salvage_owner(kind: str, raw: RawObject) -> JobOwner:
    """An owner that cannot be read otherwise: it is there, and neither over nor asking for anything more.

    Raises:
        MalformedObjectError: not even its metadata can be read.
    """
    return read_owner(kind, read_object(raw, kind, WireObject), None, (), is_suspended=False)


def read_owner(
    kind: str,
    wire: WireObject,
    status: _WireStatus | None,
    templates: tuple[JobTemplate, ...],
    *,
    is_suspended: bool,
    is_of_groups: bool = False,
) -> JobOwner:
    """An owner with these templates; what else it says is read from its metadata and conditions."""
    metadata = wire.metadata
    conditions = read_conditions(status.conditions if status else None)
    controllers = (owner.kind for owner in metadata.owner_references or () if owner.controller)
    return JobOwner(
        kind=kind,
        namespace=metadata.namespace or "default",
        name=metadata.name,
        uid=metadata.uid or "",
        annotations=read_labels(metadata.annotations),
        is_suspended=is_suspended,
        is_finished=any(one.type in _ENDS and one.status == "True" for one in conditions),
        is_deleted=metadata.deletion_timestamp is not None,
        templates=templates,
        controller=next(controllers, None),
        is_of_groups=is_of_groups,
    )


def _read_template(
    name: str | None,
    replicas: int,
    spec: _WireJobSpec,
    owner: WireObject,
    *,
    is_indexed: bool,
    service: str | None,
    metadata: WireTemplateMetadata | None = None,
) -> JobTemplate:
    place = "" if name is None else f"spec.replicatedJobs[{name}].template."
    kind = "Job" if name is None else "JobSet"
    pod = read_template_pod(spec.template, kind, owner, f"{place}spec.template")
    parallelism, completions = spec.parallelism, spec.completions
    if parallelism is None and completions is None:
        completions = 1
    return JobTemplate(
        replicated_job=name,
        replicas=replicas,
        parallelism=1 if parallelism is None else parallelism,
        completions=completions,
        is_indexed=is_indexed,
        pod=pod,
        annotations=read_labels(metadata.annotations if metadata else None),
        service=service,
    )


def read_template_pod(template: WireTemplate, kind: str, owner: WireObject, place: str) -> Pod:
    """The pod that a template of an owner stands for; `place` is where in the owner it is.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    pods = template.metadata or WireTemplateMetadata()
    raw = {
        "metadata": {
            "name": owner.metadata.name,
            "namespace": owner.metadata.namespace,
            "labels": pods.labels,
            "annotations": pods.annotations,
        },
        "spec": template.spec,
    }
    try:
        return parse_pod(raw)
    except MalformedObjectError as error:
        namespace, field = owner.metadata.namespace or "", f"{place}.{error.field}"
        raise MalformedObjectError(kind, namespace, owner.metadata.name, field, error.problem) from None
