"""PCI addresses: read, written, in order."""

import re
from dataclasses import dataclass
from typing import Self

_PATTERN = re.compile(r"([0-9a-f]{4,8})[:-]([0-9a-f]{2})[:-]([0-9a-f]{2})\.([0-7])")


@dataclass(frozen=True, slots=True, order=True)
class PciAddress:
    """Domain, bus, device and function; the order is that of the numbers, as Level Zero has it.

    Domains of more than four digits exist: Intel's VMD makes 0x10000 and up.
    """

    domain: int
    bus: int
    device: int
    function: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Reads `0000:03:00.0`, and `0000-03-00.0` as in ids; None if `text` is neither."""
        match = _PATTERN.fullmatch(text.strip().lower())
        return cls(*(int(part, 16) for part in match.groups())) if match else None

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function:x}"

    @property
    def as_id(self) -> str:
        """The address with only characters that an id may have: `0000-03-00.0`."""
        return str(self).replace(":", "-")
