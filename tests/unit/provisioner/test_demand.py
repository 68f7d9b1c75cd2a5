"""What JobSets and Jobs ask for, and what they are told if they cannot have it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import MalformedObjectError
from accelet.provisioner.demand.owners import JobOwner, parse_job, parse_job_set
from accelet.provisioner.demand.slices import Derived, derive_slices, why_not_asked
from accelet.provisioner.pools.tiers import Tier, Wishes
from tests.unit.provisioner.manifests import ACCELERATOR, PROVISION, TOPOLOGY, job, job_set, job_spec

SPOT = "cloud.google.com/gke-spot"
FLEX = "cloud.google.com/gke-flex-start"
PROVISIONING = "cloud.google.com/gke-provisioning"
RESERVATION = "cloud.google.com/reservation"


def _job(**changes: Any) -> JobOwner:
    return parse_job(job(**changes))


def _reason(derived: Derived) -> str:
    assert not derived.slices
    return derived.refused[0].reason


def test_a_job_set_asks_for_a_slice_a_job() -> None:
    derived = derive_slices(parse_job_set(job_set(replicas=2)))

    assert [(one.job, one.index, one.set_size) for one in derived.slices] == [
        ("train-w-0", 0, 2),
        ("train-w-1", 1, 2),
    ]
    assert {one.machines.hosts for one in derived.slices} == {4}
    assert len({one.name for one in derived.slices}) == 2
    assert len({one.set_name for one in derived.slices}) == 1


def test_owners_of_one_name_at_different_times_have_different_requests() -> None:
    first, second = job(), job()
    second["metadata"]["uid"] = "another"

    names = {derive_slices(parse_job(raw)).slices[0].name for raw in (first, second)}

    assert len(names) == 2
    assert all(re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= 63 for name in names)


def test_jobs_without_tpus_ask_for_nothing() -> None:
    raw = job_set()
    cpu = job_spec()
    cpu["template"]["spec"] = {"containers": [{"name": "main", "image": "driver"}]}
    raw["spec"]["replicatedJobs"].append({"name": "driver", "template": {"spec": cpu}})

    derived = derive_slices(parse_job_set(raw))

    assert [one.replicated_job for one in derived.slices] == ["w", "w"]
    assert not derived.refused


def test_one_refused_job_refuses_the_set() -> None:
    raw = job_set()
    raw["spec"]["replicatedJobs"].append({"name": "bad", "template": {"spec": job_spec(topology="5x5")}})

    derived = derive_slices(parse_job_set(raw))

    assert not derived.slices
    assert [one.replicated_job for one in derived.refused] == ["bad", "w"]
    assert "those of bad are refused" in derived.refused[1].reason


def _requiring(*terms: dict[str, Any], **selected: str) -> Derived:
    raw = job()
    spec = raw["spec"]["template"]["spec"]
    spec["nodeSelector"] |= selected
    required = {"nodeSelectorTerms": list(terms)}
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return derive_slices(parse_job(raw))


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
        ]
    }


ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ([_expression(TOPOLOGY, "In", "4x8")], "contradicts 4x4"),
        ([_expression(TOPOLOGY, "NotIn", "4x4")], "contradicts 4x4"),
        ([_expression(ZONE, "NotIn", "us-east5-a")], f"name one value of {ZONE} in nodeSelector"),
        (
            [_expression(ZONE, "In", "us-east5-a", "us-east5-b")],
            f"name one of these values of {ZONE} in nodeSelector",
        ),
        ([_expression("example.com/team", "Exists")], "cannot be promised of a new pool"),
        ([_expression("example.com/team", "DoesNotExist")], "cannot be promised of a new pool"),
        ([_expression("example.com/rank", "Gt", "5")], "cannot be promised of a new pool"),
        ([_expression("kubernetes.io/arch", "In", "arm64", "s390x")], "contradicts amd64"),
        ([_expression(ZONE, "In", "a"), _expression(ZONE, "In", "b")], "must be one term"),
        (
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}],
            "must be one term",
        ),
    ],
)
def test_required_affinity_that_a_new_pool_may_not_meet_is_refused(
    terms: list[dict[str, Any]], sentence: str
) -> None:
    assert sentence in _reason(_requiring(*terms))


@pytest.mark.parametrize(
    "term",
    [
        _expression(TOPOLOGY, "In", "4x4"),
        _expression(TOPOLOGY, "In", "4x4", "4x8"),
        _expression(TOPOLOGY, "Exists"),
        _expression(ACCELERATOR, "NotIn", "tpu-v5-lite-podslice"),
        _expression("kubernetes.io/arch", "In", "amd64", "arm64"),
        _expression("kubernetes.io/os", "Exists"),
        _expression(ZONE, "In", "us-east5-a"),
    ],
)
def test_required_affinity_that_every_new_pool_meets_is_no_hindrance(term: dict[str, Any]) -> None:
    assert len(_requiring(term).slices) == 1


def test_node_affinity_says_as_much_as_a_node_selector() -> None:
    terms = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in ((ACCELERATOR, "tpu-v6e-slice"), (TOPOLOGY, "4x4"))
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    derived = derive_slices(_job(nodeSelector={}, affinity=affinity))

    assert derived.slices[0].machines.topology == "4x4"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pods": 2}, "^4x4 with 4 chips a pod needs 4 pods, the Job has 2$"),
        ({"chips": "500m"}, "must ask for whole chips of google.com/tpu"),
        ({"chips": 0}, "must ask for whole chips of google.com/tpu"),
        ({"selector": {"cloud.google.com/gke-nodepool": "mine"}}, "insist on the node pool 'mine'"),
        ({"selector": {"example.com/team": "a"}}, "insist on the label example.com/team=a"),
        ({"selector": {"cloud.google.com/gke-accelerator-count": "8"}}, "insist on machines of 8 chips"),
        ({"selector": {"kubernetes.io/arch": "arm64"}}, "TPU machines are amd64"),
        ({"selector": {SPOT: "yes"}}, "must be true or absent, not 'yes'"),
        ({"selector": {SPOT: "true", "cloud.google.com/reservation-name": "r"}}, "choose one"),
        ({"selector": {"cloud.google.com/reservation-name": "a b"}}, "'a b' is no reservation's name"),
        ({"selector": {FLEX: "yes"}}, "must be true or absent, not 'yes'"),
        ({"selector": {FLEX: "true", SPOT: "true"}}, "on flex-start machines and on spot machines"),
        ({"selector": {FLEX: "true", f"{RESERVATION}-affinity": "any"}}, "must be none or absent"),
        ({"selector": {FLEX: "true"}, "schedulingGates": [{"name": "g"}]}, "wait at the gate g"),
        ({"selector": {FLEX: "true", "accelet.dev/slice-set": "s"}}, "insist on accelet.dev/slice-set"),
        ({"selector": {"cloud.google.com/gke-queued": "true"}}, "insist on queued provisioning"),
        ({"selector": {PROVISIONING: "cheap"}}, "must be spot, standard or flex-start, not 'cheap'"),
        ({"selector": {PROVISIONING: "standard", SPOT: "true"}}, "choose one"),
        (
            {"selector": {"cloud.google.com/gke-sandbox": "a"}},
            "only Google puts this label on nodes",
        ),
        ({"selector": {f"{RESERVATION}-blocks": "b"}}, "and name no reservation"),
        ({"selector": {f"{RESERVATION}-affinity": "any"}}, "is not served"),
        ({"selector": {f"{RESERVATION}-name": "r", f"{RESERVATION}-affinity": "any"}}, "must be specific"),
        ({"selector": {f"{RESERVATION}-name": "r", f"{RESERVATION}-subblocks": "s"}}, "name no block"),
        ({"selector": {"job-key": "0" * 40}}, "insist on a job-key that is not that of the Job ml/train"),
        (
            {"selector": {"cloud.google.com/gke-location-hint": "x" * 64}},
            "64 characters; a label has at most",
        ),
    ],
)
def test_what_a_new_pool_could_not_promise_is_refused(changes: dict[str, Any], reason: str) -> None:
    found = _reason(derive_slices(_job(**changes)))

    assert re.search(reason, found), found


def test_the_workers_of_a_slice_must_be_numbered_and_run_together() -> None:
    loose, partial = job(), job()
    loose["spec"]["completionMode"] = "NonIndexed"
    partial["spec"]["completions"] = 8

    assert "completionMode: Indexed" in _reason(derive_slices(parse_job(loose)))
    assert "completions must be 4 as parallelism is, not 8" in _reason(derive_slices(parse_job(partial)))


def test_a_topology_must_be_selected() -> None:
    raw = job()
    del raw["spec"]["template"]["spec"]["nodeSelector"][TOPOLOGY]

    assert _reason(derive_slices(parse_job(raw))) == (
        f"the pods ask for google.com/tpu but do not select {TOPOLOGY}: say which TPUs in nodeSelector"
    )


def test_selectors_of_capacity_are_requirements() -> None:
    spot = derive_slices(_job(selector={SPOT: "true", "topology.kubernetes.io/zone": "us-east5-b"}))
    reserved = derive_slices(
        _job(selector={"cloud.google.com/reservation-name": "r", "cloud.google.com/reservation-project": "p"})
    )

    assert spot.slices[0].insisted.wishes == Wishes(Tier("spot"), "us-east5-b")
    assert reserved.slices[0].insisted.wishes.tier == Tier("reservation", "projects/p/reservations/r")


@pytest.mark.parametrize(
    ("selector", "tier"),
    [
        ({PROVISIONING: "spot"}, "spot"),
        ({PROVISIONING: "spot", SPOT: "true"}, "spot"),
        ({PROVISIONING: "standard"}, "on-demand"),
        ({f"{RESERVATION}-affinity": "none"}, "on-demand"),
        ({f"{RESERVATION}-affinity": "none", SPOT: "true"}, "spot"),
        ({f"{RESERVATION}-name": "r", f"{RESERVATION}-affinity": "specific"}, "reservation:r"),
        ({f"{RESERVATION}-name": "r", f"{RESERVATION}-blocks": "b"}, "reservation:r/reservationBlocks/b"),
        (
            {
                f"{RESERVATION}-name": "r",
                f"{RESERVATION}-project": "p",
                f"{RESERVATION}-blocks": "b",
                f"{RESERVATION}-subblocks": "s",
            },
            "reservation:projects/p/reservations/r/reservationBlocks/b/reservationSubBlocks/s",
        ),
    ],
)
def test_every_label_by_which_gke_names_capacity_is_understood(selector: dict[str, str], tier: str) -> None:
    (wanted,) = derive_slices(_job(selector=selector)).slices

    assert str(wanted.insisted.wishes.tier) == tier


def test_labels_of_nodes_are_the_administrators_to_allow() -> None:
    owner = _job(selector={"example.com/team": "a"})

    assert not derive_slices(owner).slices
    assert derive_slices(owner, ["example.com/team"]).slices[0].insisted.labels == {"example.com/team": "a"}


def test_exclusive_placement_needs_a_label_that_fits() -> None:
    raw = job_set(name="x" * 60)
    raw["metadata"]["annotations"] = {
        **PROVISION,
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool",
        "alpha.jobset.sigs.k8s.io/node-selector": "",
    }

    assert "67 characters of at most 63" in _reason(derive_slices(parse_job_set(raw)))
    raw["metadata"]["name"] = "short"
    assert all(one.is_exclusive for one in derive_slices(parse_job_set(raw)).slices)


_EXCLUSIVE_KEYS = {
    "topology": "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "selector": "alpha.jobset.sigs.k8s.io/node-selector",
}
_EXCLUSIVE = st.sets(st.sampled_from(("topology", "selector"))).map(
    lambda asked: {_EXCLUSIVE_KEYS[one]: "cloud.google.com/gke-nodepool" for one in asked}
)


@given(of_all=_EXCLUSIVE, of_job=_EXCLUSIVE)
def test_nodes_are_kept_for_a_job_exactly_where_job_set_lets_its_pods_in(
    of_all: dict[str, str], of_job: dict[str, str]
) -> None:
    """The Job's annotations as JobSet v0.12.0 makes them of its own and the template's."""
    topology, selector = _EXCLUSIVE_KEYS.values()
    of_made = dict(of_job)
    if topology in of_all:
        of_made |= of_all
    raw = job_set()
    raw["metadata"]["annotations"] = PROVISION | of_all
    raw["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": of_job}

    slices = derive_slices(parse_job_set(raw)).slices

    assert {one.is_exclusive for one in slices} == {{topology, selector} <= of_made.keys()}


def test_nodes_are_kept_for_no_job_that_is_not_a_job_sets() -> None:
    """Nobody has its pods tolerate the taint."""
    raw = job()
    raw["metadata"]["annotations"] = PROVISION | dict.fromkeys(_EXCLUSIVE_KEYS.values(), "x")

    assert [one.is_exclusive for one in derive_slices(parse_job(raw)).slices] == [False]


def test_absurd_numbers_are_refused_and_cost_nothing() -> None:
    assert "asks for 1000000000 slices; at most 1000" in _reason(
        derive_slices(parse_job_set(job_set(replicas=10**9)))
    )
    assert "the Job has 1000000000" in _reason(derive_slices(_job(pods=10**9)))
    assert derive_slices(parse_job_set(job_set(replicas=-1))) == Derived()
    assert derive_slices(_job(pods=-1)) == Derived()


def test_an_owner_is_asked_whether_it_wants_its_slices_now() -> None:
    raw = job()
    assert why_not_asked(parse_job(raw), "opt-in") is None
    raw["metadata"]["annotations"] = {}
    assert why_not_asked(parse_job(raw), "all") is None
    assert "does not ask" in (why_not_asked(parse_job(raw), "opt-in") or "")
    raw["spec"]["suspend"] = True
    assert why_not_asked(parse_job(raw), "all") == "it is suspended"
    raw["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert why_not_asked(parse_job(raw), "all") == "it has finished"
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert why_not_asked(parse_job(raw), "all") == "it is being deleted"


@pytest.mark.parametrize("place", ["owner", "pod"])
def test_the_originals_switch_is_honoured(place: str) -> None:
    raw = job()
    off = {"tpu-provisioner.cloud.google.com/disable-autoprovisioning": "true"}
    if place == "owner":
        raw["metadata"]["annotations"] = {**PROVISION, **off}
    else:
        raw["spec"]["template"]["metadata"] = {"annotations": off}

    assert "turns it off" in (why_not_asked(parse_job(raw), "all") or "")


def test_a_malformed_owner_is_named_with_its_field() -> None:
    raw = job_set()
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"google.com/tpu": "four"}
    }

    with pytest.raises(MalformedObjectError, match=r"JobSet ml/train: spec.replicatedJobs\[w\].*four"):
        parse_job_set(raw)


def test_workers_are_found_by_the_service_that_their_names_are_of() -> None:
    raw = job_set()
    assert {one.service for one in parse_job_set(raw).templates} == {"train"}
    raw["spec"]["network"] = {"subdomain": "workers"}
    assert {one.service for one in parse_job_set(raw).templates} == {"workers"}
    raw["spec"]["network"] = {"enableDNSHostnames": False, "subdomain": "workers"}
    assert {one.service for one in parse_job_set(raw).templates} == {None}

    assert _job().templates[0].service is None
    assert _job(subdomain="workers").templates[0].service == "workers"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(("selector", "tolerations", "containers", "pods", "mode")), _JSON)
def test_no_field_of_a_stranger_breaks_more_than_its_own_job(field: str, value: object) -> None:
    raw = job()
    pod = raw["spec"]["template"]["spec"]
    match field:
        case "selector":
            pod["nodeSelector"] = value
        case "tolerations" | "containers":
            pod[field] = value
        case "pods":
            raw["spec"]["parallelism"] = value
        case _:
            raw["spec"]["completionMode"] = value
    try:
        derived = derive_slices(parse_job(raw))
    except MalformedObjectError:
        return
    assert not (derived.slices and derived.refused)
