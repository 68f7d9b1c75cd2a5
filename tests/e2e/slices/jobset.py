"""JobSets, and JobSet's own controller beside the control plane: with its webhooks, or without."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from accelet.kube.client import Client
from accelet.kube.errors import ApiError
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.watching import JOB_SETS
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.kueue import CRDS, define, module_folder
from tests.e2e.slices.webhooks import Webhooks, applied, write_certificate
from tests.e2e.slices.world import is_served, until
from tests.free_ports import free_port
from tests.unit.provisioner.manifests import PROVISION, job_spec

SLICES, HOSTS = 2, 4
TOPOLOGIES = {2: "2x4", 4: "4x4"}
"""Of as many machines of four chips."""
_KEYS = ("exclusive-topology", "node-selector")


def job_set(
    name: str, hosts: int = HOSTS, exclusive: Mapping[str, str] | None = None, slices: int = SLICES
) -> dict[str, Any]:
    """As JobSet's webhook would have filled it in. `exclusive` are annotations of the whole JobSet.

    Without them each Job selects its nodes by its own name.
    """
    spec = job_spec(topology=TOPOLOGIES[hosts], pods=hosts, restartPolicy="Never")
    spec["template"]["spec"]["tolerations"] = [{"key": TPU, "operator": "Exists"}]
    bound = {
        f"alpha.jobset.sigs.k8s.io/{key}": value for key, value in zip(_KEYS, (NODE_POOL, ""), strict=True)
    }
    job = {
        "metadata": {"annotations": bound if exclusive is None else {}},
        "spec": spec | {"backoffLimit": 0},
    }
    replicated = {"name": "w", "replicas": slices, "groupName": "default", "template": job}
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": PROVISION | dict(exclusive or {})},
        "spec": {
            "replicatedJobs": [replicated],
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        },
    }


@asynccontextmanager
async def controller(
    cluster: ControlPlane, client: Client, binaries: Binaries, folder: Path, *, has_webhooks: bool = False
) -> AsyncIterator[None]:
    """Defines JobSets and runs JobSet's controller; the kind is gone afterwards."""
    module = await asyncio.to_thread(module_folder, "jobset", "sigs.k8s.io/jobset")
    await define(client, [module / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"])
    await until(partial(is_served, client, JOB_SETS))
    words = [f"--kubeconfig={cluster.kubeconfig}"]
    if has_webhooks:
        port, certificates = free_port(), folder / "jobset"
        write_certificate(cluster, "jobset", certificates)
        words += [f"--webhook-port={port}", f"--webhook-cert-dir={certificates}"]
    with (folder / "jobset.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binaries.path("jobset"), *words, stdout=log, stderr=log
        )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end, process)
        if has_webhooks:
            manifests = module / "config/components/webhook/manifests.yaml"
            webhooks = Webhooks("jobset", manifests, {"jobsets", "pods"})
            await stack.enter_async_context(applied(cluster, client, webhooks, port))
            await until(partial(_answers, client))
        yield
        assert process.returncode is None, (folder / "jobset.log").read_text()[-2000:]
    await client.delete(CRDS, None, f"{JOB_SETS.plural}.{JOB_SETS.group}")
    await until(partial(_is_gone, client))


async def _answers(client: Client) -> bool:
    """Whether its webhooks are asked, and answer."""
    try:
        await client.create(JOB_SETS, "default", job_set("asked"), dry_run=True)
    except ApiError as error:
        if "failed calling webhook" in str(error):
            return False
        raise
    return True


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        await process.wait()


async def _is_gone(client: Client) -> bool:
    return not await is_served(client, JOB_SETS)
