"""Whether the limits leave room for one more slice, or for the whole of a set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from accelet.provisioner.deciding.view import SliceRecord

BEGINNING: Final = frozenset(("Pending", "Failing"))
"""Phases from which a new pool may be asked for; in all others it does not matter whether there is room."""

_ACTIVE: Final = frozenset(("Creating", "Joining", "Joined", "Ready", "Repairing", "Failing", "Releasing"))


@dataclass(frozen=True, slots=True)
class Limits:
    """How much there may be at one time, None for any amount."""

    slices: int | None = None
    chips: int | None = None

    def allow(self, slices: int, chips: int) -> bool:
        return (self.slices is None or slices <= self.slices) and (self.chips is None or chips <= self.chips)

    def __str__(self) -> str:
        parts = [f"{self.slices} slices"] if self.slices is not None else []
        parts += [f"{self.chips} chips"] if self.chips is not None else []
        return f"at most {' and '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Counted:
    """One request as the limits count it. `pools` are those that exist, being deleted ones too."""

    uid: str
    set_key: tuple[str, str]
    set_size: int
    chips: int
    record: SliceRecord
    pools: frozenset[str]

    @property
    def held(self) -> int:
        """How many pools it has or is about to have."""
        is_coming = self.record.phase == "Creating" and self.record.pool not in self.pools
        return len(self.pools) + is_coming

    @property
    def is_active(self) -> bool:
        return self.record.phase in _ACTIVE


@dataclass(frozen=True, slots=True)
class RoomUse:
    """How much is used, or will be once the sets that are begun are whole."""

    slices: int = 0
    chips: int = 0

    def __add__(self, other: "RoomUse") -> "RoomUse":
        return RoomUse(self.slices + other.slices, self.chips + other.chips)

    def __sub__(self, other: "RoomUse") -> "RoomUse":
        return RoomUse(self.slices - other.slices, self.chips - other.chips)


class RoomBook:
    """What all requests use, kept up with each change: to judge one costs what its own set has."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], dict[str, Counted]] = {}
        self._set_of: dict[str, tuple[str, str]] = {}
        self._all = RoomUse()

    def set(self, counted: Counted) -> None:
        """Takes a request over as it is now."""
        if self._set_of.get(counted.uid) != counted.set_key:
            self.remove(counted.uid)
        members = self._sets.setdefault(counted.set_key, {})
        self._all -= _use_of(members)
        members[counted.uid] = counted
        self._all += _use_of(members)
        self._set_of[counted.uid] = counted.set_key

    def remove(self, uid: str) -> None:
        key = self._set_of.pop(uid, None)
        if key is None:
            return
        members = self._sets[key]
        self._all -= _use_of(members)
        del members[uid]
        self._all += _use_of(members)
        if not members:
            del self._sets[key]

    def judge(self, wanted: Counted, limits: Limits) -> str | None:
        """Why `wanted`, as it was taken over, may have no new pool now; None if it may.

        A set counts as a whole from its first pool on, so that none is begun that could not be ended.
        """
        size = wanted.set_size
        if not limits.allow(size, size * wanted.chips):
            return f"{size} slices of {wanted.chips} chips are more than there ever may be: {limits}"
        own = self._sets[wanted.set_key]
        others = sum(max(1, one.held) for one in own.values() if one.uid != wanted.uid)
        mine = others + max(0, size - len(own)) + wanted.held + 1
        with_it = self._all - _use_of(own) + RoomUse(mine, mine * wanted.chips)
        if limits.allow(with_it.slices, with_it.chips):
            return None
        return (
            f"waits for room: with it there would be {with_it.slices} slices of {with_it.chips} chips "
            f"in all; {limits}"
        )


def _use_of(members: Mapping[str, Counted]) -> RoomUse:
    """That of one set."""
    if not members:
        return RoomUse()
    one, held = next(iter(members.values())), [max(1, member.held) for member in members.values()]
    if any(member.is_active for member in members.values()):
        slices = sum(held) + max(0, one.set_size - len(members))
    else:
        slices = sum(member.held for member in members.values())
    return RoomUse(slices, slices * one.chips)
