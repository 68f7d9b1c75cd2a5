"""What would be made for the owners in a file, without a cluster."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from accelet.provisioner.demand.owners import JobOwner
from accelet.provisioner.demand.requests import spec_of
from accelet.provisioner.demand.slices import WantedSlice, derive_slices, is_turned_off, why_not_asked
from accelet.provisioner.planning import Identity, order_for, plan_pool
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.plan import PoolPlan, pool_name
from accelet.provisioner.providers.bodies import render_body
from accelet.provisioner.settings import ProviderName, ProvisionerSettings


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """One slice and its first attempt; `body` is what the provider would be sent."""

    wanted: WantedSlice
    pool: PoolPlan
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RefusedSlices:
    """Slices that are not made: those of one template, or of a whole owner where that is None."""

    owner: str
    replicated_job: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class OfflinePlan:
    """What would be made, what would not, and what keeps it from being made now."""

    slices: tuple[PlannedSlice, ...]
    refused: tuple[RefusedSlices, ...]
    notes: tuple[str, ...]


def plan_offline(
    owners: Iterable[JobOwner], provider: ProviderName, settings: ProvisionerSettings
) -> OfflinePlan:
    """The first attempt for each slice of each owner, as if all of them asked for theirs.

    Names of pools have a part that comes from the UID of a SliceRequest; here it is made of its name.
    """
    slices: list[PlannedSlice] = []
    refused: list[RefusedSlices] = []
    notes: list[str] = []
    for owner in owners:
        not_asked = why_not_asked(owner, settings.demand)
        if owner.is_finished or owner.is_deleted:
            notes.append(f"{owner}: nothing is made: {not_asked}")
            continue
        derived = derive_slices(owner, settings.node_labels, settings.pod_labels)
        if derived.refused and is_turned_off(owner):
            notes.append(f"{owner}: nothing is made: {not_asked}")
            continue
        refused += [
            RefusedSlices(str(owner), template.replicated_job, template.reason)
            for template in derived.refused
        ]
        planned = [(wanted, _plan(wanted, provider, settings)) for wanted in derived.slices]
        objections = [(wanted, found) for wanted, found in planned if isinstance(found, Refusal)]
        refused += [
            RefusedSlices(str(owner), job, reason)
            for job, reason in dict.fromkeys((w.replicated_job, r.reason) for w, r in objections)
        ]
        if not objections:
            slices += [found for _, found in planned if not isinstance(found, Refusal)]
        if derived.slices and not_asked is not None:
            notes.append(f"{owner}: nothing is made as it is now: {not_asked}")
    return OfflinePlan(tuple(slices), tuple(refused), tuple(notes))


def _plan(
    wanted: WantedSlice, provider: ProviderName, settings: ProvisionerSettings
) -> PlannedSlice | Refusal:
    spec = spec_of(wanted)
    order = order_for(spec, wanted.owner.namespace, settings)
    if isinstance(order, Refusal):
        return order
    uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{wanted.owner.namespace}/{wanted.name}"))
    identity = Identity(pool_name(wanted.name, uid, 1), uid, cluster="", namespace=wanted.owner.namespace)
    pool = plan_pool(spec, wanted.machines, order.attempts[0], identity, settings)
    if isinstance(pool, Refusal):
        return pool
    body = render_body(pool, provider, settings)
    return body if isinstance(body, Refusal) else PlannedSlice(wanted, pool, body)
