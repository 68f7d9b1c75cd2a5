"""What is said of a claim whose devices fall ill while it holds them, and when they are well again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelet.accelerators.device import UnitId
from accelet.dra.preparing.entry import Entry
from accelet.dra.publishing.served import ServedResource

ToldDevices = frozenset[tuple[str, str]]
"""Of whose devices it was said that they are ill: the claim's UID and the device's name."""


@dataclass(frozen=True, slots=True)
class HealthNotice:
    """A sentence about one device of a claim."""

    namespace: str
    claim: str
    uid: str
    is_well: bool
    note: str


def sick_units(resources: Iterable[ServedResource]) -> Mapping[UnitId, str]:
    """The units that are ill or gone, and why."""
    return {
        unit: reason
        for one in resources
        for unit, devices in one.inventory.by_unit.items()
        if (reason := devices[0].health.reason) is not None
    }


def find_notices(
    entries: Iterable[Entry], sick: Mapping[UnitId, str], told: ToldDevices
) -> tuple[tuple[HealthNotice, ...], ToldDevices]:
    """What is to be said now, and what was said then. A claim that gave its devices back is told nothing."""
    held: dict[tuple[str, str], tuple[Entry, set[UnitId]]] = {}
    for entry in entries:
        for hold in entry.holds:
            _, units = held.setdefault((entry.uid, hold.device), (entry, set()))
            units.update(unit for unit, _ in hold.atoms)
    reasons = {
        key: sorted({sick[unit] for unit in units if unit in sick}) for key, (_, units) in held.items()
    }
    ill = frozenset(key for key, found in reasons.items() if found)
    changed = [key for key in held if (key in ill) != (key in told)]
    return tuple(_notice(held[key][0], key[1], reasons[key]) for key in changed), ill


def _notice(entry: Entry, device: str, reasons: Sequence[str]) -> HealthNotice:
    said = f"is ill: {'; '.join(reasons)}" if reasons else "is well again"
    return HealthNotice(entry.namespace, entry.name, entry.uid, not reasons, f"{device} {said}")
