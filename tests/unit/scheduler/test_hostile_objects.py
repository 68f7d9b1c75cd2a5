"""Objects as an API server takes them from anybody: none is a fault, and none harms another's plan."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.nodes import parse_node
from accelet.kube.podparser import parse_pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import CARDS_GATE, EXCLUSIVE, GANG_SIZE, GATE_PREFIX
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
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
        *(GANG_SIZE, REQUIRED_LEVEL, EXCLUSIVE, "accelet.dev/assignment", "accelet.dev/cards"),
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
