"""Raw volumes, their claims and classes as an API server sends them."""

from collections.abc import Mapping, Sequence
from typing import Any

Raw = dict[str, Any]
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


def raw_claim(
    name: str = "data",
    volume: str = "",
    *,
    is_bound: bool = True,
    volume_class: str | None = None,
    phase: str | None = None,
    annotations: Mapping[str, str] | None = None,
    **metadata: Any,
) -> Raw:
    """A claim, bound to its volume if that has a name."""
    said = {**({BIND_COMPLETED: "yes"} if volume and is_bound else {}), **(annotations or {})}
    spec: Raw = {
        "accessModes": ["ReadOnlyMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        **({"volumeName": volume} if volume else {}),
        **({"storageClassName": volume_class} if volume_class is not None else {}),
    }
    return {
        "metadata": {"name": name, "annotations": said, **metadata},
        "spec": spec,
        "status": {"phase": phase or ("Bound" if volume and is_bound else "Pending")},
    }


def raw_volume(
    name: str,
    claim: str | None = "ml/data",
    *,
    terms: Sequence[Raw] | None = None,
    labels: Mapping[str, str] | None = None,
    source: Raw | None = None,
) -> Raw:
    """A volume of a claim, `namespace/name`, which nodes reach that meet one of the terms."""
    spec: Raw = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadOnlyMany"],
        "storageClassName": "",
        **(source or {"csi": {"driver": "example.com", "volumeHandle": name}}),
    }
    if claim is not None:
        namespace, _, called = claim.partition("/")
        spec["claimRef"] = {"namespace": namespace, "name": called}
    if terms is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": list(terms)}}
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}


def in_zone(zone: str) -> Raw:
    """The term of a volume that is in this zone."""
    return {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}


def using(*claims: str) -> Raw:
    """What the spec of a pod says that uses these claims."""
    return {
        "volumes": [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}
            for number, claim in enumerate(claims)
        ]
    }
