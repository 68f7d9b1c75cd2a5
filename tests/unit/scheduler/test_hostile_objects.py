"""Objects as an API server takes them from anybody: none is a fault, and none harms another's plan."""

import gc
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.assignments.annotations import ASSIGNED_BY
from accelet.kinds.waiting import WAITING_ANNOTATION
from accelet.kube.barepod import parse_bare_pod
from accelet.kube.nodes import parse_node
from accelet.kube.objects import ALWAYS_READ
from accelet.kube.podparser import parse_pod
from accelet.kube.selection import NodeTerm, Requirement
from accelet.scheduler.cluster.layout import lay_out
from accelet.scheduler.cluster.shape import NodeRules
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import CARDS_GATE, EXCLUSIVE, GANG_SIZE, GATE_PREFIX
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL, REQUIRED_LEVEL
from accelet.scheduler.placement.plan import plan_gangs
from accelet.scheduler.state import SchedulerState
from tests.fakes.manifests import Raw, raw_container, raw_pod
from tests.fakes.nodes import node
from tests.unit.scheduler.values import pod

TEXTS = st.sampled_from(
    [
        "",
        "0",
        "1",
        "-1",
        "true",
        "9" * 5000,
        "x" * 100_000,
        "\u0661",
        "\U0001f600",
        "[" * 5000,
        '{"a":' * 5000,
    ]
) | st.text(max_size=20)
AMOUNTS = st.sampled_from(
    ["0", "1", "2", "500m", "-1", "9" * 5000, "1e10001", "1e-10001", "0." + "0" * 5000 + "1", "8Ei", "1n"]
)
RESOURCES = st.sampled_from(
    [
        *("cpu", "memory", "pods", "hugepages-1Gi", "nvidia.com/gpu", "x.y/z"),
        *(f"gpu.intel.com/{name}" for name in ("i915", "xe", "tiles", "millicores", "memory.max")),
    ]
)
NOTES = st.sampled_from(
    [
        *(
            GANG_SIZE,
            REQUIRED_LEVEL,
            EXCLUSIVE_LEVEL,
            EXCLUSIVE,
            "accelet.dev/assignment",
            "accelet.dev/cards",
        ),
        *("gas-container-cards", "gas-container-tiles", "gas-ts", "gas-same-gpu", "gas-allow", "gas-deny"),
        *("gas-allocate-xelink", "kubernetes.io/config.mirror", "batch.kubernetes.io/job-completion-index"),
    ]
)
LISTS = st.dictionaries(RESOURCES, AMOUNTS, max_size=5)
STATES = st.sampled_from([{}, {"running": {}}, {"terminated": {"exitCode": 0}}, {"waiting": {}}])


@st.composite
def pods(draw: st.DrawFn) -> Raw:
    """A pod of somebody, gated or bound, with absurd values wherever one may write them."""
    one = raw_container(requests=draw(LISTS), limits=draw(LISTS))
    first = raw_container("first", limits=draw(LISTS), sidecar=draw(st.booleans()))
    is_bound = draw(st.booleans())
    spec: dict[str, Any] = {"containers": [one], "initContainers": [first], "overhead": draw(LISTS)}
    if is_bound:
        spec["nodeName"] = draw(st.sampled_from(["n0", "n1", "nowhere"]))
    else:
        spec["schedulingGates"] = [{"name": draw(st.sampled_from([CARDS_GATE, f"{GATE_PREFIX}j", "other"]))}]
    spec["priority"] = draw(st.sampled_from([0, 10**9, -(2**31)]))
    spec["resources"] = {"requests": draw(LISTS)}
    spec["tolerations"] = [{"operator": draw(st.sampled_from(["Exists", "Gt"])), "value": draw(TEXTS)}]
    spec["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "k", "operator": "Gt", "values": [draw(TEXTS)]}]}
                ]
            }
        }
    }
    raw = raw_pod(draw(st.sampled_from(["a", "b", "c"])), namespace="bad", **spec)
    raw["metadata"]["annotations"] = draw(st.dictionaries(NOTES, TEXTS, max_size=4))
    raw["metadata"]["labels"] = draw(st.dictionaries(NOTES, TEXTS, max_size=2))
    if draw(st.booleans()):
        raw["metadata"]["deletionTimestamp"] = "2311-01-01T00:00:00Z"
        raw["metadata"]["deletionGracePeriodSeconds"] = 9_000_000_000
    raw["status"] = {
        "phase": draw(st.sampled_from(["Pending", "Running", "Succeeded"])),
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 2**31 - 1,
                "state": draw(STATES),
                "allocatedResources": draw(LISTS),
                "resources": {"requests": draw(LISTS)},
            }
        ],
    }
    return raw


@st.composite
def nodes(draw: st.DrawFn) -> Raw:
    """The Node of a compromised kubelet."""
    return {
        "metadata": {
            "name": draw(st.sampled_from(["n1", "n2"])),
            "resourceVersion": "1",
            "labels": draw(st.dictionaries(TEXTS, TEXTS, max_size=3)),
            "annotations": draw(st.dictionaries(NOTES, TEXTS, max_size=3)),
        },
        "spec": {"taints": [{"key": draw(TEXTS), "value": draw(TEXTS), "effect": "NoSchedule"}]},
        "status": {"capacity": draw(LISTS), "allocatable": draw(LISTS)},
    }


@given(st.lists(pods(), max_size=4), st.lists(nodes(), max_size=2))
def test_nobody_can_keep_another_ones_gang_from_its_place(hostile: list[Raw], compromised: list[Raw]) -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(node("good", gpus=8))
    for raw in compromised:
        state.set_node(parse_node(raw))
    for raw in hostile:
        state.set_pod(parse_pod(raw, keeps_environment=False))
    state.set_pod(pod("mine", namespace="good", gpus=8))
    plans = plan_gangs(state.gangs(), state.cluster.layout, state.cluster.room())
    assert [plan.fault for plan in plans] == [None] * len(plans)
    (mine,) = (plan for plan in plans if plan.gang.key.namespace == "good")
    assert mine.nodes is not None or mine.reason is not None
    assert all(len(plan.reason or "") < 2_000 for plan in plans)
    for raw in hostile:
        state.remove_pod(("bad", raw["metadata"]["name"]), 0.0)
    (plan,) = plan_gangs(state.gangs(), state.cluster.layout, state.cluster.room())
    assert plan.nodes is not None


MANY = 20_000
LAST = f"a{MANY - 1:05}"


def names(count: int = MANY) -> list[str]:
    return [f"a{number:05}" for number in range(count)]


def required(terms: list[Any]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


WORDY: Mapping[str, Raw] = {
    "selector": {"nodeSelector": dict.fromkeys(names(), "")},
    "tolerations": {"tolerations": [{"key": name, "operator": "Exists"} for name in names()]},
    "terms": required([{"matchExpressions": [{"key": name, "operator": "Exists"}]} for name in names()]),
    "values": required([{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": names()}]}]),
    "gates": {"schedulingGates": [{"name": f"{GATE_PREFIX}{name}"} for name in names()]},
}


def as_sent(raw: Raw) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(raw))


def kept_mib(read: Callable[[], object]) -> float:
    """How much memory what is read takes that is kept of it."""
    tracemalloc.start()
    kept = read()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    return size / 2**20


@pytest.mark.parametrize("field", WORDY)
def test_pod_of_endless_rules_takes_little_memory_and_is_told_why_it_waits(field: str) -> None:
    raw = raw_pod(
        "wordy", namespace="bad", **{"schedulingGates": [{"name": f"{GATE_PREFIX}j"}], **WORDY[field]}
    )
    assert kept_mib(lambda: parse_pod(as_sent(raw), keeps_environment=False)) < 0.5
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(node("n0"))
    state.set_pod(parse_pod(raw, keeps_environment=False))
    (gang,) = state.gangs()
    assert gang.objection is not None
    assert "at most 1,000 are read" in gang.objection
    assert len(gang.objection) < 300


def test_holder_with_endless_labels_takes_little_memory_and_keeps_what_it_holds() -> None:
    raw = raw_pod("holder", namespace="bad")
    notes = dict.fromkeys(names(), "") | {"accelet.dev/assignment": "{}", "gas-container-tiles": "t"}
    raw["metadata"] |= {"labels": dict.fromkeys(names(), ""), "annotations": notes}
    raw["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "x", "name": name, "uid": name, "controller": name == LAST}
        for name in names()
    ]
    assert kept_mib(lambda: parse_pod(as_sent(raw), keeps_environment=False)) < 0.5
    for one in (parse_pod(raw), parse_bare_pod(raw)):
        assert one.annotations["accelet.dev/assignment"] == "{}"
        assert one.annotations["gas-container-tiles"] == "t"
        assert len(one.annotations) < 1_100
    assert [owner.name for owner in parse_pod(raw).owners if owner.is_controller] == [LAST]


def test_what_holds_cards_and_what_was_told_is_read_of_however_many_annotations() -> None:
    assert {*ASSIGNED_BY, WAITING_ANNOTATION} <= set(ALWAYS_READ)


def test_labels_that_no_node_has_take_no_memory() -> None:
    """Each took 8 bytes a node: of 5,000 nodes one pod's hundred thousand took four gigabytes."""
    layout = lay_out(Scheme(), [node(f"n{number}") for number in range(500)])
    terms = tuple(NodeTerm((Requirement(name, "In", ("x",)),)) for name in names(2_000))
    assert not layout.eligible(NodeRules(required_terms=terms)).any()
    rules = NodeRules(frozenset((name, "x") for name in names(2_000)))
    assert kept_mib(lambda: layout.eligible(rules)) < 0.5


def test_labels_that_one_node_has_without_end_take_little_memory() -> None:
    """Whoever has taken it over may write them."""
    nodes = [node(f"n{number}") for number in range(500)]
    nodes.append(node("bad", labels=dict.fromkeys(names(1_000), "x")))
    layout = lay_out(Scheme(), nodes)
    rules = NodeRules(frozenset((name, "x") for name in names(1_000)))
    assert kept_mib(lambda: layout.eligible(rules)) < 1.5
    assert layout.eligible(rules).sum() == 1
