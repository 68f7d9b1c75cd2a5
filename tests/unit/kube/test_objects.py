import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.errors import KubeError, MalformedObjectError
from accelet.kube.nodes import MOST_FEATURES, parse_node
from accelet.kube.objects import Owner, read_page
from accelet.kube.podparser import LONGEST_VALUE, MOST_VARIABLES, parse_pod
from accelet.kube.selection import NodeTerm, PreferredTerm, Requirement, Taint, Toleration
from tests.fakes.manifests import Raw, raw_container, raw_pod


def test_pod_is_read_whole() -> None:
    raw = raw_pod(
        nodeName="node-1",
        schedulingGates=[{"name": "gke.io/topology-aware-auto-job"}],
        priority=10,
        schedulerName="other",
        nodeSelector={"pool": "gpu"},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                        {},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
                ],
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
        },
        tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
        initContainers=[raw_container("proxy", sidecar=True), raw_container("setup")],
        containers=[
            raw_container(
                requests={"cpu": "500m"},
                limits={"gpu.intel.com/i915": "2", "memory": "1Gi"},
                env=[
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"fieldRef": {}}},
                    {"name": "C"},
                ],
            )
        ],
        overhead={"cpu": "100m"},
    )
    raw["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    ]
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:10.5Z"
    raw["metadata"]["deletionGracePeriodSeconds"] = 30
    raw["metadata"]["annotations"] = {
        "gas-ts": "1",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    raw["status"] = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "reason": "Unready"}],
        "initContainerStatuses": [{"name": "proxy", "state": {"running": {}}}],
        "containerStatuses": [
            {"name": "main", "state": {"waiting": {}}, "lastState": {"terminated": {}}, "restartCount": 1}
        ],
        "extendedResourceClaimStatus": {
            "resourceClaimName": "c",
            "requestMappings": [
                {"containerName": "main", "resourceName": "gpu.intel.com/i915", "requestName": "r"}
            ],
        },
    }
    pod = parse_pod(raw)
    assert pod.key == ("ml", "worker-0")
    assert (pod.uid, pod.resource_version, pod.node_name) == ("uid-worker-0", "17", "node-1")
    assert (pod.deleted_s, pod.grace_s) == (pod.created_s + 10.5, 30)
    assert pod.annotations == {"gas-ts": "1"}
    assert pod.owners == (Owner("Job", "train", "u", "batch/v1", is_controller=True),)
    assert pod.gates == ("gke.io/topology-aware-auto-job",)
    assert (pod.priority, pod.scheduler_name, pod.node_selector) == (10, "other", {"pool": "gpu"})
    assert pod.required_terms == (
        NodeTerm((Requirement("zone", "In", ("a", "b")),)),
        NodeTerm((), (Requirement("metadata.name", "In", ("n",)),)),
        NodeTerm(),
    )
    assert pod.preferred_terms == (PreferredTerm(5, NodeTerm((Requirement("x", "Exists"),))),)
    assert pod.has_pod_rules
    assert pod.tolerations == (Toleration("", "Exists"), Toleration("k", "Equal", "v", "NoSchedule"))
    assert [(c.name, c.is_sidecar) for c in pod.all_containers] == [
        ("proxy", True),
        ("setup", False),
        ("main", False),
    ]
    (main,) = pod.containers
    assert main.limits == {"gpu.intel.com/i915": 2, "memory": 2**30}
    assert main.requests == {"gpu.intel.com/i915": 2, "memory": 2**30, "cpu": Fraction(1, 2)}
    assert main.environment == {"A": "1", "C": ""}
    assert pod.statuses["proxy"].state == "running"
    assert pod.statuses["main"].state == "waiting"
    assert pod.statuses["main"].has_run
    assert pod.claimed_resources == {("main", "gpu.intel.com/i915")}
    assert not pod.is_terminal
    assert not pod.is_mirror


TOKEN: Raw = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
MOUNT: Raw = {"volumeMounts": [{"name": "token", "mountPath": "/token"}]}


@pytest.mark.parametrize(
    ("spec", "mounts"),
    [
        ({}, False),
        ({"volumes": [TOKEN]}, False),  # the kubelet leaves out what no container mounts
        ({"containers": [{**raw_container(), **MOUNT}], "volumes": [TOKEN]}, True),
        ({"initContainers": [{**raw_container("init"), **MOUNT}], "volumes": [TOKEN]}, True),
        (
            {"containers": [{**raw_container(), **MOUNT}], "volumes": [{"name": "token", "emptyDir": {}}]},
            False,
        ),
        (
            {
                "containers": [{**raw_container(), **MOUNT}],
                "volumes": [{"name": "token", "projected": {"sources": [{"configMap": {"name": "a"}}]}}],
            },
            False,
        ),
        ({"containers": [{**raw_container(), **MOUNT}], "volumes": [{**TOKEN, "name": "other"}]}, False),
    ],
)
def test_pod_mounts_a_token_if_a_container_does(spec: Raw, mounts: bool) -> None:
    assert parse_pod(raw_pod(**spec)).mounts_token == mounts


_RESTARTING = {"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, ()),
        ({"containers": [{**raw_container(), "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
        ({"containers": [{**raw_container(), **_RESTARTING}]}, ("RestartAllContainersOnContainerExits",)),
        (
            {"initContainers": [{**raw_container("init"), **_RESTARTING}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        ({"hostNetwork": True}, ()),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostUsers": False}, ()),
        ({"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",)),
    ],
)
def test_pod_needs_the_features_that_kube_scheduler_infers(spec: Raw, features: tuple[str, ...]) -> None:
    assert parse_pod(raw_pod(**spec)).features == frozenset(features)


def test_text_and_parsed_forms_give_the_same_pod() -> None:
    raw = raw_pod()
    assert parse_pod(json.dumps(raw).encode()) == parse_pod(raw)


def test_nulls_are_absence() -> None:
    pod = parse_pod(
        {
            "metadata": {"name": "p", "labels": None, "creationTimestamp": None, "ownerReferences": None},
            "spec": {"containers": [{"name": "c", "resources": {"limits": None}, "env": None}]},
            "status": None,
        }
    )
    assert pod.key == ("default", "p")
    assert pod.labels == {}
    assert pod.required_terms is None
    assert pod.phase == "Pending"


def change(raw: Raw, path: list[Any], value: object) -> Raw:
    target: Any = raw
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return raw


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["metadata", "labels"], ["a"], "metadata.labels"),
        (["metadata", "uid"], 5, "metadata.uid"),
        (["metadata", "creationTimestamp"], "yesterday", "metadata.creationTimestamp"),
        (["spec", "containers"], "main", "spec.containers"),
        (["spec", "containers", 0, "name"], 1, "spec.containers[0].name"),
        (
            ["spec", "containers", 0, "resources", "limits"],
            {"nvidia.com/gpu": "1 Gi"},
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
        ),
        (
            ["spec", "containers", 0, "resources", "limits"],
            {"cpu": True},
            "spec.containers[0].resources.limits",
        ),
        (["status", "containerStatuses"], [{}], "status.containerStatuses[0]"),
    ],
)
def test_malformed_pod_is_named_with_its_field(path: list[Any], value: object, field: str) -> None:
    raw = change(raw_pod(), path, value)
    for form in (raw, json.dumps(raw).encode()):
        with pytest.raises(MalformedObjectError) as caught:
            parse_pod(form)
        assert caught.value.field.startswith(field)
        assert str(caught.value).startswith(f"Pod ml/worker-0: {field}")


def test_object_without_a_name_is_an_error_of_its_own() -> None:
    with pytest.raises(MalformedObjectError, match=r"Pod without a name: metadata: .*`name`"):
        parse_pod(b'{"metadata": {}, "spec": {"containers": []}}')
    with pytest.raises(MalformedObjectError, match="Pod without a name"):
        parse_pod(b"not json")


def test_malformed_item_leaves_the_others() -> None:
    items = [raw_pod("a"), {"metadata": {"name": 7}}, raw_pod("b")]
    page = read_page(
        json.dumps({"items": items, "metadata": {"resourceVersion": "9", "continue": "x"}}).encode(), "Pod"
    )
    assert (page.resource_version, page.continue_token) == ("9", "x")
    names = []
    for item in page.items:
        try:
            names.append(parse_pod(item).name)
        except MalformedObjectError as error:
            names.append(error.name)
    assert names == ["a", "7", "b"]


def test_what_is_no_list_is_one_error() -> None:
    with pytest.raises(MalformedObjectError, match="list of Pods"):
        read_page(b'{"items": {}}', "Pod")


def test_node_is_read_whole() -> None:
    node = parse_node(
        {
            "metadata": {"name": "n1", "uid": "u", "labels": {"l": "v"}, "annotations": {"a": "b"}},
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule", "value": "v"}]},
            "status": {
                "capacity": {"cpu": "8", "nvidia.com/gpu": 8},
                "allocatable": {"cpu": "7900m", "nvidia.com/gpu": "8"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "declaredFeatures": ["UserNamespacesHostNetworkSupport"],
            },
        }
    )
    assert node.features == {"UserNamespacesHostNetworkSupport"}
    assert (node.name, node.labels, node.annotations) == ("n1", {"l": "v"}, {"a": "b"})
    assert node.unschedulable
    assert node.is_ready
    assert node.taints == (Taint("k", "NoSchedule", "v"),)
    assert node.capacity == {"cpu": 8, "nvidia.com/gpu": 8}
    assert node.allocatable == {"cpu": Fraction(79, 10), "nvidia.com/gpu": 8}


def test_only_so_many_declared_features_of_a_node_are_read() -> None:
    names = [f"F{number:05}" for number in range(10_000)]
    node = parse_node({"metadata": {"name": "n1"}, "status": {"declaredFeatures": names}})
    assert node.features == frozenset(names[:MOST_FEATURES])


def test_node_without_status_is_not_ready() -> None:
    node = parse_node({"metadata": {"name": "n1"}})
    assert not node.is_ready
    assert node.allocatable == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
PATHS = st.sampled_from(
    [
        ["metadata"],
        ["metadata", "name"],
        ["metadata", "namespace"],
        ["metadata", "annotations"],
        ["metadata", "ownerReferences"],
        ["spec"],
        ["spec", "containers", 0],
        ["spec", "containers", 0, "resources"],
        ["spec", "containers", 0, "env"],
        ["spec", "affinity"],
        ["spec", "tolerations"],
        ["spec", "overhead"],
        ["status"],
        ["status", "containerStatuses"],
    ]
)


@given(PATHS, JSON)
def test_any_damage_gives_a_pod_or_one_error_of_ours(path: list[Any], damage: object) -> None:
    raw = change(raw_pod(), path, damage)
    for form in (raw, json.dumps(raw).encode()):
        try:
            parse_pod(form)
        except KubeError as error:
            assert isinstance(error, MalformedObjectError)  # noqa: PT017  a pod is an answer as well


def test_environment_can_be_left_out() -> None:
    device = {"gpu.intel.com/i915": "1"}
    raw = raw_pod(containers=[raw_container(env=[{"name": "A", "value": "1"}], limits=device)])
    assert parse_pod(raw).containers[0].environment == {"A": "1"}
    assert parse_pod(raw, keeps_environment=False).containers[0].environment == {}


def test_environment_is_kept_only_of_containers_that_ask_for_devices_and_only_so_much() -> None:
    env = [{"name": f"V{number}", "value": "x" * 5000} for number in range(3 * MOST_VARIABLES)]
    device = {"gpu.intel.com/i915": "1"}
    raw = raw_pod(containers=[raw_container(env=env), raw_container("gpu", env=env, limits=device)])
    bare, gpu = parse_pod(raw).containers
    assert bare.environment == {}
    assert len(gpu.environment) == MOST_VARIABLES
    assert {len(value) for value in gpu.environment.values()} == {LONGEST_VALUE}
