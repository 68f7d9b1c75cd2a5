"""A client of the cluster, and the provisioner's own account in it."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import NotFoundError
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.shipped_kinds import RESOURCES
from tests.e2e.slices.job_sets import Site
from tests.e2e.slices.jobset import controller
from tests.e2e.slices.world import is_served, until

_NAMESPACES = ApiResource("Namespace", "namespaces")


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(cluster.kubeconfig), threads=8)
    yield client
    client.close()


@pytest.fixture
async def kubeconfig(
    cluster: ControlPlane, client: Client, binaries: Binaries, tmp_path: Path
) -> AsyncIterator[Path]:
    """That of the account that deploy/provisioner makes, with its rights and those for simulated pools.

    The kinds stay: objects of them may still be on their way out.
    """
    kubectl, folder = binaries.path("kubectl"), DEPLOY / "provisioner"
    folders = (DEPLOY / "crds", folder, folder / "simulated")
    manifests = [one for each in folders for one in build(each, kubectl)]
    for manifest in manifests:
        resource, name = RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        namespace = manifest["metadata"].get("namespace")
        is_tried = manifest["kind"] == "Deployment"
        await client.patch(resource, namespace, name, manifest, "apply", dry_run=is_tried)
    path = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-provisioner/token"
    answer = json.loads(cluster.client.send("POST", path, {"spec": {}}))
    ca = cluster.authority.keys.certificate
    token = Token(answer["status"]["token"])
    yield write_kubeconfig(tmp_path / "kubeconfig", server=cluster.url, ca=ca, credentials=token)
    for manifest in reversed(manifests):
        if manifest["kind"] not in ("CustomResourceDefinition", "Deployment"):
            resource, metadata = RESOURCES[manifest["kind"]], manifest["metadata"]
            with suppress(NotFoundError):  # two of the files have it
                await client.delete(resource, metadata.get("namespace"), metadata["name"])


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

    await until(has_account)
    yield name
    await client.delete(_NAMESPACES, None, name)


@pytest.fixture
async def job_sets(
    cluster: ControlPlane, client: Client, kubeconfig: Path, jobset_binaries: Binaries, tmp_path: Path
) -> AsyncIterator[ControlPlane]:
    """The cluster with JobSet's kind and its own controller; both are gone afterwards."""
    async with controller(cluster, client, jobset_binaries, tmp_path):
        await until(partial(is_served, client, SLICE_REQUESTS))
        yield cluster


@pytest.fixture
def site(job_sets: ControlPlane, client: Client, kubeconfig: Path, namespace: str) -> Site:
    """The same as one value."""
    return Site(job_sets, client, kubeconfig, namespace)
