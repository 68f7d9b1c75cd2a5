import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.writing.conditions import (
    StatusCondition,
    WireStatusCondition,
    read_status_conditions,
    set_conditions,
)

CONDITIONS = st.builds(
    StatusCondition,
    st.sampled_from(["Ready", "Accepted"]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["A", "QuotaExceeded"]),
    st.text(max_size=3),
    st.integers(0, 3),
)


@given(st.lists(st.lists(CONDITIONS, max_size=3), max_size=5))
def test_time_of_change_is_that_of_the_last_change_of_status(steps: list[list[StatusCondition]]) -> None:
    held: tuple[StatusCondition, ...] = ()
    changed: dict[str, tuple[str, str]] = {}
    for number, wanted in enumerate(steps):
        now = f"t{number}"
        held = set_conditions(held, wanted, now)
        for condition in {one.type: one for one in wanted}.values():
            if changed.get(condition.type, ("", ""))[0] != condition.status:
                changed[condition.type] = (condition.status, now)
    assert {one.type: (one.status, one.changed) for one in held} == changed


@given(st.lists(CONDITIONS, unique_by=lambda one: one.type))
def test_conditions_are_read_as_they_were_written(conditions: list[StatusCondition]) -> None:
    raw = msgspec.json.encode([one.to_body() for one in set_conditions((), conditions, "t")])
    wire = msgspec.json.decode(raw, type=list[WireStatusCondition])
    assert read_status_conditions(wire) == set_conditions((), conditions, "t")


@pytest.mark.parametrize("reason", ["", "two words", "9", "A" * 1025, "ends-"])
def test_reason_that_the_api_refuses_is_refused_at_once(reason: str) -> None:
    with pytest.raises(ValueError, match="is no reason"):
        StatusCondition("Ready", "True", reason)


def test_reason_of_another_writer_is_read_as_unknown() -> None:
    (read,) = read_status_conditions([WireStatusCondition("Ready", "True", "not a word")])
    assert read.reason == "Unknown"


def test_message_is_cut_to_what_the_api_takes() -> None:
    message = StatusCondition("Ready", "True", "Done", "x" * 40000).to_body()["message"]
    assert message == "x" * 32768
