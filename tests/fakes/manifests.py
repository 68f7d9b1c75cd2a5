"""Raw pods and nodes as an API server sends them."""

from collections.abc import Mapping, Sequence
from typing import Any

Raw = dict[str, Any]


def raw_pod(name: str = "worker-0", *, namespace: str = "ml", **spec: Any) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "17",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": name},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"containers": [raw_container()], **spec},
        "status": {"phase": "Pending"},
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
