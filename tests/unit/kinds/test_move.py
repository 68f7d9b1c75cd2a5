"""Moves as the API server has them, and reasons to wait as pods have them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.move import MoveStatus, parse_move
from accelet.kinds.waiting import WaitingReason, parse_waiting, render_waiting
from accelet.kube.errors import MalformedObjectError

_NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_move_that_names_a_rank_twice_is_refused() -> None:
    place = {"rank": 0, "podUid": "a", "fromNode": "n0", "toNode": "n1"}
    spec = {
        "task": {"name": "t", "uid": "u", "attempt": 1},
        "takes": {},
        "places": [place, {**place, "podUid": "b"}],
        "gain": {"kind": "Person"},
        "validUntil": "2030-01-01T00:00:00Z",
    }
    raw: dict[str, object] = {"metadata": {"name": "t-1", "namespace": "ml"}, "spec": spec}
    with pytest.raises(MalformedObjectError, match="names a rank or pod twice"):
        parse_move(raw)


def test_each_phase_is_a_condition_and_the_end_has_its_time() -> None:
    status = (
        MoveStatus().advance("Approved", "ByPolicy", "", _NOW).advance("Withdrawn", "Expired", "late", _NOW)
    )

    assert [(one.type, one.reason) for one in status.conditions] == [
        ("Approved", "ByPolicy"),
        ("Withdrawn", "Expired"),
    ]
    assert (status.phase, status.why, status.ended_at) == ("Withdrawn", "late", _NOW)


@given(st.text(max_size=3000))
def test_a_reason_to_wait_is_read_as_it_was_written_but_for_its_length(text: str) -> None:
    reason = WaitingReason(since=_NOW, text=text, cause="NoRoom", pods=3)
    try:
        written = render_waiting(reason)
    except UnicodeEncodeError:
        return  # half a character, of which no sentence of the planner has any
    read = parse_waiting(written)

    assert read is not None
    assert (read.since, read.cause, read.pods) == (_NOW, "NoRoom", 3)
    assert len(read.text) <= 900
    whole = " ".join(text.split())
    assert read.text == whole or (read.text.endswith("…") and whole.startswith(read.text[:-1]))


@given(st.one_of(st.text(), st.sampled_from(["[" * 8000, "{}", '{"since":1}', '{"text":"' + "x" * 9000])))
def test_whatever_a_tenant_writes_there_is_no_reason_or_one(text: str) -> None:
    assert parse_waiting(text) is None
