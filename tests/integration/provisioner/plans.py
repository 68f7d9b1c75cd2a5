"""One pool as the provisioner would have it made."""

from accelet.provisioner.demand.owners import parse_job
from accelet.provisioner.demand.requests import spec_of
from accelet.provisioner.demand.slices import derive_slices
from accelet.provisioner.planning import Identity, plan_pool
from accelet.provisioner.pools.plan import PoolPlan, pool_name
from accelet.provisioner.pools.tiers import Attempt, Tier
from accelet.provisioner.settings import DEFAULT_SETTINGS, ProvisionerSettings
from tests.unit.provisioner.manifests import job

IN_A_ZONE = Attempt(Tier("on-demand"), "us-east5-a")


def plan(
    number: int = 0,
    cluster: str = "a-cluster",
    attempt: Attempt = IN_A_ZONE,
    settings: ProvisionerSettings = DEFAULT_SETTINGS,
) -> PoolPlan:
    """Four machines for a Job, made for the request `a-uid`."""
    wanted = derive_slices(parse_job(job())).slices[0]
    identity = Identity(pool_name(wanted.name, "a-uid", number), "a-uid", cluster)
    found = plan_pool(spec_of(wanted), wanted.machines, attempt, identity, settings)
    assert isinstance(found, PoolPlan)
    return found
