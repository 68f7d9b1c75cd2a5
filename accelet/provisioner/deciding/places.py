"""How many slices a set has and will have, kept up with each change of one of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from accelet.provisioner.deciding.ranked import Ranked
from accelet.provisioner.deciding.view import SliceRecord

_ACTIVE: Final = frozenset(("Creating", "Joining", "Joined", "Ready", "Repairing", "Failing", "Releasing"))


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

    @property
    def doubles(self) -> "RoomUse":
        """Its pools beyond the first: one is being deleted while the next comes."""
        count = max(0, self.held - 1)
        return RoomUse(count, count * self.chips)


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


class SetPlaces:
    """The members of one set, and their sums: what it uses is told without a look at each of them."""

    __slots__ = (
        "_active",
        "_active_sizes",
        "_begun",
        "_chips",
        "_doubles",
        "_held",
        "_members",
        "_no_room_s",
        "_sizes",
        "_waiting_chips",
    )

    def __init__(self) -> None:
        self._members: dict[str, Counted] = {}
        self._held, self._doubles = RoomUse(), RoomUse()
        self._active = self._begun = 0
        self._sizes, self._active_sizes = Ranked(), Ranked()
        self._chips, self._waiting_chips = Ranked(), Ranked()
        self._no_room_s = Ranked()

    def __len__(self) -> int:
        return len(self._members)

    def set(self, one: Counted) -> None:
        """Takes a member over as it is now."""
        if (former := self._members.get(one.uid)) is not None:
            self._subtract(former)
        self._members[one.uid] = one
        self._add(one)

    def remove(self, uid: str) -> None:
        one = self._members.pop(uid, None)
        if one is not None:
            self._subtract(one)

    def _add(self, one: Counted) -> None:
        for numbers, number in self._numbers_of(one):
            numbers.add(number)
        self._count(one, 1)

    def _subtract(self, one: Counted) -> None:
        for numbers, number in self._numbers_of(one):
            numbers.remove(number)
        self._count(one, -1)

    def _numbers_of(self, one: Counted) -> Iterator[tuple[Ranked, float]]:
        yield self._sizes, one.set_size
        yield self._chips, one.chips
        if one.is_active:
            yield self._active_sizes, one.set_size
        if not one.held:
            yield self._waiting_chips, one.chips
        if one.record.no_room:
            yield self._no_room_s, one.record.since_s

    def _count(self, one: Counted, change: int) -> None:
        is_held = one.held > 0
        self._held += RoomUse(change * is_held, change * is_held * one.chips)
        self._doubles += RoomUse(change * one.doubles.slices, change * one.doubles.chips)
        self._active += change * one.is_active
        self._begun += change * (is_held or one.record.phase != "Pending")

    @property
    def has_active(self) -> bool:
        return self._active > 0

    @property
    def use(self) -> RoomUse:
        return self._whole(self._held, self._active_sizes.largest(), self._chips.largest()) + self._doubles

    @property
    def waits_since_s(self) -> float | None:
        """Since when a whole set waits for room, of which nothing has begun; None for any other."""
        is_whole = len(self._members) >= (self._sizes.largest() or 0)
        return self._no_room_s.smallest() if is_whole and not self._begun else None

    def places_with(self, wanted: Counted) -> RoomUse:
        """One slice for each member with a pool, `wanted` among them, and what the set lacks to be whole."""
        own = self._members.get(wanted.uid)
        held, size, chips, waiting = self._held, None, None, None
        if own is not None and own.held:
            held -= RoomUse(1, own.chips)
        if own is not None:
            size = own.set_size if own.is_active else None
            chips, waiting = own.chips, None if own.held else own.chips
        return self._whole(
            held + RoomUse(1, wanted.chips),
            max(self._active_sizes.largest(without=size) or 0, wanted.set_size),
            max(self._chips.largest(without=chips) or 0, wanted.chips),
            waiting,
        )

    def use_with(self, wanted: Counted) -> RoomUse:
        """What the set would use with one more pool for `wanted`.

        Those of its former attempts count while they are being deleted.
        """
        own = self._members.get(wanted.uid)
        doubles = self._doubles - (own.doubles if own is not None else RoomUse())
        former = RoomUse(wanted.held, wanted.held * wanted.chips)
        return self.places_with(wanted) + doubles + former

    def need(self) -> RoomUse:
        """What a set needs of which nothing has begun."""
        return self.places_with(next(iter(self._members.values())))

    def use_without(self, uids: Iterable[str]) -> RoomUse:
        """What the set would use if some of its members were not there."""
        gone = [self._members[uid] for uid in uids if uid in self._members]
        for one in gone:
            self._subtract(one)
        use = self.use
        for one in gone:
            self._add(one)
        return use

    def _whole(
        self, held: RoomUse, size: float | None, most_chips: float | None, without: int | None = None
    ) -> RoomUse:
        """That of a set of which `held` is there, once it is whole.

        Only a size that was judged makes others wait: that of a member that was begun. Which of the members
        make it whole is not known yet, so that the largest are taken for them.
        """
        need = max(0, int(size or 0) - held.slices)
        found, chips = self._waiting_chips.sum_of_largest(need, without=without)
        unknown = (need - found) * int(most_chips or 0)
        return held + RoomUse(need, int(chips) + unknown)
