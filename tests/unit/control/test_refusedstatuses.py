"""What an API server refuses is sent again ever later, however often it is changed meanwhile."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from accelet.control.refusedstatuses import CHANGED_S, FIRST_S, MOST_S, RefusedStatuses
from accelet.kube.objects import ObjectKey

_KEY: ObjectKey = ("ml", "train")


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_one_that_stays_as_it_is_waits_twice_as_long_each_time_and_a_changed_one_a_moment(
    changes: list[bool],
) -> None:
    refusals, now_s, version, wait_s = RefusedStatuses(), 0.0, 0, FIRST_S
    assert refusals.note(_KEY, str(version), now_s)
    for is_changed in changes:
        assert refusals.left_s(_KEY, str(version), now_s) == wait_s
        assert refusals.left_s(_KEY, "another", now_s) == CHANGED_S
        version += is_changed
        now_s += CHANGED_S if is_changed else wait_s
        assert refusals.left_s(_KEY, str(version), now_s) == 0
        assert not refusals.note(_KEY, str(version), now_s)
        wait_s = min(2 * wait_s, MOST_S)


@given(st.lists(st.floats(0, 3600), max_size=50))
def test_whoever_changes_an_object_all_the_time_has_it_sent_once_in_a_while(pauses_s: list[float]) -> None:
    refusals, now_s, sent_s = RefusedStatuses(), 0.0, list[float]()
    for version, pause_s in enumerate(pauses_s):
        if refusals.left_s(_KEY, str(version), now_s) == 0:
            refusals.note(_KEY, str(version), now_s)
            sent_s.append(now_s)
        now_s += pause_s
    assert all(after - before >= CHANGED_S - 1e-6 for before, after in pairwise(sent_s))


def test_others_are_sent_and_what_was_taken_or_is_gone_begins_afresh() -> None:
    refusals = RefusedStatuses()
    refusals.note(_KEY, "1", 0.0)
    assert refusals.left_s(("ml", "other"), "1", 0.0) == 0
    refusals.forget(_KEY)
    assert refusals.left_s(_KEY, "1", 0.0) == 0
    assert refusals.note(_KEY, "1", 0.0)
