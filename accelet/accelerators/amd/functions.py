"""One of AMD's PCI functions as the GPU or the partitions to serve, or why there is none."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelet.accelerators.amd.gpu import DRIVER, WHOLE, AmdGpu
from accelet.accelerators.amd.topology import KfdNode
from accelet.accelerators.device import CARD_NAME, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.hostfiles import (
    MOST_BYTES,
    is_node,
    read_link_name,
    read_names,
    read_numa_node,
    read_number,
    read_text,
)
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.reading.pciconfig import read_config_health

BUS = "sys/bus/pci/devices"
AMD = "0x1002"
KFD = "/dev/kfd"

_GPU_CLASSES = ("0x03", "0x12")
"""Display controllers, and processing accelerators as Instinct cards are."""

_PCI_DEVICE = re.compile("0x[0-9a-f]{4}")
_MODE = re.compile("[A-Z]{3}[0-9]?")
_RENDER = re.compile("renderD[0-9]{1,7}")
_CARD = re.compile(CARD_NAME)
_LONGEST_NAME = 100
_MOST_SENSORS = 4
"""Folders of sensors of one GPU: amdgpu makes one."""

_Refusal = tuple[str, str]
"""A code and a sentence."""


@dataclass(frozen=True, slots=True)
class FunctionLook:
    """What one function is: `parts` is a whole GPU or its partitions; where it is empty `refusal` says why.

    `warning` tells what is odd of it.
    """

    parts: tuple[AmdGpu, ...] = ()
    refusal: Skipped | None = None
    warning: str | None = None


def is_gpu(root: Path, name: str) -> bool:
    function = root / BUS / name
    is_display = (read_text(function / "class") or "").startswith(_GPU_CLASSES)
    return is_display and (read_text(function / "vendor") or "").lower() == AMD


def read_gpu(
    root: Path, pci: PciAddress, nodes: Sequence[tuple[int, KfdNode]], *, some_hidden: bool
) -> FunctionLook:
    """What is at an address. `nodes` are KFD's of that GPU, each with the number of its partition.

    `some_hidden`: KFD hides nodes from the reader, so that one that is missing may be there.
    """
    function = root / BUS / str(pci)
    mode = _read_mode(function)
    refusal = _why_not(root, function) or _why_no_node(function, mode, nodes, some_hidden=some_hidden)
    if refusal is not None:
        return FunctionLook(refusal=Skipped(f"/{BUS}/{pci}", *refusal, UnitId(pci.as_id)))
    gpu = _describe(function, pci, mode)
    if not _is_cut(mode, nodes):
        return _whole(root, function, replace(gpu, hive=nodes[0][1].hive if nodes else None))
    parts = [_partition(root, gpu, number, node) for number, node in nodes]
    lacking = [part for part in parts if not _has_render_node(part)]
    if lacking:
        names = ", ".join(f"p{part.partition}" for part in lacking[:4])
        said = f"{gpu.pci}: {len(lacking)} partitions have no render node in /dev/dri ({names}): left out"
        return FunctionLook(tuple(part for part in parts if part not in lacking), warning=said)
    return FunctionLook(tuple(parts))


def _why_not(root: Path, function: Path) -> _Refusal | None:
    driver = read_link_name(function / "driver")
    if driver is None:
        return "no-driver", "no driver is bound to it"
    if driver != DRIVER:
        return "driver-not-served", f"it is bound to {driver}, not to {DRIVER}"
    if (read_text(function / "sriov_numvfs") or "0") not in ("0", "-1"):
        return "pf-with-vfs", "it is an SR-IOV physical function whose virtual functions are in use"
    if not is_node(root, KFD):
        return "no-kfd", f"{KFD} is not there, without which no program can compute on it"
    return None


def _why_no_node(
    function: Path, mode: str, nodes: Sequence[tuple[int, KfdNode]], *, some_hidden: bool
) -> _Refusal | None:
    if nodes:
        if mode.startswith("spx") and len(nodes) > 1:
            return (
                "mode-unclear",
                f"KFD has {len(nodes)} partitions of it, and current_compute_partition says SPX",
            )
        return None
    if not some_hidden:
        return "no-kfd-node", "KFD does not offer it for computing; see the kernel's log"
    if _can_be_whole(mode):
        return None
    return "hidden-by-kfd", (
        f"it is partitioned ({mode}), and the kernel hides partitions from an agent that may not open their "
        "device nodes: run the agent privileged"
    )


def _can_be_whole(mode: str) -> bool:
    return mode == WHOLE or mode.startswith("spx")


def _is_cut(mode: str, nodes: Sequence[tuple[int, KfdNode]]) -> bool:
    return not _can_be_whole(mode) or len(nodes) > 1


def _describe(function: Path, pci: PciAddress, mode: str) -> AmdGpu:
    device = (read_text(function / "device") or "").lower()
    model = read_text(function / "product_name") or ""
    return AmdGpu(
        pci=pci,
        mode=mode,
        model=model[:_LONGEST_NAME] if model and model.isprintable() else None,
        pci_device=device if _PCI_DEVICE.fullmatch(device) else None,
        numa_node=read_numa_node(function),
        memory_bytes=read_number(function / "mem_info_vram_total", MOST_BYTES) or None,
        health=read_config_health(function / "config", AMD, "GPU"),
        is_integrated=_is_integrated(function),
    )


def _is_integrated(function: Path) -> bool:
    """Whether it is part of a processor: amdgpu tells the voltage VDDNB of these alone (amdgpu_pm.c)."""
    sensors = read_names(function / "hwmon")[:_MOST_SENSORS]
    return any(read_text(function / "hwmon" / one / "in1_label") == "vddnb" for one in sensors)


def _whole(root: Path, function: Path, gpu: AmdGpu) -> FunctionLook:
    names = [f"/dev/dri/{name}" for name in read_names(function / "drm") if _is_drm(name)]
    found = _with_nodes(root, gpu, names)
    if not _has_render_node(found):
        reason = f"has no render node in /dev/dri ({', '.join(names) or 'sysfs lists none'})"
        return FunctionLook(refusal=Skipped(f"/{BUS}/{gpu.pci}", "no-device-node", reason, gpu.gpu))
    return FunctionLook((found,))


def _partition(root: Path, gpu: AmdGpu, number: int, node: KfdNode) -> AmdGpu:
    """By its render node's number; the card node that belongs to it is beside it in sysfs."""
    render = f"renderD{node.render_minor}"
    beside = read_names(root / f"sys/class/drm/{render}/device/drm")
    names = [f"/dev/dri/{name}" for name in {render, *filter(_is_drm, beside)}]
    part = replace(gpu, partition=number, memory_bytes=node.memory_bytes, hive=node.hive)
    return _with_nodes(root, part, names)


def _with_nodes(root: Path, gpu: AmdGpu, names: Sequence[str]) -> AmdGpu:
    present = [name for name in sorted(names) if is_node(root, name)]
    cards = [name.rpartition("/")[2] for name in present if "/card" in name]
    nodes = tuple(DeviceNode(name, name) for name in (KFD, *present))
    return replace(gpu, card=cards[0] if cards else None, nodes=nodes)


def _has_render_node(gpu: AmdGpu) -> bool:
    return any("/renderD" in node.host_path for node in gpu.nodes)


def _is_drm(name: str) -> bool:
    return bool(_CARD.fullmatch(name) or _RENDER.fullmatch(name))


def _read_mode(function: Path) -> str:
    compute = read_text(function / "current_compute_partition") or ""
    memory = read_text(function / "current_memory_partition") or ""
    if not _MODE.fullmatch(compute):
        return WHOLE
    return f"{compute}_{memory}".lower() if _MODE.fullmatch(memory) else compute.lower()
