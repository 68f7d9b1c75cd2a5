"""From a wanted slice to the SliceRequest that stands for it."""

from typing import Any

import msgspec

from accelet.kinds.slicerequest import (
    FINALIZER,
    SLICE_REQUESTS,
    SliceOwner,
    SliceRequestSpec,
    SliceSet,
)
from accelet.provisioner.demand.slices import WantedSlice

OWNER_VERSIONS = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "RayCluster": "ray.io/v1",
}
BOOKED_KINDS = frozenset(("Job", "JobSet"))
"""Owners for which a queue may book slices."""


def spec_of(wanted: WantedSlice) -> SliceRequestSpec:
    """What the SliceRequest of a wanted slice asks for."""
    insisted, wishes = wanted.insisted, wanted.insisted.wishes
    return SliceRequestSpec(
        accelerator=wanted.machines.accelerator,
        topology=wanted.machines.topology,
        chips_per_pod=wanted.chips_per_pod,
        slice_set=SliceSet(name=wanted.set_name, size=wanted.set_size),
        owner=SliceOwner(
            api_version=OWNER_VERSIONS[wanted.owner.kind],
            kind=wanted.owner.kind,
            name=wanted.owner.name,
            uid=wanted.owner.uid,
            job=wanted.job,
            replicated_job=wanted.replicated_job,
            index=wanted.index,
            exclusive=wanted.is_exclusive,
        ),
        machine_type=insisted.machine_type,
        ici_resiliency=insisted.ici_resiliency,  # type: ignore[arg-type]  # choose_machines has judged it
        placement_policy=insisted.placement_policy,
        slice_class=wanted.slice_class,
        tier=str(wishes.tier) if wishes.tier else None,
        zone=wishes.zone or None,
        tolerates_spot=wishes.tolerates_spot,
        node_labels=dict(insisted.labels),
    )


def request_body(wanted: WantedSlice) -> dict[str, Any]:
    """The SliceRequest to be created. It outlives its owner until its pool is gone."""
    spec = spec_of(wanted)
    assert spec.owner is not None
    reference = {
        "apiVersion": spec.owner.api_version,
        "kind": spec.owner.kind,
        "name": spec.owner.name,
        "uid": spec.owner.uid,
    }
    return {
        "apiVersion": SLICE_REQUESTS.api_version,
        "kind": SLICE_REQUESTS.kind,
        "metadata": {
            "namespace": wanted.owner.namespace,
            "name": wanted.name,
            "finalizers": [FINALIZER],
            "ownerReferences": [reference],
        },
        "spec": msgspec.to_builtins(spec),
    }
