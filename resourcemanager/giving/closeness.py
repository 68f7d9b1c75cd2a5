"""Which of the free devices are closest to each other, where back-ends say what devices have in common."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from accelet.accelerators.device import Device, DeviceId, NearGroup

Groups = Mapping[DeviceId, tuple[NearGroup, ...]]
"""What each device is in, the widest group first."""


def choose_close(
    free: Sequence[DeviceId], picked: Collection[DeviceId], groups: Groups, need: int
) -> list[DeviceId]:
    """Chooses `need` of `free` that are closest to each other and to those already `picked`.

    Each two devices of the choice count what the groups are worth that both are in. The choice has the
    highest sum there is. Of equal choices it is the one that leaves the closest devices, so that the next
    container finds whole groups; then the first in order of `free`.

    The search is exact. Groups lie within each other, so the best of each follows from the best of its
    parts. The work grows with the square of the number of devices.
    """
    taken = set(picked)
    tree = _Branch()
    for device in (*picked, *(one for one in free if one not in taken)):
        tree.place(groups.get(device, ())).own.append(device)
    solved = _solve(tree, taken, _scale(tree))
    chosen: list[DeviceId] = []
    _collect(solved, len(taken) + need, chosen)
    return [device for device in chosen if device not in taken]


def groups_of(devices: Sequence[Device]) -> Groups:
    """The groups of all devices; empty where the devices of this resource have none."""
    return {device.id: device.groups for device in devices if device.groups}


@dataclass(slots=True)
class _Branch:
    """A group, the devices in it and in none of its parts, and its parts."""

    worth: int = 0
    own: list[DeviceId] = field(default_factory=list)
    parts: "dict[NearGroup, _Branch]" = field(default_factory=dict)

    def place(self, groups: tuple[NearGroup, ...]) -> "_Branch":
        branch = self
        for group in groups:
            branch = branch.parts.setdefault(group, _Branch(group.worth))
        return branch


@dataclass(frozen=True, slots=True)
class _Solved:
    """What a branch is worth by how many devices are taken of it; None where so many cannot be.

    `split` has for each number, and each part after the first, how many of them that part gives.
    """

    worths: list[int | None]
    own: list[DeviceId]
    parts: "list[_Solved]"
    splits: list[list[int]]


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _size(branch: _Branch) -> int:
    return len(branch.own) + sum(map(_size, branch.parts.values()))


def _scale(branch: _Branch) -> int:
    """More than all that is left can be worth, so that it decides between equal choices alone."""
    return 1 + _most(branch)


def _most(branch: _Branch) -> int:
    return branch.worth * _pairs(_size(branch)) + sum(map(_most, branch.parts.values()))


def _solve(branch: _Branch, taken: Collection[DeviceId], scale: int) -> _Solved:
    must = sum(device in taken for device in branch.own)
    worths: list[int | None] = [0 if count >= must else None for count in range(len(branch.own) + 1)]
    parts = [_solve(part, taken, scale) for part in branch.parts.values()]
    splits = []
    for part in parts:
        worths, split = _join(worths, part.worths)
        splits.append(split)
    size = len(worths) - 1
    for count, worth in enumerate(worths):
        if worth is not None:
            worths[count] = worth + branch.worth * (scale * _pairs(count) + _pairs(size - count))
    return _Solved(worths, branch.own, parts, splits)


def _join(first: list[int | None], second: list[int | None]) -> tuple[list[int | None], list[int]]:
    """The most that both together are worth by number of devices, and how many of those the second gives."""
    size = len(first) + len(second) - 1
    best: list[int] = [-1] * size
    split = [0] * size
    there = [(count, worth) for count, worth in enumerate(second) if worth is not None]
    for count, worth in enumerate(first):
        if worth is None:
            continue
        for further, more in there:
            if worth + more >= best[count + further]:  # at equal worth more of the first
                best[count + further] = worth + more
                split[count + further] = further
    return [worth if worth >= 0 else None for worth in best], split


def _collect(solved: _Solved, count: int, chosen: list[DeviceId]) -> None:
    for part, split in zip(reversed(solved.parts), reversed(solved.splits), strict=True):
        given = split[count]
        _collect(part, given, chosen)
        count -= given
    chosen += solved.own[:count]
