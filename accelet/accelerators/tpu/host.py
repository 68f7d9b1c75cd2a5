"""A host's chips in their places, and which sets of them can be used together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from accelet.accelerators.device import Device, DeviceId
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.tpu.boxes import SIZES, boxes_of
from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.seenhost import SeenHost
from accelet.accelerators.tpu.shape import Shape
from accelet.accelerators.tpu.table import GENERATIONS

Group = frozenset[DeviceId]


@dataclass(frozen=True, slots=True)
class Host:
    """What the chips of one inventory are together.

    `chips` are in order of PCI address. `generation` is None where it is unknown or not the same for all,
    `shape` (of the whole host) where the chips are no known kind of host; then nothing is known of how they
    are linked.
    `places` has the chips whose position on the host is certain, `seen` all chips that were seen on it at any
    time, in order.
    """

    chips: tuple[Device, ...]
    generation: Generation | None
    shape: Shape | None
    slice_shape: Shape | None
    places: Mapping[DeviceId, int]
    seen: tuple[DeviceId, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.shape is None or len(self.chips) == self.shape.chips

    @property
    def is_whole_slice(self) -> bool:
        return self.slice_shape == self.shape

    @property
    def everything(self) -> Group:
        return frozenset(chip.id for chip in self.chips)

    @property
    def slice_name(self) -> str:
        """`a 4x8 slice`."""
        if self.slice_shape is None or self.generation is None:
            return "a larger slice whose shape is not known"
        return f"a {self.slice_shape.text(self.generation.dimensions)} slice"

    def groups(self, size: int) -> tuple[Group, ...]:
        """The sets of `size` chips that are boxes, those within a NUMA node first, then in order of place."""
        if self.shape is None or size not in SIZES:
            return ()
        if size == 1:
            return tuple(frozenset({chip.id}) for chip in self.chips)
        here = self.everything
        at = {place: chip for chip, place in self.places.items() if chip in here}
        boxes = [box for box in boxes_of(self.shape.chips, size) if box <= at.keys()]
        groups = [frozenset(at[place] for place in box) for box in boxes]
        return tuple(sorted(groups, key=self.count_numa_nodes))

    def count_numa_nodes(self, group: Group) -> int:
        return len({node for chip in self.chips if chip.id in group for node in chip.numa_nodes})

    def ordinal(self, device: DeviceId) -> int:
        """The position of a chip among those that are there."""
        return next(index for index, chip in enumerate(self.chips) if chip.id == device)

    def place(self, device: DeviceId) -> int:
        """The position of a chip on its host as far as that is certain, else among those that are there."""
        return self.places.get(device, self.ordinal(device))

    def number(self, device: DeviceId) -> int:
        """A number that the chip keeps when others leave, as far as they are remembered; for ports."""
        return self.seen.index(device) if self.everything <= set(self.seen) else self.place(device)


def host_of(inventory: Inventory) -> Host:
    """Puts the chips of an inventory in their places; devices without a PCI address are none of them."""
    located = [(PciAddress.parse(device.pci or ""), device) for device in inventory.devices]
    ordered = sorted(((pci, device) for pci, device in located if pci), key=lambda pair: pair[0])
    chips = tuple(device for _, device in ordered)
    models = {chip.model for chip in chips}
    generation = next((known for known in GENERATIONS if models == {known.name}), None)
    shape = None if inventory.host_shape is None else Shape.parse(inventory.host_shape)
    slice_shape = None if inventory.slice_shape is None else Shape.parse(inventory.slice_shape)
    seen = SeenHost.parse(inventory.remember)
    return Host(
        chips=chips,
        generation=generation,
        shape=shape,
        slice_shape=slice_shape,
        places={} if shape is None else _place(chips, shape.chips, seen),
        seen=() if seen is None else seen.chips,
    )


def _place(chips: Sequence[Device], expected: int, seen: SeenHost | None) -> dict[DeviceId, int]:
    """The places of chips on a host of `expected`.

    They are certain where all of them were seen once. Else, where some are missing, only a half of an 8-chip
    host is: the four chips of one NUMA node, when chips of the other are there too and tell which half it is.
    """
    if seen is not None and len(seen.chips) == expected:
        return {chip: place for place, chip in enumerate(seen.chips)}
    if len(chips) == expected:
        return {chip.id: place for place, chip in enumerate(chips)}
    halves = [list(half) for _, half in groupby(chips, key=lambda chip: chip.numa_nodes)]
    if expected != 8 or len(halves) != 2 or not all(half[0].numa_nodes for half in halves):
        return {}
    return {
        chip.id: first + place
        for first, half in zip((0, 4), halves, strict=True)
        if len(half) == 4
        for place, chip in enumerate(half)
    }
