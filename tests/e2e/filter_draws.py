"""Random pods and nodes as an API server sends them, with all that kube-scheduler's filters judge."""

from collections.abc import Sequence
from random import Random
from typing import Any

from accelet.scheduler.gangs.grouping import GATE_PREFIX
from tests.fakes.manifests import Raw, raw_container, raw_pod

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/rack"
JOB = {"job-name": "j"}
NAMESPACES: Sequence[Raw] = [
    {"metadata": {"name": name, "labels": {"team": team}}} for name, team in (("ml", "x"), ("other", "y"))
]
_VALUES = ("a", "b", "5", "07", "")
_KEYS = ("disk", "size", ZONE, HOST)
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_SOME_CPU = ("100m", "1", "1.5", "0.0005", "2000m", "1e1", "0")
_SOME_MEMORY = ("1Gi", "1000M", "128974848", "1.5Gi", "1e9", "100m", "0")
_GPU = "nvidia.com/gpu"


def draw(source: Random) -> Raw:
    """A few nodes, pods that are bound there, some of them of the pending pod's job, and that pod."""
    nodes = [_node(source, f"n{at}") for at in range(source.randint(1, 5))]
    names = [one["metadata"]["name"] for one in nodes]
    bound = [_pod(source, f"b{at}", on=source.choice(names)) for at in range(source.randint(0, 4))]
    return {
        "namespaces": NAMESPACES,
        "nodes": nodes,
        "bound": bound,
        "pod": _pod(source, "pending"),
    }


def _chance(source: Random, share: float) -> bool:
    return source.random() < share


def _labels(source: Random, name: str) -> dict[str, str]:
    labels = {HOST: name} if _chance(source, 0.9) else {}
    for key, values in ((ZONE, "ab"), (RACK, "ab"), ("disk", _VALUES), ("size", _VALUES)):
        if _chance(source, 0.7):
            labels[key] = source.choice(values)
    return labels


def _node(source: Random, name: str) -> Raw:
    spec: Raw = {"unschedulable": True} if _chance(source, 0.1) else {}
    if _chance(source, 0.3):
        spec["taints"] = [
            {"key": source.choice(("k", "l")), "effect": source.choice(_EFFECTS), **_value(source)}
            for _ in range(source.randint(1, 2))
        ]
    amounts = {
        "cpu": source.choice(("2", "1500m", "4")),
        "memory": source.choice(("2Gi", "3000M", "1048576Ki")),
        "pods": source.choice(("1", "3", "110")),
        _GPU: source.choice(("0", "1", "8")),
        "ephemeral-storage": "10Gi",
        "hugepages-2Mi": source.choice(("0", "64Mi")),
    }
    for resource in list(amounts):
        # Every kubelet sets `pods`; without it kube-scheduler takes none, and the planner any number.
        if resource != "pods" and _chance(source, 0.03):
            del amounts[resource]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(source, name)},
        "spec": spec,
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _value(source: Random) -> Raw:
    return {"value": source.choice(("v", "w"))} if _chance(source, 0.6) else {}


def _pod(source: Random, name: str, on: str | None = None) -> Raw:
    labels = {**(JOB if _chance(source, 0.6) else {}), "app": source.choice("ab")}
    namespace = "ml" if on is None or _chance(source, 0.8) else "other"
    spec: dict[str, Any] = {
        "containers": [_container(source, f"c{at}") for at in range(source.randint(1, 2))]
    }
    if _chance(source, 0.2):
        spec["initContainers"] = [
            _container(source, f"i{at}", sidecar=_chance(source, 0.5)) for at in range(source.randint(1, 2))
        ]
    if _chance(source, 0.1):
        spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    if _chance(source, 0.1):
        spec["resources"] = {"requests": {"cpu": source.choice(_SOME_CPU), "memory": "1Gi"}}
    if _chance(source, 0.3):
        spec["tolerations"] = [_toleration(source) for _ in range(source.randint(1, 2))]
    if _chance(source, 0.2):
        spec["nodeSelector"] = {source.choice(_KEYS): source.choice(_VALUES)}
    affinity = _affinity(source)
    if affinity:
        spec["affinity"] = affinity
    if _chance(source, 0.2):
        spec["topologySpreadConstraints"] = [_spread(source) for _ in range(source.randint(1, 2))]
    if _chance(source, 0.05):
        _use_host_network(spec)
    gates = () if on else (f"{GATE_PREFIX}j",)
    phase = "Running" if on else "Pending"
    return raw_pod(name, namespace=namespace, on=on, phase=phase, gates=gates, labels=labels, **spec)


def _use_host_network(spec: dict[str, Any]) -> None:
    """As the API server completes such a pod: each port of its containers is one of the node."""
    spec["hostNetwork"] = True
    for container in spec["containers"]:
        for port in container.get("ports", ()):
            port["hostPort"] = port["containerPort"]


def _container(source: Random, name: str, *, sidecar: bool = False) -> Raw:
    requests: dict[str, object] = {}
    for resource, some in (
        ("cpu", _SOME_CPU),
        ("memory", _SOME_MEMORY),
        (_GPU, ("1", "2", "0")),
        ("ephemeral-storage", ("1Gi", "11Gi")),
        ("hugepages-2Mi", ("2Mi", "128Mi")),
        ("example.com/none", ("0", "1")),
    ):
        if _chance(source, 0.5 if resource in ("cpu", "memory") else 0.1):
            requests[resource] = source.choice(some)
    container = raw_container(name, requests=requests, sidecar=sidecar)
    if _chance(source, 0.2):
        container["ports"] = [_port(source)]
    return container


def _port(source: Random) -> Raw:
    number = source.choice((80, 81))
    port: Raw = {"containerPort": number, "protocol": source.choice(("TCP", "UDP"))}
    if _chance(source, 0.8):
        port["hostPort"] = number
    if _chance(source, 0.4):
        port["hostIP"] = source.choice(("127.0.0.1", "10.0.0.1", "0.0.0.0"))
    return port


def _toleration(source: Random) -> Raw:
    toleration: Raw = {"operator": "Exists"} if _chance(source, 0.4) else _value(source)
    if _chance(source, 0.8) or "operator" not in toleration:
        toleration["key"] = source.choice(("k", "l", "node.kubernetes.io/unschedulable"))
    if _chance(source, 0.5):
        toleration["effect"] = source.choice(_EFFECTS)
    return toleration


def _affinity(source: Random) -> Raw:
    found: Raw = {}
    if _chance(source, 0.3):
        terms = [_node_term(source) for _ in range(source.randint(1, 2))]
        found["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}
    for kind in ("podAffinity", "podAntiAffinity"):
        if _chance(source, 0.2):
            found[kind] = {_REQUIRED: [_pod_term(source) for _ in range(source.randint(1, 2))]}
    return found


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _node_term(source: Random) -> Raw:
    term: Raw = {}
    if _chance(source, 0.9):
        term["matchExpressions"] = [_expression(source) for _ in range(source.randint(1, 2))]
    if _chance(source, 0.15):
        name = f"n{source.randint(0, 5)}"
        operator = source.choice(("In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    return term


def _expression(source: Random) -> Raw:
    key, operator = source.choice(_KEYS), source.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": key, "operator": operator, "values": [source.choice(("4", "-4", "7", "010"))]}
    if operator in ("In", "NotIn"):
        return {
            "key": key,
            "operator": operator,
            "values": source.sample((*_VALUES, "-3"), source.randint(1, 2)),
        }
    return {"key": key, "operator": operator}


def _pod_term(source: Random) -> Raw:
    term: Raw = {"topologyKey": source.choice((HOST, HOST, ZONE, RACK)), "labelSelector": _selector(source)}
    if _chance(source, 0.1):
        term["namespaces"] = source.choice((["other"], ["ml", "other"]))
    if _chance(source, 0.1):
        term["namespaceSelector"] = source.choice(({}, {"matchLabels": {"team": "y"}}))
    if _chance(source, 0.1):
        term["matchLabelKeys"] = ["app"]
    return term


def _selector(source: Random) -> Raw:
    labels = {**(JOB if _chance(source, 0.6) else {})}
    if _chance(source, 0.5):
        labels["app"] = source.choice("ab")
    selector: Raw = {"matchLabels": labels}
    if _chance(source, 0.3):
        operator = source.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": [source.choice("ab")]} if operator in ("In", "NotIn") else {}
        selector["matchExpressions"] = [
            {"key": source.choice(("app", "none")), "operator": operator, **values}
        ]
    return selector


def _spread(source: Random) -> Raw:
    return {
        "maxSkew": source.randint(1, 2),
        "topologyKey": source.choice((HOST, ZONE, RACK)),
        "whenUnsatisfiable": source.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(source),
    }
