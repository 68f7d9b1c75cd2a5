"""A TPU host's chips as boxes: every set of chips that one process can use together.

Each box takes a counter for each of its chips, so no chip is in two boxes that are held. On a host that is
given out only whole there is one box, and beside it each chip by itself (`host-chip`) for pods that ask for
all of them by number. Devices and counters are named by PCI address: a chip that leaves the bus renames no
other.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelet.accelerators.device import DeviceId, UnitId
from accelet.accelerators.tpu.host import host_of
from accelet.dra.names import label_of
from accelet.dra.pool import Atom, Attribute, CounterSet, Kind, PoolDevice
from accelet.dra.publishing.attributes import standard_attributes, text_attribute
from accelet.dra.publishing.served import ServedResource, ServedUnit, units_of

MOST_CHIPS = 32
"""A counter set holds no more."""

HOST = "host"


@dataclass(frozen=True, slots=True)
class Tpus:
    """The devices of one host, the smallest first."""

    counter_sets: tuple[CounterSet, ...] = ()
    devices: tuple[PoolDevice, ...] = ()
    left_out: tuple[str, ...] = ()


def tpu_devices(resource: ServedResource) -> Tpus:
    """The boxes of a host's chips, in order of size, then of their first chip."""
    chips = units_of([resource])
    if not chips:
        return Tpus()
    if len(chips) > MOST_CHIPS:
        return Tpus(
            left_out=(f"{len(chips)} chips: Kubernetes counts no more than {MOST_CHIPS} of one host",)
        )
    places = {chip.device.id: place for place, chip in enumerate(chips)}
    boxes = [box for size in range(1, len(chips) + 1) for box in _boxes(resource, places, size)]
    if not boxes:
        return Tpus(left_out=(f"{resource.name}: these {len(chips)} chips form no box that can be used",))
    counters = CounterSet(HOST, _counters(chips))
    # Where only all chips together can be used, pods that say how many they want need them one by one.
    singles = [(place,) for place in range(len(chips))] if boxes == [tuple(range(len(chips)))] else []
    numbers = _numbers(resource, chips)
    parts = [_device([chips[place]], numbers, "host-chip") for (place,) in singles if len(chips) > 1]
    whole = [_device([chips[place] for place in box], numbers, "box") for box in boxes]
    return Tpus((counters,), (*parts, *whole))


def _boxes(resource: ServedResource, places: Mapping[DeviceId, int], size: int) -> Iterator[tuple[int, ...]]:
    sets = resource.backend.valid_sets(resource.inventory, size)
    if sets is None:
        # Nothing is known of how the chips are linked: one by one is all that is certain.
        yield from ((place,) for place in places.values() if size == 1)
        return
    yield from sorted(tuple(sorted(places[chip] for chip in one)) for one in _known(sets, places))


def _known(
    sets: Collection[frozenset[DeviceId]], places: Mapping[DeviceId, int]
) -> Iterator[frozenset[DeviceId]]:
    yield from (one for one in sets if one <= places.keys())


def _numbers(resource: ServedResource, chips: Sequence[ServedUnit]) -> Mapping[UnitId, int]:
    """Each chip's number on its host, which stays while others leave as far as the host was seen complete."""
    host = host_of(resource.inventory)
    return {chip.unit: host.number(chip.device.id) for chip in chips}


def _device(members: Sequence[ServedUnit], numbers: Mapping[UnitId, int], kind: Kind) -> PoolDevice:
    atoms: frozenset[Atom] = frozenset((chip.unit, 0) for chip in members)
    attributes: dict[str, Attribute] = {
        "type": kind,
        "chips": len(members),
        "firstChip": numbers[members[0].unit],
        **text_attribute("generation", members[0].device.model),
        **standard_attributes(members),
    }
    labels = [label_of(chip.unit) for chip in members]
    name = f"chip-{labels[0]}" if kind == "host-chip" else _name(labels)
    return PoolDevice(name, kind, atoms, attributes, HOST, _counters(members))


def _counters(chips: Sequence[ServedUnit]) -> Mapping[str, int]:
    return {f"chip-{label_of(chip.unit)}": 1 for chip in chips}


def _name(labels: Sequence[str]) -> str:
    """How many, then the first and the last: `chips-1-0000-00-05-0`, `chips-4-0000-00-05-0-0000-00-08-0`.

    Names by number (`chips-2`, `chips-0-3`) are those of earlier versions.
    """
    ends = labels[:1] if len(labels) == 1 else [labels[0], labels[-1]]
    return "-".join(["chips", str(len(labels)), *ends])
