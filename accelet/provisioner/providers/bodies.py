"""What is sent to a provider for a pool, by the provider's name."""

from typing import Any

from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.plan import PoolPlan
from accelet.provisioner.providers.clusterapi import body as cluster_api
from accelet.provisioner.providers.gke import body as gke
from accelet.provisioner.providers.simulated import body as simulated
from accelet.provisioner.settings import ProviderName, ProvisionerSettings


def render_body(
    plan: PoolPlan, provider: ProviderName, settings: ProvisionerSettings
) -> dict[str, Any] | Refusal:
    """The request by which `provider` would make the pool."""
    match provider:
        case "gke":
            chosen = settings.class_named(plan.slice_class)
            return gke.render_body(plan, chosen.node if chosen else settings.gke.node)
        case "simulated":
            return simulated.render_body(plan)
        case "cluster-api":
            return cluster_api.render_body(plan, settings.cluster_api)
