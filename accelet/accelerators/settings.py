"""What every back-end's settings can do, and how two resources' settings may contradict each other."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from accelet.accelerators.backend import Backend
from accelet.accelerators.device import DeviceId
from accelet.accelerators.edits import Folder
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.runtime.settings import Contradiction

PciDeviceId = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{4}$", description="PCI device id, as 0x56c0")]
Glob = Annotated[str, Meta(min_length=1, description="shell pattern over PCI addresses, as 0000-8?-*")]
Shares = Annotated[int, Meta(ge=1, le=10_000, description="holders of one device at a time")]


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


def either(words: Collection[str]) -> str:
    return " or ".join(words)


def as_id(glob: str) -> str:
    """A pattern over PCI addresses in the writing of ids: `0000-03-*`."""
    return glob.lower().replace(":", "-")


def can_meet(one: Collection[str] | None, other: Collection[str] | None) -> bool:
    """Whether a value can be among both; None is any value."""
    return one is None or other is None or not set(one).isdisjoint(other)


def globs_meet(one: str, other: str) -> bool:
    """Two unlike patterns with wildcards in both are left open: the answer is no."""
    return one == other or fnmatchcase(one, other) or fnmatchcase(other, one)
