"""Who is told of ill devices, and when."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.dra.pool import Atom
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.hold import DeviceHold
from accelet.dra.preparing.notices import ToldDevices, find_notices

_units = st.sampled_from([UnitId("a"), UnitId("b"), UnitId("c")])
_holds = st.builds(
    DeviceHold,
    request=st.just("gpu"),
    pool=st.just("node-1"),
    device=st.sampled_from(["x", "y", "z"]),
    atoms=st.frozensets(st.tuples(_units, st.integers(0, 1)), min_size=1, max_size=3),
)
any_entry = st.builds(
    Entry,
    uid=st.sampled_from(["1", "2"]),
    digest=st.sampled_from(["old", "new"]),
    namespace=st.just("ml"),
    name=st.just("claim"),
    phase=st.just("completed"),
    holds=st.lists(_holds, max_size=2).map(tuple),
    answers=st.just(()),
    cdi=st.just(""),
)
_parts = st.tuples(_units, st.integers(0, 1))
_sick = st.dictionaries(_parts, st.sampled_from(["too hot", "gone"]))


def _ill(entries: list[Entry], sick: Mapping[Atom, str]) -> set[tuple[str, str]]:
    return {
        (entry.uid, hold.device)
        for entry in entries
        for hold in entry.holds
        if any(atom in sick for atom in hold.atoms)
    }


@given(st.lists(st.tuples(st.lists(any_entry, max_size=3), _sick), max_size=6))
def test_what_was_said_last_of_a_device_is_so(looks: list[tuple[list[Entry], Mapping[Atom, str]]]) -> None:
    """Nothing is said twice, and nothing that is so is left unsaid."""
    told: ToldDevices = frozenset()
    for entries, sick in looks:
        before = told
        notices, told = find_notices(entries, sick, told)
        assert told == _ill(entries, sick)
        said = {(notice.uid, notice.note.partition(" ")[0], notice.is_well) for notice in notices}
        assert len(said) == len(notices)
        assert {(uid, device) for uid, device, is_well in said if not is_well} == told - before
        held = {(entry.uid, hold.device) for entry in entries for hold in entry.holds}
        assert {(uid, device) for uid, device, is_well in said if is_well} == (before & held) - told
        again, same = find_notices(entries, sick, told)
        assert (again, same) == ((), told)
