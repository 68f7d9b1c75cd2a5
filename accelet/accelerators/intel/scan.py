"""All Intel GPUs of a node, and every candidate that is none with its reason."""

import re
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.device import UnitId
from accelet.accelerators.hostfiles import read_link_name, read_names, read_text
from accelet.accelerators.intel.card import Card
from accelet.accelerators.intel.sysfs import INTEL, CardFolder
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.pci import PciAddress

_DISPLAY_CLASS = "0x03"
_CARD_NAME = re.compile(r"card([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Found:
    """What one look at sysfs found, in order of hardware."""

    cards: tuple[Card, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()


def find_cards(root: Path) -> Found:
    """Reads every card below `root`; a node without DRM has none.

    Raises:
        OSError: /sys/class/drm is there and cannot be listed.
    """
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
    known = {*cards, *(skip.unit for skip in skipped)}
    skipped += _functions_without_drm(root, known)
    ordered = sorted(cards.values(), key=lambda card: card.hardware_order)
    return Found(tuple(ordered), tuple(skipped), tuple(warnings))


def _card_names(root: Path) -> list[str]:
    """`card0`, not its connectors (`card0-HDMI-A-1`) nor render nodes; in order of number."""
    try:
        names = [entry.name for entry in (root / "sys/class/drm").iterdir()]
    except FileNotFoundError:
        return []
    return sorted(filter(_CARD_NAME.fullmatch, names), key=lambda name: (int(name[4:]), name))


def _functions_without_drm(root: Path, known: set[UnitId | None]) -> list[Skipped]:
    """Intel display functions on the PCI bus of which DRM knows nothing: unbound, or given to a guest."""
    skipped = []
    bus = root / "sys/bus/pci/devices"
    for name in read_names(bus):
        if not (read_text(f"{bus}/{name}/class") or "").startswith(_DISPLAY_CLASS):
            continue
        address = PciAddress.parse(name)
        if address is None or address.as_id in known or read_text(f"{bus}/{name}/vendor") != INTEL:
            continue
        driver = read_link_name(bus / name / "driver")
        code, reason = _why_no_drm(driver)
        skipped.append(Skipped(f"/sys/bus/pci/devices/{name}", code, reason, UnitId(address.as_id)))
    return skipped


def _why_no_drm(driver: str | None) -> tuple[str, str]:
    if driver is None:
        return "no-driver", "no driver is bound to it"
    if driver in ("i915", "xe"):
        return "no-drm", f"its driver {driver} offers no DRM card for it; see the kernel log"
    return "driver-not-served", f"it is bound to {driver}, which makes no DRM nodes of it"
