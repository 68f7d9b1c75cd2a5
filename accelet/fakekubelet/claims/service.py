"""What a kubelet with DRA has more than one without."""

from dataclasses import dataclass
from typing import Self

from accelet.fakekubelet.claims.claimmanager import ClaimManager
from accelet.fakekubelet.claims.drivers import Drivers, Spawn
from accelet.fakekubelet.node import Node


@dataclass(frozen=True, slots=True)
class ClaimService:
    """Its drivers, and the claims it prepares with them."""

    drivers: Drivers
    manager: ClaimManager

    @classmethod
    def of(cls, node: Node, spawn: Spawn) -> Self | None:
        """None where the node has no API server to look claims up at, or the version knows no DRA."""
        if node.claim_api is None or not node.version.driver_services:
            return None
        drivers = Drivers(node, node.claim_api, spawn)
        return cls(drivers, ClaimManager(node, node.claim_api, drivers))
