"""One pod: the variables that make it a worker of its slice, or why it cannot be one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from accelet.kube.objects import RawObject, WireMetadata, WireObject, read_object
from accelet.provisioner.identity.hardware import count, judge_hardware, shown
from accelet.provisioner.identity.hosts import host_table
from accelet.provisioner.identity.names import (
    ADDRESSES,
    COORDINATOR,
    COORDINATOR_ADDRESS,
    FIRST_SLICE,
    HOSTNAMES,
    INDEX,
    JOB_INDEX,
    JOB_SET,
    LONGEST_VARIABLE,
    MEGASCALE_PORT,
    NUM_SLICES,
    POD_INDEX,
    PORT,
    PROCESS_PORT,
    SLICE_ID,
    SLICES,
    SLICES_PORT,
    WORKER_ID,
    WORKERS,
)
from accelet.provisioner.identity.sentences import ALONE, HOSTNAME, NAMELESS, NUMBER, PODS, TOO_LONG
from accelet.provisioner.identity.template import TpuContainer, TpuTemplate, WirePodSpec, read_template

_COUNT: Final = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

Source = Literal["job", "statefulset", "none", "foreign"]
"""What numbers a pod: an Indexed Job, a StatefulSet, nobody, or a controller that is not known here."""

KINDS: Final[Mapping[Source, str]] = {"job": "Job", "statefulset": "StatefulSet"}


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """A pod that is being made. `owner` is the name of its Job or StatefulSet, `index` its number as text."""

    template: TpuTemplate
    source: Source = "none"
    owner: str = ""
    index: str = ""

    @property
    def rank(self) -> int:
        return int(self.index) if _INDEX.fullmatch(self.index) else -1

    @property
    def stamp(self) -> int:
        """How many workers its owner was made with; 0 where nobody wrote that down."""
        if self.source not in KINDS:
            return 0
        return _bounded(self.template.annotations.get(WORKERS, ""))

    @property
    def workers(self) -> int:
        """How many workers its slice has, 0 where that is not certain."""
        template = self.template
        if template.is_left_alone or len(template.containers) != 1:
            return 0
        if template.is_known and template.hosts == 0:
            return 0
        if self.stamp == 0:
            return 1 if template.hosts == 1 else 0
        workers = 0 if template.is_known and self.stamp != template.hosts else self.stamp
        return workers if workers <= 1 or self._is_named(workers) else 0

    def _is_named(self, workers: int) -> bool:
        template = self.template
        named = template.hostname == f"{self.owner}-{self.index}" and template.subdomain != ""
        return named and 0 <= self.rank < workers


class _WirePod(WireObject, frozen=True):
    spec: WirePodSpec


def parse_worker_pod(raw: RawObject) -> WorkerPod:
    """The pod that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "Pod", _WirePod)
    metadata = wire.metadata
    template = read_template(wire.spec, metadata.labels, metadata.annotations)
    controllers = [one for one in metadata.owner_references or () if one.controller]
    if not controllers:
        return WorkerPod(template)
    owner = controllers[0]
    match (owner.api_version, owner.kind):
        case ("batch/v1", "Job"):
            index = template.annotations.get(INDEX)
            return WorkerPod(template, "none" if index is None else "job", owner.name, index or "")
        case ("apps/v1", "StatefulSet"):
            return WorkerPod(template, "statefulset", owner.name, _ordinal(metadata, owner.name))
        case ("apps/v1", "ReplicaSet"):
            return WorkerPod(template, "none", owner.name)
        case _:
            return WorkerPod(template, "foreign", owner.name)


def environment_of(pod: WorkerPod) -> Mapping[str, str]:
    """The variables that the pod's one TPU container gets, in their order, before its author's own."""
    workers = pod.workers
    if workers == 0:
        return {}
    (container,) = pod.template.containers
    own = container.names()
    given: dict[str, str] = {}
    alone = workers == 1
    if not container.sets_hostnames(alone=alone) and not container.sets_id(alone=alone):
        given[WORKER_ID] = "0" if alone else pod.index
        given[HOSTNAMES] = "localhost" if alone else _names(pod, workers)
        if not alone and pod.template.accelerator in host_table().spread and not own & {ADDRESSES, PORT}:
            given[ADDRESSES] = _names(pod, workers, f":{PROCESS_PORT}")
            given[PORT] = PROCESS_PORT
    if not alone and not own & {NUM_SLICES, SLICE_ID, COORDINATOR_ADDRESS}:
        slices = _slices(pod)
        given |= {name: value for name, value in slices.items() if name not in own}
    return given


def merged_environment(container: TpuContainer, given: Mapping[str, str]) -> Sequence[tuple[str, str | None]]:
    """The container's whole environment: what it is given, then its author's, as far as that stands."""
    kept = [(one.name, one.value) for one in container.env if one.name not in given]
    return [*given.items(), *kept]


def judge_pod(pod: WorkerPod) -> str | None:
    """Why the pod is not made, for its author; None if it may be."""
    if pod.template.is_left_alone:
        return None
    found = None if pod.template.is_own else judge_hardware(pod.template) or _judge_place(pod)
    return found or _judge_length(pod)


def _judge_place(pod: WorkerPod) -> str | None:
    template, stamp = pod.template, pod.stamp
    if template.is_known and template.hosts > 1 and pod.source == "none":
        needed = count(template.hosts, "worker")
        return ALONE.format(topology=template.topology, chips=chips_shown(template), needed=needed)
    if stamp == 0:
        return None
    if template.is_known and stamp != template.hosts:
        return pods_sentence(template, KINDS[pod.source], stamp)
    return None if stamp == 1 else _judge_name(pod)


def _judge_name(pod: WorkerPod) -> str | None:
    template, stamp = pod.template, pod.stamp
    if not 0 <= pod.rank < stamp:
        return NUMBER.format(index=shown(pod.index), pods=stamp)
    if template.subdomain == "":
        return NAMELESS.format(field=SUBDOMAIN_FIELDS[pod.source])
    wanted = f"{pod.owner}-{pod.index}"
    if template.hostname != wanted:
        return HOSTNAME.format(wanted=wanted, hostname=template.hostname or "empty")
    return None


SUBDOMAIN_FIELDS: Final[Mapping[Source, str]] = {
    "job": "spec.template.spec.subdomain",
    "statefulset": "spec.serviceName",
}


def pods_sentence(template: TpuTemplate, kind: str, pods: int) -> str:
    """That an owner has another number of pods than its slice has hosts."""
    needed = count(template.hosts, "pod")
    return PODS.format(
        topology=template.topology, chips=chips_shown(template), needed=needed, kind=kind, pods=pods
    )


def chips_shown(template: TpuTemplate) -> str:
    """`4 chips`."""
    return f"{template.chips} chip" if template.chips == "1" else f"{template.chips} chips"


def _judge_length(pod: WorkerPod) -> str | None:
    given = environment_of(pod)
    for container in pod.template.containers:
        for name, value in merged_environment(container, given):
            size = len(f"{name}={value or ''}".encode())
            if size > LONGEST_VARIABLE:
                return TOO_LONG.format(name=shown(name), bytes=size)
    return None


def _names(pod: WorkerPod, workers: int, port: str = "") -> str:
    host = f".{pod.template.subdomain}{port}"
    return ",".join(f"{pod.owner}-{index}{host}" for index in range(workers))


def _slices(pod: WorkerPod) -> Mapping[str, str]:
    """MEGASCALE_*, where the pod's JobSet has several slices that work together."""
    template = pod.template
    slices = _bounded(template.annotations.get(SLICES, ""))
    first, index = template.annotations.get(FIRST_SLICE, ""), template.labels.get(JOB_INDEX, "")
    leader, job_set = template.annotations.get(COORDINATOR, ""), template.labels.get(JOB_SET, "")
    if pod.source != "job" or slices < 2 or not (_INDEX.fullmatch(first) and _INDEX.fullmatch(index)):
        return {}
    number = int(first) + int(index)
    if number >= slices or not (_NAME.fullmatch(leader) and _NAME.fullmatch(job_set)):
        return {}
    return {
        NUM_SLICES: str(slices),
        SLICE_ID: str(number),
        COORDINATOR_ADDRESS: f"{job_set}-{leader}-0-0.{template.subdomain}",
        MEGASCALE_PORT: SLICES_PORT,
    }


def _bounded(text: str) -> int:
    number = int(text) if _COUNT.fullmatch(text) else 0
    return number if number <= host_table().most_hosts else 0


def _ordinal(metadata: WireMetadata, owner: str) -> str:
    index = (metadata.labels or {}).get(POD_INDEX)
    if index is not None:
        return index
    before = f"{owner}-"
    return metadata.name.removeprefix(before) if metadata.name.startswith(before) else ""
