"""What parked slices are to other requests: machines that are there already, or room that they take."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from accelet.provisioner.deciding.places import Counted, RoomUse
from accelet.provisioner.deciding.room import Limits, RoomBook
from accelet.provisioner.deciding.view import ParkedPool, SliceRecord
from accelet.provisioner.pools.pool import NodePool
from accelet.provisioner.pools.tiers import Attempt, Tier, TierError

_LEAVING: Final = frozenset(("Failing", "Releasing"))


@dataclass(frozen=True, slots=True)
class Party:
    """A request as far as others' parked slices concern it."""

    uid: str
    record: SliceRecord


@dataclass(frozen=True, slots=True)
class ParkedSlice:
    """A parked slice and its pool."""

    counted: Counted
    pool: NodePool


def given_of(party: Party, others: Iterable[Party]) -> frozenset[str]:
    """The pools that were `party`'s and are another's by now, `others` having some with marks not theirs.

    One that it is given back is its own from when it has written so down: who holds a pool says what is done
    with it, and that is one at a time.
    """
    marks = {party.uid, party.record.mark}
    return frozenset(
        other.record.pool
        for other in others
        if other.uid != party.uid
        and other.record.mark
        and other.record.mark in marks
        and not (other.record.taker == party.uid and other.record.pool == party.record.pool)
    )


def offers_for(
    wanted: Counted, members: Sequence[Counted], parked: Sequence[ParkedSlice], room: RoomBook, limits: Limits
) -> Iterator[ParkedPool]:
    """What `wanted` could take over, `members` being its whole set; those of its own set are its own already.

    A set takes several at one time, so that room is judged as if it took as many as it lacks.
    """
    need = max(1, wanted.set_size - sum(one.held > 0 for one in members if one.uid != wanted.uid))
    own = {"", *(one.uid for one in members)}
    parked = [one for one in parked if one.counted.set_key != wanted.set_key]
    for one in parked:
        record, pool = one.counted.record, one.pool
        try:
            attempt = Attempt(Tier.parse(record.tier), record.zone)
        except TierError:  # not as we write it
            continue
        alike = [
            other.counted
            for other in parked
            if other is not one
            and other.pool.fingerprint == pool.fingerprint
            and other.counted.record.taker in own
        ]
        no_room = room.judge(wanted, limits, [one.counted, *alike][:need])
        yield ParkedPool(
            one.counted.uid, pool.name, pool.mark, pool.fingerprint, attempt, record.taker, no_room
        )


def is_in_the_way(
    uid: str, waiting: Iterable[Counted], every: Iterable[Counted], room: RoomBook, limits: Limits
) -> bool:
    """Whether the end of a parked slice is what one of `waiting` needs."""
    lacks = (room.lacks(one, limits) for one in waiting)
    over = next((one for one in lacks if one != RoomUse()), None)
    if over is None:
        return False
    known = list(every)
    leaving = [one for one in known if one.record.phase in _LEAVING]
    return uid in _first_to_go(over, leaving, [one for one in known if one.record.phase == "Parked"])


def _first_to_go(over: RoomUse, leaving: Iterable[Counted], parked: Sequence[Counted]) -> set[str]:
    """Which make room for `over`, the longest parked first, beside those that are leaving already."""
    slices, chips = over.slices, over.chips
    for one in leaving:
        slices, chips = slices - 1, chips - one.chips
    going: set[str] = set()
    for one in sorted(parked, key=lambda one: (one.record.parked_s, one.uid)):
        if slices <= 0 and chips <= 0:
            break
        going.add(one.uid)
        slices, chips = slices - 1, chips - one.chips
    return going
