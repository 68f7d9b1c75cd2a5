"""A TPU host's chips as boxes: every set of chips that one process can use together.

Each box takes a counter for each of its chips, so no chip is in two boxes that are held. On a host that is
given out only whole there is one box, and beside it each chip by itself (`host-chip`) for pods that ask for
all of them by number.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelet.accelerators.device import DeviceId
from accelet.dra.pool import Atom, Attribute, CounterSet, PoolDevice
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
    counters = CounterSet(HOST, {f"chip-{place}": 1 for place in range(len(chips))})
    # Where only all chips together can be used, pods that say how many they want need them one by one.
    singles = [(place,) for place in range(len(chips))] if boxes == [tuple(range(len(chips)))] else []
    parts = [_device(chips, [place], "host-chip") for (place,) in singles if len(chips) > 1]
    return Tpus((counters,), (*parts, *(_device(chips, box, "box") for box in boxes)))


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


def _device(chips: Sequence[ServedUnit], box: Sequence[int], kind: str) -> PoolDevice:
    members = [chips[place] for place in box]
    atoms: frozenset[Atom] = frozenset((chip.unit, 0) for chip in members)
    attributes: dict[str, Attribute] = {
        "type": kind,
        "chips": len(box),
        "firstChip": box[0],
        **text_attribute("generation", members[0].device.model),
        **standard_attributes(members),
    }
    counters = {f"chip-{place}": 1 for place in box}
    if kind == "host-chip":
        return PoolDevice(f"chip-{box[0]}", "host-chip", atoms, attributes, HOST, counters)
    return PoolDevice(_name(box), "box", atoms, attributes, HOST, counters)


def _name(box: Sequence[int]) -> str:
    """`chips-2` for one chip, `chips-0-3` for a run of them, every number where they are no run."""
    if len(box) == 1:
        return f"chips-{box[0]}"
    if list(box) == list(range(box[0], box[-1] + 1)):
        return f"chips-{box[0]}-{box[-1]}"
    return "chips-" + "-".join(map(str, box))
