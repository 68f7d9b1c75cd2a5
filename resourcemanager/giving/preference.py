"""Which of the free devices a container had best get."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import Literal

from accelet.accelerators.device import Device, DeviceId, UnitId

Policy = Literal["none", "balanced", "packed"]
"""`none`: in order of hardware, different units first. `balanced`: the unit with most free devices first.
`packed`: the unit with the fewest free devices that still fits, so that whole units stay free."""

Groups = Mapping[UnitId, Sequence[DeviceId]]
"""Free devices by unit, both in order of hardware."""


def prefer(
    devices: Sequence[Device],
    available: Collection[DeviceId],
    must_include: Collection[DeviceId],
    size: int,
    *,
    policy: Policy,
    valid_sets: Sequence[Set[DeviceId]] | None = None,
    avoid: Set[UnitId] = frozenset(),
) -> tuple[DeviceId, ...]:
    """Chooses `size` of `available`, with all of `must_include`; empty when that cannot be done.

    `devices` are those of the last scan in order of hardware. `valid_sets`, best first, are the only
    choices where they are given. The kubelet sends `available` in random order, with `must_include` in
    it; ids it sends that no device has are chosen last. Devices of the units to `avoid` are chosen after all
    other devices. The answer is deterministic.
    """
    free = set(available) | set(must_include)
    must = [device.id for device in devices if device.id in set(must_include)]
    must += sorted(set(must_include) - set(must))
    if len(must) > size or len(free) < size:
        return ()
    if valid_sets is not None:
        fitting = [valid for valid in valid_sets if valid <= free and set(must) <= valid]
        avoided = {device.id for device in devices if device.unit in avoid}
        return tuple(sorted(min(fitting, key=lambda valid: len(avoided.intersection(valid)), default=())))
    unit_of = {device.id: device.unit for device in devices}
    chosen = set(must)
    groups: dict[UnitId, list[DeviceId]] = defaultdict(list)
    for device in devices:
        if device.id in free and device.id not in chosen:
            groups[device.unit].append(device.id)
    used = {unit_of[device] for device in must if device in unit_of}
    picked = _PICK[policy](
        {unit: ids for unit, ids in groups.items() if unit not in avoid}, used, size - len(must)
    )
    rest = {unit: ids for unit, ids in groups.items() if unit in avoid}
    picked += _PICK[policy](rest, used, size - len(must) - len(picked))
    unknown = sorted(free - chosen - unit_of.keys())
    return tuple([*must, *picked, *unknown][:size])


def _in_order(free: Groups, used: Set[UnitId], need: int) -> list[DeviceId]:
    firsts = [ids[0] for unit, ids in free.items() if unit not in used]
    others = [device for unit, ids in free.items() for device in (ids if unit in used else ids[1:])]
    return (firsts + others)[:need]


def _balanced(free: Groups, used: Set[UnitId], need: int) -> list[DeviceId]:
    heap = [(unit in used, -len(ids), order, ids) for order, (unit, ids) in enumerate(free.items())]
    heapify(heap)
    picked: list[DeviceId] = []
    while heap and len(picked) < need:
        _, less, order, ids = heappop(heap)
        picked.append(ids[0])
        if len(ids) > 1:
            heappush(heap, (True, less + 1, order, ids[1:]))
    return picked


def _packed(free: Groups, used: Set[UnitId], need: int) -> list[DeviceId]:
    picked: list[DeviceId] = []
    left = dict(free)
    while left and len(picked) < need:
        short = need - len(picked)
        unit = min(left, key=lambda u: _packing_rank(len(left[u]), short, is_used=u in used))
        picked += left.pop(unit)[:short]
    return picked


def _packing_rank(free: int, need: int, *, is_used: bool) -> tuple[bool, bool, int]:
    fits = free >= need
    return (not is_used, not fits, free if fits else -free)


_PICK: Mapping[Policy, Callable[[Groups, Set[UnitId], int], list[DeviceId]]] = {
    "none": _in_order,
    "balanced": _balanced,
    "packed": _packed,
}
