"""Whether the limits leave room for one more slice, or for the whole of a set."""

from collections.abc import Iterable
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


def judge_room(wanted: Counted, every: Iterable[Counted], limits: Limits) -> str | None:
    """Why `wanted` may have no new pool now, None if it may.

    A set counts as a whole from its first pool on, so that none is begun that could not be ended.
    """
    sets = _by_set(every)
    own = sets.pop(wanted.set_key, [wanted])
    size = wanted.set_size
    if not limits.allow(size, size * wanted.chips):
        return f"{size} slices of {wanted.chips} chips are more than there ever may be: {limits}"
    slices = chips = 0
    for members in sets.values():
        used = _use(members)
        slices, chips = slices + used, chips + used * members[0].chips
    others = sum(max(1, one.held) for one in own if one.uid != wanted.uid)
    mine = others + max(0, size - len(own)) + wanted.held + 1
    slices, chips = slices + mine, chips + mine * wanted.chips
    if limits.allow(slices, chips):
        return None
    return f"waits for room: with it there would be {slices} slices of {chips} chips in all; {limits}"


def _by_set(every: Iterable[Counted]) -> dict[tuple[str, str], list[Counted]]:
    sets: dict[tuple[str, str], list[Counted]] = {}
    for one in every:
        sets.setdefault(one.set_key, []).append(one)
    return sets


def _use(members: list[Counted]) -> int:
    if not any(one.is_active for one in members):
        return sum(one.held for one in members)
    return sum(max(1, one.held) for one in members) + max(0, members[0].set_size - len(members))
