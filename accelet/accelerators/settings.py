"""What every back-end's settings can do, and how two resources' settings may contradict each other."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from accelet.accelerators.backend import Backend
from accelet.accelerators.device import DeviceId
from accelet.accelerators.edits import Folder
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.runtime.settings import Contradiction


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of the node beside what a scan sees.

    `labels` are those of its Node, `ip` is its address. `remembered` is what the last inventory of the
    resource wanted remembered, as text that others may have changed; None if there is none.
    """

    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ip: str | None = None
    remembered: str | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One resource's hardware as the configuration states it.

    Types and constraints of the fields say what each may hold; `problems` what they may not say together.
    """

    def problems(self) -> tuple[Contradiction, ...]:
        """The contradictions in these settings; a back-end is made only where there are none."""
        return ()

    def overlaps(self, other: Any) -> bool:
        """Whether both may claim one unit, as far as settings alone tell; `other` is of this class."""
        raise NotImplementedError

    def backend(self, cache: ScanCache = uncached) -> Backend:
        """The back-end that does what these settings say; `cache` lets it scan together with others."""
        raise NotImplementedError

    def folders_of(self, devices: Collection[DeviceId]) -> tuple[Folder, ...]:
        """The host folders that a container with these devices mounts; they are made again when lost."""
        return ()

    @property
    def folder_parents(self) -> tuple[str, ...]:
        """The host folders that those of `folders_of` lie in."""
        return ()

    @property
    def wants_node_labels(self) -> bool:
        """Whether the back-end is to know its Node's labels, which only the API server can tell."""
        return False

    def backend_on(self, node: NodeFacts, cache: ScanCache = uncached) -> Backend:
        """The back-end on a node of which this is known."""
        return self.backend(cache)


def overlap(one: Settings, other: Settings) -> bool:
    """Whether two resources would hand out the same hardware, as far as their settings alone can tell.

    Where two globs leave it open the answer is no: only a scan can show it.
    """
    return type(one) is type(other) and one.overlaps(other)
