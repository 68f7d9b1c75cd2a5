"""Room below the limits: kept up with every change, and the same as counted anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.slicerequest import Phase
from accelet.provisioner.deciding.places import Counted, SetPlaces
from accelet.provisioner.deciding.room import Limits, RoomBook, Turns
from accelet.provisioner.deciding.view import SliceRecord

_COUNTED = st.builds(
    lambda uid, size, chips, phase, pools: Counted(
        uid, ("ns", uid[0]), size, chips, SliceRecord(phase, pool="p-1"), frozenset(pools)
    ),
    uid=st.sampled_from(("a1", "a2", "a3", "b1", "b2", "c1")),
    size=st.integers(1, 4),
    chips=st.sampled_from((0, 8, 16, 256)),
    phase=st.sampled_from(
        ("Pending", "Creating", "Joining", "Ready", "Failing", "BackingOff", "Releasing", "Parked")
    ),
    pools=st.sets(st.sampled_from(("p-1", "p-2")), max_size=2),
)
_CHANGES = st.lists(_COUNTED | st.sampled_from(("a1", "b2", "nobody")), min_size=1, max_size=20)


def _chips_of_set(members: Sequence[Counted], wanted: Counted | None) -> list[int]:
    """The chips of each slice there would be: those that are held, then what a judged size lacks."""
    more = {wanted.uid: 1} if wanted is not None else {}
    held = {one.uid: one.held + more.get(one.uid, 0) for one in members}
    slices = [one.chips for one in members for _ in range(held[one.uid])]
    sizes = [one.set_size for one in members if one.is_active or one.uid in more]
    need = max(0, max(sizes, default=0) - sum(count > 0 for count in held.values()))
    waiting = sorted((one.chips for one in members if not held[one.uid]), reverse=True)
    most = max((one.chips for one in members), default=0)
    return slices + [*waiting, *([most] * need)][:need]


def _needed(wanted: Counted, every: Sequence[Counted]) -> list[int]:
    """The chips of each slice there would be with one more pool for `wanted`."""
    slices: list[int] = []
    for key in {one.set_key for one in every}:
        members = [one for one in every if one.set_key == key]
        slices += _chips_of_set(members, wanted if wanted.set_key == key else None)
    return slices


@given(_CHANGES, st.integers(1, 14), st.integers(0, 1500))
def test_room_kept_up_with_changes_is_room_counted_anew(
    changes: list[Counted | str], most: int, most_chips: int
) -> None:
    book, known = RoomBook(), dict[str, Counted]()
    for change in changes:
        if isinstance(change, str):
            book.remove(change)
            known.pop(change, None)
        else:
            book.set(change)
            known[change.uid] = change
        for one in known.values():
            needed = _needed(one, list(known.values()))
            assert (book.judge(one, Limits(slices=most)) is None) == (len(needed) <= most)
            assert (book.judge(one, Limits(chips=most_chips)) is None) == (sum(needed) <= most_chips)
            over = book.lacks(one, Limits(slices=most))
            assert over.slices in (0, max(0, len(needed) - most))
            parked = [other for other in known.values() if other.record.phase == "Parked"]
            parked = [other for other in parked if other.set_key != one.set_key]
            rest = _needed(one, [other for other in known.values() if other not in parked])
            assert (book.judge(one, Limits(slices=most), parked) is None) == (len(rest) <= most)


_OF_ONE_SET = st.builds(
    lambda uid, size, phase, pools, no_room, since_s: Counted(
        uid, ("ns", "a"), size, 8, SliceRecord(phase, no_room=no_room, since_s=since_s), frozenset(pools)
    ),
    uid=st.sampled_from(("a1", "a2", "a3")),
    size=st.integers(1, 4),
    phase=st.sampled_from(("Pending", "Pending", "Pending", "Ready", "Parked")),
    pools=st.sampled_from(((), (), ("p-1",), ("p-1", "p-2"))),
    no_room=st.booleans(),
    since_s=st.sampled_from((1.0, 2.0, 3.0)),
)


@given(st.lists(st.tuples(_OF_ONE_SET, st.booleans()), max_size=10), st.sets(st.sampled_from(("a1", "a2"))))
def test_what_a_set_has_and_since_when_it_waits_are_as_counted_anew(
    changes: list[tuple[Counted, bool]], gone: set[str]
) -> None:
    places, known = SetPlaces(), dict[str, Counted]()
    for one, stays in changes:
        if stays:
            places.set(one)
            known[one.uid] = one
        else:
            places.remove(one.uid)
            known.pop(one.uid, None)
    every = list(known.values())
    rest = [one for one in every if one.uid not in gone]
    assert (len(places), places.has_active) == (len(every), any(one.is_active for one in every))
    assert places.use.slices == len(_chips_of_set(every, None))
    assert places.use_without(gone).slices == len(_chips_of_set(rest, None))
    assert places.use.slices == len(_chips_of_set(every, None)), "it is as it was"
    is_idle = all(one.record.phase == "Pending" and not one.pools for one in every)
    is_whole = len(every) >= max((one.set_size for one in every), default=0)
    since_s = [one.record.since_s for one in every if one.record.no_room]
    assert places.waits_since_s == (min(since_s, default=None) if is_idle and is_whole else None)


def _member(uid: str, chips: int, phase: Phase = "Pending", *, size: int = 2) -> Counted:
    return Counted(uid, ("ns", uid[0]), size, chips, SliceRecord(phase, pool=f"p-{uid}"), frozenset())


def test_slices_of_a_set_count_with_their_own_chips() -> None:
    book, small = RoomBook(), _member("a1", 8)
    book.set(small)
    book.set(_member("a2", 256))
    assert book.judge(small, Limits(chips=264)) is None
    assert book.judge(small, Limits(chips=263)) == (
        "2 slices of 264 chips in all are more than there ever may be: at most 263 chips"
    )


def test_a_size_that_was_never_judged_takes_no_room_from_others() -> None:
    book, other = RoomBook(), _member("b1", 8, size=1)
    book.set(_member("a1", 8, "Creating", size=1))
    book.set(_member("a2", 8, size=1000))
    book.set(other)
    assert book.judge(other, Limits(slices=2)) is None


def test_a_set_that_never_fits_is_told_so() -> None:
    book, one = RoomBook(), Counted("a1", ("ns", "a"), 3, 16, SliceRecord(), frozenset())
    book.set(one)
    why = book.judge(one, Limits(slices=2))
    assert why == "3 slices of 48 chips in all are more than there ever may be: at most 2 slices"


def test_one_that_went_is_judged_as_any_other() -> None:
    book, gone = RoomBook(), _member("a1", 8, size=1)
    assert book.judge(gone, Limits(slices=1)) is None
    assert book.judge(gone, Limits(slices=0)) is not None


@dataclass
class _Set:
    """A set as the simulation has it: when it came, and from when to when it runs."""

    key: tuple[str, str]
    size: int
    runs_s: float
    came_s: float
    began_s: float | None = None

    def members(self, now_s: float, *, waits: bool) -> list[Counted]:
        is_running = self.began_s is not None and now_s < self.began_s + self.runs_s
        found = []
        for index in range(self.size):
            uid = f"{self.key[0]}/{self.key[1]}-{index}"
            phase: Phase = "Ready" if is_running else "Pending"
            record = SliceRecord(phase, pool="p", since_s=self.came_s, no_room=waits)
            found.append(Counted(uid, self.key, self.size, 8, record, frozenset({"p"} if is_running else ())))
        return found


@dataclass
class _Queue:
    """Sets that come, wait for their turn, run for a while and go."""

    limits: Limits
    each: Limits
    reserve_s: float
    book: RoomBook = field(default_factory=RoomBook)
    sets: list[_Set] = field(default_factory=list)
    came: int = 0
    now_s: float = 1_000_000.0

    def come(self, namespace: str, size: int, runs_s: float) -> _Set:
        new = _Set((namespace, f"s{self.came}"), size, runs_s, self.now_s)
        self.came += 1
        self.sets.append(new)
        self._take(new, waits=True)
        return new

    def pass_time(self, seconds: float, order: Callable[[list[_Set]], None]) -> None:
        self.now_s += seconds
        for one in list(self.sets):
            if one.began_s is not None and self.now_s >= one.began_s + one.runs_s:
                self.sets.remove(one)
                for member in one.members(self.now_s, waits=False):
                    self.book.remove(member.uid)
        waiting = [one for one in self.sets if one.began_s is None]
        order(waiting)
        for one in waiting:
            first = one.members(self.now_s, waits=True)[0]
            if (
                self.book.judge(first, self.limits, turns=Turns(self.each, self.reserve_s, self.now_s))
                is None
            ):
                one.began_s = self.now_s
                self._take(one, waits=False)

    def _take(self, one: _Set, *, waits: bool) -> None:
        for member in one.members(self.now_s, waits=waits):
            self.book.set(member)

    def check(self) -> None:
        running = [one for one in self.sets if one.began_s is not None]
        assert self.limits.allow(sum(one.size for one in running), 8 * sum(one.size for one in running))
        for namespace in {one.key[0] for one in running}:
            own = sum(one.size for one in running if one.key[0] == namespace)
            assert self.each.allow(own, 8 * own)


_ARRIVALS = st.lists(
    st.tuples(st.sampled_from(("ml", "web", "dev")), st.integers(1, 4), st.integers(1, 20)), max_size=30
)


@given(_ARRIVALS, st.integers(4, 6), st.sampled_from((None, 4, 5)), st.randoms(use_true_random=False))
def test_every_set_gets_its_turn_and_the_limits_hold_at_every_instant(
    arrivals: list[tuple[str, int, int]], most: int, of_each: int | None, chance: Random
) -> None:
    """Looks come in any order: a set of the whole limit is not passed over by small ones for ever."""
    queue = _Queue(Limits(slices=most), Limits(slices=of_each), reserve_s=1_000_000.0)
    for namespace, size, minutes in arrivals:
        queue.come(namespace, size, 60.0 * minutes)
        queue.pass_time(chance.choice((0.0, 30.0, 60.0)), chance.shuffle)
        queue.check()
    oldest = [one for one in queue.sets if one.began_s is None]
    for _ in range(40 * len(oldest)):
        queue.pass_time(60.0, chance.shuffle)
        queue.check()
    assert not [one for one in queue.sets if one.began_s is None]


def test_a_large_set_is_not_overtaken_by_small_ones_that_come_later() -> None:
    queue = _Queue(Limits(slices=4), Limits(), reserve_s=3600.0)
    for _ in range(4):
        queue.come("web", 1, 600.0)
    queue.pass_time(0.0, list.reverse)
    large = queue.come("ml", 4, 600.0)
    for _ in range(49):
        queue.come("web", 1, 600.0)
        queue.pass_time(60.0, list.reverse)
    assert large.began_s is not None
    assert large.began_s - large.came_s == 600.0


def test_room_is_kept_for_a_while_and_then_not_for_as_long() -> None:
    """A set that does not get all it needs keeps nobody waiting for more than half of the time."""
    queue = _Queue(Limits(slices=4), Limits(), reserve_s=600.0)
    queue.come("web", 3, 1_000_000.0)
    queue.pass_time(0.0, list.reverse)
    large = queue.come("ml", 4, 600.0)
    small = queue.come("web", 1, 60.0)
    queue.pass_time(540.0, list.reverse)
    assert small.began_s is None
    queue.pass_time(60.0, list.reverse)
    assert small.began_s is not None
    assert large.began_s is None


def test_who_waits_for_its_namespaces_own_limit_keeps_no_other_waiting() -> None:
    queue = _Queue(Limits(slices=6), Limits(slices=4), reserve_s=3600.0)
    queue.come("ml", 3, 1_000_000.0)
    queue.pass_time(0.0, list.reverse)
    own = queue.come("ml", 4, 600.0)
    other, late = queue.come("web", 3, 600.0), queue.come("ml", 1, 600.0)
    queue.pass_time(60.0, list.reverse)
    assert (own.began_s, late.began_s) == (None, None), "of its own namespace the later one waits too"
    assert other.began_s is not None


def test_for_a_set_that_never_fits_no_room_is_kept() -> None:
    queue = _Queue(Limits(slices=4), Limits(slices=3), reserve_s=3600.0)
    for size in (5, 4):
        queue.come("ml", size, 60.0)
    queue.come("web", 2, 600.0)
    queue.pass_time(0.0, list.reverse)
    late = queue.come("ml", 3, 60.0)
    queue.pass_time(1.0, list.reverse)
    small = queue.come("dev", 2, 60.0)
    queue.pass_time(60.0, list.reverse)
    assert (late.began_s, small.began_s) == (None, None), "room is kept for the third set of ml"
    queue.pass_time(600.0, list.reverse)
    assert late.began_s is not None


def test_what_a_namespace_never_may_have_and_whose_turn_it_is_are_told() -> None:
    queue = _Queue(Limits(slices=4), Limits(slices=3), reserve_s=3600.0)
    too_large = queue.come("ml", 4, 60.0).members(queue.now_s, waits=True)[0]
    turns = Turns(queue.each, queue.reserve_s, queue.now_s)
    assert queue.book.judge(too_large, queue.limits, turns=turns) == (
        "4 slices of 32 chips in all are more than a namespace ever may have: at most 3 slices"
    )
    queue = _Queue(Limits(slices=4), Limits(), reserve_s=3600.0)
    queue.come("web", 2, 600.0)
    queue.pass_time(0.0, list.reverse)
    queue.come("ml", 4, 600.0)
    queue.now_s += 1.0
    late = queue.come("web", 1, 60.0).members(queue.now_s, waits=True)[0]
    assert queue.book.judge(late, queue.limits, turns=Turns(queue.each, 3600.0, queue.now_s)) == (
        "waits for its turn: room is kept for the set s1 of ml, which waits longer"
    )
