"""The slices that one owner asks for: as a set, all of them or none; those of groups each alone."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Literal

from accelet.kube.requests import pod_requests
from accelet.provisioner.demand.owners import JobOwner, JobTemplate
from accelet.provisioner.demand.selectors import (
    ACCELERATOR,
    CHIP_COUNT,
    TOPOLOGY,
    Insisted,
    judge_binding,
    node_selector,
    read_insisted,
)
from accelet.provisioner.pools.machines import Asked, Machines, Refusal, choose_machines

PROVISION: Final = "accelet.dev/provision"
"""The annotation by which an owner asks for its slices: `"true"`."""

BOOKING_CLASS: Final = "slice.accelet.dev"
"""The class of the ProvisioningRequests by which a queue asks for slices."""

BOOKED: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""The annotation that a queue puts on the pods of what it lets run with a ProvisioningRequest."""

SLICE_CLASS: Final = "accelet.dev/slice-class"
DISABLED: Final = "tpu-provisioner.cloud.google.com/disable-autoprovisioning"
EXCLUSIVE_TOPOLOGY: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
EXCLUSIVE_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"
TPU: Final = "google.com/tpu"

MOST_SLICES: Final = 1000
"""Of one owner: a JobSet that asks for more is a mistake, or an attack."""

_LONGEST_NAME: Final = 63

Demand = Literal["opt-in", "all"]


@dataclass(frozen=True, slots=True)
class WantedSlice:
    """One slice that an owner wants, for its Job `job`. `index` counts the Jobs of a template.

    `is_exclusive`: JobSet binds the Job's pods to nodes by a label and a taint that we write.
    """

    owner: JobOwner
    replicated_job: str | None
    index: int
    job: str
    machines: Machines
    insisted: Insisted
    chips_per_pod: int
    is_exclusive: bool = False
    slice_class: str | None = None
    set_size: int = 1

    @property
    def name(self) -> str:
        """The SliceRequest's name: another owner of the same name has another."""
        suffix = _digest(f"{self.owner.uid}/{self.job}")
        return f"{self.job[: _LONGEST_NAME - 9].rstrip('-.')}-{suffix}"

    @property
    def set_name(self) -> str:
        """The set's name; all slices of an owner have it in common, unless each serves alone."""
        if self.owner.is_of_groups:
            return self.name
        return f"{self.owner.name[: _LONGEST_NAME - 9].rstrip('-.')}-{_digest(self.owner.uid)}"


@dataclass(frozen=True, slots=True)
class RefusedTemplate:
    """A template whose slices are not made, and why."""

    owner: JobOwner
    replicated_job: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Derived:
    """What an owner asks for.

    If anything of a JobSet is refused nothing is made, since half a set serves nobody. Groups serve alone.
    """

    slices: tuple[WantedSlice, ...] = ()
    refused: tuple[RefusedTemplate, ...] = ()


def derive_slices(
    owner: JobOwner, allowed_labels: Collection[str] = (), copied_labels: Collection[str] = ()
) -> Derived:
    """The slices that `owner` would need to run, whether or not it asks for them now.

    `allowed_labels` are those of nodes that its pods may insist on, `copied_labels` those of the pods
    themselves that their nodes get too.
    """
    copied = frozenset(copied_labels)
    wanted: list[WantedSlice] = []
    refused: list[RefusedTemplate] = []
    for template in owner.templates:
        found = _derive_template(owner, template, allowed_labels, copied, len(wanted))
        if isinstance(found, Refusal):
            refused.append(RefusedTemplate(owner, template.replicated_job, found.reason))
        else:
            wanted.extend(found)
    if refused and not owner.is_of_groups:
        culprit = refused[0].replicated_job
        for name in dict.fromkeys(one.replicated_job for one in wanted):
            reason = f"the JobSet gets all of its slices or none, and those of {culprit} are refused"
            refused.append(RefusedTemplate(owner, name, reason))
        return Derived(refused=tuple(refused))
    size = 1 if owner.is_of_groups else len(wanted)
    return Derived(tuple(replace(one, set_size=size) for one in wanted), tuple(refused))


def why_not_asked(owner: JobOwner, demand: Demand, *, is_booked: bool = False) -> str | None:
    """Why nothing is made for `owner` now, None if it asks for its slices.

    `is_booked`: a queue has a ProvisioningRequest for it, and will let it run once it has them.
    """
    if owner.is_deleted:
        return "it is being deleted"
    if owner.is_finished:
        return "it has finished"
    if _is_disabled(owner):
        return f'the annotation {DISABLED}: "true" turns it off'
    asked = owner.annotations.get(PROVISION)
    has_queue = is_booked or _was_booked(owner)
    if asked == "false" or (demand == "opt-in" and asked != "true" and not has_queue):
        return f'it does not ask: the annotation {PROVISION}: "true" does'
    if owner.is_suspended and not is_booked:
        return "it is suspended"
    return None


def is_turned_off(owner: JobOwner) -> bool:
    """Whether its author wants no slices of accelet, whatever the settings demand."""
    return owner.annotations.get(PROVISION) == "false" or _is_disabled(owner)


def _was_booked(owner: JobOwner) -> bool:
    """Whether a queue let it run with slices: its ProvisioningRequest may be deleted while it runs."""
    return any(one.pod.annotations.get(BOOKED) == BOOKING_CLASS for one in owner.templates)


def _is_disabled(owner: JobOwner) -> bool:
    places = [owner.annotations]
    for template in owner.templates:
        places += [template.annotations, template.pod.annotations]
    return any(place.get(DISABLED) == "true" for place in places)


def _derive_template(
    owner: JobOwner, template: JobTemplate, allowed: Collection[str], copied: frozenset[str], before: int
) -> list[WantedSlice] | Refusal:
    machines = _choose_for_all(template, allowed)
    if machines is None or template.replicas <= 0 or template.parallelism <= 0:
        return []
    if isinstance(machines, Refusal):
        return machines
    if before + template.replicas > MOST_SLICES:
        return Refusal(f"it asks for {before + template.replicas} slices; at most {MOST_SLICES} can be had")
    chosen, insisted, chips = machines
    copies = {key: value for key, value in template.pod.labels.items() if key in copied}
    insisted = replace(insisted, labels={**copies, **insisted.labels})
    said = {**owner.annotations, **template.annotations}
    is_exclusive = _selects_by_job(owner, template)
    slices = []
    for index in range(template.replicas):
        job = owner.name
        if template.replicated_job is not None:
            job = f"{owner.name}-{template.replicated_job}-{index}"
        elif owner.is_of_groups:
            job = f"{owner.name}-{index}"
        objection = judge_binding(template.pod, owner.namespace, job, is_exclusive=is_exclusive)
        if objection is not None:
            return objection
        slices.append(
            WantedSlice(
                owner,
                template.replicated_job,
                index,
                job,
                chosen,
                insisted,
                chips,
                is_exclusive,
                said.get(SLICE_CLASS),
            )
        )
    return slices


def _selects_by_job(owner: JobOwner, template: JobTemplate) -> bool:
    """Whether JobSet has the pods select nodes by their Job's name, and tolerate its taint.

    As its controller decides (`labelAndAnnotateObject`): the selector of the whole JobSet counts only beside
    a topology of the whole JobSet. Nobody does that for a plain Job, and the taint would keep its pods out.
    """
    if owner.kind != "JobSet":
        return False
    of_all, of_job = owner.annotations, template.annotations
    has_topology = EXCLUSIVE_TOPOLOGY in of_all or EXCLUSIVE_TOPOLOGY in of_job
    return has_topology and (
        EXCLUSIVE_SELECTOR in of_job or (EXCLUSIVE_TOPOLOGY in of_all and EXCLUSIVE_SELECTOR in of_all)
    )


def _choose_for_all(
    template: JobTemplate, allowed: Collection[str]
) -> tuple[Machines, Insisted, int] | Refusal | None:
    """The machines of one template's slices, which all pods on a slice must ask for."""
    if template.objection is not None:
        return Refusal(template.objection)
    chosen = _choose(template, allowed)
    if any(_choose(replace(template, pod=pod), allowed) != chosen for pod in template.others):
        return Refusal("a leader on the slice must ask for the same TPUs as its workers, and select the same")
    return chosen


def _choose(
    template: JobTemplate, allowed: Collection[str]
) -> tuple[Machines, Insisted, int] | Refusal | None:
    """The machines of one template's slices; None if its pods want no TPUs."""
    pod = template.pod
    selector = node_selector(pod)
    accelerator, topology = selector.get(ACCELERATOR), selector.get(TOPOLOGY)
    chips = pod_requests(pod).get(TPU, 0)
    if not chips and accelerator is None and topology is None:
        return None
    if not isinstance(chips, int) or chips <= 0:
        return Refusal(f"the pods select TPU nodes, and must ask for whole chips of {TPU}")
    if accelerator is None or topology is None:
        missing = ACCELERATOR if accelerator is None else TOPOLOGY
        return Refusal(f"the pods ask for {TPU} but do not select {missing}: say which TPUs in nodeSelector")
    insisted = read_insisted(pod, allowed)
    if isinstance(insisted, Refusal):
        return insisted
    machine_type, resiliency = insisted.machine_type, insisted.ici_resiliency
    machines = choose_machines(
        Asked(accelerator, topology, chips, template.parallelism, machine_type, resiliency, template.asker)
    )
    if isinstance(machines, Refusal):
        return machines
    return _judge_job(template, machines, insisted) or (machines, insisted, chips)


def _judge_job(template: JobTemplate, machines: Machines, insisted: Insisted) -> Refusal | None:
    if insisted.chip_count not in (None, str(machines.chips_per_host)):
        return Refusal(
            f"the pods insist on machines of {str(insisted.chip_count)[:20]} chips, "
            f"those of {machines.topology} have {machines.chips_per_host}: "
            f"select that, or leave {CHIP_COUNT} out"
        )
    if template.parallelism == 1:
        return None
    if not template.is_indexed:
        return Refusal("the workers of a slice need numbers: set completionMode: Indexed")
    if template.completions != template.parallelism:
        return Refusal(
            f"all {template.parallelism} workers of a slice run together: completions must be "
            f"{template.parallelism} as parallelism is, not {template.completions}"
        )
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
