"""What containers must see by their claims, and who must not hold what at one time.

Written from the documents alone (docs/dra.md, and how Level Zero numbers tiles); nothing of accelet is used.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

TILES_EACH = 2
FIRST_BUS = 0x40
"""Cards that no other test serves: who held those, the kubelet's checkpoint tells long after it ended."""

Part = tuple[str, int, int]
"""("card", its number, a tile of it), or ("chip", its number, 0)."""

VIEW = (
    'echo "view cards=$(ls /dev/dri 2>/dev/null | tr "\\n" ,) groups=$(ls /dev/vfio 2>/dev/null | tr "\\n" ,)'
    ' mask=$ZE_AFFINITY_MASK hierarchy=$ZE_FLAT_DEVICE_HIERARCHY"'
)
"""What a container runs to print its own view: one line."""

_VIEW = re.compile(r"view cards=(\S*) groups=(\S*) mask=(\S*) hierarchy=(\S*)")
_GPU = re.compile(r"gpu-0000-([0-9a-f]{2})-00-0(?:-tile-(\d+)|(-monitor))?")
CHIPS = ("00-0c-0", "00-0d-0", "00-0e-0", "00-0f-0", "80-00-0", "80-01-0", "80-02-0", "80-03-0")
"""The host's chips by their addresses without the domain, in order: a v5e-8 of Google's."""

_BOX = re.compile(r"chips-(\d+)-0000-(..-..-.)(?:-0000-(..-..-.))?")


def parts_of(results: Iterable[Mapping[str, Any]]) -> frozenset[Part]:
    """What the results of an allocation name."""
    return frozenset(part for result in results for part in _parts(str(result["device"])))


def _parts(device: str) -> Iterator[Part]:
    if box := _BOX.fullmatch(device):
        first, last = CHIPS.index(box[2]), CHIPS.index(box[3] or box[2])
        assert last - first + 1 == int(box[1]), device
        yield from (("chip", chip, 0) for chip in range(first, last + 1))
        return
    gpu = _GPU.fullmatch(device)
    assert gpu is not None, device
    card = int(gpu[1], 16) - FIRST_BUS
    tiles = [int(gpu[2])] if gpu[2] else range(TILES_EACH)
    yield from (("card", card, tile) for tile in tiles)


def seen_in(log: str, groups: Sequence[str] = ()) -> frozenset[Part] | None:
    """What a container that printed its view can use; None where it has not printed it.

    `groups` are the VFIO groups of the host's chips, in order of their PCI addresses.
    """
    view = _VIEW.search(log)
    if view is None:
        return None
    cards = sorted(int(card) for card in re.findall(r"\bcard(\d+)", view[1]))
    flat: list[Part] = [("card", card, tile) for card in cards for tile in range(TILES_EACH)]
    if view[3]:
        assert view[4] == "FLAT", view[0]
        flat = [flat[int(number)] for number in view[3].split(",")]
    chips: list[Part] = [
        ("chip", groups.index(group), 0) for group in view[2].strip(",").split(",") if group.isdigit()
    ]
    return frozenset([*flat, *chips])


@dataclass(frozen=True)
class Held:
    """What one pod's containers had, from when the first started to when the last ended.

    `millicores` of a card, where it is shared by request; None where what it has is its own.
    """

    pod: str
    parts: frozenset[Part]
    began: datetime
    ended: datetime
    millicores: int | None = None

    def is_beside(self, other: "Held") -> bool:
        """Whether there was a time at which both ran; the kubelet's times are whole seconds, cut off."""
        return self.began < other.ended and other.began < self.ended


def find_doubles(held: Sequence[Held]) -> list[str]:
    """Sentences on parts that two pods had at one time, but for those that shared them by request."""
    found = []
    for place, one in enumerate(held):
        beside = [other for other in held[place + 1 :] if one.is_beside(other) and one.parts & other.parts]
        found += [
            f"{one.pod} and {other.pod} both had {sorted(one.parts & other.parts)}"
            for other in beside
            if one.millicores is None or other.millicores is None
        ]
    return found + _find_too_much(held)


def _find_too_much(held: Sequence[Held]) -> list[str]:
    """Where most shares of a card are held, some share has just begun."""
    found = []
    for one in held:
        sharing = [other for other in held if other.millicores and other.parts & one.parts]
        at_once = [other for other in sharing if other.began <= one.began < other.ended]
        if one.millicores and sum(other.millicores or 0 for other in at_once) > 1000:
            found.append(f"more than 1000 millicores when {one.pod} began: {[each.pod for each in at_once]}")
    return found
