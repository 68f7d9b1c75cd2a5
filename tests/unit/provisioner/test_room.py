"""Room below the limits: kept up with every change, and the same as counted anew."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.slicerequest import Phase
from accelet.provisioner.deciding.room import Counted, Limits, RoomBook
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
    most = max(one.chips for one in members)
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
