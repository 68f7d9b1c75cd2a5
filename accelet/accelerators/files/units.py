"""The devices that a group of files makes, and what it asked for in vain."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, UnitId
from accelet.accelerators.edits import DeviceNode, Mount
from accelet.accelerators.files.globs import expand_glob, has_wildcards
from accelet.accelerators.files.groups import Group, GroupPath
from accelet.accelerators.files.ids import name_unit
from accelet.accelerators.files.usb import UsbFound
from accelet.accelerators.hostfiles import exists_on_host, read_as_text
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.reading.hardwarereads import NO_ANSWER, HardwareReads, unanswered_health


class PathReads:
    """Looks for paths on the host, and remembers what a glob matched in case that its folder hangs one day.

    A path may lead to a network's file system, or to one that a process serves.
    """

    def __init__(self, expansions: HardwareReads, looks: HardwareReads) -> None:
        self._expansions, self._looks = expansions, looks
        self._last: Mapping[str, tuple[str, ...]] = {}

    def find(self, root: Path, groups: Sequence[Group]) -> "PathsFound":
        globs = {path.path for group in groups for path in group.paths}
        expanded = self._expansions.ask({glob: partial(expand_glob, root, glob) for glob in sorted(globs)})
        self._last = {glob: expanded.get(glob, self._last.get(glob, ())) for glob in globs}
        matches = sorted({match for found in self._last.values() for match in found})
        there = self._looks.ask({match: partial(exists_on_host, root, match) for match in matches})
        silent = globs - expanded.keys()
        return PathsFound(
            self._last, there, frozenset(silent).union(match for match in matches if match not in there)
        )


@dataclass(frozen=True, slots=True)
class PathsFound:
    """The matches of each glob, whether each match leads somewhere, and what did not answer: both kinds."""

    matches: Mapping[str, tuple[str, ...]]
    is_there: Mapping[str, bool]
    unanswered: frozenset[str]


_UNANSWERED: Final = unanswered_health("path")


def find_path_units(found: PathsFound, group: Group) -> Iterator[Device | Skipped]:
    """The n-th matches of each path, as far as every path has one."""
    present: list[tuple[GroupPath, tuple[str, ...]]] = []
    for path in group.paths:
        matches, unusable = _match(found, path)
        yield from unusable
        if matches:
            present.append((path, matches))
        elif not path.optional:
            yield from _skip_missing(found, group, path)
            return
    if not present:
        return
    natural = max(len(matches) for _, matches in present)
    length = min(natural, *(len(matches) * (path.limit or 1) for path, matches in present))
    for index in range(length):
        chosen = [(path, matches[index % len(matches)]) for path, matches in present]
        unit = name_unit([match for _, match in chosen])
        is_silent = any({path.path, match} & found.unanswered for path, match in chosen)
        nodes = tuple(_node(path, match) for path, match in chosen if path.type == "Device")
        mounts = tuple(_mount(path, match) for path, match in chosen if path.type == "Mount")
        yield from _share(unit, group.count or 1, nodes, mounts, _UNANSWERED if is_silent else HEALTHY)
    for _, matches in present:
        for match in matches[length:]:
            yield Skipped(
                match, "no-partner", "the other paths of its group have no match left to go with it"
            )


def _match(found: PathsFound, path: GroupPath) -> tuple[tuple[str, ...], list[Skipped]]:
    """Those that are there, or did not answer whether they are; and the others, which nobody can be given."""
    matches: list[str] = []
    unusable: list[Skipped] = []
    for match in found.matches[path.path]:
        if (shown := read_as_text(match)) != match:
            reason = "its name is not UTF-8, so no container can be given it: rename it"
            unusable.append(Skipped(shown, "bad-name", reason, name_unit([match])))
        elif found.is_there.get(match, True):
            matches.append(match)
        else:
            reason = "it is a link to something that is not there"
            unusable.append(Skipped(match, "dangling-link", reason, name_unit([match])))
    return tuple(matches), unusable


def _skip_missing(found: PathsFound, group: Group, path: GroupPath) -> Iterator[Skipped]:
    is_one_file = len(group.paths) == 1 and not has_wildcards(path.path)
    code, reason = (
        "no-match",
        "there is no such file" if not has_wildcards(path.path) else "nothing matches it",
    )
    if path.path in found.unanswered:
        code, reason = NO_ANSWER, _UNANSWERED.reason or ""
    yield Skipped(path.path, code, reason, name_unit([path.path]) if is_one_file else None)


def find_usb_units(root: Path, group: Group, plugged: tuple[UsbFound, ...]) -> Iterator[Device | Skipped]:
    """All USB devices that match are one unit, named by what is asked for: replugging keeps the name.

    The unit is unhealthy while one of them does not answer.
    """
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
        is_silent = not all(usb.answers for usb in matching)
        health = unanswered_health("USB device") if is_silent else HEALTHY
        yield from _share(unit, group.count or 1, nodes, (), health)


def _name_usb(group: Group) -> UnitId:
    first = group.usb[0]
    name = f"usb-{first.name.replace(':', '-')}"
    if len(group.usb) == 1 and not first.serial:
        return UnitId(name)
    asked = "\0".join(f"{wanted.name} {wanted.serial}" for wanted in group.usb)
    return UnitId(f"{name}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}")


def _share(
    unit: UnitId, count: int, nodes: tuple[DeviceNode, ...], mounts: tuple[Mount, ...], health: Health
) -> Iterator[Device]:
    for share in range(count) if count > 1 else (None,):
        suffix = "" if share is None else f"-s{share}"
        yield Device(DeviceId(f"{unit}{suffix}"), unit, health, nodes=nodes, mounts=mounts, share=share)


def _node(path: GroupPath, match: str) -> DeviceNode:
    asked = path.permissions or "rwm"
    permissions = "".join(letter for letter in "rwm" if letter in asked)
    return DeviceNode(match, path.mount_path or match, permissions)


def _mount(path: GroupPath, match: str) -> Mount:
    return Mount(match, path.mount_path or match, path.read_only)
