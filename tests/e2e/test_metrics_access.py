"""Who may read the metrics that name pods, by a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accelet.agent.metricsaccess import MetricsAccess
from accelet.kube.client import Client
from accelet.runtime.probes import Refusal
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.workloads import Workloads

RBAC = "rbac.authorization.k8s.io"
READER, POD, AGENT = "metrics-reader", "metrics-pod", "metrics-agent"


def account(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}


def bound(name: str, role: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }


@pytest.fixture
def accounts(workloads: Workloads) -> Iterator[None]:
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": READER},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    bindings = [bound(READER, READER), bound(AGENT, "system:auth-delegator")]
    with workloads.applied([account(READER), account(POD), account(AGENT), role, *bindings]):
        yield


@pytest.mark.usefixtures("accounts")
async def test_a_token_reads_if_its_owner_may_get_metrics(
    cluster: ControlPlane, workloads: Workloads, tmp_path: Path
) -> None:
    def token(name: str) -> str:
        path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
        return str(json.loads(workloads.client.send("POST", path, {"spec": {}}))["status"]["token"])

    authority = cluster.authority.keys.certificate
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", server=cluster.url, ca=authority, credentials=Token(token(AGENT))
    )
    client = await Client.connect(kubeconfig)

    async def connect() -> Client:
        return client

    access = MetricsAccess(connect)
    try:
        assert await access.admit(token(READER)) is None
        assert await access.admit(token(POD)) is Refusal.NOT_ALLOWED
        assert await access.admit("made up") is Refusal.NOBODY
        assert await access.admit(None) is Refusal.NO_TOKEN
    finally:
        client.close()
