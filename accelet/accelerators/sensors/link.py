"""A card's PCI Express link, and the errors on it.

Documentation/ABI/testing/sysfs-bus-pci and sysfs-bus-pci-devices-aer_stats.
"""

from collections.abc import Iterator
from pathlib import Path

from accelet.accelerators.hostfiles import read_names, read_text
from accelet.accelerators.sensors import sample
from accelet.accelerators.sensors.sensorfile import SensorFile

_BRIDGE, _INTEL = "0x0604", "0x8086"
_SEVERITIES = ("correctable", "nonfatal", "fatal")
_WIDTHS = {"current_link_width": sample.LINK_WIDTH, "max_link_width": sample.LINK_WIDTH_LIMIT}
_SPEEDS = {"current_link_speed": sample.LINK_SPEED, "max_link_speed": sample.LINK_SPEED_LIMIT}


def find_link(device: Path) -> Iterator[SensorFile]:
    """A card with a switch of its own says of itself that it has one slow lane: its link is the switch's.

    Errors are counted at each end, so those of the card and of its switch are added up.
    """
    up = "../../" if all(_is_intel_bridge(port) for port in (device.parent, device.parent.parent)) else ""
    names = read_names(device / up)
    for name in names:
        if name in _WIDTHS:
            yield SensorFile(f"{up}{name}", _WIDTHS[name], least=1.0, most=32.0)
        elif name in _SPEEDS:
            yield SensorFile(f"{up}{name}", _SPEEDS[name], scale=1e9, form="speed")
    for place in ("", "../", "../../") if up else ("",):
        present = read_names(device / place)
        for severity in _SEVERITIES:
            if f"aer_dev_{severity}" in present:
                yield SensorFile(f"{place}aer_dev_{severity}", sample.PCIE_ERRORS, (severity,), form="errors")


def _is_intel_bridge(folder: Path) -> bool:
    is_bridge = (read_text(folder / "class") or "").startswith(_BRIDGE)
    return is_bridge and read_text(folder / "vendor") == _INTEL
