"""What tests do through the API server: make objects, wait for pods, read their logs and events."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.waiting import wait_until

POD_TIMEOUT_S = 60
# Where objects of a kind are, for what tests make; add a line for another kind.
COLLECTIONS: Mapping[str, str] = {
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "ResourceQuota": "/api/v1/namespaces/{namespace}/resourcequotas",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Namespace": "/api/v1/namespaces",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "GPUTask": "/apis/accelet.dev/v1alpha1/namespaces/{namespace}/gputasks",
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    ),
    "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
    ),
}


class Workloads:
    """The objects of a cluster, as the JSON the API server speaks, seen by its administrator."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def apply(self, manifest: Json) -> Json:
        """Creates an object, or changes the one that is there; returns it as the API server has it."""
        try:
            return self._send("POST", _collection(manifest), manifest)
        except RefusedError as error:
            if error.status != 409:
                raise
        return self._send("PATCH", _path(manifest), manifest)

    @contextmanager
    def applied(self, manifests: Iterable[Json]) -> Iterator[None]:
        """Has these objects for a while: what one test is allowed, the next must not be."""
        kept = list(manifests)
        for manifest in kept:
            self.apply(manifest)
        try:
            yield
        finally:
            for manifest in reversed(kept):
                self._send("DELETE", _path(manifest))

    def pod(self, name: str, namespace: str = "default") -> Json:
        return self._send("GET", _pod_path(name, namespace))

    def wait_for_pod(
        self,
        name: str,
        condition: Callable[[Json], bool],
        *,
        what: str,
        namespace: str = "default",
        timeout_s: float = POD_TIMEOUT_S,
    ) -> Json:
        """Waits until the condition holds for the pod, and returns the pod."""

        def probe() -> Json | None:
            pod = self.pod(name, namespace)
            return pod if condition(pod) else None

        return wait_until(
            f"pod {namespace}/{name}: {what}",
            probe,
            timeout_s=timeout_s,
            evidence=lambda: self.describe_pod(name, namespace),
        )

    def wait_for_phase(
        self, name: str, phase: str, *, namespace: str = "default", timeout_s: float = POD_TIMEOUT_S
    ) -> Json:
        """Waits for "Running", "Succeeded" or "Failed", and returns the pod."""
        return self.wait_for_pod(
            name,
            lambda pod: bool(pod["status"].get("phase") == phase),
            what=f"phase {phase}",
            namespace=namespace,
            timeout_s=timeout_s,
        )

    def delete_pod(self, name: str, namespace: str = "default", *, timeout_s: float = POD_TIMEOUT_S) -> None:
        """Deletes it with a second for goodbyes; returns when the kubelet has confirmed that it is gone."""
        self._send("DELETE", _pod_path(name, namespace), {"gracePeriodSeconds": 1})
        wait_until(
            f"pod {namespace}/{name} is gone",
            lambda: self._is_absent(_pod_path(name, namespace)),
            timeout_s=timeout_s,
            evidence=lambda: self.describe_pod(name, namespace),
        )

    def log(self, name: str, container: str | None = None, namespace: str = "default") -> str:
        """What the container wrote since its last start, as `kubectl logs` gets it."""
        query = f"?container={container}" if container else ""
        return self.client.send("GET", f"{_pod_path(name, namespace)}/log{query}")

    def events(self, name: str, namespace: str = "default") -> list[Json]:
        """The events about an object of that name."""
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name={name}"
        items: list[Json] = self._send("GET", path)["items"]
        return items

    def describe_pod(self, name: str, namespace: str = "default") -> str:
        """Its status and events, for a message to people."""
        events = [f"{event['reason']}: {event['message']}" for event in self.events(name, namespace)]
        try:
            status = json.dumps(self.pod(name, namespace)["status"], indent=1)
        except RefusedError as error:
            status = str(error)
        return "\n".join([f"--- status of pod {namespace}/{name}", status, "--- its events", *events])

    def _is_absent(self, path: str) -> bool:
        try:
            self.client.send("GET", path)
        except RefusedError as error:
            if error.status == 404:
                return True
            raise
        return False

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        answer: Any = json.loads(self.client.send(method, path, body))
        document: Json = answer
        return document


def _collection(manifest: Json) -> str:
    namespace = manifest["metadata"].get("namespace", "default")
    return COLLECTIONS[manifest["kind"]].format(namespace=namespace)


def _path(manifest: Json) -> str:
    return f"{_collection(manifest)}/{manifest['metadata']['name']}"


def _pod_path(name: str, namespace: str) -> str:
    return f"{COLLECTIONS['Pod'].format(namespace=namespace)}/{name}"
