"""What a container runtime makes of CDI devices: files in folders, and their edits in a container."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from accelet.fakekubelet.claims.cdirules import CdiFile, Edits, file_faults


class UnresolvableError(Exception):
    """A container names CDI devices that no file has. The text is the runtime's."""


@dataclass(frozen=True, slots=True)
class CdiEdits:
    """What CDI devices gave a container: environment, paths of device files, paths of mounts."""

    envs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    nodes: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()


NO_EDITS: Final = CdiEdits()


class CdiDevices:
    """The CDI devices of some folders as they are now. What is in a later folder counts."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._edits: dict[str, Sequence[Edits]] = {}
        self.problems: dict[Path, str] = {}
        for folder in folders:
            self._edits |= self._read(folder)

    def _read(self, folder: Path) -> dict[str, Sequence[Edits]]:
        found: dict[str, Sequence[Edits]] = {}
        doubled: set[str] = set()
        for path in sorted(folder.glob("*")):
            decode = {".json": msgspec.json.decode, ".yaml": msgspec.yaml.decode}.get(path.suffix)
            if decode is None:
                continue
            try:
                file: CdiFile = decode(path.read_bytes(), type=CdiFile)
            except (OSError, msgspec.MsgspecError) as error:
                self.problems[path] = str(error)  # the runtime leaves out the whole file
                continue
            if faults := file_faults(file):
                self.problems[path] = faults[0]  # and this one
                continue
            common = [] if file.container_edits is None else [file.container_edits]
            for device in file.devices:
                name = f"{file.kind}={device.name}"
                if name in found:
                    doubled.add(name)
                    self.problems[path] = f"{name} is in another file too"
                found[name] = [*common, device.container_edits]
        return {name: edits for name, edits in found.items() if name not in doubled}

    def inject(self, ids: Iterable[str]) -> CdiEdits:
        """The edits of these devices, each once, in their order; of a variable given twice the last counts.

        Raises:
            UnresolvableError: some of them are in no file.
        """
        names = tuple(dict.fromkeys(ids))
        if missing := [name for name in names if name not in self._edits]:
            raise UnresolvableError(
                f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}"
            )
        edits = [each for name in names for each in self._edits[name]]
        envs = dict(line.partition("=")[::2] for each in edits for line in each.env or ())
        nodes = dict.fromkeys(node.path for each in edits for node in each.device_nodes or ())
        mounts = dict.fromkeys(mount.container_path for each in edits for mount in each.mounts or ())
        return CdiEdits(MappingProxyType(envs), tuple(nodes), tuple(mounts))
