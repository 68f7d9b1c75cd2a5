"""Who answers the kubelet's two questions about a resource."""

from collections.abc import Collection, Sequence
from typing import Protocol

from accelet.accelerators.device import DeviceId
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.manager import ResourceManager


class Allocator(Protocol):
    """`kubelet` is what the caller says of itself, `grpc-go/1.72.1`."""

    async def prefer(
        self, available: Collection[DeviceId], must_include: Collection[DeviceId], size: int, kubelet: str
    ) -> Sequence[DeviceId]:
        """Which devices the next container had best get; empty: no opinion."""
        ...

    async def allocate(self, requested: Sequence[DeviceId], kubelet: str) -> Allocation | Refusal:
        """What a container must be given for the devices the kubelet chose for it."""
        ...


class PlainAllocator:
    """Answers by the ids alone: no identity is needed, and none is sought."""

    def __init__(self, manager: ResourceManager) -> None:
        self._manager = manager

    async def prefer(
        self, available: Collection[DeviceId], must_include: Collection[DeviceId], size: int, kubelet: str
    ) -> Sequence[DeviceId]:
        return self._manager.prefer(available, must_include, size)

    async def allocate(self, requested: Sequence[DeviceId], kubelet: str) -> Allocation | Refusal:
        return self._manager.allocate(requested)
