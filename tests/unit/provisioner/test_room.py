"""Room below the limits: kept up with every change, and the same as counted anew."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from accelet.provisioner.deciding.room import Counted, Limits, RoomBook
from accelet.provisioner.deciding.view import SliceRecord

_SET_SIZE, _CHIPS = 2, 16
_COUNTED = st.builds(
    lambda uid, phase, pools: Counted(
        uid, ("ns", uid[0]), _SET_SIZE, _CHIPS, SliceRecord(phase, pool="p-1"), frozenset(pools)
    ),
    uid=st.sampled_from(("a1", "a2", "b1", "b2", "c1")),
    phase=st.sampled_from(("Pending", "Creating", "Joining", "Ready", "Failing", "BackingOff", "Releasing")),
    pools=st.sets(st.sampled_from(("p-1", "p-2")), max_size=2),
)
_CHANGES = st.lists(_COUNTED | st.sampled_from(("a1", "b2", "nobody")), min_size=1, max_size=20)


def _needed(wanted: Counted, every: Sequence[Counted]) -> int:
    """How many slices there would be with one more pool for `wanted`, counted by sets."""
    slices = 0
    for name in {one.set_key for one in every}:
        members = [one for one in every if one.set_key == name]
        if name == wanted.set_key:
            others = [one for one in members if one.uid != wanted.uid]
            slices += sum(max(1, one.held) for one in others) + _SET_SIZE - len(members) + wanted.held + 1
        elif any(one.is_active for one in members):
            slices += sum(max(1, one.held) for one in members) + _SET_SIZE - len(members)
        else:
            slices += sum(one.held for one in members)
    return slices


@given(_CHANGES, st.integers(_SET_SIZE, 12))
def test_room_kept_up_with_changes_is_room_counted_anew(changes: list[Counted | str], most: int) -> None:
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
            assert (book.judge(one, Limits(slices=most)) is None) == (needed <= most)
            assert (book.judge(one, Limits(chips=most * _CHIPS)) is None) == (needed <= most)


def test_a_set_that_never_fits_is_told_so() -> None:
    book, one = RoomBook(), Counted("a1", ("ns", "a"), 3, 16, SliceRecord(), frozenset())
    book.set(one)
    why = book.judge(one, Limits(slices=2))
    assert why == "3 slices of 16 chips are more than there ever may be: at most 2 slices"
