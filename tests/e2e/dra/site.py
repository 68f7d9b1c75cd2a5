"""A node that serves GPUs and a TPU through DRA, with the shipped rights and policies, and a user."""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from accelet.dra.preparing.checkpoint import read_checkpoint
from accelet.fakehost.tpu import HOSTS
from tests.e2e.agent import AGENT, write_cards
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.dra.oracle import FIRST_BUS, TILES_EACH
from tests.e2e.policies import policies_in_force
from tests.e2e.tpu_host import NULL, tpu_chips

PROJECT = Path(__file__).parents[3]
DEPLOY = PROJECT / "deploy"
CARDS = 8
CHIP = "0x0063"
GROUPS = tuple(
    str(function.group)
    for function in sorted(HOSTS["v5e-8"].functions, key=lambda function: function.address)
    if function.device == CHIP
)
"""The VFIO groups of the chips in order of their addresses."""

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
PODS = "/api/v1/namespaces/default/pods"
LABEL = "accelet.dev/serve"
DRIVERS = ("gpu.accelet.dev", "tpu.accelet.dev")

CONFIG = """\
version: v1
resources:
  - {{name: gpu.intel.com/i915, backend: simulated, file: {folder}/cards.yaml, serve: {serve}}}
  - {{name: google.com/tpu, backend: tpu, mode: {mode}, log_folder: null, serve: {serve}}}
"""


@dataclass(frozen=True)
class Site:
    """A node with an agent. `user` may make pods and claims in `default`, and no more."""

    cluster: ControlPlane
    node: Node
    agent: NodeProcess
    successor: NodeProcess
    user: Workloads
    token: Token
    folder: Path
    mode: str

    @property
    def admin(self) -> Workloads:
        return self.cluster.workloads

    def serve(self, way: str) -> None:
        """Has the agent serve all in one way (`dra`, `device-plugin`) from now on."""
        fresh = self.folder / "config.new"
        fresh.write_text(CONFIG.format(folder=self.folder, mode=self.mode, serve=way))
        fresh.rename(self.folder / "config.yaml")

    def slices(self) -> list[Json]:
        items: list[Json] = json.loads(self.admin.client.send("GET", SLICES))["items"]
        return [
            each
            for each in items
            if each["spec"]["driver"] in DRIVERS and each["spec"].get("nodeName") == self.node.name
        ]

    def wait_for_slices(self, *, timeout_s: float = 60) -> None:
        """Counters and devices of either driver."""
        what = "slices of both drivers are there"
        wait_until(what, lambda: len(self.slices()) == 4, timeout_s=timeout_s, depends_on=[self.agent])

    def wait_until_registered(self, since: int) -> None:
        """The kubelet knows both drivers, by what the agent has logged `since` so many letters.

        Slices of an agent before it stay for half a minute.
        """

        def are_known() -> bool:
            lines = self.agent.log_text()[since:].splitlines()
            return all(any('"registered"' in line and driver in line for line in lines) for driver in DRIVERS)

        wait_until("both drivers are registered", are_known, timeout_s=60, depends_on=[self.agent])

    def left(self) -> str:
        """What is left of claims on the node: the drivers' records, their CDI files, the kubelet's record."""
        found: list[str] = []
        for driver in DRIVERS:
            record = self.node.path(f"/var/lib/kubelet/plugins/{driver}/checkpoint.json")
            claims = read_checkpoint(record.read_bytes()) if record.exists() else ()
            found += (f"{driver} {claim.name}" for claim in claims)
            found += (path.name for path in self.node.path("/run/cdi").glob(f"k8s.{driver}*"))
        kubelet = self.node.path("/var/lib/kubelet/dra_manager_state")
        data = json.loads(json.loads(kubelet.read_text())["Data"]) if kubelet.exists() else {}
        found += (f"kubelet {one['ClaimName']}" for one in data.get("ClaimInfoStateList") or ())
        return " ".join(found)

    def clean(self) -> None:
        """Takes away all pods and claims, however a test ended, and waits until nothing is left of them."""
        self.admin.client.send("DELETE", PODS, {"gracePeriodSeconds": 1})
        wait_until(
            "all pods are gone",
            lambda: not json.loads(self.admin.client.send("GET", PODS))["items"],
            timeout_s=180,
            depends_on=[self.agent],
        )
        self.admin.client.send("DELETE", TEMPLATES)
        self.admin.client.send("DELETE", CLAIMS)
        self.wait_until_nothing_is_left()

    def wait_until_nothing_is_left(self) -> None:
        """No claim is prepared, and no CDI file is there; once their pods are gone, that takes seconds."""
        wait_until(
            "nothing is left",
            lambda: self.left() == "",
            timeout_s=60,
            depends_on=[self.agent],
            evidence=self.left,
        )


@contextmanager
def dra_site(
    cluster: ControlPlane, node: Node, workspace: Workspace, folder: Path, mode: str = "sub-host"
) -> Iterator[Site]:
    """All that is shipped in force, and the agent with the rights of deploy/agent-dra and no others.

    `mode` is how the host's chips are given out.
    """
    admin = cluster.workloads
    with (
        tpu_chips(node, workspace, folder),
        admin.applied(_shipped()),
        _labelled(admin, "/api/v1/namespaces/default"),
        _labelled(admin, f"/api/v1/nodes/{node.name}"),
        policies_in_force(admin),
        _bound_token(admin, node) as token,
        _user(cluster) as user,
    ):
        os.mknod(folder / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(*NULL))
        write_cards(folder / "plain.yaml", CARDS, tiles=TILES_EACH, first_bus=FIRST_BUS)
        cards = (folder / "plain.yaml").read_text()
        (folder / "cards.yaml").write_text(cards.replace("  tiles:", "  memory_mib: 131072\n  tiles:"))
        (folder / "config.yaml").write_text(CONFIG.format(folder=folder, mode=mode, serve="dra"))
        ca = cluster.authority.keys.certificate
        kubeconfig = write_kubeconfig(folder / "kubeconfig", server=cluster.url, ca=ca, credentials=token)
        words: list[str | Path] = [AGENT, "agent", "--host-root", folder, "--config", folder / "config.yaml"]
        words += ["--kubeconfig", kubeconfig, "--node-name", node.name, "--http", "127.0.0.1:0"]
        agents = [node.process(f"agent-dra-{number}", words) for number in (1, 2)]
        before = len(agents[0].log_text())
        with agents[0].running():
            site = Site(cluster, node, agents[0], agents[1], user, token, folder, mode)
            site.wait_until_registered(since=before)
            site.wait_for_slices()
            yield site


def _shipped() -> Iterable[Json]:
    for name in ("account", "rbac", "policy", "classes", "monitor-class"):
        yield from yaml.safe_load_all((DEPLOY / "agent-dra" / f"{name}.yaml").read_text())
    yield from yaml.safe_load_all((DEPLOY / "agent-cards" / "policy.yaml").read_text())
    scheduler = yaml.safe_load_all((DEPLOY / "scheduler.yaml").read_text())
    yield from (each for each in scheduler if each["kind"].startswith("Validating"))


@contextmanager
def _labelled(admin: Workloads, path: str) -> Iterator[None]:
    admin.client.send("PATCH", path, {"metadata": {"labels": {LABEL: "dra"}}})
    try:
        yield
    finally:
        admin.client.send("PATCH", path, {"metadata": {"labels": {LABEL: None}}})


@contextmanager
def _bound_token(admin: Workloads, node: Node) -> Iterator[Token]:
    """A token as a pod of the agent on this node has it."""
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "1d"],
    }
    spec = {
        "nodeName": node.name,
        "serviceAccountName": "accelet-agent",
        "hostNetwork": True,
        "containers": [container],
    }
    name, namespace = f"holder-{node.name}", "kube-system"
    pod = {"kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    uid = admin.apply(pod)["metadata"]["uid"]
    try:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/accelet-agent/token"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        answer = json.loads(admin.client.send("POST", path, {"spec": {"boundObjectRef": bound}}))
        yield Token(answer["status"]["token"])
    finally:
        admin.delete_pod(name, namespace)


@contextmanager
def _user(cluster: ControlPlane) -> Iterator[Workloads]:
    here = {"name": "dra-user", "namespace": "default"}
    rbac = "rbac.authorization.k8s.io"
    verbs = ["create", "get", "list", "watch", "patch", "delete"]
    rules = [
        {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": verbs},
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceclaimtemplates"],
            "verbs": verbs,
        },
    ]
    binding = {
        "kind": "RoleBinding",
        "metadata": here,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "dra-user"},
        "subjects": [{"kind": "ServiceAccount", **here}],
    }
    role = {"kind": "Role", "metadata": here, "rules": rules}
    with cluster.workloads.applied([{"kind": "ServiceAccount", "metadata": here}, role, binding]):
        path = "/api/v1/namespaces/default/serviceaccounts/dra-user/token"
        answer = json.loads(cluster.client.send("POST", path, {"spec": {}}))
        token = Token(answer["status"]["token"])
        yield Workloads(Client(cluster.url, token, cluster.authority.keys.certificate))
