"""Prepared claims are found by their marks as a look at each of them finds them."""

from collections.abc import Callable, Collection, Iterable

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.hold import DeviceHold

_few = st.sampled_from("abc")
_units = st.sampled_from([UnitId("u"), UnitId("v"), UnitId("w")])
_holds = st.builds(
    DeviceHold,
    request=_few,
    pool=st.just("n"),
    device=_few,
    atoms=st.frozensets(st.tuples(_units, st.integers(0, 1)), max_size=2),
)
_entries = st.builds(
    Entry,
    uid=_few,
    digest=_few,
    namespace=_few,
    name=_few,
    phase=st.just("completed"),
    holds=st.lists(_holds, max_size=2).map(tuple),
    answers=st.just(()),
    cdi=st.just(""),
)
_steps = st.lists(st.tuples(st.booleans(), _entries), max_size=20)


def _units_of(entry: Entry) -> set[UnitId]:
    return {unit for hold in entry.holds for unit, _ in hold.atoms}


@given(_steps, st.lists(_holds, max_size=2), st.frozensets(_units), st.frozensets(_few), _few)
def test_neighbours_are_those_that_a_look_at_each_finds(
    steps: list[tuple[bool, Entry]],
    holds: list[DeviceHold],
    units: frozenset[UnitId],
    names: frozenset[str],
    word: str,
) -> None:
    claims, expected = ClaimTable(), dict[tuple[str, str], Entry]()
    for is_set, entry in steps:
        before, former = claims.copy(), dict(expected)
        if is_set:
            claims[entry.key] = expected[entry.key] = entry
        else:
            claims.pop(entry.key, None)
            expected.pop(entry.key, None)
        assert before == former, "a copy stays as it was"
    assert claims == expected

    devices = {hold.device for hold in holds}
    wanted = {unit for hold in holds for unit, _ in hold.atoms} | units

    def those(test: Callable[[Entry], object]) -> list[Entry]:
        return _in_order(entry for entry in expected.values() if test(entry))

    def is_beside(entry: Entry) -> bool:
        return bool(_units_of(entry) & wanted or {hold.device for hold in entry.holds} & devices)

    assert _in_order(claims.of_hardware(holds, units)) == those(is_beside)
    assert _in_order(claims.not_of(units)) == those(lambda one: _units_of(one) - units)
    assert _in_order(claims.of_claim(word)) == those(lambda one: one.uid == word)
    assert _in_order(claims.of_names(word, names)) == those(
        lambda one: one.namespace == word and one.name in names
    )


@given(_steps, _steps)
def test_what_was_changed_since_a_copy_is_told(
    begin: list[tuple[bool, Entry]], since: list[tuple[bool, Entry]]
) -> None:
    before = ClaimTable(entry for _, entry in begin)
    now = before.copy()
    for is_set, entry in since:
        if is_set:
            now[entry.key] = entry
        else:
            now.pop(entry.key, None)
    told = now.changes_from(before)
    for put, drop in (told, ClaimTable(now.values()).changes_from(before)):
        replayed = {key: entry for key, entry in before.items() if key not in drop}
        assert replayed | {entry.key: entry for entry in put} == now
        assert all(before.get(entry.key) != entry for entry in put), "and nothing else"
        assert set(drop) == before.keys() - now.keys()


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    found: Collection[Entry] = list(entries)
    assert len({entry.key for entry in found}) == len(found), "each once"
    return sorted(found, key=lambda entry: entry.key)
