"""Under which name a CDI specification has a GPU, judged by what it gives a container and not by the name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from accelet.accelerators.cdi.specs import SpecifiedDevice, SpecifiedDevices
from accelet.accelerators.device import UnitId
from accelet.accelerators.nvidia.gpu import NvidiaGpu

CDI_KIND = "nvidia.com/gpu"

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
    named, unnamed = [], {}
    for gpu in gpus:
        fitting = [device.name for device in cdi.by_name.values() if _is_just(gpu, device)]
        name = gpu.unit if gpu.unit in fitting else min(fitting, default=None)
        named.append(replace(gpu, cdi_name=None if name is None else f"{CDI_KIND}={name}"))
        if name is None:
            unnamed[gpu.unit] = _why_no_name(gpu, cdi)
    return NamedGpus(tuple(named), MappingProxyType(unnamed))


def _is_just(gpu: NvidiaGpu, device: SpecifiedDevice) -> bool:
    has_part = any(node.startswith("/dev/nvidia-caps/") for node in device.nodes)
    return set(_gpu_nodes(device)) == {_node(gpu)} and not has_part


def _why_no_name(gpu: NvidiaGpu, cdi: SpecifiedDevices) -> tuple[str, str]:
    wrong = cdi.by_name.get(gpu.unit)
    if wrong is not None:
        given = " and ".join(_gpu_nodes(wrong)[:2]) or "no GPU"
        return "stale-cdi", f"{wrong.file} gives {given} for it, and it is {_node(gpu)} now: run {_MAKE}"
    if not cdi.files:
        return "no-cdi-name", f"/etc/cdi and /var/run/cdi have no specification of {CDI_KIND}: run {_MAKE}"
    return "no-cdi-name", f"no CDI device consists of {_node(gpu)} alone: run {_MAKE}"


def _gpu_nodes(device: SpecifiedDevice) -> list[str]:
    return sorted(filter(_GPU_NODE.fullmatch, device.nodes))


def _node(gpu: NvidiaGpu) -> str:
    return f"/dev/nvidia{gpu.minor}"
