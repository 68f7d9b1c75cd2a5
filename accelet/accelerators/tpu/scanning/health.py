"""How well a chip is, without opening its device file."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accelet.accelerators.device import Device, Health, worst
from accelet.accelerators.hostfiles import exists_on_host, read_text
from accelet.accelerators.tpu.generation import DeviceFiles
from accelet.accelerators.tpu.scanning.sysfs import VFIO_DRIVER, Function

VFIO_CONTAINER: Final = "/dev/vfio/vfio"


@dataclass(frozen=True, slots=True)
class ChipFile:
    """A chip's device file: its host path, and the sysfs attribute below the root that has its numbers."""

    path: str
    numbers: str


def chip_files(chip: Device) -> tuple[str, ...]:
    """The host paths of the files that are the chip's alone."""
    return tuple(node.host_path for node in chip.nodes if node.host_path != VFIO_CONTAINER)


def find_health(
    root: Path, functions: Sequence[Function], expected: int, style: DeviceFiles, files: Sequence[ChipFile]
) -> Health:
    """The first thing that keeps a chip of these PCI functions from being used, or that nothing does.

    What cannot be told counts only where nothing is known to be wrong.

    A VFIO group is never opened to find out: it opens for one process at a time, and a pod may be starting.
    """
    return worst(_find_faults(root, functions, expected, style, files))


def _find_faults(
    root: Path, functions: Sequence[Function], expected: int, style: DeviceFiles, files: Sequence[ChipFile]
) -> Iterator[Health]:
    if len(functions) != expected:
        yield Health(f"{len(functions)} of its {expected} PCI functions appear on the bus")
    for function in functions:
        yield function.config_health
        yield from _find_driver_faults(function, style)
        if style is DeviceFiles.VFIO and function.group_strangers:
            yield Health(
                f"its IOMMU group {function.iommu_group} also holds {', '.join(function.group_strangers)}, "
                "which a container would get with it: put them into groups of their own (ACS)"
            )
        if style is DeviceFiles.ACCEL and function.accel is None:
            yield Health(f"{function.address} has no accel device: load the TPU driver")
        if style is DeviceFiles.VFIO and function.iommu_group is None:
            yield Health(f"{function.address} has no IOMMU group: switch the IOMMU on")
    for file in files:
        yield from _find_file_faults(root, file)
    if style is DeviceFiles.VFIO and not exists_on_host(root, VFIO_CONTAINER):
        yield Health(f"{VFIO_CONTAINER} is missing: load the kernel module vfio")


def _find_driver_faults(function: Function, style: DeviceFiles) -> Iterator[Health]:
    if function.driver is None:
        wanted = VFIO_DRIVER if style is DeviceFiles.VFIO else "the TPU driver"
        yield Health(f"no driver is bound to {function.address}: bind {wanted}")
    elif style is DeviceFiles.VFIO and function.driver != VFIO_DRIVER:
        yield Health(f"the driver {function.driver} is bound to {function.address}: bind {VFIO_DRIVER}")


def _find_file_faults(root: Path, file: ChipFile) -> Iterator[Health]:
    try:
        found = (root / file.path.removeprefix("/")).stat()
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        yield Health(f"{file.path} cannot be used ({error.strerror})", is_unknown=not is_gone)
        return
    # A plain file stands for a device file in a tree made for a test or a demonstration.
    if not stat.S_ISCHR(found.st_mode) and not stat.S_ISREG(found.st_mode):
        yield Health(f"{file.path} is not a character device")
    numbers = read_text(root / file.numbers)
    if stat.S_ISCHR(found.st_mode) and numbers is not None:
        actual = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
        if actual != numbers:
            yield Health(
                f"{file.path} has the device numbers {actual}, the kernel says {numbers}: "
                "the file is another device's"
            )
