"""What is wrong with an answer to Allocate, as a container runtime would find it. Nothing here is called.

Each function returns a sentence for each fault. The kubelet hands answers on unread
(pkg/kubelet/cm/devicemanager/pod_devices.go), so the container, and not the plugin, fails for them.
"""

from collections.abc import Iterator
from posixpath import normpath
from typing import Final

from accelet.fakekubelet.claims.cdirules import explain_bad_device_id
from accelet.kubelet.api import deviceplugin_pb2 as api

CDI_ANNOTATIONS: Final = "cdi.k8s.io/"
"""Annotations of this prefix name CDI devices, several separated by commas."""


def path_faults(answer: api.ContainerAllocateResponse) -> list[str]:
    """Paths that are not absolute, or that no file can have.

    containerd looks for a relative host path in its own working directory and makes a missing one there
    (internal/cri/opts/spec_linux_opts.go). runc warns of a relative container path, and refuses a NUL
    (libcontainer/specconv/spec_linux.go). Nothing can be mounted over the container's root.
    """
    return [
        f"the {where} path {path!r} {fault}"
        for where, path in _paths(answer)
        if (fault := _path_fault(where, path)) is not None
    ]


def _paths(answer: api.ContainerAllocateResponse) -> Iterator[tuple[str, str]]:
    for mount in answer.mounts:
        yield from (("host", mount.host_path), ("container", mount.container_path))
    for device in answer.devices:
        yield from (("host", device.host_path), ("container", device.container_path))


def _path_fault(where: str, path: str) -> str | None:
    if not path.startswith("/"):
        return "is not absolute"
    if "\0" in path:
        return "has a NUL character"
    if where == "container" and _clean(path) == "/":
        return "is the container's root"
    return None


def _clean(path: str) -> str:
    """As Go's filepath.Clean: Python keeps a second slash at the beginning."""
    return "/" + normpath(path).lstrip("/") if path.startswith("/") else normpath(path)


def doubled_paths(answer: api.ContainerAllocateResponse) -> list[str]:
    """Container paths for which different things are asked.

    Of two mounts or two devices of one path the kubelet drops the later one and writes that to its log
    alone (pkg/kubelet/cm/devicemanager/pod_devices.go, deviceRunContainerOptions). A mount hides a device.
    """
    given: dict[str, set[tuple[object, ...]]] = {}
    for mount in answer.mounts:
        given.setdefault(_clean(mount.container_path), set()).add((mount.host_path, mount.read_only))
    for device in answer.devices:
        wanted = ("a device", device.host_path, device.permissions)
        given.setdefault(_clean(device.container_path), set()).add(wanted)
    return [
        f"{path} is given {len(different)} times, for different files or rights"
        for path, different in sorted(given.items())
        if len(different) > 1
    ]


def permission_faults(answer: api.ContainerAllocateResponse) -> list[str]:
    """Device permissions other than some of `r`, `w` and `m`.

    runc starts no container with them: "unknown device access" (opencontainers/cgroups,
    devices/devicefilter.go), or "device access … cannot be empty" (libcontainer/specconv/spec_linux.go).
    """
    return [
        f"the permissions of {device.container_path} are {device.permissions!r}; r, w and m are known"
        for device in answer.devices
        if not device.permissions or set(device.permissions) - set("rwm")
    ]


def cdi_faults(answer: api.ContainerAllocateResponse) -> list[str]:
    """Names of CDI devices that are not of the form `vendor.com/class=name`.

    containerd finds no such device, and refuses annotations that name one (CDI, pkg/parser/parser.go and
    pkg/cdi/annotations.go; containerd, internal/cri/opts/spec_linux.go, WithCDI).
    """
    names = [device.name for device in answer.cdi_devices]
    for key, value in sorted(answer.annotations.items()):
        if key.startswith(CDI_ANNOTATIONS):
            names += value.split(",")
    return [fault for name in names if (fault := explain_bad_device_id(name)) is not None]


def environment_faults(answer: api.ContainerAllocateResponse) -> list[str]:
    """Variables that no process can have.

    A runtime joins name and value by `=`, so that of a name `A=B` only `A` is left. runc starts no container
    with an empty name or a NUL (libcontainer/env.go, prepareEnv).
    """
    faults = []
    for name, value in sorted(answer.envs.items()):
        if not name:
            faults.append("a variable has no name")
        elif "=" in name:
            faults.append(f"the variable {name!r} has a = in its name; its process finds another one")
        if "\0" in name or "\0" in value:
            faults.append(f"the variable {name!r} has a NUL character")
    return faults
