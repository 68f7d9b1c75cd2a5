"""Plain files as devices, held by as many claims at a time as the settings allow."""

from collections.abc import Sequence

from accelet.dra.names import label_of
from accelet.dra.pool import HOLDERS, Capacity, PoolDevice
from accelet.dra.publishing.attributes import LONGEST_TEXT, text_attribute
from accelet.dra.publishing.served import ServedUnit


def file_devices(units: Sequence[ServedUnit]) -> tuple[PoolDevice, ...]:
    """One device for each unit, with its resource's name for classes to choose by."""
    return tuple(_device(unit) for unit in units)


def _device(unit: ServedUnit) -> PoolDevice:
    name = unit.resource.name
    # Longer names than an attribute holds are told by their last part.
    told = name if len(name) <= LONGEST_TEXT else name.rpartition("/")[2]
    is_shared = unit.shares > 1
    return PoolDevice(
        name=f"file-{label_of(unit.unit)}",
        kind="file",
        atoms=frozenset({(unit.unit, 0)}),
        attributes={"type": "file", "resource": told, **text_attribute("unit", unit.unit)},
        capacities={HOLDERS: Capacity(unit.shares, 1, 1, 1, is_fixed=True)} if is_shared else {},
        is_shareable=is_shared,
    )
