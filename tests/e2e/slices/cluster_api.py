"""Cluster API's own reconcilers beside the control plane, with machines that are Nodes and nothing else.

The cluster that they manage is the one in which they run. The infrastructure writes what it has to by Cluster
API's contract v1beta2, of its own objects and Nodes: never a MachineDeployment.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from accelet.kube.apiresources import NODES, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ApiError, ConflictError, ExistsError, NotFoundError
from accelet.provisioner.demand.selectors import ACCELERATOR, TOPOLOGY
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.providers.clusterapi.body import render_body
from accelet.provisioner.providers.clusterapi.provider import MACHINE_DEPLOYMENTS
from accelet.provisioner.settings import ClusterApiSettings, TemplateRef
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.kueue import CRDS, define, module_folder
from tests.e2e.slices.webhooks import Webhooks, applied, write_certificate
from tests.e2e.slices.world import is_served, until
from tests.free_ports import free_port
from tests.integration.provisioner.plans import plan

GROUP, NAMESPACE, CLUSTER = "fake.accelet.dev", "default", "own"
_TEMPLATES = ("FakeMachineTemplate", "FakeConfigTemplate")
_KINDS = ("FakeCluster", "FakeMachine", "FakeConfig", *_TEMPLATES)
SETTINGS = ClusterApiSettings(
    namespace=NAMESPACE,
    cluster=CLUSTER,
    bootstrap=TemplateRef(api_group=GROUP, kind="FakeConfigTemplate", name="fake"),
    infrastructure=TemplateRef(api_group=GROUP, kind="FakeMachineTemplate", name="fake"),
)
_SERVED = {"clusters", "machines", "machinesets", "machinedeployments"}
_HEARTBEAT_S = 10.0


def _fake(kind: str) -> ApiResource:
    return ApiResource(kind, f"{kind.lower()}s", GROUP)


def _core(kind: str) -> ApiResource:
    return ApiResource(kind, f"{kind.lower()}s", "cluster.x-k8s.io", "v1beta2")


CLUSTERS, MACHINES = _core("Cluster"), _core("Machine")


@asynccontextmanager
async def cluster_api(
    cluster: ControlPlane, client: Client, binaries: Binaries, folder: Path
) -> AsyncIterator[None]:
    """Runs them, with the cluster `own` that is the control plane's."""
    source = module_folder("cluster-api", "sigs.k8s.io/cluster-api")
    await define(client, sorted((source / "core/config/crd/bases").glob("cluster.x-k8s.io_*.yaml")))
    for kind in _KINDS:
        definition = _definition(kind)
        await client.patch(CRDS, None, definition["metadata"]["name"], definition, "apply")
    for resource in (CLUSTERS, MACHINES, MACHINE_DEPLOYMENTS, *map(_fake, _KINDS)):
        await until(lambda resource=resource: is_served(client, resource))
    port = free_port()
    write_certificate(cluster, "cluster-api", folder / "serving")
    words = [f"--kubeconfig={cluster.kubeconfig}", f"--webhook-port={port}"]
    words += [f"--webhook-cert-dir={folder / 'serving'}"]
    log = folder / "cluster-api.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            binaries.path("cluster-api"), *words, stdout=out, stderr=out
        )
    webhooks = Webhooks("cluster-api", source / "core/config/webhook/manifests.yaml", _SERVED)
    infrastructure = asyncio.create_task(Infrastructure(client).run())
    try:
        async with applied(cluster, client, webhooks, port):
            making = asyncio.create_task(_make_cluster(cluster, client))
            ending = asyncio.create_task(process.wait())
            await asyncio.wait((making, ending), return_when=asyncio.FIRST_COMPLETED)
            assert not ending.done(), log.read_text()[-3000:]
            ending.cancel()
            await making
            yield
            assert process.returncode is None, log.read_text()[-3000:]
            assert not infrastructure.done(), infrastructure
    finally:
        infrastructure.cancel()
        await asyncio.gather(infrastructure, return_exceptions=True)
        if process.returncode is None:
            process.terminate()
            await process.wait()


def _definition(kind: str) -> dict[str, Any]:
    """A kind of the infrastructure; the label is by which Cluster API knows which contract it keeps."""
    resource = _fake(kind)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{GROUP}",
            "labels": {"cluster.x-k8s.io/v1beta2": resource.version},
        },
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": resource.plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


async def _make_cluster(cluster: ControlPlane, client: Client) -> None:
    """The cluster, its access for Cluster API, and the templates of its machines."""
    for kind in _TEMPLATES:
        await _create(client, _fake(kind), {"metadata": {"name": "fake"}, "spec": {"template": {"spec": {}}}})
    await _create(client, _fake("FakeCluster"), {"metadata": {"name": CLUSTER}, "spec": {}})
    status = {"status": {"initialization": {"provisioned": True}}}
    await client.patch(_fake("FakeCluster"), NAMESPACE, CLUSTER, status, "merge", subresource="status")
    kubeconfig = await asyncio.to_thread(Path(cluster.kubeconfig).read_bytes)
    access = {
        "metadata": {"name": f"{CLUSTER}-kubeconfig", "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER}},
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(kubeconfig).decode()},
    }
    await _create(client, ApiResource("Secret", "secrets"), access)
    host, _, port = cluster.url.removeprefix("https://").partition(":")
    reference = {"apiGroup": GROUP, "kind": "FakeCluster", "name": CLUSTER}
    spec = {"controlPlaneEndpoint": {"host": host, "port": int(port)}, "infrastructureRef": reference}

    deployment = render_body(plan(1), SETTINGS)

    async def is_made() -> bool:
        """Once its webhooks answer, and the API server asks them."""
        try:
            tried = await client.create(MACHINE_DEPLOYMENTS, NAMESPACE, deployment, dry_run=True)
            await _create(client, CLUSTERS, {"metadata": {"name": CLUSTER}, "spec": spec})
        except ApiError as error:
            if "failed calling webhook" in str(error):
                return False
            raise
        return "rollout" in json.loads(tried)["spec"]

    await until(is_made, 300)


async def _create(client: Client, resource: ApiResource, body: dict[str, Any]) -> None:
    typed = {"apiVersion": resource.api_version, "kind": resource.kind} | body
    with suppress(ExistsError):
        await client.create(resource, NAMESPACE, typed)


class Infrastructure:
    """Makes a Node of each FakeMachine that is wanted, and removes it with that one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told_s: dict[str, float] = {}

    async def run(self) -> None:
        while True:
            with suppress(ConflictError, NotFoundError):  # the next look sees what has changed
                for one in await self._list(_fake("FakeConfig")):
                    await self._give_data(one)
                for one in await self._list(_fake("FakeMachine")):
                    await self._keep_up(one["metadata"])
            await asyncio.sleep(0.3)

    async def _give_data(self, one: dict[str, Any]) -> None:
        if not one.get("status"):
            status = {"initialization": {"dataSecretCreated": True}, "dataSecretName": "none"}
            await self._say(_fake("FakeConfig"), one["metadata"]["name"], status)

    async def _keep_up(self, metadata: dict[str, Any]) -> None:
        machine, name = _fake("FakeMachine"), metadata["name"]
        if "deletionTimestamp" in metadata:
            with suppress(NotFoundError):
                await self._client.delete(NODES, None, name)
            patch = {"metadata": {"finalizers": None, "resourceVersion": metadata["resourceVersion"]}}
            await self._client.patch(machine, NAMESPACE, name, patch, "merge")
        elif not metadata.get("finalizers"):
            body = {"metadata": {"finalizers": [f"{GROUP}/node"]}, "spec": {"providerID": f"fake://{name}"}}
            await self._client.patch(machine, NAMESPACE, name, body, "merge")
        elif any(owner["kind"] == "Machine" for owner in metadata.get("ownerReferences", ())):
            await self._run_machine(name)

    async def _run_machine(self, name: str) -> None:
        """Its kubelet registers, and says every so often that it is well."""
        if time.monotonic() - self._told_s.get(name, 0.0) < _HEARTBEAT_S:
            return
        if name not in self._told_s:
            with suppress(ExistsError):
                await self._client.create(NODES, None, _node(name))
            await self._say(_fake("FakeMachine"), name, {"initialization": {"provisioned": True}})
        resources = {"cpu": "96", "memory": "384Gi", "pods": "15", TPU: "4"}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        ready = {"type": "Ready", "status": "True", "reason": "Fake"} | times
        status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
        await self._client.patch(NODES, None, name, {"status": status}, "merge", subresource="status")
        self._told_s[name] = time.monotonic()

    async def _say(self, resource: ApiResource, name: str, status: dict[str, Any]) -> None:
        await self._client.patch(resource, NAMESPACE, name, {"status": status}, "merge", subresource="status")

    async def _list(self, resource: ApiResource) -> list[dict[str, Any]]:
        page = await self._client.list_page(resource, NAMESPACE)
        return [json.loads(bytes(raw)) for raw in page.items]


def _node(name: str) -> dict[str, Any]:
    """As a kubelet registers that was told its labels and the taint of slices."""
    labels = {ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: "4x4", "kubernetes.io/hostname": name}
    taint = {"key": "accelet.dev/slice-not-ready", "value": "true", "effect": "NoSchedule"}
    spec = {"providerID": f"fake://{name}", "taints": [taint]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}
