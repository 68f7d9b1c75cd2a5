"""What NVIDIA's driver says of one GPU under /proc/driver/nvidia.

The form of `information` is that of the driver's source (open-gpu-kernel-modules, nv-procfs.c), as an H200
with driver 580.159.04 showed it. `GPU UUID` is missing there until a program has opened the GPU once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.hostfiles import read_names, read_text

FOLDER = "proc/driver/nvidia"
MOST_MINOR = 247
"""Device nodes of GPUs have minor numbers from 0 to this (nv-chardev-numbers.h)."""

_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MINOR = re.compile(r"[0-9]{1,3}")
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Information:
    """What the driver says of a GPU; None for what it does not say, or not in the form it should have."""

    uuid: str | None = None
    minor: int | None = None
    model: str | None = None
    is_excluded: bool = False


def read_information(root: Path, address: str) -> Information | None:
    """The GPU at that PCI address (`0000:06:00.0`); None where the driver has no such GPU."""
    text = read_text(root / FOLDER / "gpus" / address / "information")
    return None if text is None else parse_information(text)


def parse_information(text: str) -> Information:
    said = _fields(text)
    uuid, minor = said.get("GPU UUID", ""), said.get("Device Minor", "")
    number = int(minor) if _MINOR.fullmatch(minor) else MOST_MINOR + 1
    model = said.get("Model", "")
    return Information(
        uuid=uuid if _UUID.fullmatch(uuid) else None,
        minor=number if number <= MOST_MINOR else None,
        model=model[:_LONGEST_NAME] if model.isprintable() and model else None,
        is_excluded=said.get("GPU Excluded") == "Yes",
    )


def has_instances(root: Path, minor: int) -> bool:
    """Whether the GPU is cut into MIG instances: each has a folder `gi<N>`, a whole GPU has none."""
    names = read_names(root / FOLDER / f"capabilities/gpu{minor}/mig")
    return any(name.startswith("gi") for name in names)


def _fields(text: str) -> Mapping[str, str]:
    lines = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in lines if colon}
