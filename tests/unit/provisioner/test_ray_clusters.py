"""RayClusters: a slice for each replica of a worker group, and what cannot be served so."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import MalformedObjectError
from accelet.provisioner.demand.owners import salvage_owner
from accelet.provisioner.demand.rayclusters import count_replicas, parse_ray_cluster
from accelet.provisioner.demand.requests import request_body
from accelet.provisioner.demand.slices import Derived, derive_slices, why_not_asked
from accelet.provisioner.record import SliceRequest, parse_request
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState, Wish
from tests.unit.provisioner.manifests import (
    REPLICA_NAME,
    kept_apart,
    pod_template,
    ray_cluster,
    ray_group,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _derive(*groups: dict[str, Any], **spec: Any) -> Derived:
    return derive_slices(parse_ray_cluster(ray_cluster(*groups, **spec)))


def _names(derived: Derived) -> list[str]:
    return [one.job for one in derived.slices]


def _plain_group(name: str = "cpus") -> dict[str, Any]:
    return ray_group(name) | {"template": {"spec": {"containers": [{"name": "worker"}]}}}


def test_each_replica_of_each_group_that_asks_has_a_slice_of_its_own() -> None:
    small = ray_group("small", replicas=2, hosts=1, topology="2x4", chips=8)

    found = _derive(_plain_group(), ray_group("large"), small)

    assert _names(found) == ["ray-large-0", "ray-small-0", "ray-small-1"]
    assert [one.machines.hosts for one in found.slices] == [4, 1, 1]
    assert {one.set_size for one in found.slices} == {1}
    assert len({one.set_name for one in found.slices}) == 3
    assert not found.refused


def test_an_absent_number_of_hosts_is_one() -> None:
    assert _names(_derive(ray_group(hosts=None, topology="2x4", chips=8))) == ["ray-tpus-0"]
    assert _derive(ray_group(hosts=0)) == Derived()


def test_a_head_that_asks_has_a_slice_of_one_host() -> None:
    head = {"rayStartParams": {}, "template": pod_template(topology="2x4", chips=8)}
    assert _names(_derive(headGroupSpec=head)) == ["ray-headgroup-0"]

    head = {"rayStartParams": {}, "template": pod_template()}
    (refused,) = _derive(headGroupSpec=head).refused
    assert "needs 4 pods" in refused.reason


@pytest.mark.parametrize(
    ("replicas", "least", "most", "is_suspended", "made"),
    [
        (3, 0, 8, False, 3),
        (None, 0, 8, False, 0),
        (None, 2, 8, False, 2),
        (1, 2, 8, False, 2),
        (9, 2, 8, False, 8),
        (9, None, None, False, 9),
        (-1, None, None, False, 0),
        (5, 6, 4, False, 6),  # which its validation refuses
        (3, 2, 8, True, 0),
    ],
)
def test_replicas_are_counted_as_by_kuberay(
    replicas: int | None, least: int | None, most: int | None, is_suspended: bool, made: int
) -> None:
    """The cases are those of `GetWorkerGroupDesiredReplicas` in its controllers/ray/utils/util.go."""
    assert count_replicas(replicas=replicas, least=least, most=most, is_suspended=is_suspended) == made


@given(
    replicas=st.none() | st.integers(-3, 9),
    least=st.integers(0, 5),
    more=st.integers(0, 5),
    is_suspended=st.booleans(),
)
def test_the_number_of_replicas_is_within_its_bounds(
    replicas: int | None, least: int, more: int, is_suspended: bool
) -> None:
    made = count_replicas(replicas=replicas, least=least, most=least + more, is_suspended=is_suspended)

    assert made == 0 if is_suspended else least <= made <= least + more
    if replicas is not None and least <= replicas <= least + more and not is_suspended:
        assert made == replicas


def test_a_suspended_cluster_does_not_ask() -> None:
    owner = parse_ray_cluster(ray_cluster(ray_group(), suspend=True))
    assert why_not_asked(owner, "opt-in") == "it is suspended"


def _without_affinity(part: str) -> dict[str, Any]:
    return {key: value for key, value in kept_apart().items() if key != part}


def _with_term(part: str, **changes: Any) -> dict[str, Any]:
    rules = copy.deepcopy(kept_apart())
    rules[part][REQUIRED][0].update(changes)
    return rules


def test_several_replicas_of_several_hosts_are_served_where_they_stay_apart() -> None:
    (refused,) = _derive(ray_group(replicas=2)).refused
    assert f"matchLabelKeys and podAntiAffinity with mismatchLabelKeys: [{REPLICA_NAME}]" in refused.reason
    assert "topologyKey cloud.google.com/gke-nodepool, or accelet.dev/slice" in refused.reason

    for key in ("cloud.google.com/gke-nodepool", "accelet.dev/slice"):
        followed = _derive(ray_group(replicas=2, affinity=kept_apart(key)))
        assert _names(followed) == ["ray-tpus-0", "ray-tpus-1"]


@pytest.mark.parametrize(
    "rules",
    [
        _without_affinity("podAffinity"),
        _without_affinity("podAntiAffinity"),
        kept_apart("kubernetes.io/hostname"),
        _with_term("podAffinity", topologyKey="accelet.dev/slice"),  # another than that of the other term
        _with_term("podAffinity", matchLabelKeys=["ray.io/group"]),
        _with_term("podAntiAffinity", mismatchLabelKeys=["ray.io/group"]),
        _with_term("podAntiAffinity", mismatchLabelKeys=None),  # its own replica would be kept out
        _with_term("podAntiAffinity", namespaces=["elsewhere"]),
        _with_term("podAntiAffinity", labelSelector={"matchLabels": {"ray.io/cluster": "another"}}),
        _with_term("podAntiAffinity", labelSelector=None),
    ],
)
def test_rules_that_do_not_hold_replicas_apart_are_not_taken_for_such(rules: dict[str, Any]) -> None:
    found = _derive(ray_group(replicas=2, affinity=rules))

    assert not found.slices
    assert "nothing would keep each replica on one slice" in found.refused[0].reason
    assert _derive(ray_group(replicas=1, affinity=rules)).slices


def test_groups_of_the_same_machines_are_to_stay_apart_from_each_other() -> None:
    found = _derive(ray_group("a"), ray_group("b"), ray_group("c", topology="4x8", hosts=8))
    assert _names(found) == ["ray-c-0"]
    assert [one.replicated_job for one in found.refused] == ["a", "b"]

    within_group = _with_term("podAntiAffinity", labelSelector={"matchLabels": {"ray.io/group": "a"}})
    found = _derive(ray_group("a", affinity=within_group), ray_group("b", affinity=kept_apart()))
    assert _names(found) == ["ray-b-0"]

    found = _derive(ray_group("a", affinity=kept_apart()), ray_group("b", affinity=kept_apart()))
    assert _names(found) == ["ray-a-0", "ray-b-0"]


@given(
    replicas=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    hosts=st.sampled_from([1, 3, 4]),
    is_apart=st.booleans(),
)
def test_slices_are_made_exactly_where_each_replica_has_the_pods_of_a_slice_and_stays_on_it(
    replicas: list[int], hosts: int, is_apart: bool
) -> None:
    rules: dict[str, Any] = {"affinity": kept_apart()} if is_apart else {}
    groups = [ray_group(f"g{number}", count, hosts, **rules) for number, count in enumerate(replicas)]

    found = _derive(*groups)

    served = hosts == 4 and (is_apart or sum(replicas) < 2)
    assert len(found.slices) == (sum(replicas) if served else 0)


@pytest.mark.parametrize(
    ("groups", "sentence", "followed"),
    [
        ([ray_group("a"), ray_group("a", topology="4x8", hosts=8)], "a groupName of its own", ["a", "b"]),
        ([ray_group("headgroup")], "a groupName of its own", ["b"]),
    ],
)
def test_groups_of_one_name_are_refused(
    groups: list[dict[str, Any]], sentence: str, followed: list[str]
) -> None:
    found = _derive(*groups)
    assert not found.slices
    assert all(sentence in one.reason for one in found.refused)

    named = [group | {"groupName": name} for group, name in zip(groups, followed, strict=True)]
    assert len(_derive(*named).slices) == len(groups)


def test_more_groups_than_anybody_needs_are_refused() -> None:
    many = [ray_group(f"g{number}", hosts=1, topology="2x4", chips=8) for number in range(101)]

    found = _derive(*many)
    assert not found.slices
    assert {one.reason for one in found.refused} == {
        "it has 101 worker groups; slices are made for at most 100"
    }
    assert len(_derive(*many[:100]).slices) == 100


def test_a_malformed_template_is_named_with_its_field() -> None:
    bad = ray_group()
    bad["template"]["spec"]["containers"] = 7

    with pytest.raises(MalformedObjectError) as caught:
        parse_ray_cluster(ray_cluster(_plain_group(), bad))

    assert caught.value.field.startswith("spec.workerGroupSpecs[1].template.spec.containers")


def _state_of(*groups: dict[str, Any]) -> tuple[ProvisionerState, list[SliceRequest]]:
    """A state with two slices of the group `a` and one of `b`, and the groups that there are now."""
    state = ProvisionerState(ProvisionerSettings(version="v1"), "a-label")
    state.known_kinds.add("RayCluster")
    before = (ray_group("a", 2, 1, topology="2x4", chips=8), ray_group("b"))
    requests = []
    for wanted in _derive(*before).slices:
        body = request_body(wanted)
        body["metadata"]["uid"] = f"uid-of-{wanted.name}"
        requests.append(parse_request(msgspec.Raw(msgspec.json.encode(body))))
        state.set_request(requests[-1])
    state.owners["RayCluster", "ml", "ray"] = parse_ray_cluster(ray_cluster(*groups))
    return state, requests


def test_slices_of_replicas_and_groups_that_are_gone_are_given_back() -> None:
    state, requests = _state_of(ray_group("a", 1, 1, topology="2x4", chips=8))

    fewer = Wish("the group a of the RayCluster has 1 replica now", is_ended=True)
    gone = Wish("the group b of the RayCluster has 0 replicas now", is_ended=True)
    assert [state.wish_for(one) for one in requests] == [Wish(), fewer, gone]


def test_a_cluster_that_cannot_be_read_any_more_keeps_its_slices() -> None:
    state, requests = _state_of(_plain_group())
    assert all(state.wish_for(one).is_ended for one in requests)

    state.owners["RayCluster", "ml", "ray"] = salvage_owner("RayCluster", ray_cluster() | {"spec": 7})
    assert [state.wish_for(one) for one in requests] == [Wish()] * 3
