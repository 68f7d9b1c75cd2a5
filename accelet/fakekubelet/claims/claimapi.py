"""What a kubelet asks of the API server about claims and ResourceSlices."""

from typing import Protocol

from accelet.fakekubelet.claims.cache import FoundClaim


class ClaimApi(Protocol):
    """The API server as the kubelet's part for DRA needs it. Both raise KubeError."""

    async def find_claim(self, namespace: str, name: str) -> FoundClaim: ...

    async def delete_slices(self, node: str, driver: str | None) -> int:
        """Deletes the ResourceSlices of a node, of one driver or of all; how many there were."""
        ...
