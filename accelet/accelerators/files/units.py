"""The devices that a group of files makes, and what it asked for in vain."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.edits import DeviceNode, Mount
from accelet.accelerators.files.globs import expand_glob, has_wildcards
from accelet.accelerators.files.groups import Group, GroupPath
from accelet.accelerators.files.ids import name_unit
from accelet.accelerators.files.usb import UsbFound
from accelet.accelerators.hostfiles import exists_on_host
from accelet.accelerators.inventory import Skipped


def find_path_units(root: Path, group: Group) -> Iterator[Device | Skipped]:
    """The n-th matches of each path, as far as every path has one."""
    present: list[tuple[GroupPath, tuple[str, ...]]] = []
    for path in group.paths:
        matches, dangling = _match(root, path)
        yield from dangling
        if matches:
            present.append((path, matches))
        elif not path.optional:
            yield from _skip_missing(group, path)
            return
    if not present:
        return
    natural = max(len(matches) for _, matches in present)
    length = min(natural, *(len(matches) * (path.limit or 1) for path, matches in present))
    for index in range(length):
        chosen = [(path, matches[index % len(matches)]) for path, matches in present]
        unit = name_unit([match for _, match in chosen])
        nodes = tuple(_node(path, match) for path, match in chosen if path.type == "Device")
        mounts = tuple(_mount(path, match) for path, match in chosen if path.type == "Mount")
        yield from _share(unit, group.count or 1, nodes, mounts)
    for _, matches in present:
        for match in matches[length:]:
            yield Skipped(
                match, "no-partner", "the other paths of its group have no match left to go with it"
            )


def _match(root: Path, path: GroupPath) -> tuple[tuple[str, ...], list[Skipped]]:
    matches: list[str] = []
    dangling: list[Skipped] = []
    for match in expand_glob(root, path.path):
        if exists_on_host(root, match):
            matches.append(match)
        else:
            reason = "it is a link to something that is not there"
            dangling.append(Skipped(match, "dangling-link", reason, name_unit([match])))
    return tuple(matches), dangling


def _skip_missing(group: Group, path: GroupPath) -> Iterator[Skipped]:
    is_one_file = len(group.paths) == 1 and not has_wildcards(path.path)
    reason = "there is no such file" if not has_wildcards(path.path) else "nothing matches it"
    yield Skipped(path.path, "no-match", reason, name_unit([path.path]) if is_one_file else None)


def find_usb_units(root: Path, group: Group, plugged: tuple[UsbFound, ...]) -> Iterator[Device | Skipped]:
    """All USB devices that match are one unit, named by what is asked for: replugging keeps the name."""
    if not group.usb:
        return
    unit = _name_usb(group)
    matching: list[UsbFound] = []
    for wanted in group.usb:
        found = [usb for usb in plugged if usb.is_one_of(wanted) and exists_on_host(root, usb.node)]
        matching += found
        if not found:
            serial = f" with serial {wanted.serial}" if wanted.serial else ""
            reason = f"no USB device {wanted.name}{serial} is plugged in"
            yield Skipped("/sys/bus/usb/devices", "no-usb-device", reason, unit)
    if matching:
        nodes = tuple(DeviceNode(usb.node, usb.node) for usb in sorted(set(matching)))
        yield from _share(unit, group.count or 1, nodes, ())


def _name_usb(group: Group) -> UnitId:
    first = group.usb[0]
    name = f"usb-{first.name.replace(':', '-')}"
    if len(group.usb) == 1 and not first.serial:
        return UnitId(name)
    asked = "\0".join(f"{wanted.name} {wanted.serial}" for wanted in group.usb)
    return UnitId(f"{name}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}")


def _share(
    unit: UnitId, count: int, nodes: tuple[DeviceNode, ...], mounts: tuple[Mount, ...]
) -> Iterator[Device]:
    for share in range(count) if count > 1 else (None,):
        suffix = "" if share is None else f"-s{share}"
        yield Device(DeviceId(f"{unit}{suffix}"), unit, nodes=nodes, mounts=mounts, share=share)


def _node(path: GroupPath, match: str) -> DeviceNode:
    asked = path.permissions or "rwm"
    permissions = "".join(letter for letter in "rwm" if letter in asked)
    return DeviceNode(match, path.mount_path or match, permissions)


def _mount(path: GroupPath, match: str) -> Mount:
    return Mount(match, path.mount_path or match, path.read_only)
