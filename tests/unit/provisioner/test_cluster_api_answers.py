"""What the API server says of MachineDeployments, and what that means for a slice."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import (
    ApiError,
    ExistsError,
    ForbiddenError,
    InvalidError,
    KubeError,
    MalformedObjectError,
    NotFoundError,
    ServerError,
    UnavailableError,
)
from accelet.provisioner.pools.pool import Trouble
from accelet.provisioner.providers.clusterapi.answers import read_pools, read_refusal

_OURS = {"accelet.dev/cluster": "a-cluster", "accelet.dev/slice-request": "a-uid"}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _error(kind: type[ApiError], message: str = "no") -> ApiError:
    return kind("POST /apis/cluster.x-k8s.io/v1beta2/machinedeployments", 400, "Reason", message)


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (_error(ExistsError), Trouble.EXISTS),
        (_error(NotFoundError), Trouble.GONE),
        (_error(ForbiddenError), Trouble.FORBIDDEN),
        (_error(ForbiddenError, "exceeded quota: machines"), Trouble.QUOTA),
        (_error(InvalidError, "spec.template.spec.version: Invalid value"), Trouble.INVALID),
        (_error(ServerError), Trouble.UNKNOWN),
        (UnavailableError("no answer"), Trouble.UNKNOWN),
    ],
)
def test_a_refusal_is_of_the_kind_that_decides_what_is_next(error: KubeError, trouble: Trouble) -> None:
    failure = read_refusal(error)

    assert failure.trouble is trouble
    assert failure.sentence == str(error)


@given(st.text())
def test_no_refusal_has_more_than_a_bounded_sentence(message: str) -> None:
    assert len(read_refusal(_error(InvalidError, message * 50)).sentence) <= 800


def _deployment(**changes: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"name": "s-a", "labels": _OURS}, **changes})


@given(st.sampled_from(("spec", "status")), _JSON)
def test_a_pool_of_ours_is_in_the_list_whatever_else_it_says(field: str, value: object) -> None:
    odd: list[str] = []
    raws = [_deployment(**{field: value}), _deployment(metadata={"name": "theirs"})]

    listed = read_pools(raws, "a-cluster", 1.0, odd.append)

    (pool,) = listed.pools
    assert (pool.name, pool.mark) == ("s-a", "a-uid")
    assert listed.foreign == {"theirs"}
    assert (pool.state == "busy") == bool(odd)


def test_a_list_that_does_not_tell_whose_a_pool_is_is_no_list() -> None:
    with pytest.raises(MalformedObjectError):
        read_pools([_deployment(metadata={"name": "s-a", "labels": 1})], "a-cluster", 1.0, print)


def test_a_pool_that_goes_is_going_whatever_it_lacked() -> None:
    blocked = {"type": "ScalingUp", "status": "True", "message": "Scaling up is blocked because"}
    metadata = {"name": "s-a", "labels": _OURS, "deletionTimestamp": "2026-01-01T00:00:00Z"}

    (pool,) = read_pools(
        [_deployment(metadata=metadata, status={"conditions": [blocked]})], "a-cluster", 1.0, print
    ).pools

    assert (pool.state, pool.failure) == ("deleting", None)
