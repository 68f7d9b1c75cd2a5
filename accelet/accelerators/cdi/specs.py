"""Which devices the CDI specifications on a host have, and of which device nodes each consists.

The rules are those of CDI 1.1.0 (container-device-interface, pkg/cdi): files that end in `.json` or `.yaml`,
in /etc/cdi and then in /var/run/cdi. A later folder's device replaces one of the same name, and two of one
folder cancel each other. A container runtime whose configuration names other folders looks elsewhere.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from accelet.accelerators.hostfiles import read_names

FOLDERS: Final = ("etc/cdi", "var/run/cdi")
MOST_BYTES: Final = 4 << 20
"""Of one specification; that of 8 GPUs with 7 instances each takes some 100 kB."""

MOST_FILES: Final = 64
"""Of one folder: more specifications than that are not read."""

_ENDINGS = (".json", ".yaml")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class SpecifiedDevice:
    """A device: its name within its kind, the paths of its nodes in the container, and the file it is in."""

    name: str
    nodes: frozenset[str]
    file: str


@dataclass(frozen=True, slots=True)
class SpecifiedDevices:
    """The devices of one kind by name; `files` have them. `problems` says what of files is not understood."""

    by_name: Mapping[str, SpecifiedDevice] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[str, ...] = ()
    files: int = 0


class CdiReader:
    """Reads the devices of one kind (`nvidia.com/gpu`), again and again; a file only when it has changed.

    Not safe for use by several threads at once.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._read: dict[str, tuple[_Stamp, _File]] = {}

    def find(self, root: Path) -> SpecifiedDevices:
        """The devices whose specifications lie below `root`; never raises for what a file says."""
        kept: dict[str, tuple[_Stamp, _File]] = {}
        by_name: dict[str, SpecifiedDevice] = {}
        problems: list[str] = []
        for folder in FOLDERS:
            files = [self._file(root, path, kept) for path in _specifications(root, folder)]
            problems += (file.problem for file in files if file.problem)
            by_name |= _of_folder(files, problems)
        self._read = kept
        of_kind = sum(bool(file.devices) for _, file in kept.values())
        return SpecifiedDevices(MappingProxyType(by_name), tuple(problems), of_kind)

    def _file(self, root: Path, path: str, kept: "dict[str, tuple[_Stamp, _File]]") -> "_File":
        stamp, before = _stamp(root / path), self._read.get(path)
        if before is None or before[0] != stamp:
            before = stamp, _read_file(root, path, self._kind)
        kept[path] = before
        return before[1]


_Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class _File:
    devices: tuple[SpecifiedDevice, ...] = ()
    problem: str | None = None


class _Node(msgspec.Struct, frozen=True):
    path: str


class _Edits(msgspec.Struct, frozen=True):
    nodes: list[_Node] | None = msgspec.field(name="deviceNodes", default=None)


class _Device(msgspec.Struct, frozen=True):
    name: str
    edits: _Edits = msgspec.field(name="containerEdits", default_factory=_Edits)


class _Specification(msgspec.Struct, frozen=True):
    kind: str
    devices: list[_Device] | None = None


def _specifications(root: Path, folder: str) -> Iterator[str]:
    names = [name for name in read_names(root / folder) if name.endswith(_ENDINGS)]
    return (f"{folder}/{name}" for name in names[:MOST_FILES])


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read_file(root: Path, path: str, kind: str) -> _File:
    host_path = f"/{path}"
    try:
        specification = _parse(_read_bounded(root / path), is_json=path.endswith(".json"))
    except (OSError, ValueError, RecursionError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0][:200]
        return _File(problem=f"{host_path} is no CDI specification that can be read: {said}")
    if specification.kind != kind:
        return _File()
    devices = (
        SpecifiedDevice(device.name, frozenset(node.path for node in device.edits.nodes or ()), host_path)
        for device in specification.devices or ()
    )
    return _File(tuple(devices))


def _read_bounded(path: Path) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        content = opened.read(MOST_BYTES + 1)
    if len(content or b"") > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES} bytes")
    return content or b""


def _parse(content: bytes, *, is_json: bool) -> _Specification:
    """The specification that a file's content is. As for a container runtime, one wrong name spoils it all.

    Raises:
        ValueError: it is not JSON or YAML, or not of the form of a specification.
        RecursionError: it is nested too deep.
    """
    if is_json:
        found = msgspec.json.decode(content, type=_Specification)
    else:
        found = msgspec.convert(_load_yaml(content), _Specification)
    wrong = next((one.name for one in found.devices or () if _NAME.fullmatch(one.name) is None), None)
    if wrong is not None:
        raise ValueError(f"{wrong[:64]!r} is no name of a device")
    return found


def _load_yaml(content: bytes) -> Any:
    from accelet.runtime.foreign.yamltext import load_yaml  # noqa: PLC0415  for nodes with specifications alone

    return load_yaml(content)


def _of_folder(files: list[_File], problems: list[str]) -> dict[str, SpecifiedDevice]:
    found: dict[str, SpecifiedDevice] = {}
    twice: set[str] = set()
    for device in (device for file in files for device in file.devices):
        first = found.setdefault(device.name, device)
        if first is not device and device.name not in twice:
            twice.add(device.name)
            both = " and ".join(dict.fromkeys((first.file, device.file)))
            problems.append(f"the CDI device {device.name} is there twice, in {both}: nobody can be given it")
    return {name: device for name, device in found.items() if name not in twice}
