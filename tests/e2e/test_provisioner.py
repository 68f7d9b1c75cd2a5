"""The provisioner on a real control plane: real Jobs, kube-scheduler, simulated pools, and kills."""

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, JOBS, LEASES, NODES, PODS, ApiResource, Body
from accelet.kube.client import Client
from accelet.kube.errors import ApiError, ConflictError, InvalidError, NotFoundError
from accelet.kube.nodes import Node as ApiNode
from accelet.kube.nodes import parse_node
from accelet.kube.podparser import parse_pod
from accelet.provisioner.demand.selectors import NAMESPACED_JOB, NODE_POOL
from accelet.provisioner.nodes import close_patch, open_patch
from accelet.provisioner.providers.simulated.body import POOL_LABEL
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.kustomize import DEPLOY, build
from tests.unit.provisioner.manifests import PROVISION, job_spec

_ADMISSION, _RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
_RESOURCES = {
    "CustomResourceDefinition": ApiResource(
        "CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io"
    ),
    "ServiceAccount": ApiResource("ServiceAccount", "serviceaccounts"),
    "ClusterRole": ApiResource("ClusterRole", "clusterroles", _RBAC),
    "ClusterRoleBinding": ApiResource("ClusterRoleBinding", "clusterrolebindings", _RBAC),
    "Role": ApiResource("Role", "roles", _RBAC),
    "RoleBinding": ApiResource("RoleBinding", "rolebindings", _RBAC),
    "ConfigMap": CONFIG_MAPS,
    "PodDisruptionBudget": ApiResource("PodDisruptionBudget", "poddisruptionbudgets", "policy"),
    "Deployment": ApiResource("Deployment", "deployments", "apps"),
    "ValidatingAdmissionPolicy": ApiResource(
        "ValidatingAdmissionPolicy", "validatingadmissionpolicies", _ADMISSION
    ),
    "ValidatingAdmissionPolicyBinding": ApiResource(
        "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", _ADMISSION
    ),
}
_NAMESPACES = ApiResource("Namespace", "namespaces")
_SETTINGS = """
version: v1
provider: simulated
poll_s: 0.5
grace_s: 0.5
settle_s: 1
lag_s: 2
rest_s: 1
simulated: {create_s: 1, join_s: 0.5, delete_s: 0.5, capacity: [{tier: on-demand, slices: 4}]}
"""
HOSTS, KILLS, COUNT = 2, 5, 12


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(cluster.kubeconfig), threads=8)
    yield client
    client.close()


@pytest.fixture
async def kubeconfig(cluster: ControlPlane, client: Client, binaries: Binaries, tmp_path: Path) -> Path:
    """That of the account that deploy/provisioner makes, with its rights and those for simulated pools."""
    kubectl, folder = binaries.path("kubectl"), DEPLOY / "provisioner"
    for manifest in [*build(folder, kubectl), *build(folder / "simulated", kubectl)]:
        resource, name = _RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        namespace = manifest["metadata"].get("namespace")
        is_tried = manifest["kind"] == "Deployment"
        await client.patch(resource, namespace, name, manifest, "apply", dry_run=is_tried)
    path = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-provisioner/token"
    answer = json.loads(cluster.client.send("POST", path, {"spec": {}}))
    ca = cluster.authority.keys.certificate
    token = Token(answer["status"]["token"])
    return write_kubeconfig(tmp_path / "kubeconfig", server=cluster.url, ca=ca, credentials=token)


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"slices-{time.time_ns():x}"
    await client.create(_NAMESPACES, None, {"metadata": {"name": name}})
    accounts = ApiResource("ServiceAccount", "serviceaccounts")

    async def has_account() -> bool:
        try:
            await client.get(accounts, name, "default")
        except NotFoundError:
            return False
        return True

    await _until(has_account)
    yield name
    await client.delete(_NAMESPACES, None, name)


async def _until(condition: Any, within_s: float = 120.0) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - the API server is another process
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _provisioner(kubeconfig: Path, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    config = folder / "settings.yaml"
    config.write_text(_SETTINGS)
    words = ["provisioner", "--kubeconfig", str(kubeconfig), "--config", str(config)]
    with (folder / "provisioner.log").open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("accelet"), *words, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _job(namespace: str, name: str) -> dict[str, Any]:
    spec = job_spec(
        topology="2x4",
        pods=HOSTS,
        selector={NAMESPACED_JOB: f"{namespace}_{name}"},
        restartPolicy="Never",
        tolerations=[{"key": "google.com/tpu", "operator": "Exists"}],
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": PROVISION},
        "spec": spec,
    }


class Kubelets:
    """They run each pod that is bound to a simulated Node for a second."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._started_s: dict[str, float] = {}
        self.killed: list[str] = []

    async def run(self) -> None:
        while True:
            nodes = {name: True async for name in _names(self._client, NODES, None, NODE_POOL)}
            page = await self._client.list_page(PODS, self._namespace)
            for pod in map(parse_pod, page.items):
                if pod.node_name is not None and not pod.is_terminal:
                    await self._attend(pod.name, is_there=pod.node_name in nodes)
            await asyncio.sleep(0.2)

    async def _attend(self, pod: str, *, is_there: bool) -> None:
        if not is_there:
            self.killed.append(pod)
            return
        since_s = self._started_s.setdefault(pod, time.monotonic())
        phase = "Succeeded" if time.monotonic() - since_s > 1 else "Running"
        body = {"status": {"phase": phase}}
        await self._client.patch(PODS, self._namespace, pod, body, "strategic", subresource="status")


async def _names(
    client: Client, resource: ApiResource, namespace: str | None, selector: str
) -> AsyncIterator[str]:
    page = await client.list_page(resource, namespace, {"labelSelector": selector} if selector else None)
    for raw in page.items:
        yield json.loads(bytes(raw))["metadata"]["name"]


async def _count(client: Client, resource: ApiResource, namespace: str | None, selector: str = "") -> int:
    return len([name async for name in _names(client, resource, namespace, selector)])


async def test_jobs_get_their_slices_through_kills_and_give_them_back(
    kubeconfig: Path, client: Client, namespace: str, tmp_path: Path
) -> None:
    kubelets = Kubelets(client, namespace)
    running = asyncio.create_task(kubelets.run())
    chance = random.Random(7)
    for index in range(COUNT):
        await client.create(JOBS, namespace, _job(namespace, f"train-{index}"))
    for _ in range(KILLS):
        async with _provisioner(kubeconfig, tmp_path) as process:
            await asyncio.sleep(chance.uniform(2.0, 10.0))
            process.kill()

    async def is_done() -> bool:
        assert not running.done(), running
        page = await client.list_page(JOBS, namespace)
        return all(json.loads(bytes(raw))["status"].get("succeeded") == HOSTS for raw in page.items)

    async def is_clean() -> bool:
        places = ((SLICE_REQUESTS, namespace, ""), (NODES, None, NODE_POOL))
        pools = await _count(client, CONFIG_MAPS, "kube-system", "accelet.dev/simulated-pool")
        return pools + sum([await _count(client, *place) for place in places]) == 0

    async with _provisioner(kubeconfig, tmp_path):
        await _until(is_done, 300)
        await _until(is_clean, 120)
    running.cancel()
    assert kubelets.killed == []


async def _patched(own: Client, patch_of: Callable[[ApiNode], Body]) -> ApiNode:
    """The Node after a patch of its newest version: the cluster's controllers write a new Node too."""
    async with asyncio.timeout(30):
        while True:
            node = parse_node(await own.get(NODES, None, "a-node"))
            try:
                return parse_node(await own.patch(NODES, None, "a-node", patch_of(node), "merge"))
            except ConflictError:
                continue


async def test_the_api_server_holds_requests_and_the_provisioner_to_their_limits(
    kubeconfig: Path, client: Client, namespace: str
) -> None:
    spec: dict[str, Any] = {
        "accelerator": "tpu-v6e-slice",
        "topology": "2x4",
        "chipsPerPod": 4,
        "set": {"name": "one"},
    }
    body = {"apiVersion": SLICE_REQUESTS.api_version, "kind": "SliceRequest", "metadata": {"name": "one"}}
    await client.create(SLICE_REQUESTS, namespace, {**body, "spec": spec})
    with pytest.raises(InvalidError, match="the spec cannot be changed"):
        await client.patch(SLICE_REQUESTS, namespace, "one", {"spec": {"topology": "4x4"}}, "merge")
    wrong = {**body, "metadata": {"name": "two"}, "spec": {**spec, "chipsPerPod": 99}}
    with pytest.raises(InvalidError, match="chipsPerPod"):
        await client.create(SLICE_REQUESTS, namespace, wrong)

    await client.create(NODES, None, {"metadata": {"name": "a-node", "labels": {"team": "a"}}})
    own = await Client.connect(kubeconfig)

    async def is_held() -> bool:
        try:
            await own.patch(
                NODES, None, "a-node", {"metadata": {"labels": {"team": "b"}}}, "merge", dry_run=True
            )
        except ApiError as error:
            return "writes its own labels on Nodes, and no others" in str(error)
        return False

    try:
        await _until(is_held)
        closed = await _patched(own, lambda node: close_patch(node, "a-uid", 1.0))
        assert closed.unschedulable
        labels = {"accelet.dev/slice": "one", "accelet.dev/slice-set": "one"}
        opened = await _patched(own, lambda node: open_patch(node, labels, None))
        assert not opened.unschedulable
        assert labels.items() <= opened.labels.items()
        foreign = {"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}}
        with pytest.raises(ApiError, match="sets and lifts the taints of slices"):
            await own.patch(NODES, None, "a-node", foreign, "merge")
    finally:
        own.close()
        await client.delete(NODES, None, "a-node")


async def test_rights_for_simulated_pools_reach_nothing_else(kubeconfig: Path, client: Client) -> None:
    own = await Client.connect(kubeconfig)
    nobody = "the provisioner writes Nodes, ConfigMaps and leases of simulated pools, and no others"
    lease = {"metadata": {"name": "real"}, "spec": {"holderIdentity": "real"}}
    await client.create(NODES, None, {"metadata": {"name": "real"}})
    await client.create(CONFIG_MAPS, "kube-system", {"metadata": {"name": "others"}, "data": {"a": "b"}})
    await client.create(LEASES, "kube-node-lease", lease)
    marked = {"metadata": {"labels": {POOL_LABEL: "true"}}}

    async def is_held() -> bool:
        try:
            await own.create(NODES, None, {"metadata": {"name": "another"}}, dry_run=True)
        except ApiError as error:
            return nobody in str(error)
        return False

    try:
        await _until(is_held)
        with pytest.raises(ApiError, match=nobody):
            await own.delete(NODES, None, "real")
        with pytest.raises(ApiError, match=nobody):
            await own.patch(NODES, None, "real", {"status": {"phase": "a"}}, "merge", subresource="status")
        with pytest.raises(ApiError, match=nobody):
            await own.patch(NODES, None, "real", marked, "merge", subresource="status")
        with pytest.raises(ApiError, match="writes its own labels on Nodes, and no others"):
            await own.patch(NODES, None, "real", marked, "merge")
        with pytest.raises(ApiError, match=nobody):
            await own.create(CONFIG_MAPS, "kube-system", {"metadata": {"name": "mine"}})
        with pytest.raises(ApiError, match=nobody):
            await own.patch(CONFIG_MAPS, "kube-system", "others", {"data": {"a": "c"}, **marked}, "merge")
        with pytest.raises(ApiError, match=nobody):
            await own.delete(CONFIG_MAPS, "kube-system", "others")
        with pytest.raises(ApiError, match=nobody):
            await own.patch(LEASES, "kube-node-lease", "real", {"spec": {"holderIdentity": "a"}}, "merge")
    finally:
        own.close()
        await client.delete(NODES, None, "real")
        await client.delete(CONFIG_MAPS, "kube-system", "others")
        await client.delete(LEASES, "kube-node-lease", "real")
