"""Why a gang waits, noted on its first pod without giving anybody anything to do."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.waiting import WAITING_ANNOTATION, WaitingReason, render_waiting
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX, find_gangs
from accelet.scheduler.gangs.noting import is_noted_only, note_patch, reason_of
from accelet.scheduler.state import SchedulerState
from tests.unit.scheduler.values import pod

_REASON = WaitingReason(since=datetime(2030, 1, 1, tzinfo=UTC), text="needs 2 nodes", cause="NoRoom")


def _noted(one: Pod, text: str = "needs 2 nodes", version: str = "2") -> Pod:
    note = render_waiting(WaitingReason(since=_REASON.since, text=text, cause="NoRoom"))
    return replace(one, resource_version=version, annotations={**one.annotations, WAITING_ANNOTATION: note})


def test_a_note_is_written_once() -> None:
    one = pod("p-0")
    assert note_patch(one, _REASON) == {
        "metadata": {"uid": "uid-p-0", "annotations": {WAITING_ANNOTATION: render_waiting(_REASON)}}
    }
    assert note_patch(_noted(one), _REASON) is None
    assert note_patch(one, None) is None
    assert note_patch(_noted(one), None) == {
        "metadata": {"uid": "uid-p-0", "annotations": {WAITING_ANNOTATION: None}}
    }


def test_what_a_tenant_wrote_there_is_overwritten() -> None:
    forged = pod("p-0", annotations={WAITING_ANNOTATION: "[" * 9000})
    assert note_patch(forged, _REASON) is not None


@given(
    st.sampled_from(
        [
            {"gates": ("other",)},
            {"labels": {"a": "b"}},
            {"node_name": "n0"},
            {"phase": "Running"},
            {"priority": 3},
            {"annotations": {"accelet.dev/required-level": "block"}},
        ]
    )
)
def test_nothing_else_passes_for_a_note(change: dict[str, Any]) -> None:
    one = pod("p-0")
    other = replace(one, **change)

    assert is_noted_only(one, _noted(one))
    assert is_noted_only(_noted(one), replace(one, resource_version="3"))
    assert not is_noted_only(one, _noted(other))
    assert not is_noted_only(one, replace(one, resource_version="2"))


def test_a_note_leaves_a_gang_and_what_is_remembered_of_it() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    pods = [pod(f"w-{rank}", version=rank + 1, labels={"job-name": "w"}) for rank in range(2)]
    for one in pods:
        state.set_pod(one)
    (before,) = state.gangs()
    state.set_pod(_noted(pods[0], version="9"))
    (after,) = state.gangs()

    assert after is before, "it would be searched for anew"
    assert state.pods[pods[0].key].resource_version == "9"


def test_the_cause_of_a_wait_is_one_word() -> None:
    (gang,) = find_gangs([pod(f"w-{rank}", labels={"job-name": "w"}) for rank in range(2)])

    def cause(**changes: Any) -> str:
        return reason_of(replace(gang, **changes), "text", is_settled=False).cause

    assert cause() == "Undecided"
    assert cause(size=3) == "Incomplete"
    assert cause(objection="no") == "Refused"
    assert reason_of(gang, "text", is_settled=True).cause == "NoRoom"
