"""All Intel GPUs of a node, and every candidate that is none with its reason."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from accelet.accelerators.device import CARD_NAME, UnitId
from accelet.accelerators.hostfiles import read_inodes, read_link_name, read_text
from accelet.accelerators.intel.card import Card
from accelet.accelerators.intel.sysfs import INTEL, CardFolder
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.reading.devicememory import read_capacities
from accelet.accelerators.reading.hardwarereads import NO_ANSWER, HardwareReads, unanswered_health

_BUS = "sys/bus/pci/devices"
_DISPLAY_CLASS = "0x03"
_CARD_NAME = re.compile(CARD_NAME)


@dataclass(frozen=True, slots=True)
class CardScan:
    """What one look at sysfs found, in order of hardware.

    `unanswered` are the host paths of the cards, and of the PCI functions, that did not answer.
    """

    cards: tuple[Card, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()


class CardFinder:
    """Looks for the cards of one node, again and again; not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._cards = _CardReads()
        self._functions = _DisplayFunctions()

    def __call__(self, root: Path) -> CardScan:
        """Reads every card below `root`; a node without DRM has none.

        Raises:
            OSError: /sys/class/drm is there and cannot be listed.
        """
        found = self._cards.find(root)
        known = {card.unit for card in found.cards} | {skip.unit for skip in found.skipped}
        without_drm = tuple(_functions_without_drm(root, self._functions.find(root), known))
        unanswered = found.unanswered + self._functions.unanswered
        return replace(found, skipped=found.skipped + without_drm, unanswered=unanswered)


_Entry = tuple[str, int]
"""A name in a folder of sysfs, and the inode that tells its entry from the next one of that name."""


class _CardReads:
    """Reads the cards one by one, and remembers each in case that it does not answer one day."""

    def __init__(self) -> None:
        self._reads = HardwareReads()
        self._last: Mapping[_Entry, Card | Skipped] = {}

    def find(self, root: Path) -> CardScan:
        regions = read_capacities(root)
        folders = {entry: CardFolder(root, entry[0], regions) for entry in _card_entries(root)}
        answers = self._reads.ask({entry: folder.read_card for entry, folder in folders.items()})
        seen = {
            entry: answers[entry] if entry in answers else self._without_answer(entry, folder)
            for entry, folder in folders.items()
        }
        self._last = seen
        cards: dict[UnitId, Card] = {}
        skipped: list[Skipped] = []
        for entry, found in seen.items():
            if isinstance(found, Skipped):
                skipped.append(found)
            elif found.unit in cards:
                taken = f"has the same PCI address as {cards[found.unit].name}"
                skipped.append(Skipped(folders[entry].host_path, "duplicate-unit", taken))
            else:
                cards[found.unit] = found
        return CardScan(
            tuple(sorted(cards.values(), key=lambda card: card.hardware_order)),
            tuple(skipped),
            tuple(warning for entry in answers for warning in folders[entry].warnings),
            tuple(folder.host_path for entry, folder in folders.items() if entry not in answers),
        )

    def _without_answer(self, entry: _Entry, folder: CardFolder) -> Card | Skipped:
        """The card as it was last seen, its health unknown; skipped where it never was."""
        unanswered, last = unanswered_health("card"), self._last.get(entry)
        if isinstance(last, Card):
            return replace(last, health=unanswered)
        unit = folder.guess_unit() if last is None else last.unit
        return Skipped(folder.host_path, NO_ANSWER, unanswered.reason or "", unit)


def _card_entries(root: Path) -> list[_Entry]:
    """`card0`, not its connectors (`card0-HDMI-A-1`) nor render nodes; in order of number."""
    try:
        with os.scandir(root / "sys/class/drm") as entries:
            found = [(one.name, one.inode()) for one in entries if _CARD_NAME.fullmatch(one.name)]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda entry: (int(entry[0][4:]), entry[0]))


class _DisplayFunctions:
    """Intel's display functions on the PCI bus.

    A server has hundreds of functions, and each stays what it is as long as its entry on the bus is the
    same one: they are read again only when the entries are others, or some did not answer.
    """

    def __init__(self) -> None:
        self._reads = HardwareReads()
        self._entries: Mapping[str, int] = {}
        self._found: tuple[str, ...] = ()
        self.unanswered: tuple[str, ...] = ()

    def find(self, root: Path) -> tuple[str, ...]:
        bus = root / _BUS
        entries = read_inodes(bus)
        if entries != self._entries:
            reads = {entry: partial(_is_intel_display, f"{bus}/{entry[0]}") for entry in entries.items()}
            answers = self._reads.ask(reads)
            self._found = tuple(sorted(name for (name, _), is_one in answers.items() if is_one))
            self.unanswered = tuple(f"/{_BUS}/{name}" for name, _ in sorted(reads.keys() - answers.keys()))
            self._entries = {} if self.unanswered else entries
        return self._found


def _is_intel_display(function: str) -> bool:
    is_display = (read_text(f"{function}/class") or "").startswith(_DISPLAY_CLASS)
    return is_display and read_text(f"{function}/vendor") == INTEL


def _functions_without_drm(
    root: Path, functions: Iterable[str], known: Set[UnitId | None]
) -> Iterator[Skipped]:
    """Those functions of which DRM knows nothing: unbound, or given to a guest."""
    for name in functions:
        address = PciAddress.parse(name)
        if address is not None and address.as_id not in known:
            code, reason = _why_no_drm(read_link_name(root / _BUS / name / "driver"))
            yield Skipped(f"/{_BUS}/{name}", code, reason, UnitId(address.as_id))


def _why_no_drm(driver: str | None) -> tuple[str, str]:
    if driver is None:
        return "no-driver", "no driver is bound to it"
    if driver in ("i915", "xe"):
        return "no-drm", f"its driver {driver} offers no DRM card for it; see the kernel log"
    return "driver-not-served", f"it is bound to {driver}, which makes no DRM nodes of it"
