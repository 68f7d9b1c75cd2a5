"""One of NVIDIA's PCI functions as a GPU to serve, or why it is none."""

import re
from pathlib import Path

from accelet.accelerators.device import UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.hostfiles import is_node, read_link_name, read_numa_node, read_text
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.nvidia.driverfiles import Information, read_information, read_instances
from accelet.accelerators.nvidia.gpu import DRIVER, NvidiaGpu
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.reading.bridges import read_bridges
from accelet.accelerators.reading.pciconfig import read_config_health

BUS = "sys/bus/pci/devices"
NVIDIA = "0x10de"

_GPU_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers. NVSwitches (0x0680) and the sound of a GPU (0x0403) are no GPUs."""

_COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_OPTIONAL = ("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_PCI_DEVICE = re.compile("0x[0-9a-f]{4}")

_Refusal = tuple[str, str]
"""A code and a sentence."""


def is_gpu(root: Path, name: str) -> bool:
    function = root / BUS / name
    is_display = (read_text(function / "class") or "").startswith(_GPU_CLASSES)
    return is_display and (read_text(function / "vendor") or "").lower() == NVIDIA


def read_gpu(root: Path, pci: PciAddress) -> NvidiaGpu | Skipped:
    """The GPU at an address, or why there is none to serve."""
    function, said = root / BUS / str(pci), read_information(root, str(pci))
    refusal = _why_no_driver(function) if said is None else _why_not(root, function, said)
    if refusal is not None:
        unit = UnitId(said.uuid) if said is not None and said.uuid is not None else None
        return Skipped(f"/{BUS}/{pci}", *refusal, unit)
    assert said is not None and said.uuid is not None and said.minor is not None, "else it is refused"  # noqa: PT018
    nodes = [node for node in (*_needed(said.minor), *_OPTIONAL) if is_node(root, node)]
    instances = read_instances(root, said.minor)
    device = (read_text(function / "device") or "").lower()
    return NvidiaGpu(
        unit=UnitId(said.uuid),
        pci=pci,
        minor=said.minor,
        model=said.model,
        pci_device=device if _PCI_DEVICE.fullmatch(device) else None,
        numa_node=read_numa_node(function),
        health=read_config_health(function / "config", NVIDIA, "GPU"),
        nodes=tuple(DeviceNode(node, node) for node in nodes),
        bridges=read_bridges(function),
        instances=instances,
        instance_nodes=frozenset(
            node for one in instances for node in one.nodes if node is not None and is_node(root, node)
        ),
    )


def _why_no_driver(function: Path) -> _Refusal:
    driver = read_link_name(function / "driver")
    if driver is None:
        return "no-driver", "no driver is bound to it"
    if driver != DRIVER:
        return "driver-not-served", f"it is bound to {driver}, not to NVIDIA's driver"
    return "no-information", f"NVIDIA's driver does not list it in /proc/driver/nvidia/gpus/{function.name}"


def _why_not(root: Path, function: Path, said: Information) -> _Refusal | None:
    """Why a GPU that NVIDIA's driver knows is not served."""
    if (read_text(function / "sriov_numvfs") or "0") not in ("0", "-1"):
        return "pf-with-vfs", "it is an SR-IOV physical function whose virtual functions are in use (vGPU)"
    if said.is_excluded:
        return "excluded", "NVIDIA's driver leaves it out (GPU Excluded: Yes), as its options say"
    if said.uuid is None:
        return "no-uuid", (
            "the driver does not know its UUID before a program has opened it: "
            "run nvidia-smi once, or keep nvidia-persistenced running"
        )
    if said.minor is None:
        return "no-minor", "the driver says no number of its device node (Device Minor)"
    return _why_not_usable(root, said.minor)


def _why_not_usable(root: Path, minor: int) -> _Refusal | None:
    lacking = [node for node in _needed(minor) if not is_node(root, node)]
    if lacking:
        which = f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not there"
        return "no-device-node", f"{which}: nvidia-modprobe -c {minor} -u makes the device nodes"
    return None


def _needed(minor: int) -> tuple[str, ...]:
    return f"/dev/nvidia{minor}", *_COMMON
