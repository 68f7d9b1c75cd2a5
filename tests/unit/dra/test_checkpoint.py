"""The driver's record: what was written is read, and nothing else is."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.dra.errors import StateError
from accelet.dra.preparing.checkpoint import (
    RecordContent,
    read_checkpoint,
    read_record,
    render_change,
    render_checkpoint,
)
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.entry import Entry, PreparedDevice
from accelet.dra.preparing.hold import DeviceHold

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_amounts = st.dictionaries(_texts, st.integers(0, 2**63 - 1), max_size=3)

holds = st.builds(
    DeviceHold,
    request=_texts,
    pool=_texts,
    device=_texts,
    atoms=st.frozensets(st.tuples(_texts.map(UnitId), st.integers(0, 63)), max_size=4),
    is_exclusive=st.booleans(),
    share=st.none() | _texts,
    amounts=_amounts,
    limits=_amounts,
)
answers = st.builds(
    PreparedDevice,
    requests=st.lists(_texts, max_size=2).map(tuple),
    pool=_texts,
    device=_texts,
    cdi_ids=st.lists(_texts, max_size=2).map(tuple),
    share=st.none() | _texts,
)
entries = st.builds(
    Entry,
    uid=_texts,
    digest=_texts,
    namespace=_texts,
    name=_texts,
    phase=st.sampled_from(["started", "completed"]),
    holds=st.lists(holds, max_size=3).map(tuple),
    answers=st.lists(answers, max_size=3).map(tuple),
    cdi=_texts,
    has_environment=st.booleans(),
    boot=_texts,
)


@given(st.lists(entries, max_size=4, unique_by=lambda entry: entry.key))
def test_what_was_written_is_read(written: list[Entry]) -> None:
    assert read_checkpoint(render_checkpoint(written)) == tuple(written)


@given(st.lists(entries, min_size=1, max_size=2), st.data())
def test_any_changed_byte_is_found(written: list[Entry], data: st.DataObject) -> None:
    text = bytearray(render_checkpoint(written))
    place = data.draw(st.integers(0, len(text) - 2))  # the last one is a newline that may be lost
    text[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(StateError):
        read_checkpoint(bytes(text))


@given(st.lists(entries, min_size=1, max_size=2), st.data())
def test_a_record_that_was_cut_short_is_found(written: list[Entry], data: st.DataObject) -> None:
    text = render_checkpoint(written)
    with pytest.raises(StateError):
        read_checkpoint(text[: data.draw(st.integers(0, len(text) - 2))])


@given(st.binary(max_size=200))
def test_other_files_are_no_records(text: bytes) -> None:
    with pytest.raises(StateError):
        read_checkpoint(text)


@given(st.binary(max_size=200) | st.just(b'{"claims": [{"uid": 1}]}') | st.just(b"[" * 5000))
def test_a_true_checksum_over_something_else_is_no_record(body: bytes) -> None:
    body = body.removesuffix(b"\n")
    head = f"accelet-dra-checkpoint v1 sha256={hashlib.sha256(body).hexdigest()}\n"
    with pytest.raises(StateError):
        read_checkpoint(head.encode() + body + b"\n")


_changes = st.lists(
    st.tuples(st.lists(entries, max_size=2), st.lists(st.integers(0, 9), max_size=2)), max_size=4
)
"""Of each change what it sets, and which of the claims that there are then it drops."""


def _play(
    begin: list[Entry], changes: list[tuple[list[Entry], list[int]]]
) -> list[tuple[bytes, RecordContent]]:
    """An open document after each change, and what it says."""
    kept = {one.key: one for one in begin}
    text = render_checkpoint(begin, is_open=True)
    played = [(text, RecordContent(ClaimTable(kept.values()), (), len(text), is_open=True))]
    for put, numbers in changes:
        drop = {list(kept)[number % len(kept)] for number in numbers} if kept else set()
        kept = {key: one for key, one in kept.items() if key not in drop} | {one.key: one for one in put}
        text += render_change(put, sorted(drop))
        now = ClaimTable(kept.values())
        played.append((text, RecordContent(now, (), played[0][1].begin_bytes, is_open=True)))
    return played


@given(st.lists(entries, max_size=3), _changes)
def test_changes_are_read_as_they_were_added(
    begin: list[Entry], changes: list[tuple[list[Entry], list[int]]]
) -> None:
    for text, expected in _play(begin, changes):
        assert read_record(text) == expected


@given(st.lists(entries, max_size=2), _changes.filter(bool), st.data())
def test_of_a_change_that_was_cut_short_nothing_is_left(
    begin: list[Entry], changes: list[tuple[list[Entry], list[int]]], data: st.DataObject
) -> None:
    """The begin of it is there, or the machine lost its power and zero bytes are in its place."""
    *_, (before, expected), (after, _) = _play(begin, changes)
    place = data.draw(st.integers(len(before) + 1, len(after) - 1))
    for text in (after[:place], after[: len(before)].ljust(place, b"\0"), after[:place] + b"\0\n"):
        found = read_record(text)
        assert found.entries == expected.entries
        assert (found.is_open, found.cut_bytes) == (False, len(text) - len(before))


@given(st.lists(entries, max_size=2), _changes.filter(bool), st.data())
def test_any_other_changed_byte_of_a_change_is_found(
    begin: list[Entry], changes: list[tuple[list[Entry], list[int]]], data: st.DataObject
) -> None:
    text = bytearray(_play(begin, changes)[-1][0])
    place = data.draw(st.integers(0, len(text) - 2))
    text[place] ^= data.draw(st.integers(1, 255).filter(lambda bits: text[place] ^ bits))
    with pytest.raises(StateError):
        read_record(bytes(text))


@given(entries, st.booleans())
def test_fields_of_a_newer_document_survive(entry: Entry, is_open: bool) -> None:
    newer = b'{"claims": [], "deep": {"list": [1,\n 2]}, "word": "x"}'
    head = f"accelet-dra-checkpoint v1 sha256={hashlib.sha256(newer).hexdigest()}\n"
    read = read_record(head.encode() + newer + b"\n")
    again = read_record(render_checkpoint([entry], read.rest, is_open=is_open))
    told = {name: msgspec.json.decode(value) for name, value in again.rest}
    assert told == {"deep": {"list": [1, 2]}, "word": "x"}
    assert again.entries == {entry.key: entry}


@given(entries)
def test_fields_of_a_newer_version_survive(entry: Entry) -> None:
    text = render_checkpoint([entry])
    body = msgspec.json.decode(text.partition(b"\n")[2])
    body["claims"][0]["from_the_future"] = {"deep": [1, 2]}
    newer = msgspec.json.encode(body)
    head = f"accelet-dra-checkpoint v1 sha256={hashlib.sha256(newer).hexdigest()}\n"
    read = read_checkpoint(head.encode() + newer + b"\n")
    again = msgspec.json.decode(render_checkpoint([one.completed() for one in read]).partition(b"\n")[2])
    assert again["claims"][0]["from_the_future"] == {"deep": [1, 2]}


def test_a_record_of_another_version_is_said_to_be_one() -> None:
    text = render_checkpoint([]).replace(b" v1 ", b" v12 ", 1)
    with pytest.raises(StateError, match="is of version v12, and this accelet reads v1 and v2: install"):
        read_checkpoint(text)
