"""What NVIDIA's driver says of one GPU under /proc/driver/nvidia.

The form of `capabilities` is that of NVIDIA's MIG User Guide ("Device Nodes and Capabilities"): a folder for
each instance there is, whose `access` says the number of its device node in /dev/nvidia-caps.

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
_INSTANCE = re.compile(r"0|[1-9][0-9]?")
_CAPABILITY = re.compile(r"0|[1-9][0-9]{0,5}")
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


@dataclass(frozen=True, slots=True, order=True)
class GpuInstance:
    """A MIG instance: the number of its GPU instance, and those of the compute instances in it.

    `nodes` are the device nodes that a program needs for it beside the GPU's: that of the GPU instance, then
    that of each compute instance; None where `access` says no number.
    """

    number: int
    compute: tuple[int, ...] = ()
    nodes: tuple[str | None, ...] = ()


def read_instances(root: Path, minor: int) -> tuple[GpuInstance, ...]:
    """The MIG instances of the GPU with that device node, in order of number; a whole GPU has none."""
    folder = root / _instances_folder(minor)
    return tuple(_read_instance(folder / f"gi{number}", number) for number in _numbered(folder, "gi"))


def access_path(minor: int, gpu_instance: int, compute_instance: int | None = None) -> str:
    """The host's file that says the device node of an instance."""
    part = "" if compute_instance is None else f"ci{compute_instance}/"
    return f"/{_instances_folder(minor)}/gi{gpu_instance}/{part}access"


def _instances_folder(minor: int) -> str:
    return f"{FOLDER}/capabilities/gpu{minor}/mig"


def _read_instance(folder: Path, number: int) -> GpuInstance:
    compute = _numbered(folder, "ci")
    places = [folder, *(folder / f"ci{one}" for one in compute)]
    return GpuInstance(number, compute, tuple(_read_node(place / "access") for place in places))


def _numbered(folder: Path, prefix: str) -> tuple[int, ...]:
    names = (name.removeprefix(prefix) for name in read_names(folder) if name.startswith(prefix))
    return tuple(sorted(int(name) for name in names if _INSTANCE.fullmatch(name)))


def _read_node(access: Path) -> str | None:
    minor = _fields(read_text(access) or "").get("DeviceFileMinor", "")
    return f"/dev/nvidia-caps/nvidia-cap{minor}" if _CAPABILITY.fullmatch(minor) else None


def _fields(text: str) -> Mapping[str, str]:
    lines = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in lines if colon}
