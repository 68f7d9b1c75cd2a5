"""Kueue's own manager beside the control plane, with the webhooks that JobSets and its own kinds need."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ApiError, ExistsError
from accelet.provisioner.bookings.booking import PROVISIONING_REQUESTS
from tests.e2e.cluster.binaries import MODULES_FOLDER, Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.webhooks import Webhooks, applied, write_certificate
from tests.e2e.slices.world import is_served, until
from tests.free_ports import LOOPBACK, free_ports

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
CRDS = ApiResource("CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io")
_SERVED = {"clusterqueues", "cohorts", "jobs", "jobsets", "resourceflavors", "workloads", "workloads/status"}
_MOST_STARTS = 20
# Kueue reads the certificate of its metrics from /etc/kueue, wherever it runs: it gets an /etc of its own.
_IN_OWN_ETC = 'mount --bind "$1" /etc && shift && exec "$@"'


def _kueue(kind: str, plural: str) -> ApiResource:
    return ApiResource(kind, plural, "kueue.x-k8s.io", "v1beta2")


WORKLOADS = _kueue("Workload", "workloads")
_CONFIGS = _kueue("ProvisioningRequestConfig", "provisioningrequestconfigs")
CHECKS = _kueue("AdmissionCheck", "admissionchecks")
_FLAVORS = _kueue("ResourceFlavor", "resourceflavors")
_CLUSTER_QUEUES = _kueue("ClusterQueue", "clusterqueues")
_LOCAL_QUEUES = _kueue("LocalQueue", "localqueues")


def module_folder(module: str, package: str) -> Path:
    """Where Go keeps the source of a package that one of our modules pins."""
    words = ["go", "list", "-m", "-f", "{{.Dir}}", package]
    done = subprocess.run(words, cwd=MODULES_FOLDER / module, stdout=subprocess.PIPE, check=True, text=True)
    return Path(done.stdout.strip())


async def define(client: Client, files: Iterable[Path]) -> None:
    """Makes the kinds that files define."""
    for file in files:
        definition = yaml.load(file.read_text(), yaml.CSafeLoader)
        await client.patch(CRDS, None, definition["metadata"]["name"], definition, "apply")


@asynccontextmanager
async def kueue(
    cluster: ControlPlane, client: Client, binaries: Binaries, folder: Path
) -> AsyncIterator[Path]:
    """Runs Kueue, and takes its webhooks out again at the end. Gives its log."""
    source = module_folder("kueue", "sigs.k8s.io/kueue")
    apis = module_folder("kueue", "k8s.io/autoscaler/cluster-autoscaler/apis")
    await define(client, sorted((source / "config/components/crd/bases").glob("*.yaml")))
    await define(client, [apis / "config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml"])
    for resource in (PROVISIONING_REQUESTS, WORKLOADS, _CLUSTER_QUEUES, _LOCAL_QUEUES, CHECKS):
        await until(lambda resource=resource: is_served(client, resource))
    port, health, metrics = free_ports(3)
    certificates, metrics_certificates = folder / "serving", folder / "etc/kueue/metrics/certs"
    write_certificate(cluster, "kueue", certificates)
    metrics_certificates.parent.mkdir(parents=True)
    shutil.copytree(certificates, metrics_certificates)
    config = folder / "kueue.yaml"
    config.write_text(json.dumps(_config(port, health, metrics, certificates)))
    words: list[str | Path] = [
        "unshare",
        "--mount",
        "--propagation=private",
        "sh",
        "-c",
        _IN_OWN_ETC,
        "sh",
        folder / "etc",
    ]
    words += [binaries.path("kueue"), f"--config={config}", f"--kubeconfig={cluster.kubeconfig}"]
    log = folder / "kueue.log"
    running = asyncio.create_task(_keep_running(words, log))
    webhooks = Webhooks("kueue", source / "config/components/webhook/manifests.yaml", _SERVED)
    try:
        async with applied(cluster, client, webhooks, port):
            yield log
            assert not running.done(), log.read_text()[-3000:]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _keep_running(words: Sequence[str | Path], log: Path) -> None:
    """Starts it again where it ends, as a Deployment would: right after its kinds were defined it may not
    find them.
    """
    for _ in range(_MOST_STARTS):
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(*words, stdout=out, stderr=out)
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        await asyncio.sleep(1)


async def make_queue(client: Client, namespace: str, *, chips: int, attempts: int) -> None:
    """A queue `tpus` of so many chips that asks for slices, anew that many times after a failure."""
    retries = {"backoffLimitCount": attempts, "backoffBaseSeconds": 1, "backoffMaxSeconds": 2}
    asks = {"provisioningClassName": "slice.accelet.dev", "managedResources": ["google.com/tpu"]}
    await _create(client, _CONFIGS, None, "slices", asks | {"retryStrategy": retries})
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "slices"}
    controller = "kueue.x-k8s.io/provisioning-request"
    await _create(client, CHECKS, None, "slices", {"controllerName": controller, "parameters": parameters})
    await _create(client, _FLAVORS, None, "tpus", {})
    quota = {"name": "google.com/tpu", "nominalQuota": chips}
    group = {"coveredResources": ["google.com/tpu"], "flavors": [{"name": "tpus", "resources": [quota]}]}
    checks = {"admissionChecks": [{"name": "slices"}]}
    queue = {"namespaceSelector": {}, "resourceGroups": [group], "admissionChecksStrategy": checks}
    await _create(client, _CLUSTER_QUEUES, None, "tpus", queue)
    await _create(client, _LOCAL_QUEUES, namespace, "tpus", {"clusterQueue": "tpus"})


async def make_placed_queue(
    client: Client, namespace: str, name: str, *, quota: dict[str, str], node_labels: dict[str, str]
) -> None:
    """A queue of so much on nodes with these labels that asks accelet's scheduler for a place."""
    await _create(client, CHECKS, None, name, {"controllerName": "accelet.dev/placement"})
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": name}]}}
    await make_plain_queue(client, namespace, name, quota=quota, node_labels=node_labels, more=checks)


async def make_plain_queue(
    client: Client,
    namespace: str,
    name: str,
    *,
    quota: dict[str, str],
    node_labels: dict[str, str],
    more: dict[str, Any] | None = None,
) -> None:
    """A queue of so much on nodes with these labels; `more` is for its ClusterQueue."""
    await _create(client, _FLAVORS, None, name, {"nodeLabels": node_labels})
    amounts = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
    group = {"coveredResources": [*quota], "flavors": [{"name": name, "resources": amounts}]}
    queue = {"namespaceSelector": {}, "resourceGroups": [group], **(more or {})}
    await _create(client, _CLUSTER_QUEUES, None, name, queue)
    await _create(client, _LOCAL_QUEUES, namespace, name, {"clusterQueue": name})


async def _create(
    client: Client, resource: ApiResource, namespace: str | None, name: str, spec: dict[str, Any]
) -> None:
    """Makes an object once Kueue's webhooks answer."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}

    async def is_made() -> bool:
        try:
            await client.create(resource, namespace, body | {"spec": spec})
        except ExistsError:
            return True
        except ApiError as error:
            if "failed calling webhook" in str(error):
                return False
            raise
        return True

    await until(is_made, 600)


def _config(port: int, health: int, metrics: int, certificates: Path) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": f"{LOOPBACK}:{metrics}"},
        "webhook": {"host": LOOPBACK, "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
    }
