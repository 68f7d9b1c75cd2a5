"""Which accelerators a node has, and what a container needs to use them."""

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
