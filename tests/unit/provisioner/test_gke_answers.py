"""What GKE says, as its users have met it, and what that means for a slice."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.provisioner.pools.plan import CLUSTER_LABEL, REQUEST_LABEL
from accelet.provisioner.pools.pool import NodePool, Trouble
from accelet.provisioner.providers.gke.answers import read_error, read_pools

MARKS = {CLUSTER_LABEL: "a-cluster", REQUEST_LABEL: "a-uid"}


def _error(status: int, word: str, message: str, reason: str = "") -> bytes:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}] if reason else []
    return json.dumps(
        {"error": {"code": status, "message": message, "status": word, "details": details}}
    ).encode()


@pytest.mark.parametrize(
    ("status", "word", "message", "trouble"),
    [
        (409, "ALREADY_EXISTS", "Already exists: node pool s-a-1.", Trouble.EXISTS),
        (400, "FAILED_PRECONDITION", "Cluster is running incompatible operation operation-1.", Trouble.BUSY),
        (
            400,
            "FAILED_PRECONDITION",
            "Operation o is currently deleting a node pool for cluster c.",
            Trouble.BUSY,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            'Too many operations: cluster "c" hits the concurrent operations quota 5',
            Trouble.BUSY,
        ),
        (429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Requests'", Trouble.BUSY),
        (400, "INVALID_ARGUMENT", "Invalid value for field node_pool.config", Trouble.INVALID),
        (400, "INVALID_ARGUMENT", "Cluster byte size limit reached", Trouble.ADDRESSES),
        (400, "INVALID_ARGUMENT", "Cannot find pod range with enough available IPs", Trouble.ADDRESSES),
        (403, "PERMISSION_DENIED", 'Required "container.clusters.update" permission(s)', Trouble.FORBIDDEN),
        (403, "PERMISSION_DENIED", "Insufficient regional quota: GCE_QUOTA_EXCEEDED", Trouble.QUOTA),
        (
            400,
            "INVALID_ARGUMENT",
            "Specified reservation r does not have available resources for the request",
            Trouble.RESERVATION,
        ),
        (
            400,
            "INVALID_ARGUMENT",
            "Reservation r is incorrect for the requested resources",
            Trouble.RESERVATION,
        ),
        (400, "FAILED_PRECONDITION", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", Trouble.NO_CAPACITY),
        (404, "NOT_FOUND", "Not found: projects/p/locations/l/clusters/c", Trouble.INVALID),
        (401, "UNAUTHENTICATED", "Request had invalid authentication credentials", Trouble.FORBIDDEN),
        (500, "INTERNAL", "Internal error encountered.", Trouble.UNKNOWN),
        (503, "UNAVAILABLE", "The service is currently unavailable.", Trouble.UNKNOWN),
    ],
)
def test_errors_are_of_the_kind_that_decides_what_is_next(
    status: int, word: str, message: str, trouble: Trouble
) -> None:
    failure = read_error(status, _error(status, word, message))

    assert failure.trouble is trouble
    assert failure.sentence == f"GKE: {message}"


def test_the_reason_of_an_error_tells_more_than_its_words() -> None:
    payload = _error(400, "FAILED_PRECONDITION", "Please wait.", "CLUSTER_ALREADY_HAS_OPERATION")

    assert read_error(400, payload).trouble is Trouble.BUSY


def _read(*pools: dict[str, Any]) -> tuple[tuple[NodePool, ...], list[str]]:
    odd: list[str] = []
    payload = json.dumps({"nodePools": list(pools)}).encode()
    return read_pools(payload, "a-cluster", 1.0, odd.append).pools, odd


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("PROVISIONING", "creating"),
        ("RUNNING", "running"),
        ("RUNNING_WITH_ERROR", "running"),
        ("RECONCILING", "busy"),
        ("STOPPING", "deleting"),
        ("ERROR", "failed"),
        ("DEFROSTING", "busy"),
    ],
)
def test_every_state_of_a_pool_means_one_thing(status: str, state: str) -> None:
    (pool,), odd = _read({"name": "s-a-1", "status": status, "config": {"labels": MARKS}})

    assert pool.state == state
    assert bool(odd) == (status == "DEFROSTING")


def test_a_pool_in_error_says_why_in_gkes_words() -> None:
    stockout = [{"code": "GCE_STOCKOUT", "message": "Instance 'x' creation failed: no capacity"}]
    (pool,), _ = _read({"name": "s", "status": "ERROR", "config": {"labels": MARKS}, "conditions": stockout})

    assert pool.failure is not None
    assert pool.failure.trouble is Trouble.NO_CAPACITY
    assert pool.failure.sentence == "GKE: Instance 'x' creation failed: no capacity"


def test_a_foreign_pool_hides_none_of_ours_however_odd_it_is() -> None:
    good = {"name": "s-a-1", "status": "RUNNING", "config": {"labels": MARKS}}

    pools, odd = _read({"name": "theirs", "locations": "one"}, good, {"name": "bare"})

    assert [pool.name for pool in pools] == ["s-a-1"]
    assert odd == []


@pytest.mark.parametrize("changes", [{"locations": "us-east5-a"}, {"status": 7}, {"conditions": {}}])
def test_a_pool_of_ours_that_cannot_be_read_is_busy_and_not_gone(changes: dict[str, Any]) -> None:
    ours = {"name": "s-a-1", "status": "RUNNING", "config": {"labels": MARKS}, **changes}

    (pool,), odd = _read(ours)

    assert (pool.name, pool.mark, pool.state) == ("s-a-1", "a-uid", "busy")
    assert len(odd) == 1


@pytest.mark.parametrize("unknown", [{"name": 7}, {"name": "s-a-1", "config": {"labels": "none"}}])
def test_a_list_that_does_not_tell_whose_a_pool_is_is_no_list(unknown: dict[str, Any]) -> None:
    good = {"name": "s-b-1", "status": "RUNNING", "config": {"labels": MARKS}}

    with pytest.raises(msgspec.DecodeError):
        _read(good, unknown)


@given(st.integers(200, 599), st.binary(max_size=200))
def test_no_answer_is_more_than_a_failure_with_a_bounded_sentence(status: int, body: bytes) -> None:
    assert len(read_error(status, body).sentence) < 1000


@pytest.mark.parametrize("name", [b'"\xff"', b"7"])
def test_a_name_that_is_no_text_is_not_taken_for_no_pool(name: bytes) -> None:
    payload = b'{"nodePools": [{"name": %b, "status": "RUNNING"}]}' % name

    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        read_pools(payload, "a-cluster", 1.0, lambda _: None)
