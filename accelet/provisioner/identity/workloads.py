"""JobSets, Jobs and StatefulSets: what is written on their templates, and why they could not work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from accelet.kube.objects import RawObject, Wire, WireObject, read_object
from accelet.provisioner.identity.hardware import judge_hardware, shown
from accelet.provisioner.identity.hosts import host_table
from accelet.provisioner.identity.names import (
    COORDINATOR,
    FIRST_SLICE,
    SINGLE_SLICE,
    SLICES,
    TPU_ENV,
    WORKERS,
)
from accelet.provisioner.identity.sentences import HIDDEN, NAMELESS, NOT_INDEXED, PARALLELISM, STALE
from accelet.provisioner.identity.template import TpuTemplate, WireMarks, WirePodTemplate, read_template
from accelet.provisioner.identity.worker import SUBDOMAIN_FIELDS, pods_sentence

NO_STAMPS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """A Job, or one kind of Job of a JobSet: `completions` workers in each of its slices."""

    template: TpuTemplate
    completions: int
    parallelism: int
    is_indexed: bool

    @property
    def stamps(self) -> Mapping[str, str]:
        """The annotations that its template gets when the Job is made."""
        if self.template.is_left_alone or not self.is_indexed:
            return NO_STAMPS
        most = host_table().most_hosts
        return {WORKERS: str(self.completions)} if 1 <= self.completions <= most else NO_STAMPS


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """A StatefulSet."""

    template: TpuTemplate
    replicas: int
    service: str

    @property
    def stamps(self) -> Mapping[str, str]:
        """The annotations that its template gets when it is made."""
        hosts = self.template.hosts
        if self.template.is_left_alone or hosts < 2 or self.replicas not in (0, hosts):
            return NO_STAMPS
        return {WORKERS: str(hosts)}


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """`replicas` Jobs of a JobSet; those of one group work together."""

    name: str
    replicas: int
    group: str
    job: WorkerJob


@dataclass(frozen=True, slots=True)
class WorkerJobSet:
    """A JobSet. `has_names`: its pods can find each other in DNS."""

    jobs: tuple[ReplicatedJob, ...]
    has_names: bool = True

    def mates(self, one: ReplicatedJob) -> Sequence[ReplicatedJob]:
        """Those of its group that want TPUs, itself too, in order."""
        return [each for each in self.jobs if each.group == one.group and not each.job.template.is_left_alone]

    def stamps(self, one: ReplicatedJob) -> Mapping[str, str]:
        """The annotations that the templates of its pods get when the JobSet is made."""
        mates = self.mates(one)
        slices = sum(each.replicas for each in mates)
        if one.job.template.is_left_alone or not 1 < slices <= host_table().most_hosts:
            return NO_STAMPS
        if not are_alike(mates) or any(is_single(each) for each in mates):
            return NO_STAMPS
        leader = next(each for each in mates if each.replicas > 0)
        before = sum(each.replicas for each in mates[: mates.index(one)])
        return {SLICES: str(slices), FIRST_SLICE: str(before), COORDINATOR: leader.name}


def are_alike(mates: Sequence[ReplicatedJob]) -> bool:
    """Whether their slices can work together: all of the same hardware, of several hosts each."""
    templates = [each.job.template for each in mates]
    alike = {(one.accelerator, one.topology, one.chips) for one in templates}
    return len(alike) == 1 and all(one.hosts > 1 and len(one.containers) == 1 for one in templates)


def judge_job(job: WorkerJob, *, is_in_set: bool = False) -> str | None:
    """Why no slice could run the Job; None if one could. JobSet gives its Jobs their names itself."""
    template = job.template
    if template.is_left_alone or template.is_own:
        return None
    objection = judge_hardware(template)
    if objection is not None:
        return objection
    if template.is_known and template.hosts > 1 and not job.is_indexed:
        return NOT_INDEXED
    return _judge_workers(job, is_in_set=is_in_set) if job.is_indexed else None


def _judge_workers(job: WorkerJob, *, is_in_set: bool) -> str | None:
    template, pods = job.template, job.completions
    if template.is_known and pods != template.hosts:
        return pods_sentence(template, "Job", pods)
    if job.parallelism not in (0, pods):
        return PARALLELISM.format(pods=pods, parallelism=job.parallelism)
    if not is_in_set and pods > 1 and template.subdomain == "":
        return NAMELESS.format(field=SUBDOMAIN_FIELDS["job"])
    return None


def judge_changed_job(job: WorkerJob) -> str | None:
    """Why a Job cannot be changed to this one; what its template was stamped with cannot change."""
    stamp = job.template.annotations.get(WORKERS, "")
    if job.template.is_left_alone or not job.is_indexed or stamp in ("", str(job.completions)):
        return judge_job(job)
    return STALE.format(workers=shown(stamp), completions=job.completions)


def judge_set(workers: WorkerSet) -> str | None:
    """Why no slice could run the StatefulSet; None if one could."""
    template = workers.template
    if template.is_left_alone or template.is_own:
        return None
    objection = judge_hardware(template)
    if objection is not None or template.hosts < 2:
        return objection
    if workers.replicas not in (0, template.hosts):
        return pods_sentence(template, "StatefulSet", workers.replicas)
    return None if workers.service else NAMELESS.format(field=SUBDOMAIN_FIELDS["statefulset"])


def judge_job_set(job_set: WorkerJobSet) -> str | None:
    """Why no slices could run the JobSet; None if some could."""
    for one in job_set.jobs:
        objection = judge_job(one.job, is_in_set=True)
        template = one.job.template
        if objection is None and not job_set.has_names and template.hosts > 1 and not template.is_own:
            objection = None if template.is_left_alone else HIDDEN
        if objection is not None:
            return f"replicatedJob {one.name}: {objection}"
    return None


def is_single(one: ReplicatedJob) -> bool:
    """Whether its author says that each slice is a program of its own."""
    return one.job.template.annotations.get(TPU_ENV) == SINGLE_SLICE


class _WireJobSpec(Wire, frozen=True):
    template: WirePodTemplate
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None


class _WireJob(WireObject, frozen=True):
    spec: _WireJobSpec


class _WireJobTemplate(Wire, frozen=True):
    spec: _WireJobSpec


class _WireReplicatedJob(Wire, frozen=True):
    name: str
    template: _WireJobTemplate
    replicas: int | None = None
    group_name: str | None = None


class _WireNetwork(Wire, frozen=True):
    enable_dns_hostnames: bool | None = msgspec.field(default=None, name="enableDNSHostnames")


class _WireJobSetSpec(Wire, frozen=True):
    replicated_jobs: list[_WireReplicatedJob] | None = None
    network: _WireNetwork | None = None


class _WireJobSet(WireObject, frozen=True):
    spec: _WireJobSetSpec


class _WireSetSpec(Wire, frozen=True):
    template: WirePodTemplate
    replicas: int | None = None
    service_name: str | None = None


class _WireSet(WireObject, frozen=True):
    spec: _WireSetSpec


def parse_worker_job(raw: RawObject) -> WorkerJob:
    """The Job that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    spec = read_object(raw, "Job", _WireJob).spec
    return _read_job(spec, is_indexed=spec.completion_mode == "Indexed")


def parse_worker_set(raw: RawObject) -> WorkerSet:
    """The StatefulSet that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    spec = read_object(raw, "StatefulSet", _WireSet).spec
    return WorkerSet(
        _read(spec.template), 1 if spec.replicas is None else spec.replicas, spec.service_name or ""
    )


def parse_worker_job_set(raw: RawObject) -> WorkerJobSet:
    """The JobSet that `raw` describes. As its webhook does, an absent completionMode is Indexed.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    spec = read_object(raw, "JobSet", _WireJobSet).spec
    jobs = tuple(
        ReplicatedJob(
            one.name,
            1 if one.replicas is None else one.replicas,
            one.group_name or "default",
            _read_job(one.template.spec, is_indexed=one.template.spec.completion_mode in (None, "Indexed")),
        )
        for one in spec.replicated_jobs or ()
    )
    network = spec.network or _WireNetwork()
    return WorkerJobSet(jobs, network.enable_dns_hostnames is not False)


def _read_job(spec: _WireJobSpec, *, is_indexed: bool) -> WorkerJob:
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    completions = parallelism if spec.completions is None else spec.completions
    return WorkerJob(_read(spec.template), completions, parallelism, is_indexed)


def _read(template: WirePodTemplate) -> TpuTemplate:
    marks = template.metadata or WireMarks()
    return read_template(template.spec, marks.labels, marks.annotations)
