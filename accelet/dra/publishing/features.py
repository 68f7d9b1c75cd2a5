"""What of a slice an API server keeps, and what is published where it drops a field without a word.

Which fields it knows depends on feature gates that nothing tells: only its answers do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from accelet.dra.pool import MILLICORES, Capacity, CounterSet, DevicePool, DeviceTaint, PoolDevice
from accelet.runtime.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Features:
    """Counters (DRAPartitionableDevices), shares (DRAConsumableCapacity), taints (DRADeviceTaints)."""

    counters: bool = True
    shares: bool = True
    taints: bool = True

    def __and__(self, other: "Features") -> "Features":
        return Features(
            self.counters and other.counters, self.shares and other.shares, self.taints and other.taints
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for each that is missing: what becomes of the devices."""
        said = {
            "counters": "it keeps no counters (feature gate DRAPartitionableDevices): no parts of devices",
            "shares": "it keeps no shares (feature gate DRAConsumableCapacity): one claim a device",
            "taints": "it keeps no taints (feature gate DRADeviceTaints): sick devices are left out",
        }
        return tuple(sentence for name, sentence in said.items() if not getattr(self, name))


ALL = Features()

_FIELDS = {"counters": "consumesCounters", "shares": "allowMultipleAllocations", "taints": "taints"}


def read_features(asked: object, answered: object) -> Features:
    """What the server kept of the spec of a slice; `answered` may be any JSON."""
    sent, kept = _devices(asked), _devices(answered)
    lost = {
        feature: any(field in device and field not in kept.get(name, {}) for name, device in sent.items())
        for feature, field in _FIELDS.items()
    }
    has_lost_sets = (
        isinstance(asked, Mapping)
        and isinstance(answered, Mapping)
        and "sharedCounters" in asked
        and "sharedCounters" not in answered
    )
    return Features(not lost["counters"] and not has_lost_sets, not lost["shares"], not lost["taints"])


def _devices(spec: object) -> Mapping[object, Mapping[str, object]]:
    devices = spec.get("devices") if isinstance(spec, Mapping) else None
    listed = devices if isinstance(devices, list | tuple) else []
    return {device.get("name"): device for device in listed if isinstance(device, Mapping)}


def limit_pool(pool: DevicePool, features: Features) -> DevicePool:
    """The same hardware for a server with these features only."""
    if not features.counters:
        pool = replace(pool, counter_sets=(), devices=tuple(_without_overlap(pool.devices)))
    if not features.shares:
        pool = replace(pool, devices=tuple(replace(d, is_shareable=False) for d in pool.devices))
    if not features.taints:
        well = (d for d in pool.devices if all(taint.effect == "None" for taint in d.taints))
        pool = replace(pool, devices=tuple(replace(d, taints=()) for d in well))
    return pool


def _without_overlap(devices: tuple[PoolDevice, ...]) -> list[PoolDevice]:
    """Whole cards, single chips, or the whole host where only that can be used; no two with hardware in
    common but for monitors.
    """
    has_single_boxes = any(device.kind == "box" and len(device.atoms) == 1 for device in devices)
    kept = [
        device
        for device in devices
        if device.kind in ("gpu", "monitor", "file")
        or (device.kind == "box" and (len(device.atoms) == 1 or not has_single_boxes))
    ]
    return [replace(device, counter_set=None, counters={}) for device in _disjoint(kept)]


def _disjoint(devices: list[PoolDevice]) -> list[PoolDevice]:
    taken: set[object] = set()
    kept = []
    for device in devices:
        if device.is_exclusive and taken & device.atoms:
            continue
        if device.is_exclusive:
            taken |= device.atoms
        kept.append(device)
    return kept


PROBE = PoolDevice(
    "probe",
    "gpu",
    frozenset(),
    attributes=MappingProxyType({"type": "probe"}),
    counter_set="probe",
    counters=MappingProxyType({"parts": 1}),
    capacities=MappingProxyType({MILLICORES: Capacity(1000, 1000, 10, 10)}),
    is_shareable=True,
    taints=(DeviceTaint("probe", "NoSchedule"),),
)
"""A device that has each field that a server may drop. It is sent to be answered, never to be kept."""


def probe_pool(driver: str, node: str) -> DevicePool:
    """A pool whose slices need every feature."""
    return DevicePool(driver, node, (CounterSet("probe", PROBE.counters),), (PROBE,))


@dataclass(frozen=True, slots=True)
class Probing:
    """When a server that dropped fields is asked again, by a clock in seconds; None: nothing was dropped.

    In an upgrade one answer of an older server says nothing of those that will be there. The waits double,
    so that servers which differ for long have slices rewritten rarely.
    """

    backoff: Backoff
    due_s: float | None = None

    def dropped(self, now_s: float) -> "Probing":
        """Fields were dropped, by an answer to what was published or to what was only asked."""
        return Probing(self.backoff.failed(), now_s + self.backoff.wait_s)

    def kept_all(self) -> "Probing":
        """Everything is kept. Waits after the next drop go on from these."""
        return replace(self, due_s=None)
