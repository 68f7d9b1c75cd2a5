"""What every kind of accelerator must be able to say."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.errors import EditsError, ScanError
from accelet.accelerators.inventory import Inventory

__all__ = ["Backend", "EditsError", "ScanError", "Tiles", "has_tiles"]

Tiles = Mapping[UnitId, frozenset[int]]
"""Which tiles of a unit a container may use; a unit that is absent gives all of them."""


def has_tiles(tiles: Tiles) -> bool:
    """Whether a unit is restricted to some of several tiles: tile 0 alone is all there is of others."""
    return any(some - {0} for some in tiles.values())


class Backend(Protocol):
    """One resource's hardware: an object made from the resource's settings.

    What it remembers of the host saves reading the same again, and describes a unit that no longer answers.

    `scan` blocks on files and is called on a worker thread; the other methods are pure.
    """

    def scan(self, root: Path) -> Inventory:
        """Reads the hardware below `root`, the folder where the host's `sys/` and `dev/` are seen.

        Never raises for what one device's files say: such a device is unhealthy or skipped, each with
        its reason. So is one whose files do not answer in time (`HardwareReads`); `unanswered` names it.
        Paths in the answer are the host's own, without `root`.

        Raises:
            OSError: the scan as a whole could not be made (the caller keeps the last one); a ScanError
                where the sentence is ours.
        """
        ...

    def valid_sets(
        self, inventory: Inventory, size: int, available: Collection[DeviceId] | None = None
    ) -> Sequence[frozenset[DeviceId]] | None:
        """The sets of `size` devices that one container can use, best first; None if any set will do.

        `available` (None: all) are the devices that are free, for an order that minds what is left of them;
        sets with others in them are listed all the same.
        """
        ...

    def edits(
        self,
        inventory: Inventory,
        devices: Sequence[Device],
        tiles: Tiles,
        environment: Mapping[str, str],
    ) -> ContainerEdits:
        """What a container that got `devices` must be given.

        `devices` are of `inventory`, one or more, in any order. `tiles` restricts whole-unit devices to
        some of their tiles. `environment` is what the container sets itself, as far as it is known.

        Raises:
            EditsError: the devices cannot be used together.
        """
        ...
