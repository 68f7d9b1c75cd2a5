"""The nodes that are measured: hardware trees and the configurations that serve them."""

from pathlib import Path

from accelet.fakehost.gpus import Gpu, write_gpus

PCI_FUNCTIONS = 400

MAX_TILE = "gpu.intel.com/max-tile"
BIG = "example.com/file"

_GPUS = tuple(
    Gpu(
        card,
        f"0000:{0x20 + card:02x}:00.0",
        driver=driver,
        device=device,
        gts=gts,
        tiles=tiles,
        lmem=2**36 if driver == "i915" else None,
        vram=2**36 if driver == "xe" else None,
    )
    for card, (driver, device, gts, tiles) in enumerate(
        [("i915", "0x0bd5", 2, 0)] * 2
        + [("i915", "0x0bda", 2, 0)] * 2
        + [("i915", "0x56c0", 1, 0)] * 2
        + [("xe", "0xe20b", 0, 1)] * 2
    )
)

_FOUR_RESOURCES = f"""\
version: v1
resources:
  - {{name: gpu.intel.com/max, backend: intel-gpu, match: {{device_id: ["0x0bd5"]}}}}
  - {{name: {MAX_TILE}, backend: intel-gpu, match: {{device_id: ["0x0bda"]}}, unit: tile}}
  - {{name: gpu.intel.com/flex, backend: intel-gpu, match: {{device_id: ["0x56c0"]}}, shares: 10}}
  - {{name: gpu.intel.com/arc, backend: intel-gpu, match: {{device_id: ["0xe20b"]}}}}
"""
RESOURCES = ("gpu.intel.com/max", MAX_TILE, "gpu.intel.com/flex", "gpu.intel.com/arc")


def write_four_resources(root: Path) -> Path:
    """Eight GPUs among 400 PCI functions, served as four resources; returns the configuration."""
    write_gpus(root, _GPUS)
    for number in range(PCI_FUNCTIONS - len(_GPUS)):
        address = f"0000:{0x40 + number // 32:02x}:{number % 32:02x}.0"
        function = root / f"sys/devices/pci0000:40/{address}"
        function.mkdir(parents=True)
        (function / "class").write_text("0x060400\n")
        (function / "vendor").write_text("0x8086\n")
        (root / "sys/bus/pci/devices" / address).symlink_to(f"../../../devices/pci0000:40/{address}")
    return _write(root, _FOUR_RESOURCES)


def write_many_devices(root: Path, count: int) -> Path:
    """One resource of `count` device files; returns the configuration."""
    (root / "dev").mkdir(parents=True)
    for number in range(count):
        big_device(root, number).touch()
    return _write(root, f"version: v1\nresources:\n  - {{name: {BIG}, backend: files, paths: [/dev/big*]}}\n")


def big_device(root: Path, number: int) -> Path:
    """One of the many."""
    return root / f"dev/big{number:05}"


def _write(root: Path, config: str) -> Path:
    path = root / "config.yaml"
    path.write_text(config)
    return path
