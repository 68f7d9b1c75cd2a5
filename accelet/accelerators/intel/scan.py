"""All Intel GPUs of a node, and every candidate that is none with its reason."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from accelet.accelerators.device import CARD_NAME, UnitId
from accelet.accelerators.hostfiles import read_inodes, read_link_name, read_text
from accelet.accelerators.intel.card import Card
from accelet.accelerators.intel.sysfs import INTEL, CardFolder
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.pci import PciAddress

_BUS = "sys/bus/pci/devices"
_DISPLAY_CLASS = "0x03"
_CARD_NAME = re.compile(CARD_NAME)


@dataclass(frozen=True, slots=True)
class CardScan:
    """What one look at sysfs found, in order of hardware."""

    cards: tuple[Card, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()


class CardFinder:
    """Looks for the cards of one node, again and again; not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._functions = _DisplayFunctions()

    def __call__(self, root: Path) -> CardScan:
        """Reads every card below `root`; a node without DRM has none.

        Raises:
            OSError: /sys/class/drm is there and cannot be listed.
        """
        found = _find_cards(root)
        known = {card.unit for card in found.cards} | {skip.unit for skip in found.skipped}
        without_drm = tuple(_functions_without_drm(root, self._functions.find(root), known))
        return replace(found, skipped=found.skipped + without_drm)


def _find_cards(root: Path) -> CardScan:
    cards: dict[UnitId, Card] = {}
    skipped: list[Skipped] = []
    warnings: list[str] = []
    for name in _card_names(root):
        folder = CardFolder(root, name, warnings)
        found = folder.read_card()
        if isinstance(found, Skipped):
            skipped.append(found)
        elif found.unit in cards:
            taken = f"has the same PCI address as {cards[found.unit].name}"
            skipped.append(Skipped(folder.host_path, "duplicate-unit", taken))
        else:
            cards[found.unit] = found
    ordered = sorted(cards.values(), key=lambda card: card.hardware_order)
    return CardScan(tuple(ordered), tuple(skipped), tuple(warnings))


def _card_names(root: Path) -> list[str]:
    """`card0`, not its connectors (`card0-HDMI-A-1`) nor render nodes; in order of number."""
    try:
        names = [entry.name for entry in (root / "sys/class/drm").iterdir()]
    except FileNotFoundError:
        return []
    return sorted(filter(_CARD_NAME.fullmatch, names), key=lambda name: (int(name[4:]), name))


class _DisplayFunctions:
    """Intel's display functions on the PCI bus.

    A server has hundreds of functions, and each stays what it is as long as its entry on the bus is the
    same one: they are read again only when the entries are others.
    """

    def __init__(self) -> None:
        self._entries: Mapping[str, int] = {}
        self._found: tuple[str, ...] = ()

    def find(self, root: Path) -> tuple[str, ...]:
        bus = root / _BUS
        entries = read_inodes(bus)
        if entries != self._entries:
            self._found = tuple(name for name in sorted(entries) if _is_intel_display(f"{bus}/{name}"))
            self._entries = entries
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
