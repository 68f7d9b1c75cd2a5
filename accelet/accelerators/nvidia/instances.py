"""A MIG instance of a GPU as one scan saw it, and the devices it is offered as.

Which profile an instance has (`1g.10gb`), and so its memory and its compute units, is in no file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.nvidia.driverfiles import GpuInstance, access_path
from accelet.accelerators.nvidia.gpu import DRIVER, GpuMatch, NvidiaGpu, groups_of
from accelet.accelerators.settings import either


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance with the one compute instance that fills it.

    `nodes` are the two device nodes it has beside the GPU's. `cdi_name` is the device of a CDI specification
    that gives a container just this instance, None where there is none.
    """

    gpu: NvidiaGpu
    gpu_instance: int
    compute_instance: int
    nodes: tuple[str, str]
    cdi_name: str | None = None

    @property
    def name(self) -> str:
        return f"gi{self.gpu_instance}-ci{self.compute_instance}"

    @property
    def unit(self) -> UnitId:
        """Begins with the GPU's, so that everybody sees what it is a part of."""
        return UnitId(f"{self.gpu.unit}-{self.name}")


@dataclass(frozen=True, slots=True)
class UnservedInstance:
    """A GPU instance that no container can be given: its unit, a code and a sentence."""

    unit: UnitId
    code: str
    reason: str


def list_instances(gpu: NvidiaGpu) -> Iterator[MigInstance | UnservedInstance]:
    """The MIG instances of a GPU in order of number, or why one is none to serve."""
    for one in gpu.instances:
        refusal = _why_not(gpu, one)
        first, *others = one.nodes or (None,)
        if refusal is None and first is not None and others and others[0] is not None:
            yield MigInstance(gpu, one.number, one.compute[0], (first, others[0]))
        else:
            code, reason = refusal or ("no-minor", "the driver says no number of its device node")
            yield UnservedInstance(UnitId(f"{gpu.unit}-gi{one.number}"), code, f"gi{one.number}: {reason}")


def _why_not(gpu: NvidiaGpu, one: GpuInstance) -> tuple[str, str] | None:
    if not one.compute:
        return "no-compute-instance", "it has no compute instance: nvidia-smi mig -cci makes one"
    if len(one.compute) > 1:
        return "shared-instance", (
            f"it has {len(one.compute)} compute instances, which share its memory: "
            "instances with one are served, as by NVIDIA's plugin"
        )
    for node, compute in zip(one.nodes, (None, one.compute[0]), strict=True):
        path = access_path(gpu.minor, one.number, compute)
        if node is None:
            return "no-minor", f"{path} says no number of its device node (DeviceFileMinor)"
        if node not in gpu.instance_nodes:
            return "no-device-node", f"{node} is not there: nvidia-modprobe -f {path} makes it"
    return None


def mismatch(match: GpuMatch, instance: MigInstance) -> str | None:
    """Why an instance is none of those a resource wants; None if it is one. Of its GPU the caller knows."""
    if match.instance is None or any(fnmatchcase(instance.name, glob) for glob in match.instance):
        return None
    return f"it is {instance.name}, not {either(match.instance)}"


def offer_instances(instances: Iterable[MigInstance], shares: int) -> tuple[Device, ...]:
    """Each instance `shares` times: in order of PCI address, then number, then share."""
    ordered = sorted(instances, key=lambda one: (one.gpu.pci, one.gpu_instance))
    return tuple(device for one in ordered for device in _offer(one, shares))


def _offer(instance: MigInstance, shares: int) -> Iterator[Device]:
    gpu = instance.gpu
    for share in range(shares) if shares > 1 else (None,):
        yield Device(
            id=DeviceId(instance.unit if share is None else f"{instance.unit}-s{share}"),
            unit=instance.unit,
            health=gpu.health,
            numa_nodes=() if gpu.numa_node is None else (gpu.numa_node,),
            pci=str(gpu.pci),
            pci_device=gpu.pci_device,
            model=gpu.model,
            driver=DRIVER,
            kind="discrete",
            share=share,
            cdi_name=instance.cdi_name,
            groups=groups_of(gpu),
            parent=gpu.unit,
            mode="mig",
        )
