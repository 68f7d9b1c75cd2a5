"""Who was refused waits ever longer, and what was seen of a namespace holds for a while."""

from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.original import OriginalTask, parse_original
from accelet.gputask.setbacks import AGAIN_S, MOST_S, Setbacks, StrayLooks

_SPEC = {"memory": "1Gi", "cpu": "500m", "gpu": "a100", "gpu-amount": "2", "priority": ""}


def _original(uid: str = "u") -> OriginalTask:
    metadata = {"name": "gpu-task", "namespace": "ml", "uid": uid}
    return parse_original(msgspec.json.encode({"metadata": metadata, "spec": _SPEC}))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_each_refusal_waits_at_least_as_long_as_the_one_before_and_no_longer_than_is_said(
    pauses_s: list[int],
) -> None:
    setbacks, one, now_s, before_s = Setbacks(), _original(), 0.0, 0.0
    for pause_s in pauses_s:
        wait_s = setbacks.note(one, now_s)
        assert max(AGAIN_S, before_s) <= wait_s <= MOST_S
        assert setbacks.left_s(one, now_s) == wait_s
        assert setbacks.left_s(one, now_s + wait_s) == 0
        now_s, before_s = now_s + wait_s + pause_s, wait_s


def test_another_of_the_name_and_a_changed_one_begin_afresh() -> None:
    setbacks, one = Setbacks(), _original()
    for _ in range(3):
        setbacks.note(one, 0.0)
    changed = replace(one, spec=msgspec.structs.replace(one.spec, gpu="h100"))
    for other in (_original("v"), changed):
        assert setbacks.left_s(other, 0.0) == 0
    assert setbacks.note(changed, 0.0) == AGAIN_S
    setbacks.forget(one.key)
    assert setbacks.left_s(changed, 0.0) == 0


def test_what_was_seen_of_a_namespace_holds_for_a_while_and_for_it_alone() -> None:
    looks = StrayLooks()
    looks.note("ml", "a pod is about", 0.0)
    looks.note("clean", "", 1.0)
    assert (looks.known("ml", 29.0), looks.known("clean", 29.0)) == ("a pod is about", "")
    assert looks.known("other", 0.0) is None
    assert (looks.known("ml", AGAIN_S), looks.known("clean", AGAIN_S)) == (None, "")
