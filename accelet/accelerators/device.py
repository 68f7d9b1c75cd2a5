"""One unit that the kubelet hands out, and how well it is."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NewType

from accelet.accelerators.edits import DeviceNode, Mount

DeviceId = NewType("DeviceId", str)
"""Stable name of a piece of hardware, unique on its node: `0000-03-00.0-t1-s0`."""

UnitId = NewType("UnitId", str)
"""Stable name of a physical unit (a GPU, a TPU chip, a path); its tiles and shares have it in common."""

CARD_NAME = r"card(?:0|[1-9][0-9]{0,5})"
"""The pattern of a GPU's DRM name, `card3`: of its folder in sysfs and wherever people name a card."""

DEVICE_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,63}")
"""The kubelet takes any text as an id; this is what survives every consumer of one."""


@dataclass(frozen=True, slots=True)
class Health:
    """What one look found. `reason` is set exactly when not healthy.

    `is_unknown`: the look told nothing of the hardware, which may be healthy. Nobody is evicted for that.
    """

    reason: str | None = None
    is_unknown: bool = False

    @property
    def is_healthy(self) -> bool:
        return self.reason is None

    @property
    def is_bad(self) -> bool:
        """Whether the look found that it cannot be used."""
        return self.reason is not None and not self.is_unknown


HEALTHY = Health()


def worst(healths: Iterable[Health]) -> Health:
    """The first that is known to be bad, else the first that is unknown, else healthy."""
    unhealthy = [health for health in healths if not health.is_healthy]
    return next((health for health in unhealthy if health.is_bad), next(iter(unhealthy), HEALTHY))


@dataclass(frozen=True, slots=True, order=True)
class TileLink:
    """A direct link (Xe Link) from tile `tile` of a unit to tile `far_tile` of the unit `far`."""

    tile: int
    far: UnitId
    far_tile: int


@dataclass(frozen=True, slots=True, order=True)
class NearGroup:
    """Hardware that several devices have in common: a GPU they are partitions of, a switch, a NUMA node.

    `worth` is what two devices in it gain by being given to one container, beside other groups.
    """

    name: str
    worth: int


@dataclass(frozen=True, slots=True)
class Device:
    """One unit the kubelet hands out: a whole unit, one tile of it, or one share of either.

    `card` is the DRM name (`card3`) and may change over a reboot; `pci` is the address
    (`0000:03:00.0`), `pci_device` the PCI device id (`0x56c0`), `model` its kind by the name people use
    (`v5e`), `driver` the kernel driver the unit is bound to, None where nothing says so. `tile` is set
    where the device is a single tile; `tile_count` and `memory_bytes` are those of the whole unit;
    memory that is not known is None.
    `cdi_name` is the device of a CDI specification on the host (`nvidia.com/gpu=0`) that gives a container
    all it needs of this one; `nodes` and `mounts` are then empty.
    `parent` is the unit that this one is a part of: of a virtual function (SR-IOV) the physical one, of a
    partition the GPU. A GPU that can be cut is its own.
    `mode` is how the GPU it is a part of is cut (`cpx_nps4`, `mig`), None where it is whole. `fabric` names
    what connects it with others directly (an xGMI hive): those of one name reach each other.
    `groups` are what it has in common with others, the widest first; two devices have those in common that
    both begin with.
    `numa_nodes` is empty where the node is unknown.
    """

    id: DeviceId
    unit: UnitId
    health: Health = HEALTHY
    numa_nodes: tuple[int, ...] = ()
    nodes: tuple[DeviceNode, ...] = field(default=())
    mounts: tuple[Mount, ...] = ()
    card: str | None = None
    pci: str | None = None
    pci_device: str | None = None
    model: str | None = None
    driver: str | None = None
    kind: Literal["integrated", "discrete"] | None = None
    tile: int | None = None
    tile_count: int = 1
    share: int | None = None
    memory_bytes: int | None = None
    links: tuple[TileLink, ...] = ()
    parent: UnitId | None = None
    cdi_name: str | None = None
    groups: tuple[NearGroup, ...] = ()
    mode: str | None = None
    fabric: str | None = None
