"""What is said of ProvisioningRequests: never two answers, never one taken back, others' words kept."""

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.slicerequest import Phase
from accelet.kube.errors import MalformedObjectError
from accelet.provisioner.bookings.book import BookingBook
from accelet.provisioner.bookings.booking import Booking, parse_booking, status_of
from accelet.provisioner.bookings.demand import with_booked_pods
from accelet.provisioner.bookings.judging import BookedSlices, judge_booking
from accelet.provisioner.deciding.view import SliceRecord
from accelet.provisioner.demand.owners import JobOwner, parse_job
from accelet.provisioner.demand.slices import why_not_asked
from accelet.provisioner.pools.machines import Refusal
from tests.unit.provisioner.manifests import job

NOW_S, HOLD_S = 1_800_000_000.0, 600.0
OTHERS = {
    "type": "Mine",
    "status": "Unknown",
    "reason": "A",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 3,
}
RECORDS = st.builds(
    SliceRecord,
    phase=st.sampled_from(get_args(Phase)),
    why=st.sampled_from(("", "because")),
    since_s=st.sampled_from((NOW_S - 9000.0, NOW_S)),
)
FOUND = st.builds(
    BookedSlices,
    records=st.lists(RECORDS, max_size=3),
    size=st.integers(1, 3),
    is_suspended=st.booleans(),
    refused=st.none() | st.just("no such machine"),
)


def request(**changes: Any) -> dict[str, Any]:
    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "w", "uid": "u"}
    return {
        "metadata": {
            "name": "one",
            "namespace": "ml",
            "uid": "uid-of-one",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [owner | {"controller": True}],
        },
        "spec": {
            "provisioningClassName": "slice.accelet.dev",
            "podSets": [{"podTemplateRef": {"name": "a"}, "count": 4}],
        },
    } | changes


def booking(**changes: Any) -> Booking:
    return replace(parse_booking(request()), created_s=NOW_S - 5000.0, **changes)


def _after(before: Booking, found: BookedSlices, now_s: float = NOW_S) -> Booking:
    """The booking once what is judged of it has been written."""
    said = judge_booking(before, found, now_s, HOLD_S).said
    status = status_of(before, said, "a-set", now_s)
    return replace(parse_booking(request(status=status)), created_s=before.created_s)


@given(st.lists(st.tuples(FOUND, st.floats(0, 2000)), max_size=6))
def test_one_answer_at_a_time_and_none_after_the_last(story: list[tuple[BookedSlices, float]]) -> None:
    now, now_s = booking(), NOW_S
    for found, pause_s in story:
        if not now.is_in_force:
            return
        before, now_s = now, now_s + pause_s
        now = _after(before, found, now_s)
        last = [kind for kind in ("Failed", "BookingExpired", "CapacityRevoked") if now.holds(kind)]
        assert len(last) <= 1
        assert not (now.holds("Provisioned") and now.holds("Failed"))
        if now.holds("Provisioned") and not before.holds("Provisioned"):
            assert [one.phase for one in found.records] == ["Ready"] * found.size
        if "CapacityRevoked" in last:
            assert before.holds("Provisioned")
            assert not found.is_suspended
        if "BookingExpired" in last:
            assert found.is_suspended
            assert now_s >= before.since_s("Provisioned") + HOLD_S
        assert _after(now, found, now_s) == now or not now.is_in_force


def test_a_slice_that_is_lost_for_good_ends_what_runs_and_has_what_waits_asked_anew() -> None:
    ready, gone = SliceRecord("Ready"), SliceRecord("BackingOff", "no room; all was tried", NOW_S)
    had = _after(booking(), BookedSlices([ready, ready], 2))
    assert had.holds("Provisioned")
    assert had.slice_set == "a-set"

    repaired = SliceRecord("Repairing", "3/4 of its machines are there", NOW_S)
    assert _after(had, BookedSlices([ready, repaired], 2, is_suspended=False)).holds("Provisioned")
    lost = _after(had, BookedSlices([ready, gone], 2, is_suspended=False))
    assert lost.holds("CapacityRevoked")
    assert not lost.is_in_force
    assert _after(had, BookedSlices([ready, gone], 2)).holds("Failed")


def test_a_rest_from_before_the_booking_is_none_of_its_own() -> None:
    rests = BookedSlices([SliceRecord("BackingOff", "no room", NOW_S - 9000.0)], 1)
    assert not _after(booking(), rests).holds("Failed")
    assert _after(booking(), rests).holds("Accepted")


def test_conditions_of_others_stay() -> None:
    mine = parse_booking(request(status={"conditions": [OTHERS]}))
    status = status_of(mine, {"Failed": (True, "Refused", "no")}, "", NOW_S)
    assert OTHERS in status["conditions"]
    assert len(status["conditions"]) == 2
    json.dumps(status)


def test_a_workload_is_kueues_or_none() -> None:
    raw = request()
    assert parse_booking(raw).workload is not None
    for forged in ({"apiVersion": "kueue.x-k8s.io/../../v1"}, {"kind": "Secret"}, {"controller": False}):
        owner = raw["metadata"]["ownerReferences"][0] | forged
        raw_forged = request(metadata=raw["metadata"] | {"ownerReferences": [owner]})
        assert parse_booking(raw_forged).workload is None
    with pytest.raises(MalformedObjectError):
        parse_booking(request(spec={"podSets": "many"}))


def test_the_book_keeps_what_is_in_force_of_our_class() -> None:
    book, mine = BookingBook(), booking()
    assert book.may_be_for("ml", "an-owner"), "nothing is known yet"
    book.is_known = True
    assert not book.may_be_for("ml", "an-owner")
    book.set(replace(mine, class_name="check-capacity.autoscaling.x-k8s.io"))
    assert book[mine.key] is None
    book.set(mine)
    assert book.may_be_for("ml", "an-owner"), "whose it is has not been looked up"
    assert not book.may_be_for("other", "an-owner")
    book.note_owner(mine, "an-owner")
    assert book.of_owner("ml", "an-owner") == mine
    assert not book.may_be_for("ml", "another")
    book.set(replace(mine, is_deleted=True))
    assert book.of_owner("ml", "an-owner") is None
    book.set(mine)
    book.note_owner(mine, None)
    assert not book.may_be_for("ml", "an-owner")


def test_a_queue_asks_for_an_owner_that_does_not_and_a_no_stays_a_no() -> None:
    raw = job()
    raw["metadata"]["annotations"] = {}
    raw["spec"]["suspend"] = True
    assert why_not_asked(parse_job(raw), "opt-in", is_booked=True) is None
    raw["spec"]["suspend"] = False
    raw["spec"]["template"]["metadata"] = {
        "annotations": {"autoscaling.x-k8s.io/provisioning-class-name": "slice.accelet.dev"}
    }
    assert why_not_asked(parse_job(raw), "opt-in") is None
    raw["metadata"]["annotations"] = {"accelet.dev/provision": "false"}
    assert why_not_asked(parse_job(raw), "opt-in", is_booked=True) is not None


def test_flex_start_is_not_booked_since_gke_makes_it_for_pods_that_a_booking_holds_back() -> None:
    owner = parse_job(job(selector={"cloud.google.com/gke-flex-start": "true"}))
    refused = with_booked_pods(owner, [(4, owner.templates[0].pod)])
    assert isinstance(refused, Refusal)
    assert "leave the admission check out for flex-start" in refused.reason

    plain = parse_job(job())
    assert isinstance(with_booked_pods(plain, [(4, plain.templates[0].pod)]), JobOwner)
