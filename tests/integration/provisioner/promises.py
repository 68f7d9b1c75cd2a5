"""What every provider promises, as steps that any two of one kind can be taken through."""

import asyncio

from accelet.provisioner.pools.pool import PoolState, Trouble
from accelet.provisioner.providers.protocol import Provider
from tests.integration.provisioner.plans import plan

Two = tuple[Provider, Provider]
"""The same provider for the cluster `a-cluster` and for another."""


async def _state(provider: Provider) -> PoolState | None:
    """That of the one pool; None for none."""
    pools = (await provider.list_pools()).pools
    return pools[0].state if pools else None


async def until_it_is(provider: Provider, state: PoolState | None) -> None:
    async with asyncio.timeout(60):
        while await _state(provider) != state:  # noqa: ASYNC110 - the provider is asked, it does not tell
            await asyncio.sleep(0.02)


async def check_that_a_pool_is_made_once_and_is_its_requests(two: Two) -> None:
    ours, _ = two
    wanted = plan()

    assert await ours.create(wanted) is None
    again = await ours.create(wanted)

    assert again is not None
    assert again.trouble is Trouble.EXISTS
    (made,) = (await ours.list_pools()).pools
    assert (made.name, made.mark, made.fingerprint) == (wanted.name, "a-uid", wanted.fingerprint)
    assert (made.tier, made.zone) == ("on-demand", "us-east5-a")
    await until_it_is(ours, "running")


async def check_that_what_is_deleted_goes_and_may_be_deleted_again(two: Two) -> None:
    ours, _ = two
    await ours.create(plan())
    await until_it_is(ours, "running")

    assert await ours.delete(plan().name) is None

    await until_it_is(ours, None)
    assert await ours.delete(plan().name) is None


async def check_that_two_clusters_leave_each_others_pools_alone(two: Two) -> None:
    ours, others = two
    await others.create(plan(cluster="another"))

    listed = await ours.list_pools()

    assert listed.pools == ()
    await until_it_is(others, "running")
    (made,) = (await others.list_pools()).pools
    assert made.name == plan().name
