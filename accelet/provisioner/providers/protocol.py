"""What a provider is asked: list, create, delete; nothing is ever changed or resized."""

from typing import Protocol

from accelet.provisioner.pools.plan import PoolPlan
from accelet.provisioner.pools.pool import Failure, PoolList


class ProviderError(Exception):
    """A provider's pools could not be listed; the text is a sentence for people."""


class Provider(Protocol):
    """Who makes pools. `pool_label` is the label by which a Node says of which pool it is."""

    @property
    def pool_label(self) -> str: ...

    async def list_pools(self) -> PoolList:
        """All pools of this cluster's provisioner at one moment, those that come and go included.

        Raises:
            ProviderError: they could not be listed.
        """
        ...

    async def create(self, plan: PoolPlan) -> Failure | None:
        """Asks for a pool; None once that is accepted. The same name twice is one pool."""
        ...

    async def delete(self, pool: str) -> Failure | None:
        """Asks for a pool's end; None once that is accepted, or the pool is gone."""
        ...

    async def run(self) -> None:
        """What it does by itself, until it is cancelled, while this replica leads."""
        ...
