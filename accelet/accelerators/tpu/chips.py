"""Chips made of PCI functions: which functions are chips, and which belong to one."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from accelet.accelerators.device import DeviceId
from accelet.accelerators.tpu.generation import Generation
from accelet.accelerators.tpu.scanning.sysfs import VFIO_DRIVER, Function, slot_of
from accelet.accelerators.tpu.table import FOREIGN_FUNCTIONS, UNDESCRIBED_CHIPS, generation_of

_FOREIGN_CLASSES: Final = {
    "0x01": "a disk",
    "0x02": "a network card",
    "0x03": "a display",
    "0x06": "a bridge",
}


@dataclass(frozen=True, slots=True)
class Chip:
    """The PCI functions of one chip, its first one naming it, and its generation where it is known."""

    functions: tuple[Function, ...]
    generation: Generation | None

    @property
    def id(self) -> DeviceId:
        address = self.functions[0].address
        joined = self.generation is not None and self.generation.functions_per_chip > 1
        return DeviceId(slot_of(address) if joined else address.as_id)


def find_foreign(function: Function) -> str | None:
    """Why a function of Google's is no TPU chip."""
    if function.device in FOREIGN_FUNCTIONS:
        return f"it is {FOREIGN_FUNCTIONS[function.device]}, by its PCI device id {function.device}"
    if generation_of(function.device, function.subsystem_device) is not None:
        return None
    if function.device in UNDESCRIBED_CHIPS:
        return None
    kind = _FOREIGN_CLASSES.get((function.pci_class or "")[:4])
    if kind is not None:
        return f"it is {kind}, by its PCI class {function.pci_class}"
    if function.accel is None and function.driver != VFIO_DRIVER:
        return (
            f"its PCI device id {function.device} is not known, "
            f"and neither a TPU driver nor {VFIO_DRIVER} is bound"
        )
    return None


def join_functions(functions: Sequence[Function]) -> list[Chip]:
    chips: list[Chip] = []
    for _, group in groupby(functions, key=lambda function: slot_of(function.address)):
        known: dict[Generation, list[Function]] = {}
        for function in group:
            generation = generation_of(function.device, function.subsystem_device)
            if generation is None or generation.functions_per_chip == 1:
                chips.append(Chip((function,), generation))
            else:
                known.setdefault(generation, []).append(function)
        chips += [Chip(tuple(parts), generation) for generation, parts in known.items()]
    return chips
