"""Takes each scan over into a resource's manager; logs and counts what the kubelet will be told otherwise."""

from collections import defaultdict
from collections.abc import Awaitable, Callable

from accelet.accelerators.device import DeviceId
from accelet.accelerators.inventory import Inventory
from accelet.node.discovery import Scan
from accelet.runtime.logs import Log
from deviceplugin.metrics import ResourceMetrics
from deviceplugin.translate import MAX_MESSAGE_BYTES, worst_list_bytes
from resourcemanager.listing import Listing
from resourcemanager.manager import ResourceManager

LOGGED_IDS = 20
"""A line of the log names no more ids than these."""

_log = Log(__name__)

ReadRecords = Callable[[], Awaitable[None]]
"""Brings the manager's ledger in line with the kubelet's records: who holds what."""


class ListingUpdater:
    """Keeps one manager's listing current. `has_scanned`: what it lists is the hardware as it was found."""

    def __init__(
        self,
        manager: ResourceManager,
        *,
        read_records: ReadRecords,
        announce: Callable[[bool], None],
        metrics: ResourceMetrics,
    ) -> None:
        """`announce` is called when the kubelet is to be told another list: did a device lose its health?"""
        self._manager = manager
        self._log = _log.bind(resource=manager.rules.resource)
        self._read_records = read_records
        self._announce = announce
        self._metrics = metrics
        self.has_scanned = False

    async def take(self, scan: Scan) -> None:
        """The list after a scan. The kubelet's records are read first, since what is held stays listed."""
        await self._read_records()
        before = self._manager.update(scan.inventory)
        after = self._manager.listing
        self._report(before, after)
        if not after.tells_same_as(before):
            self._announce(before.loses_health_to(after))
        if scan.problem is None:
            self.has_scanned = True

    def _report(self, before: Listing, after: Listing) -> None:
        healthy = sum(entry.health.is_healthy for entry in after.entries.values())
        self._metrics.set_devices(healthy, len(after.entries) - healthy)
        self._log_health(before, after)
        if dropped := sorted(before.entries.keys() - after.entries.keys()):
            some = dropped[:LOGGED_IDS]
            self._log.info("no longer listed", count=len(dropped), devices=some)

    def _log_health(self, before: Listing, after: Listing) -> None:
        told: dict[str, list[DeviceId]] = defaultdict(list)
        for device, entry in after.entries.items():
            old = before.entries.get(device)
            if old is None or old.health != entry.health:
                told[entry.health.reason or ""].append(device)
            if old is not None and old.health.is_healthy != entry.health.is_healthy:
                self._metrics.count_health_change("Healthy" if entry.health.is_healthy else "Unhealthy")
        for reason, devices in told.items():
            count, some = len(devices), devices[:LOGGED_IDS]
            if reason:
                self._log.warning("unhealthy", reason=reason, count=count, devices=some)
            else:
                self._log.info("healthy", count=count, devices=some)


def explain_too_long(inventory: Inventory) -> str | None:
    """Why the kubelet would not take the list of these devices; None where it would."""
    size = worst_list_bytes(inventory.devices)
    if size <= MAX_MESSAGE_BYTES:
        return None
    return (
        f"{len(inventory.devices)} devices take {size} bytes and the kubelet no list of more than "
        f"{MAX_MESSAGE_BYTES}; lower the number of shares"
    )
