"""GPUs as the i915 and xe drivers show them in sysfs, and /dev/dri as udev fills it.

By default a card has what mainline Linux shows of it. sources.py says of every file which part of the kernel
has it, and since when.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CONFIG = bytes.fromhex("8680c056") + bytes(60)
FALLEN_OFF = b"\xff" * 64


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card. `driver` None: the kernel names none; `gts` are i915's, `tiles` are xe's.

    `vram` is the memory of each tile, as the cgroup controller dmem accounts for it (xe, Linux 6.14).
    Mainline i915 tells no memory. `lmem` and `physical_vram` are that of each tile in files that no mainline
    kernel has: those of the i915, and of the xe, which Intel gives out apart from the kernel.
    """

    card: int
    pci: str
    driver: str | None = "i915"
    vendor: str = "0x8086"
    device: str = "0x56c0"
    gts: int = 1
    tiles: int = 0
    lmem: int | None = None
    vram: int | None = None
    physical_vram: int | None = None
    numa: int = -1
    numvfs: int | None = None
    config: bytes = CONFIG
    runtime_status: str = "active"
    has_drm: bool = True
    has_nodes: bool = True
    mei: str | None = None

    @property
    def nodes(self) -> tuple[str, str]:
        return f"/dev/dri/card{self.card}", f"/dev/dri/renderD{128 + self.card}"

    @property
    def host_path(self) -> str:
        return f"/sys/class/drm/card{self.card}"


def write_gpus(root: Path, gpus: Iterable[Gpu], *, by_path: bool = True) -> Path:
    """Makes the tree anew, so that the same folder can show a node at two moments."""
    for name in ("sys", "dev"):
        shutil.rmtree(root / name, ignore_errors=True)
    for folder in ("sys/class/drm", "sys/bus/pci/devices", "dev/dri"):
        (root / folder).mkdir(parents=True)
    (root / "sys/class/drm/version").write_text("drm 1.1.0 20060810\n")
    written = list(gpus)
    for gpu in written:
        _write_gpu(root, gpu, by_path=by_path)
    regions = [
        f"drm/{gpu.pci}/vram{tile} {gpu.vram}\n" for gpu in written if gpu.vram for tile in range(gpu.tiles)
    ]
    if regions:
        (root / "sys/fs/cgroup").mkdir(parents=True)
        (root / "sys/fs/cgroup/dmem.capacity").write_text("".join(regions))
    return root


def write_plain_gpu(root: Path, card: int, nodes: Iterable[str], vendor: str = "0x8086") -> None:
    """A card in folders without links, drivers or addresses, as simpler test trees have them."""
    device = root / f"sys/class/drm/card{card}/device"
    for node in nodes:
        (device / "drm" / node).mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (root / "dev/dri").mkdir(parents=True, exist_ok=True)


def _write_gpu(root: Path, gpu: Gpu, *, by_path: bool) -> None:
    place = f"devices/pci0000:00/{gpu.pci}"
    device = root / "sys" / place
    device.mkdir(parents=True)
    (root / "sys/bus/pci/devices" / gpu.pci).symlink_to(f"../../../{place}")
    _write_function(device, gpu)
    if gpu.has_drm:
        _write_card(root, device, gpu)
        (root / f"sys/class/drm/card{gpu.card}").symlink_to(f"../../{place}/drm/card{gpu.card}")
        (root / f"sys/class/drm/renderD{128 + gpu.card}").symlink_to(
            f"../../{place}/drm/renderD{128 + gpu.card}"
        )
    if gpu.has_drm and gpu.has_nodes:
        for node in gpu.nodes:
            (root / node[1:]).touch()
        if by_path:
            _write_links(root, gpu)


def _write_function(device: Path, gpu: Gpu) -> None:
    (device / "class").write_text("0x030000\n")
    (device / "vendor").write_text(f"{gpu.vendor}\n")
    (device / "device").write_text(f"{gpu.device}\n")
    (device / "numa_node").write_text(f"{gpu.numa}\n")
    (device / "config").write_bytes(gpu.config)
    (device / "power").mkdir()
    (device / "power/runtime_status").write_text(f"{gpu.runtime_status}\n")
    named = f"DRIVER={gpu.driver}\n" if gpu.driver else ""
    (device / "uevent").write_text(f"{named}PCI_CLASS=30000\nPCI_SLOT_NAME={gpu.pci}\n")
    if gpu.driver:
        (device / "driver").symlink_to(f"../../../bus/pci/drivers/{gpu.driver}")
    if gpu.numvfs is not None:
        (device / "sriov_numvfs").write_text(f"{gpu.numvfs}\n")
    for tile in range(gpu.tiles):
        (device / f"tile{tile}/gt0").mkdir(parents=True)
        if gpu.physical_vram is not None:
            (device / f"tile{tile}/physical_vram_size_bytes").write_text(f"{gpu.physical_vram}\n")
    if gpu.mei:
        engine = "xe.mei-gscfi.2304" if gpu.driver == "xe" else "i915.mei-gsc.768"
        (device / f"{engine}/mei/{gpu.mei}").mkdir(parents=True)


def _write_card(root: Path, device: Path, gpu: Gpu) -> None:
    card = device / f"drm/card{gpu.card}"
    card.mkdir(parents=True)
    (device / f"drm/renderD{128 + gpu.card}").mkdir()
    (device / f"drm/controlD{64 + gpu.card}").symlink_to(f"card{gpu.card}")
    (card / f"card{gpu.card}-HDMI-A-1").mkdir()
    (card / "device").symlink_to("../..")
    (root / f"sys/class/drm/card{gpu.card}-HDMI-A-1").symlink_to(
        f"../../devices/pci0000:00/{gpu.pci}/drm/card{gpu.card}/card{gpu.card}-HDMI-A-1"
    )
    if gpu.driver != "xe":
        for gt in range(gpu.gts):
            (card / f"gt/gt{gt}").mkdir(parents=True)
    if gpu.lmem is not None:
        (card / "lmem_total_bytes").write_text(f"{gpu.lmem}\n")
    if gpu.mei:
        (root / "dev" / gpu.mei).touch()


def _write_links(root: Path, gpu: Gpu) -> None:
    folder = root / "dev/dri/by-path"
    folder.mkdir(exist_ok=True)
    for suffix, node in zip(("card", "render"), gpu.nodes, strict=True):
        (folder / f"pci-{gpu.pci}-{suffix}").symlink_to(f"../{Path(node).name}")
