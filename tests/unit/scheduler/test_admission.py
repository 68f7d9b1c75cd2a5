"""What is planned for Kueue's Workloads, and what is said of them: pure decisions."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.fakeapi.patches import json_patch
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import Owner
from accelet.scheduler.admission.adopting import adopt
from accelet.scheduler.admission.book import AdmissionBook
from accelet.scheduler.admission.judging import (
    FIRST_RETRY_S,
    LAST_RETRY_S,
    Prospects,
    Told,
    check_patch,
    decide,
)
from accelet.scheduler.admission.kueue import (
    AdmissionCheck,
    CheckState,
    KueueWorkload,
    ResourceFlavor,
    parse_admission_check,
    parse_flavor,
    parse_kueue_workload,
)
from accelet.scheduler.admission.placeholders import (
    MOST_PODS,
    NotPlanned,
    Placeholders,
    Unplannable,
    make_placeholders,
    placeholder_gang,
)
from accelet.scheduler.admission.podsets import PodSet, parse_pod_sets
from accelet.scheduler.admission.topologies import parse_topology
from accelet.scheduler.gangs.grouping import GATE_PREFIX, GangKey, find_gangs, gang_key
from accelet.scheduler.gangs.levels import KUEUE_REQUIRED, KUEUE_SLICE_LEVEL
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS, POD_SET, placeholder_name
from accelet.scheduler.gangs.rankslices import KUEUE_SLICE_SIZE
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.record import Placement, Record
from tests.unit.scheduler import values

JOB = Owner("Job", "train", "uid-train", "batch/v1", is_controller=True)
QUEUED = KueueWorkload("ml", "job-train", "uid-w", "7", JOB, 100.0, checks=(CheckState("places", "Pending"),))
OURS = frozenset({"places"})
WITHIN_S = 60.0


def _sets(*counts: int, gate: str = f"{GATE_PREFIX}j", **fields: Any) -> list[PodSet]:
    pod = values.pod("template", gates=(gate,), **fields)
    return [PodSet(f"set{number}", count, pod) for number, count in enumerate(counts)]


def _made(*counts: int, **fields: Any) -> Placeholders:
    made = make_placeholders(QUEUED, _sets(*counts, **fields), {}, GATE_PREFIX)
    assert isinstance(made, Placeholders)
    return made


def _promise(pods: int, *, until_s: float = 1000.0, uid: str = "uid-w") -> Record:
    placements = tuple(
        Placement(placeholder_name("job-train", rank), uid, f"n{rank}") for rank in range(pods)
    )
    return Record(placeholder_gang(QUEUED), placements, 300, 200, until_s=until_s)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_placeholders_are_one_gang_of_as_many_pods_in_rank_order(counts: list[int]) -> None:
    made = make_placeholders(QUEUED, _sets(*counts), {}, GATE_PREFIX)
    if not any(counts):
        assert isinstance(made, NotPlanned)
        return
    assert isinstance(made, Placeholders)
    pods = list(made.pods())
    (gang,) = find_gangs(reversed(pods), [Workload(PLACEHOLDERS, "ml", "job-train", made.count)])
    assert gang.key == made.key
    assert [pod.name for pod in gang.pods] == [f"job-train/{rank}" for rank in range(sum(counts))]
    assert (gang.size, gang.lacking, gang.objection) == (sum(counts), 0, None)


def test_slices_of_a_pod_set_are_slices_of_its_placeholders() -> None:
    said = {KUEUE_SLICE_SIZE: "2", KUEUE_SLICE_LEVEL: "cloud.google.com/gce-topology-host"}
    made = _made(4, annotations=said)
    (gang,) = find_gangs(made.pods(), [Workload(PLACEHOLDERS, "ml", "job-train", made.count)])
    assert gang.objection is None
    assert gang.slices is not None
    assert [gang.slices.of[pod.key] for pod in gang.pods] == [0, 0, 1, 1]


def test_each_pod_set_of_placeholders_is_judged_by_its_own_annotations() -> None:
    made = _made(2, 3, annotations={KUEUE_REQUIRED: "cloud.google.com/gce-topology-host"})
    (gang,) = find_gangs(made.pods(), [Workload(PLACEHOLDERS, "ml", "job-train", made.count)])
    assert (gang.objection, gang.required_level) == (None, None)
    assert [(terms.title, len(terms.members)) for terms in gang.pod_sets] == [
        ("pod set set0", 2),
        ("pod set set1", 3),
    ]


def test_placeholders_belong_to_nobody_else_whatever_their_template_says() -> None:
    labels = {"job-name": "other", "name": "other"}
    indexes = {"batch.kubernetes.io/job-completion-index": "-1", "accelet.dev/required-level": "block"}
    made = _made(3, labels=labels, annotations=indexes, on=None)
    assert {gang_key(pod) for pod in made.pods()} == {placeholder_gang(QUEUED)}
    assert [dict(pod.annotations) for pod in made.pods()] == [
        {"accelet.dev/required-level": "block", POD_SET: "set0"}
    ] * 3


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_pod_gets_into_a_gang_of_placeholders_by_naming_an_owner(kind: str, name: str) -> None:
    for owner in (Owner(kind, name, "u"), Owner(PLACEHOLDERS, name, "u"), Owner("Workload", name, "u")):
        assert gang_key(values.pod("p", owner=owner)).kind != PLACEHOLDERS


@pytest.mark.parametrize(
    ("sets", "workload"),
    [
        (_sets(2, gate="example.com/other"), QUEUED),
        ([*_sets(2), *_sets(1, gate="example.com/other")], QUEUED),
        ([replace(_sets(2)[0], is_assigned=True)], QUEUED),
        (_sets(2, pod_group="g"), QUEUED),
        (_sets(2, labels={"jobset.sigs.k8s.io/jobset-name": "other"}), QUEUED),
        ([*_sets(2), *_sets(1, labels={"ray.io/cluster": "train"})], QUEUED),
        (_sets(2), replace(QUEUED, owner=None)),
        (_sets(2), replace(QUEUED, owner=Owner("RayJob", "r", "u", is_controller=True))),
    ],
)
def test_what_is_not_placed_as_one_gang_is_not_planned_before(
    sets: list[PodSet], workload: KueueWorkload
) -> None:
    assert isinstance(make_placeholders(workload, sets, {}, GATE_PREFIX), NotPlanned)


@given(st.integers(MOST_PODS + 1, 2**31 - 1))
def test_more_pods_than_fit_into_a_plan_are_counted_and_never_made(count: int) -> None:
    made = make_placeholders(QUEUED, _sets(count), {}, GATE_PREFIX)
    assert isinstance(made, Unplannable)
    assert f"{count:,} pods" in made.reason


def test_a_flavor_gives_its_labels_and_tolerations_and_must_be_there() -> None:
    sets = [replace(_sets(1)[0], flavors=("spot",))]
    missing = make_placeholders(QUEUED, sets, {}, GATE_PREFIX)
    assert isinstance(missing, Unplannable)
    raw = {
        "metadata": {"name": "spot"},
        "spec": {"nodeLabels": {"tier": "spot"}, "tolerations": [{"operator": "Exists"}]},
    }
    made = make_placeholders(QUEUED, sets, {"spot": parse_flavor(raw)}, GATE_PREFIX)
    assert isinstance(made, Placeholders)
    (pod,) = made.pods()
    assert pod.node_selector["tier"] == "spot"
    assert [one.operator for one in pod.tolerations] == ["Exists"]


states = st.sampled_from(["Pending", "Ready", "Retry", "Rejected"])
prospects = st.builds(
    lambda reserved, admitted, names, retries, promise, lost, has, refusal: Prospects(
        replace(
            QUEUED,
            reserved_s=reserved,
            is_admitted=admitted,
            checks=tuple(CheckState(name, state, retries) for name, state in names.items()),
        ),
        OURS,
        promise,
        is_lost=lost and promise is not None,
        has_pods=has,
        refusal=refusal,
    ),
    st.none() | st.floats(0, 200),
    st.booleans(),
    st.dictionaries(st.sampled_from(["places", "other"]), states),
    st.integers(0, 1000),
    st.none() | st.builds(lambda until_s: _promise(2, until_s=until_s), st.floats(0, 200)),
    st.booleans(),
    st.booleans(),
    st.none() | st.text(),
)


@given(prospects, st.floats(0, 300))
def test_a_decision_is_safe_whatever_is_known(known: Prospects, now_s: float) -> None:
    decision = decide(known, now_s, WITHIN_S)
    workload, promise = known.workload, known.promise
    ours = {check.state for check in workload.of(OURS)}
    is_asked = workload.reserved_s is not None and bool(ours) and not ours & {"Retry", "Rejected"}
    if not is_asked:
        assert not decision.wants_room
        assert decision.told is None
    if decision.told is not None and decision.told.state == "Retry":
        assert not workload.is_admitted, "it would end what runs"
        assert not decision.wants_room
        assert FIRST_RETRY_S <= (decision.told.requeue_after_s or 0) <= LAST_RETRY_S
    if decision.told is not None and decision.told.state == "Ready":
        is_placed = promise is not None and not known.is_lost and promise.until_s > now_s
        assert is_placed or workload.is_admitted or known.has_pods
    if decision.wants_room:
        assert decision.again_s is not None, "room is kept for no longer than until then"
        assert now_s < decision.again_s <= max(200.0, (workload.reserved_s or 0) + WITHIN_S)


@given(prospects, st.floats(0, 300))
def test_what_is_told_takes_effect_and_is_not_told_again(known: Prospects, now_s: float) -> None:
    told = decide(known, now_s, WITHIN_S).told
    if told is None:
        return
    status = {
        "admissionChecks": [{"name": c.name, "state": c.state, "message": ""} for c in known.workload.checks]
    }
    before = {"metadata": {"resourceVersion": "7"}, "status": status}
    after = json_patch(before, check_patch(known.workload, OURS, told, "2026-01-01T00:00:00Z"))
    by_name = {one["name"]: one for one in after["status"]["admissionChecks"]}
    assert by_name["places"]["state"] == told.state
    others = [one for one in after["status"]["admissionChecks"] if one["name"] == "other"]
    assert others == [one for one in status["admissionChecks"] if one["name"] == "other"]
    changed = replace(known.workload, checks=tuple(CheckState(n, one["state"]) for n, one in by_name.items()))
    assert check_patch(changed, OURS, told, "2026-01-01T00:00:01Z") == []
    assert decide(replace(known, workload=changed), now_s, WITHIN_S).told is None


def test_a_patch_names_the_version_that_it_was_decided_for() -> None:
    (version, *_) = check_patch(QUEUED, OURS, Told("Ready", ""), "2026-01-01T00:00:00Z")
    assert (version["path"], version["value"]) == ("/metadata/resourceVersion", "7")


@given(st.integers(1, 12), st.integers(1, 12), st.none() | st.integers(1, 12))
def test_pods_take_over_the_places_of_their_ranks_if_they_are_as_many(
    pods: int, promised: int, least: int | None
) -> None:
    said = {} if least is None else {"accelet.dev/gang-min": str(least)}
    members = [
        values.pod(
            f"train-{rank}",
            labels={"job-name": "train", "batch.kubernetes.io/job-completion-index": str(rank)},
            annotations=said,
            gpus=1,
        )
        for rank in range(pods)
    ]
    (gang,) = find_gangs(members, [Workload("Job", "ml", "train", pods)])
    placements = _promise(promised)
    shuffled = replace(placements, placements=tuple(reversed(placements.placements)))
    plan = adopt(gang, shuffled)
    if gang.objection or not gang.fewest <= promised <= pods:
        assert plan is None
        return
    assert plan is not None
    assert [(pod.name, node) for pod, node in plan.placements] == [
        (f"train-{rank}", f"n{rank}") for rank in range(promised)
    ]


def test_a_gang_of_which_pods_run_or_are_still_to_come_takes_nothing_over() -> None:
    labels = {"job-name": "train"}
    one, other = values.pod("train-0", labels=labels), values.pod("train-1", labels=labels)
    (missing,) = find_gangs([one], [Workload("Job", "ml", "train", 2)])
    assert adopt(missing, _promise(1)) is None
    (begun,) = find_gangs(
        [replace(one, node_name="n0", gates=()), other], [Workload("Job", "ml", "train", 2)]
    )
    assert adopt(begun, _promise(1)) is None


def _raw(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "job-train", "namespace": "ml", "uid": "uid-w"},
        "spec": {},
        "status": status,
    }


def _true(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": "1970-01-01T00:01:40Z"}


def test_a_workload_has_quota_until_it_loses_it_or_is_over() -> None:
    assert parse_kueue_workload(_raw(conditions=[_true("QuotaReserved")])).reserved_s == 100.0
    assert parse_kueue_workload(_raw()).reserved_s is None
    for over in ("Evicted", "Finished"):
        assert parse_kueue_workload(_raw(conditions=[_true("QuotaReserved"), _true(over)])).reserved_s is None
    stopped = _raw(conditions=[_true("QuotaReserved")]) | {"spec": {"active": False}}
    assert parse_kueue_workload(stopped).reserved_s is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(_json, _json, _json)
def test_whatever_is_written_is_read_or_refused(sets: Any, status: Any, template: Any) -> None:
    raw = {
        "metadata": {"name": "w", "namespace": "ml"},
        "spec": {"podSets": sets, "controllerName": "c", "nodeLabels": template},
        "status": status,
    }
    good = {"podSets": [{"name": "main", "count": 1, "template": {"spec": template}}]}
    for read, one in (
        (parse_kueue_workload, raw),
        (parse_pod_sets, raw),
        (parse_pod_sets, raw | {"spec": good}),
        (parse_admission_check, raw),
        (parse_flavor, raw),
    ):
        with suppress(MalformedObjectError):
            read(json.dumps(one).encode())


def test_an_answer_that_comes_after_the_end_of_a_workload_does_not_bring_it_back() -> None:
    book, workload = AdmissionBook(), parse_kueue_workload(_raw(conditions=[_true("QuotaReserved")]))
    book.put(workload)
    book.renew(replace(workload, is_admitted=True))
    assert book.workloads[workload.key].is_admitted
    book.renew(replace(workload, uid="former"))
    assert book.workloads[workload.key].uid == workload.uid
    book.remove(workload.key)
    book.renew(workload)
    assert book.workloads == {}


def test_a_check_says_whose_it_is_and_what_is_said_of_it() -> None:
    raw = {
        "metadata": {"name": "places", "generation": 3, "resourceVersion": "5"},
        "spec": {"controllerName": "accelet.dev/placement", "parameters": {"kind": "X"}},
    }
    assert parse_admission_check(raw) == AdmissionCheck("places", "accelet.dev/placement", True, 3, "5")


_labels = st.lists(st.from_regex(r"[a-z]{1,9}\.io/[a-z]{1,9}", fullmatch=True), max_size=20)


@given(_labels)
def test_a_topology_is_levels_by_the_names_of_its_labels_of_which_farther_ones_weigh_more(
    labels: list[str],
) -> None:
    raw = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": label} for label in labels]}}
    if not 1 <= len(labels) <= 16 or len(set(labels)) < len(labels):
        with pytest.raises(MalformedObjectError):
            parse_topology(raw)
        return
    scheme = parse_topology(raw)
    assert scheme.levels == tuple(labels)
    assert scheme.path(dict.fromkeys(labels, "x")) == ("x",) * len(labels)
    assert list(scheme.weights) == sorted(set(scheme.weights), reverse=True), "no two are as far"
    assert len(labels) != 3 or scheme.weights == (1_000_000, 10_000, 100)


def test_flavors_and_gangs_are_plain_values() -> None:
    assert parse_flavor({"metadata": {"name": "f"}}) == ResourceFlavor("f")
    assert placeholder_gang(QUEUED) == GangKey("ml", "job-train", PLACEHOLDERS)
