"""Under which name a CDI specification has a GPU or a MIG instance.

Judged by what the device gives a container, and not by its name. nvidia-ctk writes a device under several
names: `0` and `GPU-…` for a GPU, `0:1` and `MIG-…` for an instance.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from accelet.accelerators.cdi.specs import SpecifiedDevice, SpecifiedDevices
from accelet.accelerators.device import UnitId
from accelet.accelerators.nvidia.gpu import NvidiaGpu
from accelet.accelerators.nvidia.instances import MigInstance

CDI_KIND = "nvidia.com/gpu"

_OWN_NODE = re.compile(r"/dev/nvidia[0-9]+|/dev/nvidia-caps/.+")
_GPU_NODE = re.compile(r"/dev/nvidia[0-9]+")
_MAKE = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


@dataclass(frozen=True, slots=True)
class NamedGpus:
    """GPUs with their CDI names; `unnamed` says by unit, as a code and a sentence, why others have none."""

    gpus: tuple[NvidiaGpu, ...]
    unnamed: Mapping[UnitId, tuple[str, str]]


def name_gpus(gpus: Iterable[NvidiaGpu], cdi: SpecifiedDevices) -> NamedGpus:
    """Each GPU's name is that of the device which consists of its node and of no other GPU's.

    Of several the UUID is the best: numbers of GPUs move when one is taken out.
    """
    named, unnamed, names = [], {}, _names_by_nodes(cdi)
    for gpu in gpus:
        fitting = names.get(frozenset((gpu.node,)), [])
        name = gpu.unit if gpu.unit in fitting else min(fitting, default=None)
        named.append(replace(gpu, cdi_name=None if name is None else f"{CDI_KIND}={name}"))
        if name is None:
            unnamed[gpu.unit] = _why_no_name(gpu, cdi)
    return NamedGpus(tuple(named), MappingProxyType(unnamed))


def _names_by_nodes(cdi: SpecifiedDevices) -> Mapping[frozenset[str], list[str]]:
    """The devices by their nodes of GPUs and of instances; a device has other nodes besides (/dev/dri)."""
    found: dict[frozenset[str], list[str]] = {}
    for device in cdi.by_name.values():
        found.setdefault(frozenset(filter(_OWN_NODE.fullmatch, device.nodes)), []).append(device.name)
    return found


@dataclass(frozen=True, slots=True)
class NamedInstances:
    """MIG instances with their CDI names; `unnamed` says by unit why others have no name."""

    instances: tuple[MigInstance, ...]
    unnamed: Mapping[UnitId, tuple[str, str]]


def name_instances(instances: Iterable[MigInstance], cdi: SpecifiedDevices) -> NamedInstances:
    """Each instance's name is that of the device which consists of its GPU's node and its own two."""
    named, unnamed, names = [], {}, _names_by_nodes(cdi)
    for one in instances:
        fitting = names.get(frozenset((one.gpu.node, *one.nodes)), [])
        name = min(fitting, key=lambda name: (not name.startswith("MIG-"), name), default=None)
        named.append(replace(one, cdi_name=None if name is None else f"{CDI_KIND}={name}"))
        if name is None:
            unnamed[one.unit] = _why_no_instance(one, cdi)
    return NamedInstances(tuple(named), MappingProxyType(unnamed))


def _parts(device: SpecifiedDevice) -> set[str]:
    return {node for node in device.nodes if node.startswith("/dev/nvidia-caps/")}


def _why_no_instance(instance: MigInstance, cdi: SpecifiedDevices) -> tuple[str, str]:
    node = instance.gpu.node
    if not cdi.files:
        return "no-cdi-name", f"/etc/cdi and /var/run/cdi have no specification of {CDI_KIND}: run {_MAKE}"
    older = next((one for one in cdi.by_name.values() if _gpu_nodes(one) == [node]), None)
    if older is not None:
        return "stale-cdi", (
            f"{older.file} has {node} whole or cut otherwise, without {instance.name}: run {_MAKE}"
        )
    return "no-cdi-name", f"no CDI device consists of {instance.name} of {node} alone: run {_MAKE}"


def _why_no_name(gpu: NvidiaGpu, cdi: SpecifiedDevices) -> tuple[str, str]:
    wrong = cdi.by_name.get(gpu.unit)
    if wrong is not None and _gpu_nodes(wrong) != [gpu.node]:
        given = " and ".join(_gpu_nodes(wrong)[:2]) or "no GPU"
        return "stale-cdi", f"{wrong.file} gives {given} for it, and it is {gpu.node} now: run {_MAKE}"
    cut = next((one for one in cdi.by_name.values() if _parts(one) and _gpu_nodes(one) == [gpu.node]), None)
    if cut is not None:
        return "stale-cdi", (
            f"{cut.file} has {gpu.node} cut into MIG instances only, and it is whole now: run {_MAKE}"
        )
    if not cdi.files:
        return "no-cdi-name", f"/etc/cdi and /var/run/cdi have no specification of {CDI_KIND}: run {_MAKE}"
    return "no-cdi-name", f"no CDI device consists of {gpu.node} alone: run {_MAKE}"


def _gpu_nodes(device: SpecifiedDevice) -> list[str]:
    return sorted(filter(_GPU_NODE.fullmatch, device.nodes))
