"""Which part of which unit a device's id names, whatever resource and settings made the id."""

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from accelet.accelerators.device import UnitId
from accelet.accelerators.pci import PciAddress

_TILE_AND_SHARE: Final = re.compile(r"(?P<unit>.+?)(?:-t(?P<tile>[0-9]{1,6}))?(?:-s(?P<share>[0-9]{1,6}))?")
_SHARE: Final = re.compile(r"(?P<unit>.+)-s(?P<share>[0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class UnitPart:
    """A unit, or one tile of it; one share of that, or the whole (`is_share` False)."""

    unit: UnitId
    tile: int | None = None
    is_share: bool = False

    def overlaps(self, unit: UnitId, tile: int | None) -> bool:
        """Whether it has hardware in common with the unit, or that tile of it."""
        return unit == self.unit and (tile is None or self.tile is None or tile == self.tile)


def unit_named_by(device_id: str) -> str:
    """The unit that an id most likely is of, as people know it: by its PCI address where it is named so.

    For hardware that is gone; where it is there, `locate` knows.
    """
    found = _TILE_AND_SHARE.fullmatch(device_id)
    unit = device_id if found is None else found["unit"]
    return str(PciAddress.parse(unit) or unit)


def locate(device_id: str, units: Container[UnitId]) -> UnitPart | None:
    """The part of one of `units` that the id names; None if it names none of them.

    Ids are the unit's, then `-t<tile>`, then `-s<share>`. A unit's own name may end alike.
    """
    if (whole := UnitId(device_id)) in units:
        return UnitPart(whole)
    if (found := _SHARE.fullmatch(device_id)) and (unit := UnitId(found["unit"])) in units:
        return UnitPart(unit, is_share=True)
    found = _TILE_AND_SHARE.fullmatch(device_id)
    if found is None or (unit := UnitId(found["unit"])) not in units:
        return None
    tile = found["tile"]
    return UnitPart(unit, None if tile is None else int(tile), is_share=found["share"] is not None)
