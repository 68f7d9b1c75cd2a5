"""Whether a container runtime can start a container with what the plugin gives it."""

import stat
from pathlib import Path
from typing import Final

from accelet.fakekubelet.conformance.bench import Bench, Check, FailedError, SkippedError
from accelet.fakekubelet.conformance.given import (
    CDI_ANNOTATIONS,
    cdi_faults,
    doubled_paths,
    environment_faults,
    path_faults,
    permission_faults,
)
from accelet.fakekubelet.pods import a_pod
from accelet.kubelet.api import deviceplugin_pb2 as api

_Answer = api.ContainerAllocateResponse
_MOST_FAULTS: Final = 3


async def _given(bench: Bench) -> _Answer:
    """What a container of all healthy devices is given: what two devices do to each other shows too.

    Raises:
        SkippedError: it is given nothing.
    """
    view = await bench.with_devices(1)
    record = await bench.kubelet.admit(a_pod("all", limits={view.resource: len(view.healthy)}))
    if record.rejection is not None:
        raise SkippedError(f"a container of all its devices is rejected (see A2): {record.rejection.message}")
    return bench.answer(record, view)


def _refuse(faults: list[str]) -> None:
    faults = list(dict.fromkeys(faults))
    if faults:
        more = f", and {len(faults) - _MOST_FAULTS} more" if len(faults) > _MOST_FAULTS else ""
        raise FailedError("; ".join(faults[:_MOST_FAULTS]) + more)


async def gives_absolute_paths(bench: Bench) -> str:
    """As `given.path_faults`, which names the sources."""
    answer = await _given(bench)
    _refuse(path_faults(answer))
    return _counted(len(answer.mounts) + len(answer.devices), "paths")


async def gives_each_path_once(bench: Bench) -> str:
    """As `given.doubled_paths`, which names the sources."""
    answer = await _given(bench)
    _refuse(doubled_paths(answer))
    return _counted(len(answer.mounts) + len(answer.devices), "paths")


async def gives_known_permissions(bench: Bench) -> str:
    """As `given.permission_faults`, which names the sources."""
    answer = await _given(bench)
    _refuse(permission_faults(answer))
    return _counted(len(answer.devices), "device files")


async def names_cdi_devices_in_full(bench: Bench) -> str:
    """As `given.cdi_faults`, which names the sources."""
    answer = await _given(bench)
    _refuse(cdi_faults(answer))
    annotations = sum(key.startswith(CDI_ANNOTATIONS) for key in answer.annotations)
    return _counted(len(answer.cdi_devices) + annotations, "CDI devices")


async def gives_usable_environment(bench: Bench) -> str:
    """As `given.environment_faults`, which names the sources."""
    answer = await _given(bench)
    _refuse(environment_faults(answer))
    return _counted(len(answer.envs), "variables")


def _counted(count: int, what: str) -> str:
    """The finding of a check, for which there has to be something.

    Raises:
        SkippedError: there is nothing.
    """
    if not count:
        raise SkippedError(f"its answers name no {what}")
    return f"{count} {what}"


async def gives_what_is_there(bench: Bench) -> str:
    """Device files and mounts that the host has when Allocate is answered.

    containerd fails the container for an absent device, and for one that is none ("not a device node",
    pkg/oci/utils_unix.go). Of an absent mount it makes an empty folder on the host
    (internal/cri/opts/spec_linux_opts.go). Where the host is a folder of the test, files count as devices.
    """
    answer = await _given(bench)
    faults = [
        f"{device.host_path} is {why}"
        for device in answer.devices
        if (why := _why_no_device(bench, device.host_path)) is not None
    ]
    faults += [
        f"{mount.host_path} is not on the host, and would become an empty folder"
        for mount in answer.mounts
        if _is_judged(mount.host_path) and _mode(bench.on_host(mount.host_path)) is None
    ]
    _refuse(faults)
    return _counted(len(answer.mounts) + len(answer.devices), "paths")


def _is_judged(path: str) -> bool:
    """Whether it is a path that can be there at all; what is none is G1's business."""
    return path.startswith("/") and "\0" not in path


def _why_no_device(bench: Bench, path: str) -> str | None:
    """Why containerd finds no device there; a folder stands for the devices in it."""
    if not _is_judged(path):
        return None
    mode = _mode(bench.on_host(path))
    if mode is None:
        return "not on the host"
    is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)
    return None if is_device or bench.host_root != "/" else "no device"


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError:
        return None


GIVING: Final[tuple[Check[Bench], ...]] = (
    Check("G1", "gives absolute paths", gives_absolute_paths),
    Check("G2", "gives each container path once", gives_each_path_once),
    Check("G3", "gives device permissions of r, w and m", gives_known_permissions),
    Check("G4", "names CDI devices in full", names_cdi_devices_in_full),
    Check("G5", "gives variables that a process can have", gives_usable_environment),
    Check("G6", "gives files that are there", gives_what_is_there),
)
