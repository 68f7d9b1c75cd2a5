"""What is asked of the API server: kinds of objects, and where it has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol
from urllib.parse import quote

Body = Mapping[str, object]
"""An object as it is sent."""

PatchOf = Literal["json", "merge", "strategic", "apply"]
"""The kinds of patches: a list of operations (RFC 6902), an object (RFC 7386), or Kubernetes' own two."""

Propagation = Literal["Background", "Foreground", "Orphan"]
"""What becomes of what an object owns when it is deleted: gone after it, before it, or left alone."""


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A resource of the API: `pods` of the core group, `leases` of `coordination.k8s.io`."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The path of one object, or of the list where `name` is absent; all namespaces without one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        rest = f"/{quote(name, safe='')}" if name else ""
        return f"{root}{place}/{self.plural}{rest}{'/' + subresource if subresource else ''}"


PODS = ApiResource("Pod", "pods")
NODES = ApiResource("Node", "nodes")
SERVICES = ApiResource("Service", "services")
CONFIG_MAPS = ApiResource("ConfigMap", "configmaps")
EVENTS = ApiResource("Event", "events", "events.k8s.io")
LEASES = ApiResource("Lease", "leases", "coordination.k8s.io")
JOBS = ApiResource("Job", "jobs", "batch")
VOLUME_CLAIMS = ApiResource("PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = ApiResource("PersistentVolume", "persistentvolumes")
VOLUME_CLASSES = ApiResource("StorageClass", "storageclasses", "storage.k8s.io")


def eviction_of(pod: str) -> ApiResource:
    """What a pod is evicted by: its subresource, at which an Eviction is made."""
    return ApiResource("Eviction", f"{PODS.plural}/{quote(pod, safe='')}/eviction")


class ObjectApi(Protocol):
    """Requests about single objects, raw JSON in and out; `accelet.kube.client.Client` makes them.

    Every method raises KubeError.
    """

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes: ...

    async def create(
        self, resource: ApiResource, namespace: str | None, body: Body, *, dry_run: bool = False
    ) -> bytes: ...

    async def replace(
        self, resource: ApiResource, namespace: str | None, name: str, body: Body, *, dry_run: bool = False
    ) -> bytes: ...

    async def patch(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        patch: Body | Sequence[Body],
        of: PatchOf,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> bytes: ...

    async def delete(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `body` is JSON of the given content type, the answer of the type `accept`; `silence_s` is
    how long to wait for a byte.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    silence_s: float = 30.0

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class ClusterName:
    """What a kubeconfig calls a cluster, and where its API server is; in a pod there is no context."""

    context: str
    cluster: str
    server: str


NO_NAME = ClusterName("", "", "")
