"""What the kubelet is told about one resource: the scan, what containers hold, and hysteresis in one list."""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from accelet.accelerators.device import Device, DeviceId, Health, UnitId
from accelet.accelerators.hardwarename import locate
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.steadyhealth import SteadyHealth

FREE_SCANS_TO_DROP = 2
"""A device that is gone leaves the list after so many scans in a row found nobody holding it.

The kubelet crashes (from 1.34) when an id vanishes while it allocates it, and forgets to report a held
device that vanishes; an id that was Unhealthy for a whole scan cannot be chosen any more.
"""


@dataclass(frozen=True, slots=True)
class Listed:
    """One id as the kubelet is told it.

    `free_scans` counts the scans in which a device that is gone was held by nobody. `files` are the device
    files it is made of, where it is nothing but files.
    """

    steady: SteadyHealth
    numa_nodes: tuple[int, ...] = ()
    free_scans: int = 0
    files: frozenset[str] = frozenset()

    @property
    def health(self) -> Health:
        return self.steady.health


@dataclass(frozen=True, slots=True)
class Listing:
    """All ids of one resource in a stable order: those present in order of hardware, then those gone."""

    entries: Mapping[DeviceId, Listed] = field(default_factory=lambda: MappingProxyType({}))

    def tells_same_as(self, other: "Listing") -> bool:
        """Whether the kubelet would see no difference."""
        return list(_told(self)) == list(_told(other))

    def loses_health_to(self, later: "Listing") -> bool:
        """Whether some device that is healthy here is no longer healthy in `later`."""
        return any(
            entry.health.is_healthy
            and not (device in later.entries and later.entries[device].health.is_healthy)
            for device, entry in self.entries.items()
        )


def _told(listing: Listing) -> list[tuple[DeviceId, bool, tuple[int, ...]]]:
    return [(device, entry.health.is_healthy, entry.numa_nodes) for device, entry in listing.entries.items()]


def next_listing(previous: Listing, inventory: Inventory, held: Set[DeviceId] | None) -> Listing:
    """The list after a scan.

    A device that a scan told nothing of (its health is unknown) stays as it was for a few scans. A failure
    counts at once: the kubelet gives out nothing that is unhealthy, and ends nobody for it.

    `held` are the ids that the kubelet's own records give to some container; None where nobody can say,
    and then nothing that was listed is dropped. What is a part of such a device is given to nobody.
    """
    parts = _find_parts(previous, inventory, held)
    present = {
        device.id: _present(previous.entries.get(device.id), device, parts.get(device.unit))
        for device in inventory.devices
    }
    missing = {device: entry for device, entry in previous.entries.items() if device not in present}
    listed = present.keys() | missing.keys()
    missing |= {device: Listed(SteadyHealth()) for device in (held or set()) - listed}
    gone = {
        device: _gone(
            missing[device], _reason_gone(device, inventory, device in previous.entries), device, held
        )
        for device in sorted(missing)
    }
    kept = {device: entry for device, entry in gone.items() if entry.free_scans < FREE_SCANS_TO_DROP}
    return Listing(MappingProxyType(present | kept))


def _find_parts(
    previous: Listing, inventory: Inventory, held: Set[DeviceId] | None
) -> Mapping[UnitId, Health]:
    """The units that are parts of what is gone and held, with the reason.

    They are virtual functions of a physical one, GPUs that were cut anew, and groups of files that were put
    together anew because one left: a file that several units have now is meant to be shared.
    """
    known = previous.entries.keys() if held is None else held
    gone = sorted(known - inventory.by_id.keys())
    if not gone:
        return {}
    units = {unit: devices[0] for unit, devices in inventory.by_unit.items()}
    having = Counter(file for device in units.values() for file in _files_of(device))
    taken = {file for one in gone if one in previous.entries for file in previous.entries[one].files}
    parts: dict[UnitId, Health] = {}
    for unit, device in units.items():
        if device.parent is not None and any(
            f"{one}-".startswith(f"{device.parent}-") and locate(one, (unit,)) is None for one in gone
        ):
            parts[unit] = Health(f"{device.parent} is still held by a container, whole or cut otherwise")
        elif common := sorted(file for file in _files_of(device) & taken if having[file] < 2):
            parts[unit] = Health(f"{common[0]} is still held by a container, as a part of another device")
    return parts


def _files_of(device: Device) -> frozenset[str]:
    """None of a PCI device: its files have numbers, which another may have by now."""
    return frozenset() if device.pci else frozenset(node.host_path for node in device.nodes)


def _present(previous: Listed | None, device: Device, part: Health | None) -> Listed:
    health = device.health if part is None else part
    steady = SteadyHealth.first(health) if previous is None else previous.steady.followed_by(health)
    return Listed(steady, device.numa_nodes, files=_files_of(device))


def _gone(entry: Listed, reason: str, device: DeviceId, held: Set[DeviceId] | None) -> Listed:
    is_free = held is not None and device not in held
    return Listed(
        entry.steady.followed_by(Health(reason)),
        entry.numa_nodes,
        files=entry.files,
        free_scans=entry.free_scans + 1 if is_free else 0,
    )


def _reason_gone(device: DeviceId, inventory: Inventory, was_listed: bool) -> str:
    for skipped in inventory.skipped:
        if skipped.unit is not None and f"{device}-".startswith(f"{skipped.unit}-"):
            return skipped.reason
    if was_listed:
        return "the device is gone from the node"
    return (
        "held by a container, but nothing on this node has this id: another plugin or other settings made it"
    )
