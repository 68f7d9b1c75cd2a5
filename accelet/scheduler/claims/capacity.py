"""How much of a device's capacity a request takes (consumable_capacity.go)."""

from collections.abc import Mapping
from math import ceil

from accelet.claims.slices import DeviceCapacity, ListedDevice
from accelet.kube.quantity import Quantity

Amounts = Mapping[str, Quantity]


def taken(device: ListedDevice, asked: Amounts) -> dict[str, Quantity]:
    """What the request takes of each capacity of the device, also of those it does not name."""
    return {name: _rounded(one, asked.get(name)) for name, one in device.capacity.items()}


def has_room(device: ListedDevice, asked: Amounts, held: Amounts, planned: Amounts) -> bool:
    """Whether the device has what is asked beside what is `held` of it and `planned` to be given.

    A name that the device does not have is no room. For a device that is not shared it is a filter.
    """
    if not set(asked) <= set(device.capacity):
        return False
    for name, amount in taken(device, asked).items():
        one = device.capacity[name]
        if not _is_allowed(one, amount) or held.get(name, 0) + amount + planned.get(name, 0) > one.value:
            return False
    return True


def _rounded(one: DeviceCapacity, asked: Quantity | None) -> Quantity:
    if asked is None:
        return one.value if one.default is None else one.default
    if one.least is not None:
        return _on_step(one.least, one.step, asked)
    return next((choice for choice in one.choices if asked <= choice), asked)


def _on_step(least: Quantity, step: Quantity | None, asked: Quantity) -> Quantity:
    """The next allowed amount from `least` on; whole numbers, as kube-scheduler calculates."""
    if asked < least:
        return least
    if step is None or not ceil(step):
        return asked
    first, width = ceil(least), ceil(step)
    return first + ceil((ceil(asked) - first) / width) * width


def _is_allowed(one: DeviceCapacity, amount: Quantity) -> bool:
    if one.default is not None and amount == one.default:
        return True
    if one.least is not None or one.most is not None or one.step is not None:
        if one.most is not None and amount > one.most:
            return False
        width = ceil(one.step) if one.step is not None else 0
        return not width or (ceil(amount) - ceil(one.least or 0)) % width == 0
    return not one.choices or amount in one.choices
