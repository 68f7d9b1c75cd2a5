"""Volumes as rules of the pods that use them, beside what kube-scheduler does, by its source."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.kube.objects import ObjectKey
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.cluster.volumes import parse_volume, parse_volume_claim, parse_volume_class
from accelet.scheduler.gangs.grouping import GATE_PREFIX, Gang
from accelet.scheduler.placement.plan import Plan, plan_gangs
from accelet.scheduler.state import SchedulerState
from tests.fakes.manifests import raw_container, raw_pod
from tests.fakes.nodes import GPU, node
from tests.fakes.volumes import BIND_COMPLETED, Raw, in_zone, raw_claim, raw_volume, using

_BETA_ZONE, _ZONE = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
_BETA_REGION, _REGION = "failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"
_ZONES = (_BETA_ZONE, _BETA_REGION, _ZONE, _REGION)
_KEYS = (*_ZONES, "disk")
_LATE = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
_EARLY = {"metadata": {"name": "early"}, "volumeBindingMode": "Immediate"}


def _state(
    nodes: Mapping[str, Mapping[str, str]],
    claims: Sequence[Raw] = (),
    volumes: Sequence[Raw] = (),
    classes: Sequence[Raw] = (_LATE, _EARLY),
    *,
    is_known: bool = True,
) -> SchedulerState:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for number, (name, labels) in enumerate(nodes.items()):
        state.set_node(node(name, f"b0/s0/h{number}", labels=labels))
    for one in classes:
        state.set_volume_class(one["metadata"]["name"], parse_volume_class(one))
    for one in volumes:
        state.set_volume(one["metadata"]["name"], parse_volume(one))
    for one in claims:
        state.set_volume_claim(("ml", one["metadata"]["name"]), parse_volume_claim(one))
    if is_known:
        state.begin_volumes()
    return state


def _gated(name: str, *, gpus: int = 8, **spec: Any) -> Pod:
    asked = raw_container(limits={GPU: str(gpus)})
    gate = f"{GATE_PREFIX}j"
    labels = {"job-name": "train"}
    return parse_pod(raw_pod(name, gates=(gate,), labels=labels, containers=[asked], **spec))


def _gangs(state: SchedulerState) -> list[Gang]:
    for _ in state.ask_anew():
        pass
    return state.gangs()


def _plan(state: SchedulerState) -> Plan:
    (plan,) = plan_gangs(_gangs(state), state.cluster.layout, state.cluster.room())
    return plan


def _reason(state: SchedulerState) -> str:
    return _plan(state).reason or ""


_HERE_AND_THERE = {"near": {_ZONE: "a"}, "far": {_ZONE: "b"}, "third": {_ZONE: "a"}}


def test_a_gang_goes_where_its_volume_can_be_reached() -> None:
    volume = raw_volume("v", terms=[in_zone("b")])
    state = _state(_HERE_AND_THERE, [raw_claim(volume="v")], [volume])
    state.set_pod(_gated("p0", **using("data")))
    assert _plan(state).nodes == ("far",)


def test_a_refusal_counts_the_nodes_from_which_a_volume_cannot_be_reached() -> None:
    state = _state(_HERE_AND_THERE, [raw_claim(volume="v")], [raw_volume("v", terms=[in_zone("b")])])
    for number in range(2):
        state.set_pod(_gated(f"p{number}", **using("data")))
    said = "needs 2 nodes, the cluster has 1; of 3 nodes: 2 where volume v of claim data cannot be reached"
    assert _reason(state) == said


def test_pods_with_volumes_of_their_own_in_one_zone_are_alike() -> None:
    claims = [raw_claim(f"c{number}", f"v{number}") for number in range(2)]
    volumes = [raw_volume(f"v{number}", f"ml/c{number}", terms=[in_zone("a")]) for number in range(2)]
    state = _state(_HERE_AND_THERE, claims, volumes)
    for number in range(2):
        state.set_pod(_gated(f"p{number}", **using(f"c{number}")))
    plan = _plan(state)
    assert len({*plan.gang.shapes}) == 1
    assert sorted(plan.nodes or ()) == ["near", "third"]


def test_a_pod_must_reach_all_of_its_volumes() -> None:
    nodes = {"one": {_ZONE: "a", "disk": "x"}, "two": {_ZONE: "a", "disk": "y"}, "three": {_ZONE: "b"}}
    on_disk = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["y"]}]}
    claims = [raw_claim("c0", "v0"), raw_claim("c1", "v1")]
    volumes = [
        raw_volume("v0", "ml/c0", labels={_ZONE: "a"}),
        raw_volume("v1", "ml/c1", terms=[on_disk]),
    ]
    state = _state(nodes, claims, volumes)
    state.set_pod(_gated("p0", **using("c0", "c1")))
    assert _plan(state).nodes == ("two",)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ([], "pod p0 waits for its volume claim data, which is not there"),
        ([raw_claim()], "pod p0 waits for its volume claim data to be bound"),
        ([raw_claim(volume_class="early")], "pod p0 waits for its volume claim data to be bound"),
        ([raw_claim(volume_class="none")], "pod p0 waits for its volume claim data to be bound"),
        (
            [raw_claim(volume="v", is_bound=False, volume_class="late")],
            "pod p0 waits for its volume claim data to be bound",
        ),
        ([raw_claim(volume="v", phase="Lost")], "pod p0 waits: its volume claim data has lost its volume"),
        (
            [raw_claim(volume="v", deletionTimestamp="2026-01-01T00:00:00Z")],
            "pod p0 waits: its volume claim data is being deleted",
        ),
        (
            [raw_claim(volume="w")],
            "pod p0 waits: its volume claim data is bound to volume w, which is not there",
        ),
    ],
)
def test_a_gang_waits_while_kube_scheduler_would_bind_a_pod_nowhere(
    claims: Sequence[Raw], reason: str
) -> None:
    state = _state(_HERE_AND_THERE, claims, [raw_volume("v")])
    state.set_pod(_gated("p0", **using("data")))
    assert _reason(state) == reason


def test_a_claim_that_waits_for_its_pod_leaves_every_node() -> None:
    state = _state(_HERE_AND_THERE, [raw_claim(volume_class="late")])
    for number in range(3):
        state.set_pod(_gated(f"p{number}", **using("data")))
    assert _plan(state).nodes


def test_a_claim_that_names_somebody_elses_volume_learns_nothing_of_it() -> None:
    volume = raw_volume("v", "others/data", terms=[in_zone("nowhere")])
    state = _state(_HERE_AND_THERE, [raw_claim(volume="v")], [volume])
    state.set_pod(_gated("p0", **using("data")))
    assert _plan(state).nodes


def test_what_a_volume_claim_is_called_is_cut_short_in_a_sentence() -> None:
    state = _state(_HERE_AND_THERE)
    state.set_pod(_gated("p0", **using("\n" * 100_000)))
    assert len(_reason(state)) < 200
    assert "\n" not in _reason(state)


def test_nothing_is_judged_before_all_is_known_and_after_nobody_keeps_it_up() -> None:
    claims, volumes = [raw_claim(volume="v")], [raw_volume("v", terms=[in_zone("nowhere")])]
    state = _state(_HERE_AND_THERE, claims, volumes, is_known=False)
    state.set_pod(_gated("p0", **using("data")))
    assert _plan(state).nodes
    assert state.begin_volumes()
    assert "cannot be reached" in _reason(state)
    assert state.forget_volumes()
    assert _plan(state).nodes


def test_a_gang_is_made_anew_when_something_else_is_to_be_said_of_a_claim_of_it_and_only_then() -> None:
    state = _state(_HERE_AND_THERE)
    state.set_pod(_gated("p0", **using("data")))
    (gang,) = _gangs(state)
    claim, volume = parse_volume_claim(raw_claim(volume="v")), parse_volume(raw_volume("v"))
    assert not state.set_volume_claim(("ml", "other"), claim)
    assert not state.set_volume_claim(("others", "data"), claim)
    assert not state.set_volume("w", volume.__class__(("ml", "other")))
    assert _gangs(state)[0] is gang
    assert state.set_volume("v", volume)
    assert state.set_volume_claim(("ml", "data"), claim)
    assert _gangs(state)[0] is not gang
    assert not state.set_volume_claim(("ml", "data"), replace(claim))
    assert _plan(state).nodes
    assert state.set_volume_claim(("ml", "data"), None)
    assert _plan(state).nodes is None


def test_a_planned_pod_loses_its_node_when_its_volume_turns_out_to_be_elsewhere() -> None:
    state = _state(_HERE_AND_THERE, [raw_claim(volume_class="late")])
    pod = _gated("p0", **using("data"))
    state.set_pod(pod)
    shape = state.shape(pod)
    assert state.cluster.allows(shape, "near")
    state.set_volume("v", parse_volume(raw_volume("v", terms=[in_zone("b")])))
    state.set_volume_claim(("ml", "data"), parse_volume_claim(raw_claim(volume="v")))
    _gangs(state)
    assert not state.cluster.allows(state.shape(pod), "near")
    assert state.cluster.allows(state.shape(pod), "far")


def test_nothing_is_kept_of_claims_that_no_pod_uses_any_more() -> None:
    state = _state(_HERE_AND_THERE)
    for number in range(10):
        pod = _gated(f"p{number}", **using("data", f"own-{number}"))
        state.set_pod(pod)
        state.set_pod(replace(pod, resource_version="18", labels={"job-name": "other"}))
    assert state.set_volume_claim(("ml", "data"), parse_volume_claim(raw_claim()))
    for number in range(10):
        state.remove_pod(("ml", f"p{number}"), 0.0)
    assert not state.set_volume_claim(("ml", "data"), parse_volume_claim(raw_claim(volume="v")))
    assert not state.begin_volumes()


def test_whoever_changes_a_claim_all_the_time_has_nobody_wait_for_what_her_pods_ask() -> None:
    state = _state(_HERE_AND_THERE)
    base = _gated("p", gpus=1, **using("data"))
    for number in range(1_000):
        state.set_pod(replace(base, name=f"p{number}", uid=f"uid-{number}"))
    _gangs(state)
    parts, claim = 0, parse_volume_claim(raw_claim(volume_class="late"))
    state.set_volume_claim(("ml", "data"), claim)
    for _ in state.ask_anew():
        parts += 1
        state.set_volume_claim(("ml", "data"), None if parts % 2 else claim)
    assert parts == 5, "no more than one look at each pod, some at a time"


# What kube-scheduler 1.36.4 does: volume_binding.go and binder.go of VolumeBinding, and volume_zone.go.


class _RefusedError(Exception):
    """PreFilter refuses the pod, whatever the node."""


def _met(requirement: Raw, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
    return value is None


def _node_affinity(volume: Raw, labels: Mapping[str, str]) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    for term in affinity["required"]["nodeSelectorTerms"]:
        expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
        if (expressions or fields) and all(_met(one, labels) for one in expressions):
            return True  # the fields of a node without a name are not looked at
    return False


def _in_zone(volume: Raw, labels: Mapping[str, str]) -> bool:
    if not any(key in labels for key in _ZONES):
        return True
    for key in _ZONES:
        text = volume["metadata"]["labels"].get(key)
        if text is None:
            continue
        zones = [part.strip() for part in text.split("__")]
        if "" in zones:
            continue
        today = {_BETA_ZONE: _ZONE, _BETA_REGION: _REGION}.get(key, key)
        value = labels[key] if key in labels else labels.get(today)
        if value not in zones:
            return False
    return True


def _allowed(
    pod: Raw, labels: Mapping[str, str], claims: Mapping[str, Raw], volumes: Mapping[str, Raw]
) -> bool:
    """
    Raises:
        _RefusedError: on no node, whatever its labels.
    """
    used = [
        (f"{pod['metadata']['name']}-{one['name']}", False)
        if "ephemeral" in one
        else (one["persistentVolumeClaim"]["claimName"], True)
        for one in pod["spec"]["volumes"]
    ]
    fits = True
    for name, is_named in used:
        claim = claims.get(name)
        if claim is None or claim["status"]["phase"] == "Lost" or "deletionTimestamp" in claim["metadata"]:
            raise _RefusedError
        wanted = claim["spec"].get("volumeName", "")
        if not wanted or BIND_COMPLETED not in claim["metadata"]["annotations"]:
            if wanted or claim["spec"].get("storageClassName") != "late":
                raise _RefusedError
            continue
        if wanted not in volumes:
            raise _RefusedError
        volume = volumes[wanted]
        fits &= _node_affinity(volume, labels) and (not is_named or _in_zone(volume, labels))
    return fits


_LABELS = st.dictionaries(st.sampled_from(_KEYS), st.sampled_from("ab"), max_size=3)
_EXPRESSIONS = st.builds(
    lambda key, operator, values: {
        "key": key,
        "operator": operator,
        **({"values": values} if operator in ("In", "NotIn") else {}),
    },
    st.sampled_from(_KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=2),
)
_FIELDS = st.sampled_from(("In", "NotIn")).map(
    lambda operator: {"key": "metadata.name", "operator": operator, "values": ["n0"]}
)
_TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(_EXPRESSIONS, max_size=2),
        "matchFields": st.lists(_FIELDS, max_size=1),
    },
)
_ZONE_TEXTS = st.sampled_from(("a", "b", "a__b", "a__", "c", " a", ""))
_NAMES = ("c0", "c1", "p-own")
_MOSTLY = st.integers(0, 11).map(bool)


def _when_going(stays: bool) -> dict[str, Any]:
    return {} if stays else {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@st.composite
def _instances(draw: st.DrawFn) -> tuple[Raw, list[dict[str, str]], list[Raw], list[Raw]]:
    nodes = draw(st.lists(_LABELS, min_size=2, max_size=6))
    volumes = [
        raw_volume(
            f"v-{name}",
            f"ml/{name}",
            terms=draw(st.none() | st.lists(_TERMS, max_size=3)),
            labels=draw(st.dictionaries(st.sampled_from(_ZONES), _ZONE_TEXTS, max_size=3)),
        )
        for name in _NAMES
        if draw(_MOSTLY)
    ]
    claims = [
        raw_claim(
            name,
            f"v-{name}" if draw(_MOSTLY) else "",
            is_bound=draw(_MOSTLY),
            volume_class=draw(st.sampled_from(("late", "late", "early", "", "none", None))),
            phase=None if draw(_MOSTLY) else "Lost",
            **draw(_MOSTLY.map(_when_going)),
        )
        for name in _NAMES
        if draw(_MOSTLY)
    ]
    own = [{"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    named = draw(st.sampled_from((["c0"], ["c0", "c1"], [])))
    pod = raw_pod(
        "p",
        gates=(f"{GATE_PREFIX}j",),
        labels={},
        volumes=[*using(*named)["volumes"], *(own if not named or draw(st.booleans()) else [])],
    )
    return pod, nodes, claims, volumes


@settings(max_examples=400)
@given(_instances())
def test_volumes_are_judged_as_kube_scheduler_does(
    instance: tuple[Raw, list[dict[str, str]], list[Raw], list[Raw]],
) -> None:
    raw, labels, claims, volumes = instance
    nodes = {f"n{number}": at for number, at in enumerate(labels)}
    state = _state(nodes, claims, volumes)
    pod = parse_pod(raw)
    state.set_pod(pod)
    by_name = [{one["metadata"]["name"]: one for one in some} for some in (claims, volumes)]
    try:
        expected = {name for name, at in nodes.items() if _allowed(raw, at, *by_name)}
    except _RefusedError:
        assert state.asked_by(pod).problem
        return
    assert state.asked_by(pod).problem is None
    shape = state.shape(pod)
    layout = state.cluster.layout
    eligible = layout.eligible(shape.rules)
    assert {one.name for one, may in zip(layout.nodes, eligible, strict=True) if may} == expected
    assert {name for name in nodes if state.cluster.allows(shape, name)} == expected
    assert layout.refusals(shape.rules).total() == len(nodes) - len(expected)


_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("claim", "volume", "pod")),
        st.sampled_from(("data", "other")),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@given(_CHANGES)
def test_in_whatever_order_things_come_and_go_a_gang_is_as_if_it_had_just_been_made(
    changes: Sequence[tuple[str, str, bool, bool]],
) -> None:
    state = _state(_HERE_AND_THERE)
    there: dict[ObjectKey, bool] = {}
    for kind, name, comes, settles in changes:
        there[kind, name] = comes
        match kind:
            case "claim":
                claim = parse_volume_claim(raw_claim(name, f"v-{name}")) if comes else None
                state.set_volume_claim(("ml", name), claim)
            case "volume":
                raw = raw_volume(f"v-{name}", f"ml/{name}", terms=[in_zone("a" if name == "data" else "b")])
                state.set_volume(f"v-{name}", parse_volume(raw) if comes else None)
            case _ if comes:
                state.set_pod(_gated(f"p-{name}", **using(name)))
            case _:
                state.remove_pod(("ml", f"p-{name}"), 0.0)
        if settles:
            _gangs(state)
    fresh = _state(
        _HERE_AND_THERE,
        [raw_claim(name, f"v-{name}") for name in ("data", "other") if there.get(("claim", name))],
        [
            raw_volume(f"v-{name}", f"ml/{name}", terms=[in_zone("a" if name == "data" else "b")])
            for name in ("data", "other")
            if there.get(("volume", name))
        ],
    )
    for name in ("data", "other"):
        if there.get(("pod", name)):
            fresh.set_pod(_gated(f"p-{name}", **using(name)))
    assert _gangs(state) == _gangs(fresh)
