"""What is read of volumes, their claims and classes, and of the claims of pods."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import MalformedObjectError
from accelet.kube.podparser import LONGEST_CLAIM, MOST_CLAIMS, parse_pod
from accelet.kube.pods import UsedClaim
from accelet.kube.selection import NodeTerm, Requirement
from accelet.scheduler.cluster.volumes import (
    LONGEST_NAME,
    MOST_REQUIREMENTS,
    Volume,
    VolumeClaim,
    VolumeClass,
    parse_volume,
    parse_volume_claim,
    parse_volume_class,
)
from tests.fakes.manifests import raw_pod
from tests.fakes.volumes import in_zone, raw_claim, raw_volume, using

_ZONE_A = NodeTerm((Requirement("topology.kubernetes.io/zone", "In", ("a",)),))


@pytest.mark.parametrize(
    ("raw", "claim"),
    [
        (raw_claim(), VolumeClaim()),
        (raw_claim(volume="v"), VolumeClaim("v", is_bound=True)),
        (raw_claim(volume="v", is_bound=False), VolumeClaim("v")),
        (raw_claim(annotations={"pv.kubernetes.io/bind-completed": ""}), VolumeClaim()),
        (raw_claim(volume_class="fast"), VolumeClaim(volume_class="fast")),
        (
            raw_claim(volume_class="fast", annotations={"volume.beta.kubernetes.io/storage-class": "slow"}),
            VolumeClaim(volume_class="slow"),
        ),
        (
            raw_claim(volume_class="fast", annotations={"volume.beta.kubernetes.io/storage-class": ""}),
            VolumeClaim(),
        ),
        (raw_claim(volume="v", phase="Lost"), VolumeClaim("v", is_bound=True, is_lost=True)),
        (raw_claim(deletionTimestamp="2026-01-01T00:00:00Z"), VolumeClaim(is_going=True)),
        (raw_claim(volume="v" * 1_000_000), VolumeClaim("v" * (LONGEST_NAME + 1), is_bound=True)),
        ({"metadata": {"name": "bare"}}, VolumeClaim()),
    ],
)
def test_a_claim_is_bound_once_its_annotation_says_so(raw: dict[str, Any], claim: VolumeClaim) -> None:
    assert parse_volume_claim(raw) == claim
    assert parse_volume_claim(msgspec.json.encode(raw)) == claim


def test_of_a_claim_that_is_full_of_annotations_and_nested_deeply_no_more_is_kept() -> None:
    deep = b'{"f":' * 5_000 + b"{}" + b"}" * 5_000
    many = b",".join(b'"a%d":"x"' % number for number in range(10_000))
    text = b'{"metadata":{"name":"n","managedFields":[%b],"annotations":{%b}},"spec":{"volumeName":"v"}}'
    assert parse_volume_claim(text % (deep, many)) == VolumeClaim("v")


@pytest.mark.parametrize(
    ("raw", "volume"),
    [
        (raw_volume("v"), Volume(("ml", "data"))),
        (raw_volume("v", None, terms=[in_zone("a")]), Volume(None, (_ZONE_A,))),
        (raw_volume("v", terms=[]), Volume(("ml", "data"), ())),
        (raw_volume("v", terms=[{}, in_zone("a")]), Volume(("ml", "data"), (_ZONE_A,))),
        (
            raw_volume("v", terms=[in_zone("a")], source={"gcePersistentDisk": {"pdName": "d"}}),
            Volume(("ml", "data")),
        ),
        (
            raw_volume(
                "v", labels={"topology.kubernetes.io/zone": "b__ a", "topology.kubernetes.io/region": ""}
            ),
            Volume(("ml", "data"), zones=(Requirement("topology.kubernetes.io/zone", "In", ("a", "b")),)),
        ),
        (raw_volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "a__"}), Volume(("ml", "data"))),
    ],
)
def test_a_volume_says_which_nodes_reach_it_by_its_affinity_and_its_labels(
    raw: dict[str, Any], volume: Volume
) -> None:
    assert parse_volume(raw) == volume
    assert parse_volume(msgspec.json.encode(raw)) == volume


def test_an_affinity_that_is_too_large_is_left_to_kube_scheduler() -> None:
    large = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"] * MOST_REQUIREMENTS}]}
    assert parse_volume(raw_volume("v", terms=[large])).affinity is None


@pytest.mark.parametrize(
    ("operator", "values", "affinity"),
    [
        ("In", ["n"], None),
        ("NotIn", ["n"], None),
        ("In", ["n", "m"], ()),
        ("Exists", [], ()),
    ],
)
def test_what_a_volume_requires_of_a_nodes_name_is_left_out_where_it_is_valid(
    operator: str, values: list[str], affinity: tuple[NodeTerm, ...] | None
) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}
    assert parse_volume(raw_volume("v", terms=[term])).affinity == affinity


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer", None])
def test_a_class_says_whether_its_claims_wait_for_a_pod(mode: str | None) -> None:
    raw = {"metadata": {"name": "c"}, "provisioner": "p", "volumeBindingMode": mode}
    assert parse_volume_class(raw) == VolumeClass(mode == "WaitForFirstConsumer")


def test_a_pod_uses_claims_that_it_names_and_claims_that_are_made_for_it() -> None:
    volumes = [
        *using("data", "data", "more")["volumes"],
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "settings", "configMap": {"name": "c"}},
    ]
    assert parse_pod(raw_pod("p", volumes=volumes)).volume_claims == (
        UsedClaim("data"),
        UsedClaim("more"),
        UsedClaim("p-scratch", is_ephemeral=True),
    )


def test_of_very_many_and_very_long_claims_of_a_pod_as_many_are_read_as_are_judged() -> None:
    pod = parse_pod(raw_pod("p", **using("x" * 100_000, *(f"c{number}" for number in range(10_000)))))
    assert len(pod.volume_claims) == MOST_CLAIMS
    assert max(len(claim.name) for claim in pod.volume_claims) == LONGEST_CLAIM + 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
_WHOLE = {
    **raw_volume(
        "v", terms=[{**in_zone("a"), "matchFields": [{"key": "k", "operator": "In", "values": []}]}]
    ),
    "volumeBindingMode": "Immediate",
    "status": {"phase": "Bound"},
}
_WHOLE["metadata"] |= raw_claim(volume="v", labels={"topology.kubernetes.io/zone": "a"})["metadata"]
_WHOLE["spec"] |= raw_claim(volume="v", volume_class="c")["spec"]


def _places(value: object) -> Iterator[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (key,)
        yield from ((key, *rest) for rest in _places(one))


@given(st.sampled_from(list(_places(_WHOLE))), _JSON)
def test_whatever_is_in_a_field_it_is_read_or_refused(place: tuple[str | int, ...], value: object) -> None:
    raw: Any = msgspec.json.decode(msgspec.json.encode(_WHOLE))
    *way, last = place
    holder = raw
    for key in way:
        holder = holder[key]
    holder[last] = value
    for parse in (parse_volume_claim, parse_volume, parse_volume_class):
        with suppress(MalformedObjectError):
            parse(msgspec.json.encode(raw))
