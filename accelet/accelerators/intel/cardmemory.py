"""What administrators say of the memory of cards whose kernel does not tell it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Final

from msgspec import Meta

from accelet.accelerators.device import Device
from accelet.accelerators.hostfiles import MOST_BYTES
from accelet.accelerators.intel.card import Card
from accelet.accelerators.intel.match import SERVED_DRIVERS
from accelet.accelerators.settings import PciDeviceId
from accelet.runtime.settings import Contradiction

MemoryAmount = Annotated[
    str,
    Meta(
        pattern=r"^[1-9][0-9]{0,18}(?:[kMGT]|[KMGT]i)?$",
        description="an amount of memory, as 6Gi; without a unit it is bytes",
    ),
]
"""A Kubernetes quantity without a fraction: no card has a part of a byte."""

MemoryByDevice = Annotated[
    dict[PciDeviceId, MemoryAmount],
    Meta(description="the memory of one card by its PCI device id, where the kernel does not tell it"),
]

_FACTORS: Final = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def bytes_of(amount: MemoryAmount) -> int:
    digits = amount.rstrip("kKMGTi")
    return int(digits) * _FACTORS.get(amount.removeprefix(digits), 1)


def memory_problems(memory: Mapping[PciDeviceId, MemoryAmount]) -> Iterator[Contradiction]:
    """What no card can have, and ids that are given twice in two writings."""
    seen: set[str] = set()
    for device, amount in memory.items():
        if bytes_of(amount) > MOST_BYTES:
            yield Contradiction(("memory", device), f"{amount} is more memory than any card has")
        if device.lower() in seen:
            yield Contradiction(("memory", device), f"{device.lower()} is given twice")
        seen.add(device.lower())


def with_memory(card: Card, memory: Mapping[PciDeviceId, MemoryAmount]) -> Card:
    """The card with the memory that is said of its kind, where the kernel does not tell its memory.

    Not of a virtual function: it has the PCI device id of its physical function, and a part of its memory.
    """
    if card.memory_bytes is not None or card.parent is not None:
        return card
    said = {device.lower(): amount for device, amount in memory.items()}.get(card.pci_device or "")
    return card if said is None else replace(card, memory_bytes=bytes_of(said))


def cards_of_unknown_memory(devices: Iterable[Device]) -> tuple[str, ...]:
    """The discrete cards of Intel whose memory is not known, with their PCI device ids: `card0 (0x56a5)`."""
    found = (
        f"{device.card} ({device.pci_device or 'of no known id'})"
        for device in devices
        if device.kind == "discrete" and device.driver in SERVED_DRIVERS
        if device.card is not None and device.memory_bytes is None
    )
    return tuple(dict.fromkeys(found))
