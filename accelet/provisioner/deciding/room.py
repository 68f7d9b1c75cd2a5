"""Whether the limits leave room for one more slice, or for the whole of a set."""

from collections.abc import Iterable, Mapping
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

    def __str__(self) -> str:
        return f"{self.slices} slices of {self.chips} chips"


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

    def judge(self, wanted: Counted, limits: Limits, parked: Iterable[Counted] = ()) -> str | None:
        """Why `wanted` may have no new pool now; None if it may.

        A set counts as a whole from its first pool on, so that none is begun that could not be ended. It is
        judged as if it took over the pools of `parked`. The sentence says nothing of what others use: with
        each of their changes all that wait would be written anew.
        """
        own = self._sets.get(wanted.set_key, {})
        places = _places_of({**own, wanted.uid: wanted}, wanted)
        if not limits.allow(places.slices, places.chips):
            return f"{places} in all are more than there ever may be: {limits}"
        with_it = self._with(wanted) - self._freed_by(parked)
        if limits.allow(with_it.slices, with_it.chips):
            return None
        return f"waits for room: its set has {places}, and there may be {limits} in all"

    def lacks(self, wanted: Counted, limits: Limits) -> RoomUse:
        """What there is too much of for `wanted` now; nothing where it never fits."""
        own = self._sets.get(wanted.set_key, {})
        places, with_it = _places_of({**own, wanted.uid: wanted}, wanted), self._with(wanted)
        if not limits.allow(places.slices, places.chips):
            return RoomUse()
        slices = 0 if limits.slices is None else with_it.slices - limits.slices
        chips = 0 if limits.chips is None else with_it.chips - limits.chips
        return RoomUse(max(0, slices), max(0, chips))

    def _with(self, wanted: Counted) -> RoomUse:
        """All that there would be with one more pool for `wanted`."""
        own = self._sets.get(wanted.set_key, {})
        places = _places_of({**own, wanted.uid: wanted}, wanted)
        more = wanted.held  # those of former attempts, while they are being deleted
        others = [one for one in own.values() if one.uid != wanted.uid]
        return self._all - _use_of(own) + places + _doubles_of(others) + RoomUse(more, more * wanted.chips)

    def _freed_by(self, parked: Iterable[Counted]) -> RoomUse:
        """What parked slices use, which are of other sets than the one that takes them."""
        going = {one.uid: one.set_key for one in parked}
        freed = RoomUse()
        for key in set(going.values()):
            members = self._sets.get(key, {})
            rest = {uid: one for uid, one in members.items() if uid not in going}
            freed += _use_of(members) - _use_of(rest)
        return freed


def _use_of(members: Mapping[str, Counted]) -> RoomUse:
    """That of one set."""
    return _places_of(members) + _doubles_of(members.values())


def _doubles_of(members: Iterable[Counted]) -> RoomUse:
    """The pools beyond each member's first: one is being deleted while the next comes."""
    doubles = [(max(0, one.held - 1), one.chips) for one in members]
    return RoomUse(sum(count for count, _ in doubles), sum(count * chips for count, chips in doubles))


def _places_of(members: Mapping[str, Counted], wanted: Counted | None = None) -> RoomUse:
    """One slice for each member that has a pool, `wanted` among them, and what the set lacks to be whole.

    Only a size that was judged makes others wait: that of a member that was begun. Which of the members
    make it whole is not known yet, so that the largest are taken for them.
    """
    held = [one for one in members.values() if one.held or one is wanted]
    sizes = [one.set_size for one in members.values() if one.is_active or one is wanted]
    need = max(0, max(sizes, default=0) - len(held))
    waiting = (one.chips for one in members.values() if not one.held and one is not wanted)
    largest = sorted(waiting, reverse=True)[:need]
    unknown = need - len(largest)
    most = max((one.chips for one in members.values()), default=0)
    return RoomUse(len(held) + need, sum(one.chips for one in held) + sum(largest) + unknown * most)
