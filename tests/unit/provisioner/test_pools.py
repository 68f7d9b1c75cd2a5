"""Pools as they are to be made: names, marks, order of attempts, and each provider's request."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.selection import Toleration
from accelet.provisioner.demand.owners import parse_job, parse_job_set
from accelet.provisioner.demand.requests import spec_of
from accelet.provisioner.demand.slices import WantedSlice, derive_slices
from accelet.provisioner.planning import Identity, fingerprint_of, machines_of, order_for, plan_pool
from accelet.provisioner.pools.machines import Machines, Refusal
from accelet.provisioner.pools.plan import PoolPlan, pool_name
from accelet.provisioner.pools.tiers import (
    Attempt,
    Order,
    Tier,
    TierError,
    Wishes,
    order_attempts,
    tolerates_spot,
)
from accelet.provisioner.providers.bodies import render_body
from accelet.provisioner.settings import GkeSettings, NodeSettings, ProvisionerSettings, SliceClass
from tests.unit.provisioner.manifests import job, job_set

SPOT, ON_DEMAND = Tier("spot"), Tier("on-demand")
DEFAULT = ProvisionerSettings(version="v1")


def _wanted(**changes: Any) -> WantedSlice:
    return derive_slices(parse_job(job(**changes))).slices[0]


def _plan(wanted: WantedSlice, number: int = 0, settings: ProvisionerSettings = DEFAULT) -> PoolPlan:
    spec = spec_of(wanted)
    order = order_for(spec, wanted.owner.namespace, settings)
    assert not isinstance(order, Refusal), order
    identity = Identity(pool_name(wanted.name, "a-uid", number), "a-uid", "a-cluster")
    plan = plan_pool(spec, wanted.machines, order.attempts[number % len(order.attempts)], identity, settings)
    assert isinstance(plan, PoolPlan), plan
    return plan


@given(st.from_regex(r"[a-z]([-.a-z0-9]{0,60}[a-z0-9])?", fullmatch=True), st.text(), st.integers(0, 10**9))
def test_pool_names_are_the_providers_and_the_same_each_time(request: str, uid: str, number: int) -> None:
    name = pool_name(request, uid, number)

    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= 40
    assert pool_name(request, uid, number) == name != pool_name(request, uid, number + 1)


def test_attempts_are_tiers_times_zones_in_their_order() -> None:
    tiers, zones, wishes = (SPOT, ON_DEMAND), ("a", "b"), Wishes(tolerates_spot=True)

    first = order_attempts(tiers, zones, wishes)
    other = order_attempts(tiers, zones, wishes, zone_first=True)

    assert [(str(one.tier), one.zone) for one in first.attempts] == [
        ("spot", "a"),
        ("spot", "b"),
        ("on-demand", "a"),
        ("on-demand", "b"),
    ]
    assert sorted(map(str, other.attempts)) == sorted(map(str, first.attempts))
    assert [one.zone for one in other.attempts] == ["a", "a", "b", "b"]


def test_a_tier_that_the_pods_could_not_use_is_left_out_with_a_reason() -> None:
    order = order_attempts((SPOT, ON_DEMAND), ("a",), Wishes())

    assert order.attempts == (Attempt(ON_DEMAND, "a"),)
    assert order.skipped == (
        "spot is left out: the pods do not tolerate the taint cloud.google.com/gke-spot",
    )


def test_what_an_administrator_did_not_offer_is_not_bought() -> None:
    order = order_attempts((ON_DEMAND,), ("a",), Wishes(SPOT, "z"))

    assert not order.attempts
    assert "insist on spot, which the settings do not offer" in " ".join(order.skipped)
    assert "insist on zone z, which the settings do not offer" in " ".join(order.skipped)


def test_without_tiers_and_zones_the_pods_choose() -> None:
    assert order_attempts((), (), Wishes(SPOT, "z")).attempts == (Attempt(SPOT, "z"),)
    assert order_attempts((), (), Wishes()).attempts == (Attempt(ON_DEMAND, ""),)


@pytest.mark.parametrize("text", ["", "Spot", "reservation:", "reservation:a b", "reservation:" + "x" * 300])
def test_text_that_is_no_tier_is_refused(text: str) -> None:
    with pytest.raises(TierError, match="is no tier: on-demand, spot, flex-start or reservation:NAME"):
        Tier.parse(text)


def test_tolerations_of_spot_machines_are_those_that_kubernetes_means() -> None:
    key = "cloud.google.com/gke-spot"

    assert tolerates_spot([Toleration(key, "Equal", "true", "NoSchedule")])
    assert tolerates_spot([Toleration("", "Exists")])
    assert not tolerates_spot([Toleration(key, "Equal", "false")])
    assert not tolerates_spot([Toleration(key, "Exists", "", "NoExecute")])
    assert not tolerates_spot([])


def test_gke_gets_a_compact_placement_for_machines_and_none_for_one() -> None:
    body = render_body(_plan(_wanted()), "gke", DEFAULT)
    single = render_body(_plan(_wanted(topology="2x4", chips=8, pods=1)), "gke", DEFAULT)

    assert isinstance(body, dict)
    assert isinstance(single, dict)
    pool = body["nodePool"]
    assert pool["initialNodeCount"] == 4
    assert pool["placementPolicy"] == {"type": "COMPACT", "tpuTopology": "4x4"}
    assert pool["config"]["machineType"] == "ct6e-standard-4t"
    assert pool["config"]["labels"]["accelet.dev/slice-request"] == "a-uid"
    assert pool["config"]["labels"]["accelet.dev/cluster"] == "a-cluster"
    assert "autoscaling" not in pool
    assert "placementPolicy" not in single["nodePool"]


def test_tpu7x_gets_the_workload_policy_of_its_topology() -> None:
    wanted = _wanted(accelerator="tpu7x", topology="2x2x2", pods=2)
    body = render_body(_plan(wanted), "gke", DEFAULT)

    assert isinstance(body, dict)
    assert body["nodePool"]["placementPolicy"] == {"policyName": "accelet-2x2x2"}


def test_tiers_are_gkes_fields() -> None:
    settings = ProvisionerSettings(version="v1", tiers=("reservation:r1", "spot", "on-demand"))
    wanted = _wanted(tolerations=[{"operator": "Exists"}])
    bodies = [render_body(_plan(wanted, number, settings), "gke", settings) for number in range(3)]

    configs = [body["nodePool"]["config"] for body in bodies if isinstance(body, dict)]
    assert configs[0]["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["r1"],
    }
    assert configs[1]["spot"] is True
    assert {taint["key"] for taint in configs[1]["taints"]} == {
        "accelet.dev/slice-not-ready",
        "cloud.google.com/gke-spot",
    }
    assert "spot" not in configs[2]


_TOLERATION = {"key": "cloud.google.com/gke-spot", "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize("label", ["cloud.google.com/gke-spot", "cloud.google.com/gke-provisioning"])
def test_spot_machines_have_no_taint_that_their_pods_do_not_tolerate(label: str) -> None:
    """GKE labels spot machines, and has a taint on them only where somebody asks for it."""
    selector = {label: "true" if label.endswith("spot") else "spot"}
    made = [_plan(_wanted(selector=selector, tolerations=tolerations)) for tolerations in ([], [_TOLERATION])]

    assert [str(one.attempt.tier) for one in made] == ["spot", "spot"]
    assert [{taint.key for taint in one.taints} for one in made] == [
        {"accelet.dev/slice-not-ready"},
        {"accelet.dev/slice-not-ready", "cloud.google.com/gke-spot"},
    ]
    assert made[0].fingerprint != made[1].fingerprint, "neither takes over the other's parked pool"


@given(
    st.sampled_from([{}, {"cloud.google.com/gke-spot": "true"}]),
    st.sampled_from(
        [[], [_TOLERATION], [{"operator": "Exists"}], [{"key": "example.com/a", "operator": "Exists"}]]
    ),
    st.lists(st.sampled_from(["spot", "on-demand"]), unique=True),
)
def test_whatever_tier_a_slice_is_of_its_pods_tolerate_its_taints(
    selector: dict[str, str], tolerations: list[dict[str, str]], tiers: list[str]
) -> None:
    settings = ProvisionerSettings(version="v1", tiers=tuple(tiers))
    wanted = _wanted(selector=selector, tolerations=tolerations)
    order = order_for(spec_of(wanted), "ml", settings)
    for number in range(0 if isinstance(order, Refusal) else len(order.attempts)):
        kept = {taint.key for taint in _plan(wanted, number, settings).taints} - {
            "accelet.dev/slice-not-ready"
        }
        assert not kept or wanted.insisted.wishes.tolerates_spot


def test_a_pool_of_flex_start_begins_empty_and_is_filled_for_the_pods_that_wait_for_it() -> None:
    node = NodeSettings(flex_start_run_s=86400)
    settings = ProvisionerSettings(version="v1", gke=GkeSettings(node=node))
    wanted = _wanted(selector={"cloud.google.com/gke-flex-start": "true"})
    plan = _plan(wanted, settings=settings)
    body = render_body(plan, "gke", settings)

    assert isinstance(body, dict)
    pool = body["nodePool"]
    assert pool["initialNodeCount"] == 0
    scaling = {"enabled": True, "totalMinNodeCount": 0, "totalMaxNodeCount": 4, "locationPolicy": "ANY"}
    assert pool["autoscaling"] == scaling
    assert pool["management"]["autoRepair"] is False
    config = pool["config"]
    assert (config["flexStart"], config["maxRunDuration"]) == (True, "86400s")
    assert config["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert {taint["key"] for taint in config["taints"]} == {
        "startup-taint.cluster-autoscaler.kubernetes.io/accelet-slice-not-ready"
    }
    assert config["labels"]["job-key"], "pods that select their Job's nodes fit them from the start"
    assert plan.fingerprint == fingerprint_of(spec_of(wanted), settings), "it is no drift"


def test_nobody_but_a_class_chooses_the_nodes_identity() -> None:
    settings = ProvisionerSettings(
        version="v1", classes=(SliceClass(name="big", node=NodeSettings(service_account="sa@p")),)
    )
    raw = job_set()
    raw["metadata"]["annotations"] = {"accelet.dev/slice-class": "big"}
    wanted = derive_slices(parse_job_set(raw)).slices[0]
    body = render_body(_plan(wanted, settings=settings), "gke", settings)
    raw["metadata"]["annotations"] = {"accelet.dev/slice-class": "none of these"}
    unknown = order_for(spec_of(derive_slices(parse_job_set(raw)).slices[0]), "ml", settings)

    assert isinstance(body, dict)
    assert body["nodePool"]["config"]["serviceAccount"] == "sa@p"
    assert unknown == Refusal("there is no slice class 'none of these' for the namespace ml; there are: big")


def test_a_class_is_open_to_the_namespaces_it_names_and_others_are_not_told_of_it() -> None:
    mine, everybodys = SliceClass(name="mine", namespaces=("ml",)), SliceClass(name="everybodys")
    settings = ProvisionerSettings(version="v1", classes=(mine, everybodys))
    raw = job_set()
    raw["metadata"]["annotations"] = {"accelet.dev/slice-class": "mine"}
    spec = spec_of(derive_slices(parse_job_set(raw)).slices[0])

    assert isinstance(order_for(spec, "ml", settings), Order)
    assert order_for(spec, "others", settings) == Refusal(
        "there is no slice class 'mine' for the namespace others; there are: everybodys"
    )


def test_pods_labels_that_the_settings_name_are_on_their_nodes() -> None:
    settings = ProvisionerSettings(version="v1", pod_labels=("example.com/team",))
    raw = job()
    raw["spec"]["template"]["metadata"] = {"labels": {"example.com/team": "vision", "app": "train"}}
    wanted = derive_slices(parse_job(raw), settings.node_labels, settings.pod_labels).slices[0]

    assert wanted.insisted.labels == {"example.com/team": "vision"}
    assert isinstance(order_for(spec_of(wanted), "ml", settings), Order)
    body = render_body(_plan(wanted, settings=settings), "gke", settings)
    assert isinstance(body, dict)
    assert body["nodePool"]["config"]["labels"]["example.com/team"] == "vision"


def test_bills_say_for_whom_a_pool_was_made_and_its_kind_is_the_same() -> None:
    settings = ProvisionerSettings(version="v1")
    spec, other = spec_of(_wanted(name="Train.2" + "x" * 90)), spec_of(_wanted(name="other"))
    machines = machines_of(spec)
    assert isinstance(machines, Machines)
    plans = [
        plan_pool(one, machines, Attempt(Tier("on-demand"), ""), Identity("p", "u", "", "ml"), settings)
        for one in (spec, other)
    ]

    assert isinstance(plans[0], PoolPlan)
    assert isinstance(plans[1], PoolPlan)
    body = render_body(plans[0], "gke", settings)
    assert isinstance(body, dict)
    assert body["nodePool"]["config"]["resourceLabels"] == {
        "accelet-namespace": "ml",
        "accelet-owner-kind": "job",
        "accelet-owner": "train-2" + "x" * 56,
    }
    assert plans[0].fingerprint == plans[1].fingerprint


def test_what_only_google_says_of_nodes_is_no_setting() -> None:
    keys = ("google.com/tpu", "cloud.google.com/gke-flex-start", "example.com/team", "mygoogle.com/a")
    for field in ("node_labels", "pod_labels"):
        settings = ProvisionerSettings(version="v1", **{field: keys})  # type: ignore[arg-type]
        told = [(one.field, one.sentence) for one in settings.problems()]
        assert [path for path, _ in told] == [(field, 0), (field, 1)]


def test_disks_are_confidential_with_a_key_alone() -> None:
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    node = NodeSettings(confidential_storage=True, boot_disk_kms_key=key, secure_boot=True)
    settings = ProvisionerSettings(version="v1", gke=GkeSettings(node=node))
    body = render_body(_plan(_wanted(), settings=settings), "gke", settings)

    assert isinstance(body, dict)
    config = body["nodePool"]["config"]
    assert config["enableConfidentialStorage"] is True
    assert config["shieldedInstanceConfig"] == {"enableSecureBoot": True, "enableIntegrityMonitoring": True}
    assert node.problems() == []
    assert [one.field for one in NodeSettings(confidential_storage=True).problems()] == [
        ("confidential_storage",)
    ]


def test_labels_that_gke_would_not_take_are_refused() -> None:
    keys = [f"example.com/{index:02}" for index in range(20)]
    settings = ProvisionerSettings(version="v1", node_labels=tuple(keys))
    raw = job(selector=dict.fromkeys(keys, "x" * 60))
    wanted = derive_slices(parse_job(raw), keys).slices[0]

    found = render_body(_plan(wanted, settings=settings), "gke", settings)

    assert isinstance(found, Refusal)
    assert re.search(
        "the labels of the pool have 1[0-9]{3} characters together; GKE takes 1024", found.reason
    )


def test_cluster_api_gets_machines_of_the_types_template() -> None:
    body = render_body(_plan(_wanted()), "cluster-api", DEFAULT)

    assert isinstance(body, dict)
    assert body["spec"]["replicas"] == 4
    machine = body["spec"]["template"]["spec"]
    assert machine["infrastructureRef"]["name"] == "ct6e-standard-4t"
    labels = body["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= body["spec"]["selector"]["matchLabels"].items()
    assert labels["cloud.google.com/gke-tpu-topology"] == "4x4"


def test_the_fingerprint_is_the_hardwares() -> None:
    one, other = _plan(_wanted()), _plan(_wanted(), number=3)

    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != _plan(_wanted(topology="4x8", pods=8)).fingerprint
