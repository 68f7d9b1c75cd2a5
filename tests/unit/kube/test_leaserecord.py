import pytest

from accelet.control.leaserecord import (
    LeaseRecord,
    Observation,
    Renew,
    Take,
    Wait,
    decide,
    observe,
    parse_lease,
)
from accelet.kube.errors import MalformedObjectError

RECORD = LeaseRecord("other", 15, "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:10.000000Z", 3, "7")


@pytest.mark.parametrize(
    ("record", "age_s", "step"),
    [
        (None, 0.0, Take()),
        (LeaseRecord("", 1, "", ""), 0.0, Take()),
        (LeaseRecord("me", 15, "", ""), 99.0, Renew()),
        (RECORD, 14.9, Wait()),
        (RECORD, 15.0, Take()),
    ],
)
def test_lease_is_free_when_unchanged_for_its_duration(
    record: LeaseRecord | None, age_s: float, step: Wait | Take | Renew
) -> None:
    assert decide(Observation(record, 100.0), "me", 100.0 + age_s) == step


def test_only_a_changed_record_starts_the_count_again() -> None:
    seen = observe(None, RECORD, 1.0)
    assert observe(seen, RECORD, 9.0).since_s == 1.0
    renewed = LeaseRecord("other", 15, RECORD.acquired, "2026-01-01T00:00:12.000000Z", 3, "8")
    assert observe(seen, renewed, 9.0).since_s == 9.0


def test_taking_counts_a_transition_and_renewing_none() -> None:
    assert Take().next_record(RECORD, "me", 15, "now") == LeaseRecord("me", 15, "now", "now", 4, "7")
    assert Renew().next_record(RECORD, "other", 15, "now").transitions == 3


def test_record_survives_the_api() -> None:
    assert parse_lease(RECORD.to_body("ns", "l")) == RECORD


def test_foreign_and_malformed_leases() -> None:
    assert parse_lease({"metadata": {"name": "l"}}) == LeaseRecord("", 0, "", "")
    with pytest.raises(MalformedObjectError, match=r"Lease ns/l: spec.holderIdentity"):
        parse_lease({"metadata": {"name": "l", "namespace": "ns"}, "spec": {"holderIdentity": 5}})
