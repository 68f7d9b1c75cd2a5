"""Raw pods and nodes as an API server sends them."""

from collections.abc import Mapping, Sequence
from typing import Any

from accelet.assignments.nodecards import NodeCard
from tests.fakes.nodes import GPU, offered, place, published

Raw = dict[str, Any]


def raw_pod(
    name: str = "worker-0",
    *,
    namespace: str = "ml",
    on: str | None = None,
    phase: str = "Pending",
    gates: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Raw | None = None,
    **spec: Any,
) -> Raw:
    """A pod of one container, or of what `spec` says; it may be `on` a node or wait for its gates."""
    where: Raw = {"nodeName": on} if on else {}
    if gates:
        where["schedulingGates"] = [{"name": gate} for gate in gates]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "17",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": name} if labels is None else dict(labels),
            **({"annotations": dict(annotations)} if annotations else {}),
            **({"ownerReferences": [owner]} if owner else {}),
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"containers": [raw_container()], **where, **spec},
        "status": {"phase": phase},
    }


def raw_container(
    name: str = "main",
    *,
    requests: Mapping[str, object] | None = None,
    limits: Mapping[str, object] | None = None,
    env: Sequence[Raw] = (),
    sidecar: bool = False,
) -> Raw:
    container: Raw = {"name": name, "image": "example/main", "resources": {}, "env": list(env)}
    if requests is not None:
        container["resources"]["requests"] = dict(requests)
    if limits is not None:
        container["resources"]["limits"] = dict(limits)
    if sidecar:
        container["restartPolicy"] = "Always"
    return container


def claiming(containers: Mapping[str, Sequence[tuple[str, str | None]]]) -> Raw:
    """What a pod's spec says whose containers use claims, each as a whole (None) or one of its requests."""
    claims = sorted({claim for uses in containers.values() for claim, _ in uses})
    return {
        "resourceClaims": [{"name": f"my-{one}", "resourceClaimName": one} for one in claims],
        "containers": [
            raw_container(name) | {"resources": _claimed(uses)} for name, uses in containers.items()
        ],
    }


def _claimed(uses: Sequence[tuple[str, str | None]]) -> Raw:
    return {
        "claims": [
            {"name": f"my-{claim}", **({"request": request} if request else {})} for claim, request in uses
        ]
    }


def raw_node(
    name: str = "node",
    where: str = "",
    *,
    gpus: object = 8,
    cards: Sequence[NodeCard] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
    **spec: Any,
) -> Raw:
    """A ready node at `where` (`b0/s0/h0`), or nowhere, which publishes and offers `cards`."""
    at = place(*where.split("/")) if where else {}
    amounts = {resource: str(amount) for resource, amount in offered(cards).items()}
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(gpus), **amounts, **(more or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**at, **(labels or {})},
            "annotations": {**published(cards), **(annotations or {})},
        },
        "spec": spec,
        "status": {
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
