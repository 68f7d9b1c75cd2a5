"""Workers on real kubelets print who they are: by JobSet's own controller, policies, provisioner and agent.

`make e2e-provisioner` runs it. The pool is simulated; the machine behind the first Node of each slice is a
real kubelet, on which the workers of the slice run one after another.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, JOBS, NODES, PODS
from accelet.kube.client import Client
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.watching import JOB_SETS
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.identity_api import Api, identity_in_force
from tests.e2e.slices.job_sets import Site
from tests.e2e.slices.jobset import HOSTS, job_set
from tests.e2e.slices.machine import Shop, machine
from tests.e2e.slices.world import FAST_SETTINGS, count, provisioner, until
from tests.unit.provisioner.manifests import PROVISION, job_spec

SCRIPT = "env | grep -E '^(TPU|MEGASCALE)_'"
OF_THE_HOST = {
    "TPU_TOPOLOGY": "4x4",
    "TPU_ACCELERATOR_TYPE": "v6e-16",
    "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1",
    "TPU_HOST_BOUNDS": "2,2,1",
}
TRAIN = "train-0.svc,train-1.svc,train-2.svc,train-3.svc"
FIRST = "js-w-0-0.js,js-w-0-1.js,js-w-0-2.js,js-w-0-3.js"
SECOND = "js-w-1-0.js,js-w-1-1.js,js-w-1-2.js,js-w-1-3.js"
MULTISLICE = {
    "MEGASCALE_NUM_SLICES": "2",
    "MEGASCALE_COORDINATOR_ADDRESS": "js-w-0-0.js",
    "MEGASCALE_PORT": "8080",
}
TOLD: Mapping[str, dict[str, str]] = {
    "train": {"TPU_WORKER_HOSTNAMES": TRAIN},
    "js-w-0": {"TPU_WORKER_HOSTNAMES": FIRST, "MEGASCALE_SLICE_ID": "0", **MULTISLICE},
    "js-w-1": {"TPU_WORKER_HOSTNAMES": SECOND, "MEGASCALE_SLICE_ID": "1", **MULTISLICE},
}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def shop(
    site: Site, binaries: Binaries, base_images: Sequence[Path], workspace: Workspace, tmp_path: Path
) -> Shop:
    return Shop(site.cluster, binaries, base_images, workspace, tmp_path)


@pytest.fixture
def identity(site: Site) -> Iterator[None]:
    with closing(Api(site.cluster)) as api, identity_in_force(site.cluster, api):
        yield


def _printing(spec: dict[str, Any]) -> dict[str, Any]:
    """Pods that print, and are held until their machine is there."""
    pods = spec["template"]["spec"]
    pods |= {"hostNetwork": True, "schedulingGates": [{"name": "accelet.dev/until-there-is-a-machine"}]}
    pods["containers"][0] |= {
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", SCRIPT],
    }
    return spec


def _job() -> dict[str, Any]:
    tolerations = [{"key": TPU, "operator": "Exists"}]
    spec = job_spec(
        topology="4x4", pods=HOSTS, subdomain="svc", restartPolicy="Never", tolerations=tolerations
    )
    metadata = {"name": "train", "annotations": PROVISION}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": _printing(spec)}


def _job_set() -> dict[str, Any]:
    raw = job_set("js")
    _printing(raw["spec"]["replicatedJobs"][0]["template"]["spec"])
    return raw


async def _pools(client: Client, namespace: str) -> dict[str, str]:
    """The pool of each Job's slice that is ready."""
    page = await client.list_page(SLICE_REQUESTS, namespace)
    found = [json.loads(bytes(raw)) for raw in page.items]
    return {
        one["spec"]["owner"]["job"]: one["status"]["pool"]
        for one in found
        if (one.get("status") or {}).get("phase") == "Ready"
    }


async def _is_ready(site: Site, job: str) -> bool:
    return job in await _pools(site.client, site.namespace)


async def _worker(site: Site, job: str, index: int, node: str) -> dict[str, str]:
    """Lets a worker run on a machine; the variables that it printed."""
    words = {"batch.kubernetes.io/job-name": job, "batch.kubernetes.io/job-completion-index": index}
    query = {"labelSelector": ",".join(f"{key}={value}" for key, value in words.items())}
    page = await site.client.list_page(PODS, site.namespace, query)
    (name,) = (json.loads(bytes(raw))["metadata"]["name"] for raw in page.items)
    spec = {"schedulingGates": None, "nodeSelector": {"kubernetes.io/hostname": node}}
    await site.client.patch(PODS, site.namespace, name, {"spec": spec}, "merge")
    workloads = site.cluster.workloads
    workloads.wait_for_phase(name, "Succeeded", namespace=site.namespace, timeout_s=120)
    text = workloads.log(name, namespace=site.namespace)
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.usefixtures("identity")
async def test_workers_print_who_they_are(site: Site, shop: Shop, tmp_path: Path) -> None:
    client, namespace = site.client, site.namespace

    async def are_all_ready() -> bool:
        return (await _pools(client, namespace)).keys() == TOLD.keys()

    async def is_clean() -> bool:
        pools = await count(client, CONFIG_MAPS, "kube-system", "accelet.dev/simulated-pool")
        return pools + await count(client, NODES, None, NODE_POOL) == 0

    await client.create(JOBS, namespace, _job())
    await client.create(JOB_SETS, namespace, _job_set())
    async with provisioner(site.kubeconfig, tmp_path, FAST_SETTINGS):
        await until(are_all_ready)
        pools = await _pools(client, namespace)
        printed = {}
        for job, pool in pools.items():
            async with machine(shop, f"{pool}-0") as node:
                await until(partial(_is_ready, site, job))
                printed[job] = [await _worker(site, job, index, node.name) for index in range(HOSTS)]
        await client.delete(JOB_SETS, namespace, "js")
        await client.delete(JOBS, namespace, "train", propagation="Background")
        await until(is_clean, 300)

    for job, told in TOLD.items():
        for index, variables in enumerate(printed[job]):
            assert variables == variables | told | OF_THE_HOST | {"TPU_WORKER_ID": str(index)}
            assert told.keys() >= {name for name in variables if name.startswith("MEGASCALE_")}
            assert not any(name.startswith("TPU_PROCESS_") for name in variables), "not before tpu7x"
