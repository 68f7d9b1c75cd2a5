"""Which part of Linux has each file of the hosts that are written here, and since which version.

A test finds every file that is written in this table: no back-end is tested on files that it made up itself.
After the kernel's documentation (Documentation/ABI, admin-guide/cgroup-v2.rst, gpu) and the drivers' sources.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files and links by a pattern, in which `*` stands for one name; `{f}` is the folder of a PCI function.

    `since` is the earliest version of mainline Linux that is known to have it; None: no version has it.
    """

    pattern: str
    by: str
    since: str | None

    @property
    def is_mainline(self) -> bool:
        return self.since is not None


_INTELS_I915: Final = "i915 as Intel gives it out apart from the kernel"
_INTELS_XE: Final = "xe as Intel gave it out apart from the kernel"
_NVIDIAS: Final = "NVIDIA's driver, apart from the kernel"
_NVIDIAS_TOOLKIT: Final = "nvidia-ctk of NVIDIA's Container Toolkit"
_GOOGLES: Final = "Google's TPU driver, apart from the kernel"

SOURCES: Final = (
    *(
        FileSource(f"{{f}}/{name}", "PCI", "2.6")
        for name in (
            "vendor",
            "device",
            "subsystem_device",
            "class",
            "config",
            "numa_node",
            "uevent",
            "driver",
        )
    ),
    FileSource("sys/bus/pci/devices/*", "PCI", "2.6"),
    FileSource(
        "{f}/sriov_numvfs", "PCI, where the driver makes virtual functions: xe 6.8, i915 Intel's own", "3.8"
    ),
    FileSource("{f}/physfn", "PCI", "2.6"),
    FileSource("{f}/power/runtime_status", "power management", "2.6"),
    FileSource("{f}/power/runtime_suspended_time", "power management", "2.6"),
    FileSource("{f}/current_link_*", "PCI", "4.13"),
    FileSource("{f}/max_link_*", "PCI", "4.13"),
    FileSource("{f}/aer_dev_*", "PCI", "4.19"),
    FileSource("{f}/iommu_group", "IOMMU", "3.6"),
    FileSource("sys/kernel/iommu_groups/*/devices/*", "IOMMU", "3.6"),
    FileSource("sys/class/vfio/*/dev", "VFIO", "3.6"),
    FileSource("dev/vfio/*", "VFIO", "3.6"),
    FileSource("{f}/accel/accel*/dev", _GOOGLES, None),
    FileSource("{f}/accel/accel*/device", _GOOGLES, None),
    FileSource("sys/class/accel/accel*", _GOOGLES, None),
    FileSource("dev/accel*", _GOOGLES, None),
    FileSource("sys/class/drm/version", "DRM", "2.6"),
    FileSource("sys/class/drm/*", "DRM", "2.6"),
    FileSource("{f}/drm/card*/device", "DRM", "2.6"),
    FileSource("{f}/drm/card*/card*-*", "DRM: a connector", "2.6"),
    FileSource("{f}/drm/renderD*", "DRM", "3.12"),
    FileSource("{f}/drm/controlD*", "DRM: a link for old programs", "4.12"),
    FileSource("dev/dri/card*", "DRM", "2.6"),
    FileSource("dev/dri/renderD*", "DRM", "3.12"),
    FileSource("dev/dri/by-path/*", "udev", "2.6"),
    FileSource("{f}/i915.mei-gsc.*/mei/mei*", "i915", "6.0"),
    FileSource("{f}/xe.mei-gscfi.*/mei/mei*", "xe", "6.8"),
    FileSource("dev/mei*", "MEI", "3.5"),
    FileSource("{f}/drm/card*/gt/gt*", "i915; on cards of several tiles " + _INTELS_I915, "5.19"),
    FileSource("{f}/drm/card*/gt/gt*/rps_*_freq_mhz", "i915", "5.19"),
    FileSource("{f}/drm/card*/gt/gt*/rc6_*", "i915", "5.19"),
    FileSource("{f}/drm/card*/gt/gt*/throttle_reason_*", "i915", "5.19"),
    FileSource("{f}/drm/card*/lmem_total_bytes", _INTELS_I915, None),
    FileSource("{f}/tile*/gt*", "xe", "6.8"),
    FileSource("{f}/tile*/gt*/freq0/*_freq", "xe", "6.8"),
    FileSource("{f}/tile*/gt*/freq0/throttle/*", "xe; `reasons` in 6.19", "6.8"),
    FileSource("{f}/tile*/gt*/gtidle/*", "xe", "6.8"),
    FileSource("{f}/tile*/gt*/engines/*/name", "xe", "6.8"),
    FileSource("{f}/tile*/physical_vram_size_bytes", _INTELS_XE, None),
    FileSource("{f}/hwmon/hwmon*/in*_label", "amdgpu (in1: of processors alone); xe 6.8", "5.0"),
    FileSource("{f}/hwmon/hwmon*/name", "amdgpu; i915 6.2, xe 6.8", "5.0"),
    FileSource("{f}/hwmon/hwmon*/in*_input", "amdgpu; i915 6.2, xe 6.8", "5.0"),
    FileSource("{f}/hwmon/hwmon*/power*_*", "i915 6.2, xe 6.8", "6.2"),
    FileSource("{f}/hwmon/hwmon*/energy*_input", "i915 6.2, xe 6.8", "6.2"),
    FileSource("{f}/hwmon/hwmon*/*_label", "xe", "6.8"),
    FileSource("{f}/hwmon/hwmon*/fan*_input", "i915 6.12, xe 6.16", "6.12"),
    FileSource("{f}/hwmon/hwmon*/temp*_input", "i915 6.13, xe 6.15", "6.13"),
    FileSource("{f}/hwmon/hwmon*/temp*_crit", "xe", "7.0"),
    FileSource("{f}/hwmon/hwmon*/temp*_emergency", "xe", "7.0"),
    FileSource("{f}/mem_info_vram_total", "amdgpu", "5.0"),
    FileSource("{f}/product_name", "amdgpu", "5.8"),
    FileSource("{f}/current_*_partition", "amdgpu", "6.5"),
    FileSource("sys/devices/platform/amdgpu_xcp*/drm/card*/device", "amdgpu", "6.5"),
    FileSource("sys/devices/platform/amdgpu_xcp*/drm/renderD*/device", "amdgpu", "6.5"),
    FileSource("{f}/drm/renderD*/device", "DRM", "3.12"),
    FileSource("sys/class/kfd/kfd/topology/nodes/*/properties", "KFD of amdgpu", "3.19"),
    FileSource("sys/class/kfd/kfd/topology/nodes/*/gpu_id", "KFD of amdgpu", "3.19"),
    FileSource("sys/class/kfd/kfd/topology/nodes/*/name", "KFD of amdgpu", "3.19"),
    FileSource("sys/class/kfd/kfd/topology/nodes/*/mem_banks/*/properties", "KFD of amdgpu", "3.19"),
    FileSource("dev/kfd", "KFD of amdgpu", "3.19"),
    FileSource("proc/driver/nvidia/**", _NVIDIAS, None),
    FileSource("proc/driver/nvidia-caps/mig-minors", _NVIDIAS, None),
    FileSource("dev/nvidia-caps/nvidia-cap*", _NVIDIAS, None),
    FileSource("dev/nvidia*", _NVIDIAS, None),
    FileSource("etc/cdi", _NVIDIAS_TOOLKIT, None),
    FileSource("var/run/cdi/nvidia.yaml", _NVIDIAS_TOOLKIT, None),
    FileSource("sys/fs/cgroup/dmem.capacity", "cgroups of version 2, for xe", "6.14"),
    FileSource("sys/fs/cgroup/**/dmem.current", "cgroups of version 2, for xe", "6.14"),
)


def find_source(path: str) -> FileSource | None:
    """Where a file, by its path below the root of a host, comes from; the first row that has it."""
    return next((row for row in SOURCES if _compiled(row.pattern).fullmatch(path)), None)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    text = re.escape(pattern.removeprefix("{f}")).replace(r"\*\*", ".+").replace(r"\*", "[^/]*")
    return re.compile((_FUNCTION if pattern.startswith("{f}") else "") + text)


_FUNCTION: Final = "sys/devices/[^/]+(?:/[0-9a-f:.]+)+"
"""Bridges are above a function, each in the folder of the one before."""
