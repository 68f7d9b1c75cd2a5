"""What a generation of TPU is described by."""

import re
from dataclasses import dataclass
from enum import Enum
from itertools import combinations_with_replacement
from typing import Final

from accelet.accelerators.tpu.shape import Shape

_HOST_SHAPES: Final = {1: Shape(1, 1), 4: Shape(2, 2), 8: Shape(2, 4)}
"""The box that the chips of one machine form, by their count (Google, "TPU v5e", "TPU v6e": one host)."""


class DeviceFiles(Enum):
    """How the chips of a generation usually appear below /dev."""

    ACCEL = "accel"
    """`/dev/accelN`, one a chip."""
    VFIO = "vfio"
    """`/dev/vfio/<IOMMU group>`, one a PCI function, and `/dev/vfio/vfio`."""


class WrapRule(Enum):
    """When the links at the edges of a slice close into a ring."""

    CUBE = "cube"
    """In every dimension, once each is 4 or more."""
    SIXTEEN = "sixteen"
    """In each dimension that is 16 long."""


@dataclass(frozen=True, slots=True)
class PciId:
    """A chip's PCI device id and, where two generations have the same, its subsystem device id."""

    device: str
    subsystem_device: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine type of Compute Engine and the chips it has."""

    name: str
    chips: int


@dataclass(frozen=True, slots=True)
class Product:
    """What is sold under one value of the label `cloud.google.com/gke-tpu-accelerator`.

    `multi_host` are topologies made of 4-chip machines. `cubes_up_to`: so is every topology that fits into
    this one, in ascending order and of multiples of 4.
    """

    label: str
    machines: tuple[Machine, ...]
    single_host: tuple[Shape, ...] = ()
    multi_host: tuple[Shape, ...] = ()
    cubes_up_to: Shape | None = None

    def topologies(self) -> tuple[Shape, ...]:
        """Every topology that is sold, smallest first, each once."""
        cubes = [] if self.cubes_up_to is None else _cubes(self.cubes_up_to)
        every = {*self.single_host, *self.multi_host, *cubes}
        return tuple(sorted(every, key=lambda shape: (shape.chips, shape.dims)))


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of TPU.

    `functions_per_chip` are PCI functions of one slot. `chips_per_host` are the sizes of a machine.
    `memory_bytes` is that of a chip. `type_prefix` begins the accelerator type, whose number counts cores or
    chips. `dimensions` are those in which its topologies are written. `ici_resilient`: routes around a failed
    link, in slices of 4x4x4 and up. `is_spread`: over several NUMA nodes, each with network cards of its own.
    `needs_control_service`: libtpu asks a service of the host before it starts.
    """

    name: str
    pci: PciId
    files: DeviceFiles
    cores_per_chip: int
    chips_per_host: tuple[int, ...]
    dimensions: int
    wrap: WrapRule
    functions_per_chip: int = 1
    memory_bytes: int | None = None
    type_prefix: str | None = None
    type_counts_cores: bool = True
    ici_resilient: bool = False
    is_spread: bool = False
    needs_control_service: bool = False
    products: tuple[Product, ...] = ()

    def host_shape(self, chips: int) -> Shape | None:
        """The box that `chips` chips of one machine are; None if there is no such machine."""
        return _HOST_SHAPES[chips] if chips in self.chips_per_host else None

    def accelerator_type(self, shape: Shape) -> str | None:
        """`v5litepod-8`, `v4-16`; None if nobody says how this generation's are written."""
        if self.type_prefix is None:
            return None
        return f"{self.type_prefix}-{shape.chips * (2 if self.type_counts_cores else 1)}"

    def chips_of_type(self, name: str) -> int | None:
        """How many chips the accelerator type of that name is of; None if it is none of this generation's."""
        prefix, _, number = name.lower().rpartition("-")
        if prefix != self.type_prefix or not re.fullmatch("[1-9][0-9]{0,5}", number):
            return None
        chips, rest = divmod(int(number), 2 if self.type_counts_cores else 1)
        return None if rest else chips

    def wraps(self, shape: Shape) -> tuple[bool, bool, bool]:
        """In which dimensions a slice of this shape closes into a ring."""
        x, y, z = shape.dims
        match self.wrap:
            case WrapRule.CUBE:
                closed = min(shape.dims) >= 4
                return (closed, closed, closed)
            case WrapRule.SIXTEEN:
                return (x == 16, y == 16, z == 16)

    def topologies(self) -> tuple[Shape, ...]:
        """Every topology sold under any of its labels, smallest first."""
        every = {shape for product in self.products for shape in product.topologies()}
        return tuple(sorted(every, key=lambda shape: (shape.chips, shape.dims)))


def _cubes(largest: Shape) -> list[Shape]:
    steps = range(4, max(largest.dims) + 1, 4)
    return [
        Shape(x, y, z)
        for x, y, z in combinations_with_replacement(steps, 3)
        if x <= largest.x and y <= largest.y and z <= largest.z
    ]
