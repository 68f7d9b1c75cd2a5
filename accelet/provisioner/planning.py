"""From what a SliceRequest asks for to the pools that are tried for it, one after the other."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from accelet.kinds.slicerequest import SliceRequestSpec
from accelet.provisioner.demand.selectors import JOB_KEY, NAMESPACED_JOB, job_key
from accelet.provisioner.pools.machines import Asked, Machines, PlacementPolicy, Refusal, choose_machines
from accelet.provisioner.pools.plan import PoolPlan, billing_labels
from accelet.provisioner.pools.tiers import (
    FLEX_START,
    FLEX_START_LABEL,
    Attempt,
    Order,
    Tier,
    TierError,
    Wishes,
    order_attempts,
)
from accelet.provisioner.settings import NodeSettings, ProvisionerSettings

_UNKNOWN: Final = Attempt(Tier("on-demand"), "")
_NO_FLEX_START: Final = ("tpu-v3-", "tpu-v4-")
"""How the labels of accelerators begin that are not sold as flex-start (GKE, "About flex-start")."""

_LONGEST_LABEL: Final = 63
_POLICY: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Identity:
    """A pool's name, and who it is made for: the request's UID and namespace, and the cluster's mark."""

    pool: str
    uid: str
    cluster: str
    namespace: str = ""


def machines_of(spec: SliceRequestSpec) -> Machines | Refusal:
    """The machines that a request takes. A person may have written it: everything is judged anew."""
    asked = Asked(
        spec.accelerator, spec.topology, spec.chips_per_pod, None, spec.machine_type, spec.ici_resiliency
    )
    return _choose_machines(asked)


@lru_cache(maxsize=4096)
def _choose_machines(asked: Asked) -> Machines | Refusal:
    """The same for the same: a set of a thousand slices asks for one thing a thousand times."""
    return choose_machines(asked)


def order_for(spec: SliceRequestSpec, namespace: str, settings: ProvisionerSettings) -> Order | Refusal:
    """Where a slice of a namespace is to be tried, or why nowhere."""
    chosen = settings.class_named(spec.slice_class)
    if chosen is None or (chosen.namespaces and namespace not in chosen.namespaces):
        open_to = [one.name for one in settings.classes if not one.namespaces or namespace in one.namespaces]
        known = ", ".join(open_to) or "none"
        return Refusal(
            f"there is no slice class {str(spec.slice_class)[:80]!r} for the namespace {namespace}; "
            f"there are: {known}"
        )
    foreign = [key for key in spec.node_labels if key not in settings.allowed_labels]
    if foreign:
        return Refusal(f"the label {foreign[0][:80]} is not in the settings' node_labels")
    try:
        wishes = Wishes(Tier.parse(spec.tier) if spec.tier else None, spec.zone or "", spec.tolerates_spot)
    except TierError as error:
        return Refusal(str(error))
    if wishes.tier == FLEX_START and spec.accelerator.startswith(_NO_FLEX_START):
        return Refusal(
            f"{spec.accelerator[:80]} is not sold as flex-start; TPU v5e, v5p, v6e and tpu7x are: leave "
            f"{FLEX_START_LABEL} out"
        )
    order = order_attempts(
        [Tier.parse(text) for text in chosen.tiers or settings.tiers],
        chosen.zones or settings.zones,
        wishes,
        zone_first=settings.order == "zone-first",
    )
    return order if order.attempts else Refusal("; ".join(order.skipped))


def plan_pool(
    spec: SliceRequestSpec,
    machines: Machines,
    attempt: Attempt,
    identity: Identity,
    settings: ProvisionerSettings,
) -> PoolPlan | Refusal:
    """The pool of one attempt."""
    policy = None
    if machines.placement is PlacementPolicy.WORKLOAD_POLICY:
        named = settings.gke.workload_policy.replace("{topology}", machines.topology)
        policy = spec.placement_policy or named
        if not _POLICY.fullmatch(policy):
            return Refusal(f"{policy[:80]!r} is no name of a workload policy: [a-z0-9-], at most 63")
    return PoolPlan(
        name=identity.pool,
        mark=identity.uid,
        cluster=identity.cluster,
        machines=machines,
        attempt=attempt,
        labels=spec.node_labels,
        placement_policy=policy,
        slice_class=spec.slice_class,
        given=_given(spec, settings),
        billing=_billing(spec, identity.namespace),
        selected=_selected(spec, identity.namespace),
        has_spot_taint=spec.tolerates_spot or spec.tier != "spot",
    )


def fingerprint_of(spec: SliceRequestSpec, settings: ProvisionerSettings) -> str:
    """That of a pool as it would be made for `spec` now, empty if none could be; the same in each place."""
    machines = machines_of(spec)
    if isinstance(machines, Refusal):
        return ""
    plan = plan_pool(spec, machines, _UNKNOWN, Identity("", "", ""), settings)
    return "" if isinstance(plan, Refusal) else plan.fingerprint


def _billing(spec: SliceRequestSpec, namespace: str) -> Mapping[str, str]:
    if spec.owner is None:
        return billing_labels(namespace, "", "")
    return billing_labels(namespace, spec.owner.kind, spec.owner.name)


def _selected(spec: SliceRequestSpec, namespace: str) -> Mapping[str, str]:
    """The labels by which the pods of a Job select the nodes of their slice."""
    if spec.owner is None:
        return {}
    job = spec.owner.job
    labels = {JOB_KEY: job_key(namespace, job), NAMESPACED_JOB: f"{namespace}_{job}"}
    return {key: value for key, value in labels.items() if len(value) <= _LONGEST_LABEL}


def _given(spec: SliceRequestSpec, settings: ProvisionerSettings) -> str:
    """What an administrator gives the machines beyond what every pool has."""
    chosen = settings.class_named(spec.slice_class)
    if chosen is None or chosen.node == NodeSettings():
        return ""
    return msgspec.json.encode(chosen.node, order="deterministic").decode()
