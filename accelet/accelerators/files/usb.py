"""USB devices by what /sys/bus/usb/devices says of them."""

import re
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.files.groups import UsbDevice
from accelet.accelerators.hostfiles import read_names, read_number, read_text

_MOST_NUMBER = 999
"""Device files have three digits."""


@dataclass(frozen=True, slots=True, order=True)
class UsbFound:
    """A device that is plugged in: its place (`1-1.4`), its numbers, its node `/dev/bus/usb/001/004`."""

    place: str
    name: str
    serial: str
    node: str

    def is_one_of(self, wanted: UsbDevice) -> bool:
        return self.name == wanted.name and (not wanted.serial or self.serial == wanted.serial)


def find_usb(root: Path) -> tuple[UsbFound, ...]:
    """Every USB device below `root` whose numbers can be read, in order of place."""
    folder = root / "sys/bus/usb/devices"
    found = (_read_usb(folder / name) for name in read_names(folder))
    return tuple(sorted(usb for usb in found if usb is not None))


def _read_usb(folder: Path) -> UsbFound | None:
    """Interfaces (`1-1:1.0`) and hubs' ports have no idVendor; neither has a device that just left."""
    vendor, product = (_read_id(folder / name) for name in ("idVendor", "idProduct"))
    bus, device = (read_number(folder / name, _MOST_NUMBER) for name in ("busnum", "devnum"))
    if vendor is None or product is None or bus is None or device is None:
        return None
    return UsbFound(
        place=folder.name,
        name=f"{vendor}:{product}",
        serial=read_text(folder / "serial") or "",
        node=f"/dev/bus/usb/{bus:03d}/{device:03d}",
    )


def _read_id(path: Path) -> str | None:
    """Four hexadecimal digits in small letters."""
    text = (read_text(path) or "").lower()
    return text.zfill(4) if re.fullmatch("[0-9a-f]{1,4}", text) else None
