"""What makes a CDI file unusable. A runtime leaves out a file with one fault as a whole.

Source: CDI 1.1.0, pkg/parser/parser.go, pkg/cdi/{spec,device,container-edits}.go, specs-go/version.go.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

_KIND: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
"""A vendor or a class."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII)
_LONGEST_CLOSID: Final = 4096
_DIGITS: Final = frozenset("0123456789")
_TYPES: Final = ("b", "c", "u", "p")
_HOOKS: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
VERSIONS: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class DeviceNode(_Strict, frozen=True):
    """A device file of a container."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class CdiMount(_Strict, frozen=True):
    """A mount of a container."""

    host_path: str
    container_path: str
    options: list[str] | None = None
    type: str = ""


class CdiHook(_Strict, frozen=True):
    """A program that the runtime runs."""

    hook_name: str
    path: str
    args: list[str] | None = None
    env: list[str] | None = None
    timeout: int | None = None


class NetDevice(_Strict, frozen=True):
    """A network interface that moves into a container."""

    host_interface_name: str
    name: str


class IntelRdt(_Strict, frozen=True, rename=None):
    """Cache and memory bandwidth of a container."""

    closID: str = ""  # noqa: N815 - the file's name
    l3CacheSchema: str = ""  # noqa: N815 - the file's name
    memBwSchema: str = ""  # noqa: N815 - the file's name
    schemata: list[str] | None = None
    enableMonitoring: bool = False  # noqa: N815 - the file's name

    @property
    def is_new(self) -> bool:
        """Whether it says what only CDI 1.1.0 knows."""
        return self.schemata is not None or self.enableMonitoring


class Edits(_Strict, frozen=True):
    """What a device, or every device of a file, does to a container."""

    env: list[str] | None = None
    device_nodes: list[DeviceNode] | None = None
    net_devices: list[NetDevice] | None = None
    hooks: list[CdiHook] | None = None
    mounts: list[CdiMount] | None = None
    intel_rdt: IntelRdt | None = None
    additional_gids: list[int] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether they do nothing at all."""
        lists: Sequence[Sequence[object] | None] = (
            self.env,
            self.device_nodes,
            self.net_devices,
            self.hooks,
            self.mounts,
            self.additional_gids,
        )
        return not any(lists) and self.intel_rdt is None


class CdiDevice(_Strict, frozen=True):
    """A device by its name."""

    name: str
    container_edits: Edits
    annotations: dict[str, str] | None = None


class CdiFile(_Strict, frozen=True):
    """A whole file."""

    cdi_version: str
    kind: str
    devices: list[CdiDevice]
    annotations: dict[str, str] | None = None
    container_edits: Edits | None = None


def explain_bad_device_id(name: str) -> str | None:
    """Why `name` is not of the form `vendor.com/class=name`; None if it is."""
    kind, equals, device = name.partition("=")
    if not equals or "/" not in kind:
        return f"{name!r} is no CDI device: vendor.com/class=name is wanted"
    if (fault := _kind_fault(kind)) is not None:
        return f"{name!r} is no CDI device: {fault}"
    if _NAME.fullmatch(device) is None:
        return f"{name!r} is no CDI device: the name {device!r} has to be of letters, digits and _-.: alone"
    return None


def _kind_fault(kind: str) -> str | None:
    vendor, _, name = kind.partition("/")
    for what, text in (("vendor", vendor), ("class", name)):
        if len(text) == 1:
            return f"the {what} {text!r} has one character, at which runtimes with CDI 1.1.0 or older panic"
        if _KIND.fullmatch(text) is None:
            return f"the {what} {text!r} has to begin with a letter and be of letters, digits and _-. alone"
    return None


def file_faults(file: CdiFile) -> list[str]:
    """Why a runtime leaves out `file`; nothing if it takes it."""
    return list(_file_faults(file))


def _file_faults(file: CdiFile) -> Iterator[str]:
    version = file.cdi_version.removeprefix("v")
    if version not in VERSIONS:
        yield f"invalid version {file.cdi_version!r}"
    elif VERSIONS.index(version) < VERSIONS.index(least := least_version(file)):
        yield f"the spec version must be at least v{least}"
    if (odd := _kind_fault(file.kind)) is not None:
        yield odd
    if file.container_edits is not None:
        yield from _edit_faults(file.container_edits)
    if not file.devices:
        yield "invalid spec, no devices"
    names = [device.name for device in file.devices]
    yield from (f"invalid spec, multiple device {name!r}" for name in {*names} if names.count(name) > 1)
    for device in file.devices:
        if _NAME.fullmatch(device.name) is None:
            yield f"invalid device name {device.name!r}"
        if device.container_edits.is_empty:
            yield f"invalid device {device.name!r}, empty device edits"
        yield from (
            f"invalid device {device.name!r}: {each}" for each in _edit_faults(device.container_edits)
        )


def _edit_faults(edits: Edits) -> Iterator[str]:
    yield from _environment_faults(edits.env)
    for node in edits.device_nodes or ():
        yield from _node_faults(node)
    for mount in edits.mounts or ():
        if not mount.host_path:
            yield "invalid mount, empty host path"
        if not mount.container_path:
            yield "invalid mount, empty container path"
    for hook in edits.hooks or ():
        if hook.hook_name not in _HOOKS:
            yield f"invalid hook name {hook.hook_name!r}"
        if not hook.path:
            yield f"invalid hook {hook.hook_name!r} with empty path"
        yield from _environment_faults(hook.env)
    if edits.intel_rdt is not None and not _is_closid(edits.intel_rdt.closID):
        yield "invalid ClosID"
    yield from _interface_faults(edits.net_devices or ())


def _is_closid(text: str) -> bool:
    """A file's name, or `/` for the root's."""
    is_name = len(text) < _LONGEST_CLOSID and text not in (".", "..") and not {"/", "\n"} & set(text)
    return text == "/" or is_name


def _interface_faults(devices: Sequence[NetDevice]) -> Iterator[str]:
    for what, names in (
        ("HostInterfaceName", [device.host_interface_name for device in devices]),
        ("Name", [device.name for device in devices]),
    ):
        if "" in names:
            yield f"invalid linux net device, empty {what}"
        if len(set(names)) < len(names):
            yield f"invalid linux net device, duplicate {what}"


def _node_faults(node: DeviceNode) -> Iterator[str]:
    if not node.path:
        yield "invalid (empty) device path"
    if node.type and node.type not in _TYPES:
        yield f"device {node.path!r}: invalid type {node.type!r}"
    if set(node.permissions) - set("rwm"):
        yield f"device {node.path!r}: invalid permissions {node.permissions!r}"


def _environment_faults(variables: Sequence[str] | None) -> Iterator[str]:
    for line in variables or ():
        if line.find("=") <= 0:
            yield f"invalid environment variable {line!r}"


def least_version(file: CdiFile) -> str:
    """The oldest version of CDI in which `file` means what it says."""
    every = [device.container_edits for device in file.devices]
    if file.container_edits is not None:
        every.append(file.container_edits)
    needs: Mapping[str, bool] = {
        "1.1.0": any(
            edits.net_devices or (edits.intel_rdt is not None and edits.intel_rdt.is_new) for edits in every
        ),
        "0.7.0": any(edits.intel_rdt is not None or edits.additional_gids for edits in every),
        "0.6.0": bool(file.annotations)
        or any(device.annotations for device in file.devices)
        or "." in file.kind.partition("/")[2],
        "0.5.0": any(device.name[:1] in _DIGITS for device in file.devices)
        or any(node.host_path for edits in every for node in edits.device_nodes or ()),
        "0.4.0": any(mount.type for edits in every for mount in edits.mounts or ()),
    }
    return next((version for version, is_needed in needs.items() if is_needed), "0.3.0")
