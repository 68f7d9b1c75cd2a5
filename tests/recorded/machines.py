"""Finds the machines among unpacked files, and puts a host root together from each.

Public recordings rarely have all of a machine. Four forms are known beside a whole host (`sys/` and `dev/`):

- folders of cards, `card0/device/uevent` (and `kfd/topology`), as LACT keeps them;
- KFD's topology, `topology/nodes/1/properties`, as ROCm's device plugin keeps it;
- YAML with `device_defaults` and `devices`, as NVIDIA's nvml-mock reads it;
- what a script took of a machine with NVIDIA's driver: `dev.ls` (`ls -lR` of device nodes),
  `proc/driver/nvidia`, and `sys/bus/pci/devices/*` with `driver.link` and `realpath` in the place of links.

What such a form lacks is made up, and the report says what that was.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from accelet.accelerators.pci import PciAddress
from accelet.fakehost.nvidia import NvidiaCard, write_nvidia

_PARTITIONED: Final = {2: "DPX", 3: "TPX", 4: "QPX"}
_CARD = re.compile(r"card[0-9]+")
_NVIDIA_NODE = re.compile(r"[\s/](nvidia[a-z0-9-]*)$", re.MULTILINE)


class Writer(Protocol):
    def __call__(self, root: Path) -> Sequence[str]:
        """Puts the host together below `root`; what had to be made up."""
        ...


@dataclass(frozen=True, slots=True)
class Machine:
    """One recorded machine: where it was in the archive, in which form, and what makes a host root of it."""

    name: str
    form: str
    write: Writer


def find_machines(folder: Path) -> Iterator[Machine]:
    """The machines below `folder`, in order of their paths."""
    taken: set[Path] = set()
    for path in sorted([folder, *(path for path in folder.rglob("*") if path.is_dir())]):
        if any(parent in taken for parent in path.parents):
            continue
        found = _recognise(path)
        if found is not None:
            taken.add(path)
            yield Machine(str(path.relative_to(folder)), *found)
    for path in sorted(folder.rglob("*.yaml")):
        profile = _read_profile(path) if not any(parent in taken for parent in path.parents) else None
        if profile is not None:
            yield Machine(str(path.relative_to(folder)), "profile of NVML", partial(_write_profile, profile))


def _recognise(path: Path) -> tuple[str, Writer] | None:
    if (path / "dev.ls").is_file() and (path / "sys/bus/pci/devices").is_dir():
        return "taken by a script", partial(_write_script, path)
    if (path / "sys").is_dir():
        return "whole host", partial(_write_whole, path)
    if any(_card_folders(path)):
        return "folders of cards", partial(_write_cards, path)
    if (path / "topology/nodes").is_dir():
        return "KFD's topology", partial(_write_topology, path)
    return None


def _write_whole(recorded: Path, root: Path) -> Sequence[str]:
    shutil.copytree(recorded, root, symlinks=True, dirs_exist_ok=True)
    return ()


def _card_folders(path: Path) -> Iterator[Path]:
    return (
        card
        for card in sorted(path.iterdir())
        if _CARD.fullmatch(card.name) and (card / "device/uevent").is_file()
    )


def _write_cards(recorded: Path, root: Path) -> Sequence[str]:
    made_up = ["links, DRM nodes and PCI ids, after `uevent`"]
    topology = recorded / "kfd/topology"
    if topology.is_dir():
        _write_kfd(root, topology)
    for number, card in enumerate(_card_folders(recorded)):
        said = dict(line.partition("=")[::2] for line in (card / "device/uevent").read_text().splitlines())
        slot, driver = said["PCI_SLOT_NAME"], said.get("DRIVER", "")
        vendor, device = said["PCI_ID"].lower().split(":")
        function = _make_function(root, slot, driver)
        shutil.copytree(card / "device", function, dirs_exist_ok=True)
        pci_class = f"0x{int(said['PCI_CLASS'], 16):06x}"
        _complete(function, {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": pci_class})
        minor = _recorded_minor(topology, PciAddress.parse(slot)) if topology.is_dir() else None
        drm = _make_drm(root, function, card.name, 128 + number if minor is None else minor)
        shutil.copytree(card, drm, dirs_exist_ok=True, ignore=shutil.ignore_patterns("device"))
        if driver == "amdgpu" and not topology.is_dir():
            place = PciAddress.parse(slot)
            assert place is not None, f"{slot} is a PCI address"
            _make_kfd_node(root, number + 1, place, int(device, 16), 128 + number)
            made_up.append(f"KFD's node of {card.name}")
    return made_up


def _write_topology(recorded: Path, root: Path) -> Sequence[str]:
    _write_kfd(root, recorded / "topology")
    found: dict[str, list[Mapping[str, int]]] = {}
    for node in sorted((recorded / "topology/nodes").iterdir(), key=lambda one: int(one.name)):
        said = _numbers(node / "properties")
        if said.get("drm_render_minor", 0) > 0:
            slot = f"{said.get('domain', 0):04x}:{said['location_id'] >> 8 & 0xFF:02x}:00.0"
            found.setdefault(slot, []).append(said)
    most = max(Counter({slot: len(nodes) for slot, nodes in found.items()}).values(), default=0)
    for slot, nodes in found.items():
        function = _make_function(root, slot, "amdgpu")
        is_cut = {said["location_id"] & 0x7 for said in nodes} != {0}
        mode = _PARTITIONED.get(most, "CPX") if is_cut else None
        ids = {"vendor": "0x1002", "device": f"0x{nodes[0]['device_id']:04x}", "class": "0x120000"}
        _complete(function, ids if mode is None else {**ids, "current_compute_partition": mode})
        for place, said in enumerate(nodes):
            minor = said["drm_render_minor"]
            holder = function if place == 0 else root / f"sys/devices/platform/amdgpu_xcp_{minor}"
            _make_drm(root, holder, f"card{minor - 128}", minor)
    return ["PCI functions, how the GPUs are cut, and DRM nodes, after the topology"]


def _write_profile(profile: Mapping[str, Any], root: Path) -> Sequence[str]:
    usual, places = profile["device_defaults"], profile.get("pcie_topology", {}).get("root_complexes", [])
    above = {device.lower(): place for place in places for device in place.get("devices", ())}
    cards = []
    for device in profile["devices"]:
        slot = device["pci"]["bus_id"].lower()
        place = above.get(slot, {})
        card = NvidiaCard(
            slot,
            device["minor_number"],
            device["uuid"],
            usual["name"],
            f"0x{usual['pci']['device_id'] >> 16:04x}",
            numa=place.get("numa_node", -1),
            bridges=(place.get("id", "pci0000:00"),),
        )
        cards.append(card)
    write_nvidia(root, cards)
    return ["all files, after what NVML says"]


def _read_profile(path: Path) -> Mapping[str, Any] | None:
    try:
        said = yaml.safe_load(path.read_text(errors="replace"))
    except yaml.YAMLError:
        return None
    return said if isinstance(said, dict) and {"device_defaults", "devices"} <= said.keys() else None


def _write_script(recorded: Path, root: Path) -> Sequence[str]:
    if (recorded / "proc").is_dir():
        shutil.copytree(recorded / "proc", root / "proc")
    for taken in sorted((recorded / "sys/bus/pci/devices").iterdir()):
        real = _line(taken / "realpath") or f"/sys/devices/pci0000:00/{taken.name}"
        function = root / "sys/devices" / real.removeprefix("/sys/devices/").replace("..", "")
        function.mkdir(parents=True)
        for file in taken.iterdir():
            if file.is_file() and file.suffix not in (".link", ".ls") and file.name != "realpath":
                shutil.copy(file, function / file.name)
        _link_function(root, function, (_line(taken / "driver.link") or "").rpartition("/")[2])
        for name in (_line(taken / "drm.ls") or "").split():
            (function / "drm" / name).mkdir(parents=True)
    nodes = _NVIDIA_NODE.findall((recorded / "dev.ls").read_text(errors="replace"))
    for name in nodes:
        _touch(root / "dev" / ("nvidia-caps/" if name.startswith("nvidia-cap") else "") / name)
    specifications = [path for path in sorted(recorded.glob("*.yaml")) if path.name != "cdi-generated.yaml"]
    made = recorded / "cdi-generated.yaml"
    for path in specifications or ([made] if made.is_file() else []):
        (root / "var/run/cdi").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / "var/run/cdi" / path.name)
    return ["links, after the script's files"]


def _line(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _make_function(root: Path, slot: str, driver: str) -> Path:
    function = root / "sys/devices/pci0000:00" / slot
    function.mkdir(parents=True)
    _link_function(root, function, driver)
    return function


def _link_function(root: Path, function: Path, driver: str) -> None:
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / function.name).symlink_to(Path("../../..") / function.relative_to(root / "sys"))
    if driver:
        (function / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")


def _complete(function: Path, files: Mapping[str, str]) -> None:
    """Writes the files that were not recorded."""
    for name, text in files.items():
        if not (function / name).exists():
            (function / name).write_text(f"{text}\n")


def _make_drm(root: Path, holder: Path, card: str, minor: int) -> Path:
    """The card's own folder."""
    names = root / "sys/class/drm"
    names.mkdir(parents=True, exist_ok=True)
    for name in (card, f"renderD{minor}"):
        (holder / "drm" / name).mkdir(parents=True, exist_ok=True)
        (holder / "drm" / name / "device").symlink_to("../..")
        if not (names / name).is_symlink():
            (names / name).symlink_to(Path("../..") / (holder / "drm" / name).relative_to(root / "sys"))
        _touch(root / "dev/dri" / name)
    return holder / "drm" / card


def _write_kfd(root: Path, topology: Path) -> None:
    shutil.copytree(topology, root / "sys/class/kfd/kfd/topology")
    _touch(root / "dev/kfd")


def _make_kfd_node(root: Path, number: int, place: PciAddress, device: int, minor: int) -> None:
    folder = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
    folder.mkdir(parents=True)
    location = place.bus << 8 | place.device << 3 | place.function
    said = {
        "simd_count": 64,
        "simd_per_cu": 2,
        "vendor_id": 0x1002,
        "device_id": device,
        "location_id": location,
        "domain": place.domain,
        "drm_render_minor": minor,
        "hive_id": 0,
    }
    (folder / "properties").write_text("".join(f"{name} {value}\n" for name, value in said.items()))
    _touch(root / "dev/kfd")


def _recorded_minor(topology: Path, place: PciAddress | None) -> int | None:
    for properties in sorted(topology.glob("nodes/*/properties")):
        said = _numbers(properties)
        minor = said.get("drm_render_minor", 0)
        if place is not None and minor > 0 and said.get("location_id", 0) >> 8 & 0xFF == place.bus:
            return minor
    return None


def _numbers(properties: Path) -> Mapping[str, int]:
    lines = (line.split() for line in (_line(properties) or "").splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdecimal()}


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
