"""From a wanted slice to the pools that would be tried for it, one after the other."""

import re
from dataclasses import dataclass
from typing import Final

from accelet.provisioner.demand.slices import WantedSlice
from accelet.provisioner.pools.machines import Placement, Refusal
from accelet.provisioner.pools.plan import PoolPlan, pool_name
from accelet.provisioner.pools.tiers import Order, Tier, order_attempts
from accelet.provisioner.settings import ProvisionerSettings

_POLICY: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a pool is made for: the request's name and UID, and the cluster's mark."""

    name: str
    uid: str
    cluster: str


def order_for(wanted: WantedSlice, settings: ProvisionerSettings) -> Order | Refusal:
    """Where a wanted slice is to be tried, or why nowhere."""
    chosen = settings.class_named(wanted.slice_class)
    if chosen is None:
        known = ", ".join(one.name for one in settings.classes) or "none"
        return Refusal(f"there is no slice class {str(wanted.slice_class)[:80]!r}; there are: {known}")
    tiers = [Tier.parse(text) for text in chosen.tiers or settings.tiers]
    order = order_attempts(
        tiers,
        chosen.zones or settings.zones,
        wanted.insisted.wishes,
        zone_first=settings.order == "zone-first",
    )
    return order if order.attempts else Refusal("; ".join(order.skipped))


def plan_pool(
    wanted: WantedSlice, order: Order, number: int, identity: Identity, settings: ProvisionerSettings
) -> PoolPlan | Refusal:
    """The pool of attempt `number`, from 0 on; attempts begin anew when the order is through."""
    machines, insisted = wanted.machines, wanted.insisted
    policy = None
    if machines.placement is Placement.WORKLOAD_POLICY:
        named = settings.gke.workload_policy.replace("{topology}", machines.topology)
        policy = insisted.placement_policy or named
        if not _POLICY.fullmatch(policy):
            return Refusal(f"{policy[:80]!r} is no name of a workload policy: [a-z0-9-], at most 63")
    return PoolPlan(
        name=pool_name(identity.name, identity.uid, number),
        mark=identity.uid,
        cluster=identity.cluster,
        machines=machines,
        attempt=order.attempts[number % len(order.attempts)],
        labels=insisted.labels,
        placement_policy=policy,
        slice_class=wanted.slice_class,
    )
