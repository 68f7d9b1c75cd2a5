"""One resource's present state behind plain methods."""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from accelet.accelerators.backend import Backend
from accelet.accelerators.device import DeviceId
from accelet.accelerators.inventory import Inventory
from resourcemanager.allocation import Allocation, Refusal, allocate
from resourcemanager.listing import Listing, next_listing
from resourcemanager.preference import Policy, prefer


@dataclass(frozen=True, slots=True)
class Rules:
    """How a resource, by its full name, is given out; `is_distinct`: never two shares of one device."""

    resource: str
    policy: Policy = "none"
    is_distinct: bool = False


class ResourceManager:
    """Holds the last scan and the list made of it; every answer is a plain call on both.

    Not safe for use by several threads: it belongs to the event loop.
    """

    def __init__(self, rules: Rules, backend: Backend) -> None:
        self.rules = rules
        self.backend = backend
        self._inventory = Inventory()
        self._listing = Listing()

    @property
    def inventory(self) -> Inventory:
        return self._inventory

    @property
    def listing(self) -> Listing:
        return self._listing

    def update(self, inventory: Inventory, held: Set[DeviceId] | None) -> Listing:
        """Takes over a scan and the ids containers hold (None: not known); returns the list before it."""
        before = self._listing
        self._inventory = inventory
        self._listing = next_listing(before, inventory, held)
        return before

    def prefer(
        self, available: Collection[DeviceId], must_include: Collection[DeviceId], size: int
    ) -> tuple[DeviceId, ...]:
        """Which of the available devices the next container had best get; empty: no opinion."""
        return prefer(
            self._inventory.devices,
            available,
            must_include,
            size,
            policy=self.rules.policy,
            valid_sets=self.backend.valid_sets(self._inventory, size, available),
        )

    def allocate(self, requested: Sequence[DeviceId]) -> Allocation | Refusal:
        """What a container must be given for the devices the kubelet chose for it."""
        return allocate(
            requested,
            resource=self.rules.resource,
            backend=self.backend,
            inventory=self._inventory,
            listing=self._listing,
            is_distinct=self.rules.is_distinct,
        )
