"""What is to be known of a pod that cannot be read whole, or is not kept whole."""

from typing import Final

import msgspec

from accelet.kube.objects import RawObject, Wire, read_labels, read_object, share_text
from accelet.kube.pods import Container, Pod

_TOKEN: Final = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


class _WireContainer(Wire, frozen=True):
    name: str


class _WireSpec(Wire, frozen=True):
    node_name: str | None = None
    containers: list[_WireContainer] | None = None
    init_containers: list[_WireContainer] | None = None


class _WireStatus(Wire, frozen=True):
    phase: str | None = None


class _WireMetadata(Wire, frozen=True):
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    annotations: dict[str, str] | None = None


class _WirePod(Wire, frozen=True):
    metadata: _WireMetadata
    spec: _WireSpec | None = None
    status: _WireStatus | None = None


def parse_bare_pod(raw: RawObject) -> Pod:
    """What is needed of a pod that `parse_pod` cannot read: who it is, where it is, what its annotations say.

    Whoever makes a pod unreadable must not be rid of what it holds by that.

    Raises:
        MalformedObjectError: not even this can be read.
    """
    wire = read_object(raw, "Pod", _WirePod)
    metadata, spec = wire.metadata, wire.spec or _WireSpec()
    return Pod(
        namespace=share_text(metadata.namespace or "default"),
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        annotations=read_labels(metadata.annotations),
        node_name=share_text(spec.node_name) if spec.node_name else None,
        phase=share_text((wire.status or _WireStatus()).phase or "Pending"),
        init_containers=tuple(Container(share_text(one.name)) for one in spec.init_containers or ()),
        containers=tuple(Container(share_text(one.name)) for one in spec.containers or ()),
    )


def render_pod(pod: Pod) -> msgspec.Raw:
    """The pod in the API's form, with what says who it is, whose, and what devices its containers ask for.

    And whether they mount a token.
    """
    claimed = [
        {"containerName": container, "resourceName": resource}
        for container, resource in sorted(pod.claimed_resources)
    ]
    rendered = {
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "resourceVersion": pod.resource_version,
        },
        "spec": {
            "nodeName": pod.node_name,
            "initContainers": [_render_container(one, pod) for one in pod.init_containers],
            "containers": [_render_container(one, pod) for one in pod.containers],
            "volumes": [_TOKEN] if pod.mounts_token else [],
        },
        "status": {"phase": pod.phase, "extendedResourceClaimStatus": {"requestMappings": claimed}},
    }
    return msgspec.Raw(msgspec.json.encode(rendered))


def _render_container(container: Container, pod: Pod) -> dict[str, object]:
    counts = {name: str(count) for name, count in container.limits.items() if isinstance(count, int)}
    always = {"restartPolicy": "Always"} if container.is_sidecar else {}
    mounts = {"volumeMounts": [{"name": _TOKEN["name"]}]} if pod.mounts_token else {}
    return {"name": container.name, "resources": {"limits": counts}, **mounts, **always}
