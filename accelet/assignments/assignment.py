"""The cards and tiles that a scheduler wrote on a pod, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from accelet.accelerators.device import DeviceId, UnitId

MAX_TILE = 127
"""The largest tile number anybody may write; whether a card has it is for the inventory to say."""

MAX_COUNT = 10_000
"""The most shares of one unit anybody may write."""

MAX_TIME_NS = 2**63 - 1

ANY_RESOURCE = "*"
"""Stands for the resource name in the `gas-*` annotations, which name none."""


class AssignmentError(Exception):
    """What is written cannot be followed. The text is a sentence for the pod's status, with the place."""


class Naming(Enum):
    """How a piece says which unit it means."""

    CARD = "card"
    """By DRM name, `card3`, as GPU Aware Scheduling does; it may mean another card after a reboot."""

    UNIT = "unit"
    """By the stable name of the physical unit; any of its devices will do."""

    DEVICE = "device"
    """By device id: exactly this one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One unit, or some of its tiles (none named: all of them); `count` devices of it."""

    naming: Naming
    name: str
    tiles: frozenset[int] = frozenset()
    count: int = 1


Pieces = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one pod was assigned: pieces by container name, then by resource name.

    A container that is not in it was assigned nothing and forgotten; one with no pieces was thought of and
    given none. `decided_ns` is when the scheduler decided, in ns since the epoch, where it is written.
    """

    containers: Mapping[str, Mapping[str, Pieces]]
    decided_ns: int | None = None

    def pieces(self, container: str, resource: str) -> Pieces | None:
        """The pieces for one request; None where nothing is written about it."""
        resources = self.containers.get(container, {})
        return resources.get(resource, resources.get(ANY_RESOURCE))


def card(name: str, *tiles: int) -> Piece:
    return Piece(Naming.CARD, name, frozenset(tiles))


def unit(name: UnitId, *tiles: int, count: int = 1) -> Piece:
    return Piece(Naming.UNIT, name, frozenset(tiles), count)


def device(name: DeviceId) -> Piece:
    return Piece(Naming.DEVICE, name)
