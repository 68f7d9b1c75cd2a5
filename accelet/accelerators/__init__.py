"""Which accelerators a node has, and what a container needs to use them.

It may import `accelet.runtime` alone of this project.

amd/            AMD's GPUs and their compute partitions, by files alone: of the PCI bus, of amdgpu and of KFD.
cdi/            What the host's Container Device Interface specifications offer.
files/          Plain devices: whatever is a path, a glob or a USB device, with nothing known of its use.
intel/          Intel GPUs: what sysfs says of them, how they are offered, which tiles a container may see.
nvidia/         NVIDIA's GPUs, by files alone: of the PCI bus, of NVIDIA's driver and of CDI specifications.
reading/        How the hardware of a host is read, though it may not answer.
sensors/        What cards do, as far as the kernel tells it without privilege and without waking a card that
                sleeps.
tpu/            Google TPUs: chips found on the PCI bus, given as whole hosts or as boxes of neighbouring
                chips.
ailments        What is known to be wrong with units otherwise than by the scan of their resource.
backend         What every kind of accelerator must be able to say.
device =        One unit that the kubelet hands out, and how well it is.
discarded       Removes the host folders that were set aside for good, a piece at a time.
edits =         What a container must be given to use its devices.
errors =        What can go wrong with accelerators, as sentences for people.
folders         Makes the host folders that a container's mounts need.
gathering       The device nodes, mounts and CDI names of several devices as one container sees them.
hardwarename =  Which part of which unit a device's id names, whatever resource and settings made the id.
hostfiles       Looking at the host's files without ever raising: what cannot be read is not there.
inventory =     What one scan found.
pci =           PCI addresses: read, written, in order.
scancache       One scan of the host for all resources that need the same.
settings =      What every back-end's settings can do, and how two resources' settings may contradict each
                other.
simulated       The `simulated` back-end: GPUs described in YAML, each standing for nodes the host really has.
steadyhealth    The health of one piece of hardware over many looks at it: no single look ends a pod.
"""

from collections.abc import Mapping
from types import MappingProxyType

from accelet.accelerators.amd.settings import AmdGpuSettings
from accelet.accelerators.files.backend import FilesSettings
from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.intel.monitoring import MonitoringSettings
from accelet.accelerators.nvidia.settings import NvidiaGpuSettings
from accelet.accelerators.settings import Settings
from accelet.accelerators.simulated import SimulatedSettings
from accelet.accelerators.tpu.settings import TpuSettings

BACKENDS: Mapping[str, type[Settings]] = MappingProxyType(
    {
        "amd-gpu": AmdGpuSettings,
        "files": FilesSettings,
        "intel-gpu": IntelGpuSettings,
        "intel-gpu-monitoring": MonitoringSettings,
        "nvidia-gpu": NvidiaGpuSettings,
        "simulated": SimulatedSettings,
        "tpu": TpuSettings,
    }
)
"""A back-end's name in the configuration, and the settings it is made from (`Settings.backend`)."""
