"""AMD's GPUs as the PCI bus, amdgpu and KFD show them.

KFD's files are after the kernel's kfd_topology.c, with the values that published recordings have of MI300X in
CPX, of MI210 in two hives and of Radeon cards. The files of partitions beside KFD are after amdgpu's
documentation. Nothing here was compared with a real machine.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

GIB = 2**30
CONFIG = bytes.fromhex("0210a174") + bytes(60)

_PARTS = {"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 8}


@dataclass(frozen=True, slots=True)
class AmdCard:
    """One GPU. `minors` are the numbers of its render nodes less 128, one for each partition.

    `compute` and `memory` are its partition modes, None where it has none. `xcp` is how the kernel writes
    the further partitions' platform devices. `in_kfd` False: KFD has no node of it. `is_integrated`: it is
    the GPU of a processor, of which amdgpu tells a voltage more.
    """

    pci: str
    minors: tuple[int, ...]
    device: str = "0x74a1"
    pci_class: str = "0x120000"
    product: str | None = "AMD Instinct MI300X OAM"
    driver: str | None = "amdgpu"
    compute: str | None = "SPX"
    memory: str | None = "NPS1"
    vram: int = 192 * GIB
    hive: int = 0
    numa: int = -1
    xcp: Literal["amdgpu_xcp_", "amdgpu_xcp."] = "amdgpu_xcp_"
    config: bytes = CONFIG
    in_kfd: bool = True
    has_nodes: bool = True
    numvfs: int | None = None
    is_integrated: bool = False


def write_amd(root: Path, cards: Sequence[AmdCard], *, has_kfd: bool = True) -> Path:
    """Makes the tree anew, so that the same folder can show a node at two moments."""
    for name in ("sys", "dev"):
        shutil.rmtree(root / name, ignore_errors=True)
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    for folder in ("sys/bus/pci/devices", "sys/class/drm", "dev/dri"):
        (root / folder).mkdir(parents=True)
    if has_kfd:
        (root / "dev/kfd").touch()
        _write_kfd_node(nodes / "0", {"cpu_cores_count": 96, "simd_count": 0, "drm_render_minor": 0})
    number, platform = 1, 1
    for card in cards:
        _write_function(root, card)
        for part, minor in enumerate(card.minors):
            if part:
                _write_drm(root, f"devices/platform/{card.xcp}{platform}", minor, has_nodes=card.has_nodes)
                platform += 1
            if card.in_kfd and has_kfd:
                _write_kfd_node(
                    nodes / str(number), _kfd_of(card, part, minor), card.vram // len(card.minors)
                )
                number += 1
    return root


def _kfd_of(card: AmdCard, part: int, minor: int) -> dict[str, int]:
    domain, bus, rest = card.pci.split(":")
    device, function = rest.split(".")
    place = int(bus, 16) << 8 | int(device, 16) << 3 | (int(function) + part)
    return {
        "cpu_cores_count": 0,
        "simd_count": 304 // len(card.minors),
        "mem_banks_count": 1,
        "simd_per_cu": 4,
        "gfx_target_version": 90402,
        "vendor_id": 4098,
        "device_id": int(card.device, 16),
        "location_id": place,
        "domain": int(domain, 16),
        "drm_render_minor": 128 + minor,
        "hive_id": card.hive,
        "local_mem_size": 0,
    }


def _write_kfd_node(folder: Path, said: dict[str, int], memory: int = 0) -> None:
    folder.mkdir(parents=True)
    (folder / "gpu_id").write_text(f"{said['drm_render_minor'] * 101}\n")
    (folder / "name").write_text("\n")
    (folder / "properties").write_text("".join(f"{name} {value}\n" for name, value in said.items()))
    if memory:
        bank = folder / "mem_banks/0"
        bank.mkdir(parents=True)
        (bank / "properties").write_text(
            f"heap_type 1\nsize_in_bytes {memory}\nflags 0\nwidth 8192\nmem_clk_max 1300\n"
        )


def _write_function(root: Path, card: AmdCard) -> None:
    place = f"devices/pci0000:00/{card.pci}"
    device = root / "sys" / place
    device.mkdir(parents=True)
    (root / "sys/bus/pci/devices" / card.pci).symlink_to(f"../../../{place}")
    for name, text in (
        ("class", card.pci_class),
        ("vendor", "0x1002"),
        ("device", card.device),
        ("numa_node", str(card.numa)),
        ("product_name", card.product),
        ("current_compute_partition", card.compute),
        ("current_memory_partition", card.memory),
        ("sriov_numvfs", card.numvfs),
    ):
        if text is not None:
            (device / name).write_text(f"{text}\n")
    (device / "config").write_bytes(card.config)
    if card.driver is not None:
        (device / "driver").symlink_to(f"../../../bus/pci/drivers/{card.driver}")
    if card.driver == "amdgpu":
        (device / "mem_info_vram_total").write_text(f"{card.vram}\n")
        _write_sensors(device / "hwmon/hwmon2", is_integrated=card.is_integrated)
        _write_drm(root, place, card.minors[0], has_nodes=card.has_nodes)


def _write_sensors(folder: Path, *, is_integrated: bool) -> None:
    folder.mkdir(parents=True)
    (folder / "name").write_text("amdgpu\n")
    for number, label in enumerate(("vddgfx", "vddnb")[: 1 + is_integrated]):
        (folder / f"in{number}_input").write_text("756\n")
        (folder / f"in{number}_label").write_text(f"{label}\n")


def _write_drm(root: Path, place: str, minor: int, *, has_nodes: bool) -> None:
    device = root / "sys" / place
    for name in (f"card{minor}", f"renderD{128 + minor}"):
        (device / "drm" / name).mkdir(parents=True)
        (device / "drm" / name / "device").symlink_to("../..")
        (root / "sys/class/drm" / name).symlink_to(f"../../{place}/drm/{name}")
        if has_nodes:
            (root / "dev/dri" / name).touch()


_BUSES = ("05", "26", "46", "65", "85", "a6", "c6", "e5")
_HIVE = 15188982192727901047


def _mi300x(compute: str, memory: str) -> tuple[AmdCard, ...]:
    parts = _PARTS[compute]
    return tuple(
        AmdCard(
            f"0000:{bus}:00.0",
            tuple(range(number * parts, (number + 1) * parts)),
            compute=compute,
            memory=memory,
            hive=_HIVE,
            numa=int(number >= 4),
        )
        for number, bus in enumerate(_BUSES)
    )


MI300X_SPX = _mi300x("SPX", "NPS1")
"""Eight MI300X, each whole; hive and memory after a recording of MI300X (ROCm/k8s-device-plugin, testdata).

The addresses are made up, as are those of the other Instinct machines.
"""

_CPX = _mi300x("CPX", "NPS4")
MI300X_CPX = (*_CPX[:-1], replace(_CPX[-1], minors=_CPX[-1].minors[:-1]))
"""Eight MI300X in eight partitions each; the kernel ran out of DRM devices before the last of them.

So a recorded topology has it: 63 nodes, seven of the last GPU (ROCm/k8s-device-plugin, topo-mi300-cpx).
"""

MI210 = tuple(
    AmdCard(
        f"0000:{bus}:00.0",
        (number,),
        device="0x740f",
        pci_class="0x038000",
        product="AMD Instinct MI210",
        compute=None,
        memory=None,
        vram=64 * GIB,
        hive=7 + number // 4,
        numa=number // 4,
    )
    for number, bus in enumerate(_BUSES)
)
"""Eight MI210 in two hives, as the recorded topo-mi210-xgmi-pcie of ROCm/k8s-device-plugin has them."""

RADEON = (
    AmdCard("0000:03:00.0", (1,), "0x744c", "0x030000", None, compute=None, memory=None, vram=24 * GIB),
    AmdCard("0000:0a:00.0", (0,), "0x6818", "0x030000", None, "radeon", None, None, in_kfd=False),
)
"""An RX 7900 XTX, and an HD 7870 of the driver radeon, after recordings of both (LACT, tests/snapshots)."""

PHOENIX = (
    AmdCard(
        "0000:64:00.0",
        (0,),
        "0x15bf",
        "0x030000",
        None,
        compute=None,
        memory=None,
        vram=4 * GIB,
        is_integrated=True,
    ),
)
"""The GPU of a Ryzen 7040 (Phoenix), after a published recording of one (LACT, tests/snapshots)."""

ALL_AMD = {
    "amd-mi300x-spx": MI300X_SPX,
    "amd-mi300x-cpx": MI300X_CPX,
    "amd-mi210": MI210,
    "amd-radeon": RADEON,
    "amd-phoenix": PHOENIX,
}
