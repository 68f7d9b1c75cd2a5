"""What sysfs says of one GPU.

Rules of Intel's device plugin (cmd/gpu_plugin), where they are right; where ours differ the comment
says why. Nothing here raises for what a file says or fails to say.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from accelet.accelerators.device import HEALTHY, Health, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.hostfiles import (
    MOST_BYTES,
    MOST_NUMA_NODE,
    is_folder,
    is_node,
    read_as_text,
    read_link_name,
    read_names,
    read_number,
    read_text,
)
from accelet.accelerators.intel.card import BY_PATH_FOLDER, Card, Kind
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.reading.devicememory import Region, tiles_of
from accelet.accelerators.reading.pciconfig import read_config_health

INTEL = "0x8086"
MOST_TILES = 64
_INTEGRATED_BUS_DEVICE = (0, 0, 2)


@dataclass(frozen=True, slots=True)
class _TileMemory:
    """What is said of the memory of a card's tiles, in bytes.

    `accounted` is by the cgroup controller dmem. The drivers that Intel gives out apart from the kernel have
    a file for each tile (xe: `of_tiles`), or one for all, each of the same size (i915: `of_each`).
    """

    accounted: Mapping[int, int]
    of_tiles: Mapping[int, int]
    of_each: int | None

    @property
    def is_some(self) -> bool:
        return bool(self.accounted or self.of_tiles or self.of_each)

    def of_card(self, tile_count: int) -> int | None:
        """The memory of all its tiles, by the first that says it of each of them; None if none does."""
        for known in (self.accounted, self.of_tiles, dict.fromkeys(range(tile_count), self.of_each or 0)):
            sizes = [known.get(tile) for tile in range(tile_count)]
            if all(sizes):
                return sum(size or 0 for size in sizes)
        return None


@dataclass(frozen=True)
class CardFolder:
    """`/sys/class/drm/cardN` below `root`; `warnings` collects what is odd but loses no card.

    `regions` are those of the memory of all devices that the kernel accounts for.
    """

    root: Path
    name: str
    regions: Mapping[Region, int] = field(default_factory=lambda: MappingProxyType({}))
    warnings: list[str] = field(default_factory=list)
    _missing_tiles: list[int] = field(default_factory=list, init=False)

    @property
    def host_path(self) -> str:
        return f"/sys/class/drm/{self.name}"

    @cached_property
    def folder(self) -> Path:
        return self.root / "sys/class/drm" / self.name

    def read_card(self) -> Card | Skipped:
        """The card, or why there is none to serve."""
        pci = self._pci()
        unit = UnitId(pci.as_id if pci else self.name)
        refusal = self._not_a_gpu() or self._busy_with_functions() or self._losing_its_driver()
        if refusal:
            return Skipped(self.host_path, *refusal, unit)
        listed = [name for name in self._names("device/drm") if not name.startswith("controlD")]
        nodes = [f"/dev/dri/{name}" for name in listed]
        present = [node for node in nodes if is_node(self.root, node)]
        if not present:
            return Skipped(self.host_path, "no-device-node", f"has no device node ({_or_none(nodes)})", unit)
        tile_count, memory_bytes, kind = self._shape(pci)
        links = read_names(self.root / BY_PATH_FOLDER[1:]) if pci else ()
        return Card(
            unit=unit,
            name=self.name,
            pci=pci,
            pci_device=self._device_id(),
            driver=self._driver,
            kind=kind,
            tile_count=tile_count,
            memory_bytes=memory_bytes,
            numa_node=self._number("device/numa_node", MOST_NUMA_NODE),
            health=self._health(nodes, present),
            nodes=tuple(DeviceNode(node, node) for node in present),
            by_path_links=tuple(
                f"{BY_PATH_FOLDER}/{link}"
                for link in links
                if link.startswith(f"pci-{pci}-") and read_as_text(link) == link
            ),
            has_by_path_folder=is_folder(self.root / BY_PATH_FOLDER[1:]),
            management_nodes=tuple(self._management_nodes()),
            parent=self._parent(),
        )

    def guess_unit(self) -> UnitId:
        """The card's unit by its link alone, which is text of the kernel's: no driver is asked."""
        try:
            place = self.folder.readlink()
        except OSError:
            return UnitId(self.name)
        pci = PciAddress.parse(place.parent.parent.name)
        return UnitId(pci.as_id if pci else self.name)

    def _not_a_gpu(self) -> tuple[str, str] | None:
        vendor = self._text("device/vendor")
        if vendor is None and self._is_no_pci_function():
            return "not-intel", "it is no PCI function, as the partitions of AMD's GPUs are none"
        if vendor is None:
            return "unreadable-vendor", "its PCI vendor cannot be read from device/vendor"
        if vendor.lower() != INTEL:
            return "not-intel", f"its PCI vendor is {vendor[:16] or 'empty'}, not Intel's {INTEL}"
        if not is_folder(self.folder / "device/drm"):
            return "no-drm", "it has no device/drm folder, so no driver offers it to programs"
        return None

    def _is_no_pci_function(self) -> bool:
        """A platform device, as amdgpu's partitions (`amdgpu_xcp_1`) and virtual displays are."""
        is_there = is_folder(self.folder / "device") and self._pci() is None
        return is_there and not os.path.lexists(self.folder / "device/vendor")

    def _busy_with_functions(self) -> tuple[str, str] | None:
        """A physical function whose virtual functions are in use gives its power to those."""
        text = self._text("device/sriov_numvfs")
        if text is None or text in ("0", "-1"):
            return None
        if re.fullmatch("[0-9]{1,6}", text):
            return (
                "pf-with-vfs",
                f"it is an SR-IOV physical function with {int(text)} virtual functions enabled",
            )
        return "bad-sriov", (
            f"device/sriov_numvfs reads {text[:16]!r}, not a number: it may have virtual functions"
        )

    def _losing_its_driver(self) -> tuple[str, str] | None:
        """Between the loss of the link and that of the DRM nodes the kernel still names the driver.

        A card whose link is merely absent, as in simpler trees, counts as i915.
        """
        named = self._uevent.get("DRIVER")
        if named and self._driver is None:
            return "no-driver", f"its driver {named[:32]} is being unbound"
        return None

    @cached_property
    def _uevent(self) -> Mapping[str, str]:
        """What the kernel tells of the device by names in capitals: DRIVER, PCI_SLOT_NAME."""
        lines = (self._text("device/uevent") or "").splitlines()
        return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}

    @cached_property
    def _driver(self) -> str | None:
        return read_link_name(self.folder / "device/driver")

    def _device_id(self) -> str | None:
        text = self._text("device/device")
        if text is None or re.fullmatch(r"0x[0-9a-fA-F]{4}", text):
            return text and text.lower()
        self.warnings.append(f"{self.host_path}/device/device reads {text[:32]!r}, not a PCI device id")
        return None

    def _pci(self) -> PciAddress | None:
        """From the uevent, else the folder that `device` leads to, else that of the card's own link."""
        return (
            PciAddress.parse(self._uevent.get("PCI_SLOT_NAME", ""))
            or PciAddress.parse(Path(os.path.realpath(self.folder / "device")).name)
            or PciAddress.parse(Path(os.path.realpath(self.folder)).parent.parent.name)
        )

    def _parent(self) -> UnitId | None:
        address = PciAddress.parse(read_link_name(self.folder / "device/physfn") or "")
        return None if address is None else UnitId(address.as_id)

    def _shape(self, pci: PciAddress | None) -> tuple[int, int | None, Kind | None]:
        """Tiles, memory in bytes (None: not known), and kind.

        A card is discrete if it has memory of its own; without such a figure, integrated exactly in
        slot 00:02 of the first domain, where Intel puts it (IGT's device selection goes by that).
        xe says tiles under device/tileN. Intel's own i915 for multi-tile cards counts them as gt/gtN; on
        an integrated Meteor Lake gt1 is the media engine, not a tile.
        """
        xe_tiles = self._tiles("device", "tile")
        memory = _TileMemory(
            tiles_of(pci, self.regions),
            {
                int(tile.removeprefix("tile")): size
                for tile in xe_tiles
                if (size := self._number(f"device/{tile}/physical_vram_size_bytes", MOST_BYTES))
            },
            self._number("lmem_total_bytes", MOST_BYTES),
        )
        kind: Kind | None = None if pci is None else "discrete"
        if memory.is_some:
            kind = "discrete"
        elif pci and (pci.domain, pci.bus, pci.device) == _INTEGRATED_BUS_DEVICE:
            kind = "integrated"
        gts = self._tiles("gt", "gt") if kind == "discrete" and not xe_tiles else []
        tile_count = self._count(xe_tiles or gts)
        return tile_count, memory.of_card(tile_count), kind

    def _count(self, tiles: list[str]) -> int:
        """How many tiles the card has: by the last one's number, so that none takes the name of another."""
        numbers = {int(re.sub("[^0-9]", "", name)) for name in tiles} or {0}
        count = min(max(numbers) + 1, MOST_TILES)
        self._missing_tiles.extend(sorted(set(range(count)) - numbers))
        return count

    def _health(self, nodes: list[str], present: list[str]) -> Health:
        render = [node for node in nodes if "/renderD" in node]
        if render and not set(render) & set(present):
            return Health(f"its render node {render[0]} is gone; programs cannot compute without it")
        if self._missing_tiles:
            return Health(f"its tile {self._missing_tiles[0]} is not there, and later ones are")
        return self._pci_health()

    def _pci_health(self) -> Health:
        """A card that fell off the bus reads as all ones. A sleeping one is not woken to ask."""
        if self._text("device/power/runtime_status") == "suspended":
            return HEALTHY
        return read_config_health(self.folder / "device/config", INTEL, "card")

    def _management_nodes(self) -> Iterator[DeviceNode]:
        """Those of the card's management engine: device/*.mei-*/mei/meiN."""
        engines = [name for name in self._names("device") if ".mei-" in name]
        for node in (f"/dev/{mei}" for engine in engines for mei in self._names(f"device/{engine}/mei")):
            if is_node(self.root, node):
                yield DeviceNode(node, node)

    def _names(self, path: str) -> tuple[str, ...]:
        return read_names(f"{self.folder}/{path}")

    def _text(self, path: str) -> str | None:
        return read_text(f"{self.folder}/{path}")

    def _tiles(self, path: str, prefix: str) -> list[str]:
        """Entries that are numbered tiles, at most as many as a card can have."""
        tiles = [name for name in self._names(path) if re.fullmatch(rf"{prefix}[0-9]{{1,3}}", name)]
        tiles.sort(key=lambda name: int(name.removeprefix(prefix)))
        if len(tiles) > MOST_TILES:
            self.warnings.append(
                f"{self.host_path}/{path} has {len(tiles)} tiles; no more than {MOST_TILES} count"
            )
        return tiles[:MOST_TILES]

    def _number(self, path: str, most: int) -> int | None:
        """A number from 0 to `most`; None for anything else. By -1 the kernel says that it does not know."""
        text = self._text(path)
        if text is None or text == "-1":
            return None
        number = read_number(f"{self.folder}/{path}", most)
        if number is None:
            self.warnings.append(
                f"{self.host_path}/{path} reads {text[:32]!r}, no number from 0 to {most}; it is left out"
            )
        return number


def _or_none(nodes: list[str]) -> str:
    return ", ".join(nodes) or "sysfs lists none"
