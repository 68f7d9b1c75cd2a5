"""Who follows the advice of a refusal gets slices, or was told plainly that there are none."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelet.provisioner.demand.owners import parse_job, parse_job_set
from accelet.provisioner.demand.selectors import NAMESPACED_JOB, job_key
from accelet.provisioner.offline import OfflinePlan, plan_offline
from accelet.provisioner.settings import DEFAULT_SETTINGS, ProvisionerSettings, read_settings
from accelet.runtime.settings import SettingsError
from tests.unit.provisioner.manifests import ACCELERATOR, TOPOLOGY, job, job_set

SPOT = "cloud.google.com/gke-spot"
PROVISIONING = "cloud.google.com/gke-provisioning"
RESERVATION = "cloud.google.com/reservation"
FLEX = "cloud.google.com/gke-flex-start"
COUNT = "cloud.google.com/gke-accelerator-count"
HINT = "cloud.google.com/gke-location-hint"
ICI = "cloud.google.com/gke-tpu-ici-resiliency"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
TEAM = "example.com/team"

Change = Mapping[str, Any]


def _plan(settings: ProvisionerSettings = DEFAULT_SETTINGS, **changes: Any) -> OfflinePlan:
    return plan_offline([parse_job(job(**changes))], "gke", settings)


def _told(found: OfflinePlan) -> str:
    assert not found.slices
    return found.refused[0].reason


def _selecting(**labels: str) -> Change:
    return {"selector": labels}


def _requiring(*expressions: Change, selector: Mapping[str, str] | None = None) -> Change:
    terms = [{"matchExpressions": list(expressions)}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}, "selector": dict(selector or {})}


def _one(key: str, operator: str, *values: str) -> Change:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


FOLLOWED: Sequence[tuple[Change, str, Sequence[Change]]] = [
    (_selecting(**{FLEX: "yes"}), "must be true or absent", [{FLEX: "true"}, {}]),
    (_selecting(**{"cloud.google.com/gke-queued": "true"}), f"select {FLEX} instead", [{FLEX: "true"}]),
    (_selecting(**{FLEX: "true", SPOT: "true"}), "choose one", [{FLEX: "true"}, {SPOT: "true"}]),
    (
        _selecting(**{FLEX: "true", PROVISIONING: "standard"}),
        "choose one",
        [{FLEX: "true"}, {PROVISIONING: "standard"}],
    ),
    (
        _selecting(**{FLEX: "true", f"{RESERVATION}-name": "r"}),
        f"leave {RESERVATION}-name out, or {FLEX}",
        [{FLEX: "true"}, {f"{RESERVATION}-name": "r"}],
    ),
    (
        _selecting(**{FLEX: "true", f"{RESERVATION}-affinity": "specific"}),
        "must be none or absent",
        [{FLEX: "true"}, {FLEX: "true", f"{RESERVATION}-affinity": "none"}],
    ),
    (
        _selecting(**{FLEX: "true", "accelet.dev/slice-set": "s"}),
        f"select {NAMESPACED_JOB} instead",
        [{FLEX: "true", NAMESPACED_JOB: "ml_train"}],
    ),
    (
        _selecting(**{f"{RESERVATION}-project": "p"}),
        f"add {RESERVATION}-name",
        [{f"{RESERVATION}-name": "r"}],
    ),
    (
        _selecting(**{f"{RESERVATION}-blocks": "b"}),
        f"add {RESERVATION}-name",
        [{f"{RESERVATION}-blocks": "b", f"{RESERVATION}-name": "r"}],
    ),
    (
        _selecting(**{f"{RESERVATION}-name": "r", f"{RESERVATION}-subblocks": "s"}),
        f"add {RESERVATION}-blocks",
        [{f"{RESERVATION}-{key}": "x" for key in ("name", "subblocks", "blocks")}],
    ),
    (
        _selecting(**{f"{RESERVATION}-affinity": "specific"}),
        f"add {RESERVATION}-name",
        [{f"{RESERVATION}-affinity": "specific", f"{RESERVATION}-name": "r"}],
    ),
    (
        _selecting(**{f"{RESERVATION}-affinity": "any"}),
        "is not served: name a reservation",
        [
            {f"{RESERVATION}-affinity": "specific", f"{RESERVATION}-name": "r"},
            {f"{RESERVATION}-affinity": "none"},
        ],
    ),
    (
        _selecting(**{f"{RESERVATION}-affinity": "any", f"{RESERVATION}-name": "r"}),
        "must be specific beside",
        [{f"{RESERVATION}-affinity": "specific", f"{RESERVATION}-name": "r"}],
    ),
    (
        _selecting(**{f"{RESERVATION}-name": "My reservation"}),
        "in [a-z0-9-]",
        [{f"{RESERVATION}-name": "my-reservation"}],
    ),
    (
        _selecting(**{f"{RESERVATION}-name": "r", SPOT: "true"}),
        "choose one",
        [{f"{RESERVATION}-name": "r"}, {SPOT: "true"}],
    ),
    (_selecting(**{SPOT: "yes"}), "must be true or absent", [{SPOT: "true"}, {}]),
    (
        _selecting(**{PROVISIONING: "cheap"}),
        "must be spot, standard or flex-start",
        [{PROVISIONING: "spot"}, {PROVISIONING: "standard"}, {PROVISIONING: "flex-start"}],
    ),
    (
        _selecting(**{PROVISIONING: "standard", SPOT: "true"}),
        "choose one",
        [{PROVISIONING: "standard"}, {SPOT: "true"}],
    ),
    (
        _selecting(**{"cloud.google.com/gke-nodepool": "mine"}),
        "leave cloud.google.com/gke-nodepool out",
        [{}],
    ),
    (
        _selecting(**{"kubernetes.io/arch": "arm64"}),
        "select that, or leave",
        [{"kubernetes.io/arch": "amd64"}, {}],
    ),
    (_selecting(**{COUNT: "8"}), "have 4: select that, or leave", [{COUNT: "4"}, {}]),
    (_selecting(**{HINT: "x" * 64}), "a label has at most 63", [{HINT: "x" * 63}]),
    (_selecting(**{HINT: "x y"}), "leave it out", [{}]),
    (_selecting(**{ICI: "true"}), f"leave {ICI} out", [{}]),
    (_selecting(**{ICI: "yes"}), "must be true or false", [{ICI: "false"}]),
    (_selecting(**{REGION: "us-east5"}), "only the kubelet puts this label on nodes; leave it out", [{}]),
    (_selecting(**{"accelet.dev/slice-request": "u"}), "only the provisioner puts", [{}]),
    (_selecting(**{"cloud.google.com/gke-sandbox": "a"}), "only Google puts", [{}]),
    (_selecting(**{NAMESPACED_JOB: "ml_other"}), "leave that label out", [{}]),
    (_selecting(**{"job-key": "0" * 40}), "leave that label out", [{"job-key": job_key("ml", "train")}, {}]),
]


@pytest.mark.parametrize(("wrong", "sentence", "followed"), FOLLOWED)
def test_the_advice_about_a_node_selector_leads_to_a_slice(
    wrong: Change, sentence: str, followed: Sequence[Mapping[str, str]]
) -> None:
    told = _told(_plan(**wrong))

    assert sentence in told
    for selector in followed:
        assert len(_plan(selector=selector).slices) == 1


AFFINITIES: Sequence[tuple[Change, str, Sequence[Mapping[str, str]]]] = [
    (_one(ZONE, "In", "a", "b"), f"one of these values of {ZONE}", [{ZONE: "a"}, {ZONE: "b"}]),
    (_one(ZONE, "NotIn", "a"), f"one value of {ZONE} in nodeSelector that meets it", [{ZONE: "b"}]),
    (_one(HINT, "Exists"), f"one value of {HINT} in nodeSelector that meets it", [{HINT: "x"}]),
    (_one(PROVISIONING, "In", "spot", "standard"), "one of these values", [{PROVISIONING: "standard"}]),
]
LEFT_OUT = [
    _one(ZONE, "DoesNotExist"),
    _one(TEAM, "DoesNotExist"),
    _one("cloud.google.com/gke-nodepool", "In", "a", "b"),
    _one("cloud.google.com/gke-sandbox", "Exists"),
    _one("kubernetes.io/hostname", "NotIn", "n"),
    _one("accelet.dev/slice-request", "Exists"),
]


@pytest.mark.parametrize(("wrong", "sentence", "followed"), AFFINITIES)
def test_the_advice_about_required_node_affinity_leads_to_a_slice(
    wrong: Change, sentence: str, followed: Sequence[Mapping[str, str]]
) -> None:
    assert sentence in _told(_plan(**_requiring(wrong)))

    assert len(_plan().slices) == 1
    for selector in followed:
        assert len(_plan(**_requiring(wrong, selector=selector)).slices) == 1


@pytest.mark.parametrize("wrong", LEFT_OUT)
def test_to_name_a_value_is_never_advised_where_no_value_would_be_taken(wrong: Change) -> None:
    told = _told(_plan(**_requiring(wrong)))

    assert told.endswith(f"leave {wrong['key']} out")


@pytest.mark.parametrize(
    "wrong", [_one(TOPOLOGY, "In", "4x8"), _one("kubernetes.io/arch", "In", "arm64", "s390x")]
)
def test_what_contradicts_is_to_be_left_out_of_the_affinity(wrong: Change) -> None:
    assert _told(_plan(**_requiring(wrong))).endswith("leave it out of the affinity")


def test_bounds_of_an_allowed_label_are_compared_as_numbers() -> None:
    settings = ProvisionerSettings(version="v1", node_labels=("example.com/rank",))
    bounds = [_one("example.com/rank", "Gt", "5"), _one("example.com/rank", "Lt", "8")]

    assert "that meets it" in _told(_plan(settings, **_requiring(*bounds)))
    assert _plan(settings, **_requiring(*bounds, selector={"example.com/rank": "7"})).slices
    for value in ("5", "8", "x"):
        assert "contradicts" in _told(
            _plan(settings, **_requiring(*bounds, selector={"example.com/rank": value}))
        )


@pytest.mark.parametrize(
    ("wrong", "sentence", "followed"),
    [
        ({"pods": 2}, "needs 4 pods", {"pods": 4}),
        ({"chips": 2}, "must ask for all of a machine's google.com/tpu", {"chips": 4}),
        ({"topology": "5x5"}, "the nearest are 4x8 and 4x4", {"topology": "4x4"}),
        ({"topology": "5x5"}, "the nearest are 4x8 and 4x4", {"topology": "4x8", "pods": 8}),
        ({"accelerator": "tpu-v6-slice"}, "the nearest is tpu-v6e-slice", {"accelerator": "tpu-v6e-slice"}),
        ({"chips": 0}, "must ask for whole chips of google.com/tpu", {"chips": 4}),
        ({"nodeSelector": {ACCELERATOR: "tpu-v6e-slice"}}, f"do not select {TOPOLOGY}", {}),
    ],
)
def test_the_advice_about_machines_leads_to_a_slice(wrong: Change, sentence: str, followed: Change) -> None:
    assert sentence in _told(_plan(**wrong))

    assert len(_plan(**followed).slices) == 1


def test_the_advice_about_tiers_leads_to_a_slice() -> None:
    spot_only = ProvisionerSettings(version="v1", tiers=("spot",))
    toleration = {"key": SPOT, "operator": "Exists"}

    assert f"the pods do not tolerate the taint {SPOT}" in _told(_plan(spot_only))
    assert _plan(spot_only, tolerations=[toleration]).slices


def test_flex_start_machines_are_for_pods_that_ask_for_them_and_that_kube_scheduler_sees() -> None:
    flex_only = ProvisionerSettings(version="v1", tiers=("flex-start",))
    flex = {FLEX: "true"}

    assert f"the pods do not select {FLEX}" in _told(_plan(flex_only))
    assert _plan(flex_only, selector=flex).slices

    old: dict[str, Any] = {"accelerator": "tpu-v4-podslice", "topology": "2x2x2", "pods": 2}
    assert f"not sold as flex-start; TPU v5e, v5p, v6e and tpu7x are: leave {FLEX} out" in _told(
        _plan(**old, selector=flex)
    )
    assert _plan(**old).slices

    gated: dict[str, Any] = {"selector": flex, "schedulingGates": [{"name": "example.com/wait"}]}
    assert "leave spec.schedulingGates out" in _told(_plan(**gated))
    assert _plan(selector=flex).slices


def test_a_job_that_is_left_to_gke_is_refused_nothing() -> None:
    raw = job(selector={"cloud.google.com/gke-queued": "true"})
    assert 'the annotation accelet.dev/provision: "false"' in _told(
        plan_offline([parse_job(raw)], "gke", DEFAULT_SETTINGS)
    )

    raw["metadata"]["annotations"] = {"accelet.dev/provision": "false"}
    for demand in ("opt-in", "all"):
        settings = ProvisionerSettings(version="v1", demand=demand)
        found = plan_offline([parse_job(raw)], "gke", settings)
        assert (found.slices, found.refused) == ((), ())
        assert "Job/ml/train: nothing is made: it does not ask" in found.notes[0]


def test_a_label_of_one_job_is_left_out_by_a_set_of_several() -> None:
    raw = job_set(selector={NAMESPACED_JOB: "ml_train-w-0"})
    assert "leave that label out" in _told(plan_offline([parse_job_set(raw)], "gke", DEFAULT_SETTINGS))

    assert len(plan_offline([parse_job_set(job_set())], "gke", DEFAULT_SETTINGS).slices) == 2


KEYS = st.one_of(
    st.from_regex(r"\A([a-z0-9.-]{1,12}/)?[A-Za-z0-9._-]{1,12}\Z"),
    st.sampled_from(["cloud.google.com/", "kubernetes.io/", "accelet.dev/", ""]).flatmap(
        lambda domain: st.sampled_from(["region", "hostname", "slice", "job-key", "gke-os", "x"]).map(
            lambda name: domain + name
        )
    ),
    st.text(max_size=20),
)


@given(key=KEYS, value=st.one_of(st.from_regex(r"\A[A-Za-z0-9._-]{0,5}\Z"), st.text(max_size=5)))
def test_a_label_that_settings_are_advised_to_allow_is_taken_by_them_and_gives_a_slice(
    key: str, value: str
) -> None:
    found = _plan(selector={key: value})
    if found.slices or "node_labels" not in _told(found):
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(yaml.safe_dump({"version": "v1", "node_labels": [key]}))
        settings = read_settings(file)

    (planned,) = _plan(settings, selector={key: value}).slices
    assert planned.body["nodePool"]["config"]["labels"][key] == value


@pytest.mark.parametrize(
    "key", ["cloud.google.com/gke-sandbox", "google.com/own", REGION, "accelet.dev/slice", "job-key"]
)
@pytest.mark.parametrize("field", ["node_labels", "pod_labels"])
def test_settings_allow_no_label_that_somebody_else_writes(tmp_path: Path, key: str, field: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({"version": "v1", field: [key]}))

    with pytest.raises(SettingsError, match="puts this label on nodes"):
        read_settings(file)
