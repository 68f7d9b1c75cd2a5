"""USB devices by what /sys/bus/usb/devices says of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from accelet.accelerators.files.groups import UsbDevice
from accelet.accelerators.hostfiles import read_inodes, read_number, read_text
from accelet.accelerators.reading.hardwarereads import HardwareReads

_USB_DEVICES: Final = "sys/bus/usb/devices"

_MOST_NUMBER = 999
"""Device files have three digits."""


@dataclass(frozen=True, slots=True, order=True)
class UsbFound:
    """A device that is plugged in: its place (`1-1.4`), its numbers, its node `/dev/bus/usb/001/004`.

    Where it no longer `answers` it is as it was last seen.
    """

    place: str
    name: str
    serial: str
    node: str
    answers: bool = True

    def is_one_of(self, wanted: UsbDevice) -> bool:
        return self.name == wanted.name and (not wanted.serial or self.serial == wanted.serial)


class UsbReads:
    """Reads USB devices one by one, and remembers each in case that it does not answer one day."""

    def __init__(self, reads: HardwareReads) -> None:
        self._reads = reads
        self._last: Mapping[tuple[str, int], UsbFound | None] = {}
        self.unanswered: tuple[str, ...] = ()

    def find(self, root: Path) -> tuple[UsbFound, ...]:
        """Every USB device below `root` whose numbers can be read, in order of place.

        One that does not answer is as it was last seen; one that never did is none.
        """
        folder = root / _USB_DEVICES
        entries = sorted(read_inodes(folder).items())
        answers = self._reads.ask({entry: partial(_read_usb, folder / entry[0]) for entry in entries})
        seen = {
            entry: answers[entry] if entry in answers else self._without_answer(entry) for entry in entries
        }
        self._last = seen
        self.unanswered = tuple(f"/{_USB_DEVICES}/{entry[0]}" for entry in entries if entry not in answers)
        return tuple(sorted(usb for usb in seen.values() if usb is not None))

    def _without_answer(self, entry: tuple[str, int]) -> UsbFound | None:
        last = self._last.get(entry)
        return None if last is None else replace(last, answers=False)


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
