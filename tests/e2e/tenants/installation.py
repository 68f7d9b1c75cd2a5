"""accelet as deploy/ installs it on a control plane, its scheduler as a process, and tenants beside it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS

CARD, TILES = "gpu.intel.com/i915", "gpu.intel.com/tiles"
PLACED_WITHIN_S = 30.0
_RUNS = ("DaemonSet", "Deployment")
_RBAC = "rbac.authorization.k8s.io"


@dataclass
class Tenant:
    """Somebody with the ClusterRole `edit` in one namespace, and no other right."""

    client: Client
    namespace: str

    def path(self, kind: str, name: str = "") -> str:
        return COLLECTIONS[kind].format(namespace=self.namespace) + (f"/{name}" if name else "")

    def make(self, kind: str, body: Json) -> Json:
        made: Json = json.loads(self.client.send("POST", self.path(kind), body))
        return made

    def see(self, kind: str, name: str) -> Json:
        seen: Json = json.loads(self.client.send("GET", self.path(kind, name)))
        return seen

    def refusal(self, method: str, path: str, body: Json | None = None) -> str:
        """What the tenant is told who is refused this; an empty text if it is allowed."""
        return refusal(self.client, method, path, body)

    def events(self, name: str) -> list[tuple[str, str]]:
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=involvedObject.name={name}"
        items: list[Json] = json.loads(self.client.send("GET", path))["items"]
        return [(event["reason"], event["message"]) for event in items]


def refusal(client: Client, method: str, path: str, body: Json | None = None) -> str:
    try:
        client.send(method, path, body)
    except RefusedError as error:
        if error.status not in (403, 422):
            raise
        return str(error)
    return ""


def pod(name: str, limits: Json | None = None, **metadata: object) -> Json:
    """A pod of one container, as users write it."""
    container: Json = {"name": "main", "image": "none", "resources": {"limits": limits or {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def tile_pod(name: str, tiles: int = 1, **metadata: object) -> Json:
    return pod(name, {TILES: str(tiles)}, **metadata)


def assigned_tiles(seen: Json) -> list[tuple[str, int]]:
    """Node and card, and the tile of it, of all that is written on a pod."""
    text = (seen["metadata"].get("annotations") or {}).get(ASSIGNMENT_ANNOTATION)
    containers = json.loads(text)["containers"] if text else {}
    return sorted(
        (f"{pinned_node(seen)}/{piece['unit']}", tile)
        for resources in containers.values()
        for pieces in resources.values()
        for piece in pieces
        for tile in piece.get("tiles", [])
    )


def pinned_node(seen: Json) -> str | None:
    required = seen["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = required.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return next((field["values"][0] for term in terms for field in term.get("matchFields", [])), None)


def wait_until_placed(tenant: Tenant, name: str, within_s: float = PLACED_WITHIN_S) -> Json:
    """Waits until the scheduler has released a pod, and returns it."""

    def released() -> Json | None:
        seen = tenant.see("Pod", name)
        return None if seen["spec"].get("schedulingGates") else seen

    return wait_until(f"pod {name} is released", released, timeout_s=within_s)


class SchedulerProcess:
    """`accelet scheduler`, or another part with the same options, under the rights that deploy/ gives it."""

    def __init__(
        self, kubeconfig: Path, settings: Path, log: Path, part: Sequence[str] = ("scheduler",)
    ) -> None:
        self._kubeconfig, self._settings, self._log, self._part = kubeconfig, settings, log, part
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command: list[str | Path] = [
            Path(sys.executable).with_name("accelet"),
            *self._part,
            "--kubeconfig",
            self._kubeconfig,
            "--config",
            self._settings,
        ]
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=20)

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def longest_line(self) -> int:
        return max(map(len, self._log.read_text().splitlines()), default=0)

    def says(self, *texts: str) -> bool:
        """Whether one line of its log has all of these in it."""
        return self.count(*texts) > 0

    def count(self, *texts: str) -> int:
        """How many lines of its log have all of these in them."""
        return sum(all(text in line for text in texts) for line in self._log.read_text().splitlines())

    def faults(self) -> list[str]:
        """What it has logged of faults of its own."""
        return [line for line in self._log.read_text().splitlines() if "Traceback" in line]


@contextmanager
def installed(control_plane: ControlPlane, manifests: Sequence[Json]) -> Iterator[None]:
    """Has everything of deploy/ that is no process: accounts, rights, policies, configuration."""
    workloads = control_plane.workloads
    with workloads.applied(each for each in manifests if each["kind"] not in _RUNS):
        path = "/api/v1/namespaces/default/configmaps?dryRun=All"
        plan = {"metadata": {"name": "accelet-plan-0"}}
        wait_until(
            "the policies are in force",
            lambda: bool(refusal(control_plane.client, "POST", path, plan)),
            timeout_s=30,
        )
        yield


def acting_as(control_plane: ControlPlane, namespace: str, account: str) -> Client:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = json.loads(control_plane.client.send("POST", path, {"spec": {}}))
    token = Token(answer["status"]["token"])
    return Client(control_plane.url, token, control_plane.authority.keys.certificate)


def make_tenant(control_plane: ControlPlane, name: str) -> Tenant:
    namespace = f"{name}-{time.time_ns():x}"
    control_plane.workloads.apply({"kind": "Namespace", "metadata": {"name": namespace}})
    account = {"name": "tenant", "namespace": namespace}
    control_plane.workloads.apply({"kind": "ServiceAccount", "metadata": account})
    control_plane.workloads.apply(
        {
            "kind": "RoleBinding",
            "metadata": account,
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
    )
    default = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_until("it has an account", lambda: control_plane.client.try_get(default), timeout_s=30)
    return Tenant(acting_as(control_plane, namespace, "tenant"), namespace)


def remove_tenant(control_plane: ControlPlane, tenant: Tenant) -> None:
    control_plane.client.send("DELETE", tenant.path("Pod"), {"gracePeriodSeconds": 0})
    control_plane.client.send("DELETE", f"/api/v1/namespaces/{tenant.namespace}")


def scheduler_kubeconfig(control_plane: ControlPlane, path: Path, account: str = "accelet-scheduler") -> Path:
    token = acting_as(control_plane, "kube-system", account).token
    ca = control_plane.authority.keys.certificate
    return write_kubeconfig(path, server=control_plane.url, ca=ca, credentials=token)
