"""The resources that one driver publishes together, as their last scans found them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from accelet.accelerators.backend import Backend
from accelet.accelerators.device import Device, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.dra.pool import Effect


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource: its name, its hardware and what was found of it.

    `pcie_roots` are the PCIe root complexes (`pci0000:00`) by PCI address, as far as they are known.
    `failed` is the effect on a unit that failed for good, or disappeared for good while it is held:
    `NoSchedule` leaves its holders alone, `NoExecute` has Kubernetes evict them.
    """

    name: str
    backend: Backend
    inventory: Inventory
    pcie_roots: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    failed: Effect = "NoSchedule"


@dataclass(frozen=True, slots=True)
class ServedUnit:
    """A physical unit; `device` is any device of it, whose tile and share mean nothing here."""

    resource: ServedResource
    device: Device
    shares: int

    @property
    def unit(self) -> UnitId:
        return self.device.unit

    @property
    def pcie_root(self) -> str | None:
        return None if self.device.pci is None else self.resource.pcie_roots.get(self.device.pci)


def units_of(resources: Sequence[ServedResource]) -> tuple[ServedUnit, ...]:
    """The units of all the resources, those of one resource in order of hardware."""
    return tuple(
        ServedUnit(resource, devices[0], 1 + max((device.share or 0) for device in devices))
        for resource in resources
        for devices in resource.inventory.by_unit.values()
    )
