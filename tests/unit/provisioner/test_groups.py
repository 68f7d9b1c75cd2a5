"""LeaderWorkerSets: a slice for each group, and what cannot be served so."""

import random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.slicerequest import Phase
from accelet.kube.errors import MalformedObjectError
from accelet.provisioner.demand.groups import EXCLUSIVE_TOPOLOGY, parse_leader_worker_set
from accelet.provisioner.demand.kept import GroupSlice, keep_slices
from accelet.provisioner.demand.requests import request_body, spec_of
from accelet.provisioner.demand.slices import Derived, derive_slices
from accelet.provisioner.record import SliceRequest, parse_request
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState, Wish
from tests.unit.provisioner.manifests import leader_worker_set, pod_template

SPOT = "cloud.google.com/gke-spot"


def _derive(**changes: Any) -> Derived:
    return derive_slices(parse_leader_worker_set(leader_worker_set(**changes)))


def _reason(derived: Derived) -> str:
    assert not derived.slices
    return derived.refused[0].reason


def test_each_group_has_a_slice_that_is_a_set_of_its_own() -> None:
    first, second = _derive(replicas=2).slices

    assert (first.job, second.job) == ("serve-0", "serve-1")
    assert first.machines.hosts == 4
    assert (first.set_size, second.set_size) == (1, 1)
    assert first.set_name != second.set_name
    assert spec_of(second).owner.kind == "LeaderWorkerSet"  # type: ignore[union-attr]  # it has one


def test_absent_numbers_are_one() -> None:
    raw = leader_worker_set(replicas=1, worker=pod_template(topology="2x4", chips=8))
    del raw["spec"]["replicas"], raw["spec"]["leaderWorkerTemplate"]["size"]

    (wanted,) = derive_slices(parse_leader_worker_set(raw)).slices

    assert (wanted.index, wanted.machines.hosts) == (0, 1)


def test_a_leader_without_tpus_is_no_worker_of_the_slice() -> None:
    leader = {"spec": {"containers": [{"name": "main"}]}}

    (wanted,) = _derive(replicas=1, size=5, leader=leader, annotations={}).slices

    assert wanted.machines.hosts == 4
    assert "needs 4 pods, the group has 3" in _reason(_derive(replicas=1, leader=leader, annotations={}))


def test_a_group_of_one_is_its_leader() -> None:
    leader = pod_template(topology="2x4", chips=8)

    (wanted,) = _derive(replicas=1, size=1, leader=leader).slices

    assert (wanted.machines.topology, wanted.machines.hosts) == ("2x4", 1)


def test_a_set_without_tpus_asks_for_nothing() -> None:
    plain = {"spec": {"containers": [{"name": "main"}]}}

    assert _derive(worker=plain, annotations={}) == Derived()
    assert _derive(replicas=0) == Derived()


@pytest.mark.parametrize(
    ("wrong", "sentence", "followed"),
    [
        ({"annotations": {}}, f"annotate {EXCLUSIVE_TOPOLOGY}: cloud.google.com/gke-nodepool", {}),
        (
            {"annotations": {EXCLUSIVE_TOPOLOGY: "kubernetes.io/hostname"}},
            "must be cloud.google.com/gke-nodepool or accelet.dev/slice",
            {"annotations": {EXCLUSIVE_TOPOLOGY: "accelet.dev/slice"}},
        ),
        (
            {"leader": {"spec": {"containers": [{"name": "main"}]}}, "size": 5},
            "let it ask for them as the workers do",
            {"leader": pod_template()},
        ),
        (
            {"leader": pod_template(selector={SPOT: "true"})},
            "must ask for the same TPUs",
            {
                "leader": pod_template(selector={SPOT: "true"}),
                "worker": pod_template(selector={SPOT: "true"}),
            },
        ),
        ({"sub_group_policy": {"subGroupSize": 2}}, "leave subGroupPolicy out", {}),
        ({"max_surge": 1}, "leave rollingUpdateConfiguration.maxSurge out", {"max_surge": 0}),
        ({"max_surge": "25%"}, "leave rollingUpdateConfiguration.maxSurge out", {"max_surge": "0%"}),
        ({"size": 3}, "needs 4 pods", {"size": 4}),
        ({"replicas": 1001}, "at most 1000", {"replicas": 1000}),
    ],
)
def test_what_is_refused_says_what_helps(
    wrong: dict[str, Any], sentence: str, followed: dict[str, Any]
) -> None:
    assert sentence in _reason(_derive(**wrong))

    assert _derive(**followed).slices


@given(
    replicas=st.integers(0, 3),
    size=st.integers(1, 6),
    leads=st.booleans(),
    is_exclusive=st.booleans(),
)
def test_slices_are_made_exactly_where_each_group_has_the_pods_of_a_slice_and_stays_on_it(
    replicas: int, size: int, leads: bool, is_exclusive: bool
) -> None:
    leader = None if leads else {"spec": {"containers": [{"name": "main"}]}}
    annotations = {EXCLUSIVE_TOPOLOGY: "cloud.google.com/gke-nodepool"} if is_exclusive else {}

    found = _derive(replicas=replicas, size=size, leader=leader, annotations=annotations)

    workers = size if leads else size - 1
    stays = leads if is_exclusive else replicas < 2 or workers < 2
    assert len(found.slices) == (replicas if workers == 4 and stays else 0)
    assert {one.machines.hosts for one in found.slices} <= {4}


def test_a_malformed_template_is_named_with_its_field() -> None:
    raw = leader_worker_set()
    raw["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"] = 7

    with pytest.raises(MalformedObjectError) as caught:
        parse_leader_worker_set(raw)

    assert caught.value.field.startswith("spec.leaderWorkerTemplate.workerTemplate.spec.containers")


def _state_of(replicas: int) -> tuple[ProvisionerState, list[SliceRequest]]:
    """A state with the slices of two groups, and as many groups as there are now."""
    state = ProvisionerState(ProvisionerSettings(version="v1"), "a-label")
    state.known_kinds.add("LeaderWorkerSet")
    requests = []
    for wanted in derive_slices(parse_leader_worker_set(leader_worker_set(replicas=2))).slices:
        body = request_body(wanted)
        body["metadata"]["uid"] = f"uid-of-{wanted.name}"
        requests.append(parse_request(msgspec.Raw(msgspec.json.encode(body))))
        state.set_request(requests[-1])
    now = parse_leader_worker_set(leader_worker_set(replicas=replicas))
    state.owners["LeaderWorkerSet", "ml", "serve"] = now
    return state, requests


@pytest.mark.parametrize(("groups", "said"), [(1, "1 group"), (0, "0 groups")])
def test_slices_of_groups_that_are_gone_are_given_back(groups: int, said: str) -> None:
    state, requests = _state_of(groups)

    gone = Wish(f"the LeaderWorkerSet has {said} now", is_ended=True)
    assert [state.wish_for(one) for one in requests] == [Wish()] * groups + [gone] * (2 - groups)


def test_no_slice_is_given_back_where_each_group_needs_one() -> None:
    for groups in (2, 3):
        state, requests = _state_of(groups)
        assert [state.wish_for(one) for one in requests] == [Wish(), Wish()]


_SLICES = st.lists(
    st.builds(
        GroupSlice,
        job=st.uuids().map(str),
        index=st.integers(0, 5),
        phase=st.sampled_from(get_args(Phase)),
        has_pods=st.booleans(),
    ),
    max_size=6,
)


@given(slices=_SLICES, groups=st.integers(-1, 7))
def test_so_many_slices_are_kept_as_there_are_groups_and_those_with_pods_first(
    slices: list[GroupSlice], groups: int
) -> None:
    kept = keep_slices(slices, groups)

    assert len(kept) == min(len(slices), max(0, groups))
    gone = [one for one in slices if one.job not in kept]
    if any(one.has_pods for one in gone):
        assert all(one.has_pods for one in slices if one.job in kept)
    alike = [one for one in slices if one.job in kept and not one.has_pods and one.phase == "Releasing"]
    if alike:
        assert not any(one.phase == "Ready" for one in gone)


@given(slices=_SLICES, groups=st.integers(0, 6), moved=st.randoms(use_true_random=False))
def test_which_slices_are_kept_depends_on_no_order(
    slices: list[GroupSlice], groups: int, moved: random.Random
) -> None:
    shuffled = list(slices)
    moved.shuffle(shuffled)

    assert keep_slices(shuffled, groups) == keep_slices(slices, groups)
