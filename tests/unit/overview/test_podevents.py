"""Events of a pod as they are shown: the newest first, bounded, whatever is in them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import RawObject
from accelet.overview.bounds import MOST_NAME, MOST_SENTENCE
from accelet.overview.podevents import MOST_EVENTS, box_events, is_object_name, select_events

texts = st.none() | st.text(max_size=900)
times = st.none() | st.sampled_from(
    ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00.5Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "now"]
)
events = st.fixed_dictionaries(
    {},
    optional={
        "type": texts,
        "reason": texts,
        "message": texts,
        "count": st.none() | st.integers(-5, 10**9) | st.text(max_size=3),
        "lastTimestamp": times,
        "eventTime": times,
        "series": st.none() | st.fixed_dictionaries({"count": st.integers(-5, 9), "lastObservedTime": times}),
    },
)


def raw(event: Any) -> RawObject:
    return msgspec.Raw(json.dumps(event).encode())


@given(st.lists(st.one_of(events, st.none(), st.integers(), st.text(max_size=9)), max_size=60))
def test_events_are_bounded_and_the_newest_come_first(given_events: list[Any]) -> None:
    box = box_events([raw(one) for one in given_events])
    assert len(box.events) <= MOST_EVENTS
    assert len(box.events) + box.more <= len(given_events)
    assert [one.at_s for one in box.events] == sorted((one.at_s for one in box.events), reverse=True)
    assert all(
        len(one.reason) <= MOST_NAME + 1 and len(one.message) <= MOST_SENTENCE + 1 for one in box.events
    )
    assert all(one.count >= 1 for one in box.events)
    msgspec.json.encode(box)


def test_an_event_has_its_words_and_when_it_was_last_seen() -> None:
    said = {"type": "Warning", "reason": "BackOff", "message": "Back-off\nrestarting", "count": 7}
    (box,) = box_events([raw({**said, "lastTimestamp": "1970-01-01T00:01:00Z"})]).events
    assert (box.reason, box.message, box.count, box.at_s) == ("BackOff", "Back-off restarting", 7, 60.0)
    assert box.is_warning


@pytest.mark.parametrize("text", ["", "a,b", "a=b", "../x", "A", "a" * 254, "a\n", "-a", "a/b", "*"])
def test_no_other_text_gets_into_a_selector(text: str) -> None:
    assert not is_object_name(text)


def test_a_pod_is_selected_by_its_name() -> None:
    assert is_object_name("train-0.a")
    assert (
        select_events("train-0.a")["fieldSelector"] == "involvedObject.kind=Pod,involvedObject.name=train-0.a"
    )
