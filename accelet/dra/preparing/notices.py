"""What is said of a claim whose devices fall ill while it holds them, and when they are well again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelet.accelerators.steadyhealth import SteadyHealth
from accelet.dra.pool import Atom
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


def sick_parts(
    resources: Iterable[ServedResource], missing: Mapping[Atom, SteadyHealth]
) -> Mapping[Atom, str]:
    """The parts of hardware that are unhealthy or gone, and why; `missing` are those no resource has."""
    present = {
        (unit, tile): reason
        for one in resources
        for unit, devices in one.inventory.by_unit.items()
        if (reason := devices[0].health.reason) is not None
        for tile in range(devices[0].tile_count)
    }
    gone = {atom: one.health.reason for atom, one in missing.items() if one.health.reason is not None}
    return {**present, **gone}


def find_notices(
    entries: Iterable[Entry], sick: Mapping[Atom, str], told: ToldDevices
) -> tuple[tuple[HealthNotice, ...], ToldDevices]:
    """What is to be said now, and what was said then. A claim that gave its devices back is told nothing."""
    held: dict[tuple[str, str], tuple[Entry, set[Atom]]] = {}
    for entry in entries:
        for hold in entry.holds:
            _, atoms = held.setdefault((entry.uid, hold.device), (entry, set()))
            atoms |= hold.atoms
    reasons = {
        key: sorted({sick[atom] for atom in atoms if atom in sick}) for key, (_, atoms) in held.items()
    }
    ill = frozenset(key for key, found in reasons.items() if found)
    changed = [key for key in held if (key in ill) != (key in told)]
    return tuple(_notice(held[key][0], key[1], reasons[key]) for key in changed), ill


def _notice(entry: Entry, device: str, reasons: Sequence[str]) -> HealthNotice:
    said = f"is ill: {'; '.join(reasons)}" if reasons else "is well again"
    return HealthNotice(entry.namespace, entry.name, entry.uid, not reasons, f"{device} {said}")
