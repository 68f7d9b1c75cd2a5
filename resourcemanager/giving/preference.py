"""Which of the free devices a container had best get."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal

from accelet.accelerators.device import Device, DeviceId, UnitId

Policy = Literal["none", "balanced", "packed"]
"""`none`: different units first: those closest to each other, else in order of hardware.
`balanced`: the unit with most free devices first.
`packed`: the unit with the fewest free devices that still fits, so that whole units stay free.
Whatever the policy, a container is given different tiles before a second share of one."""

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
    picked = list(must)
    pick = _PICK[policy]
    if policy == "none" and any(device.groups for device in devices):
        pick = _by_closeness(devices, picked)
    for groups in _rounds(devices, free, set(must), avoid):
        if len(picked) < size:
            rest = _Rest.after(picked, devices, free)
            picked += pick(groups, rest, size - len(picked))
    unknown = sorted(free - {device.id for device in devices} - set(must))
    return tuple([*picked, *unknown][:size])


@dataclass(frozen=True, slots=True)
class _Rest:
    """The units of which something is picked already, and how many devices of each are still free."""

    used: Set[UnitId]
    free: Mapping[UnitId, int]

    @classmethod
    def after(cls, picked: Collection[DeviceId], devices: Sequence[Device], free: Set[DeviceId]) -> "_Rest":
        gone = set(picked)
        return cls(
            {device.unit for device in devices if device.id in gone},
            Counter(device.unit for device in devices if device.id in free - gone),
        )


def _rounds(
    devices: Sequence[Device], free: Set[DeviceId], must: Set[DeviceId], avoid: Set[UnitId]
) -> Iterator[Groups]:
    """What to pick from first, second and so on: no second share of a tile while another tile is free."""
    begun = {(device.unit, device.tile) for device in devices if device.id in must}
    rounds: dict[tuple[bool, bool], dict[UnitId, list[DeviceId]]] = {}
    for device in devices:
        if device.id in free and device.id not in must:
            tile = device.unit, device.tile
            is_second = device.tile is not None and tile in begun
            begun.add(tile)
            groups = rounds.setdefault((device.unit in avoid, is_second), {})
            groups.setdefault(device.unit, []).append(device.id)
    return (rounds[kind] for kind in sorted(rounds))


def _in_order(groups: Groups, rest: _Rest, need: int) -> list[DeviceId]:
    firsts = [ids[0] for unit, ids in groups.items() if unit not in rest.used]
    others = [device for unit, ids in groups.items() for device in (ids if unit in rest.used else ids[1:])]
    return (firsts + others)[:need]


def _by_closeness(devices: Sequence[Device], picked: list[DeviceId]) -> "_Pick":
    """As `_in_order`, but of different units those that are closest to each other and to what is `picked`."""
    from resourcemanager.giving.closeness import choose_close, groups_of  # noqa: PLC0415  few nodes need it

    known = groups_of(devices)

    def pick(groups: Groups, rest: _Rest, need: int) -> list[DeviceId]:
        firsts = [ids[0] for unit, ids in groups.items() if unit not in rest.used]
        if need >= len(firsts):
            return _in_order(groups, rest, need)
        return choose_close(firsts, picked, known, need)

    return pick


def _balanced(groups: Groups, rest: _Rest, need: int) -> list[DeviceId]:
    heap = [
        (unit in rest.used, -rest.free[unit], order, ids) for order, (unit, ids) in enumerate(groups.items())
    ]
    heapify(heap)
    picked: list[DeviceId] = []
    while heap and len(picked) < need:
        _, less, order, ids = heappop(heap)
        picked.append(ids[0])
        if len(ids) > 1:
            heappush(heap, (True, less + 1, order, ids[1:]))
    return picked


def _packed(groups: Groups, rest: _Rest, need: int) -> list[DeviceId]:
    picked: list[DeviceId] = []
    left = dict(groups)

    def rank(unit: UnitId) -> tuple[bool, bool, int]:
        short = need - len(picked)
        fits = len(left[unit]) >= short
        return unit not in rest.used, not fits, rest.free[unit] if fits else -len(left[unit])

    while left and len(picked) < need:
        unit = min(left, key=rank)
        picked += left.pop(unit)[: need - len(picked)]
    return picked


_Pick = Callable[[Groups, _Rest, int], list[DeviceId]]

_PICK: Mapping[Policy, _Pick] = {
    "none": _in_order,
    "balanced": _balanced,
    "packed": _packed,
}
