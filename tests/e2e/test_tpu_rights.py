"""The rights of deploy/agent-tpu are enough to know the Node and to write Events on it, and are no more."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from accelet.node.apiconnection import ApiConnection
from accelet.node.ownnode import OwnNode
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, RefusedError
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.workloads import Workloads
from tests.integration.kube.waiting import eventually

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "agent-tpu"
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-agent"
NODES = "/api/v1/nodes"
NAME = "tpu-node"
LABELS = {"cloud.google.com/gke-tpu-topology": "4x8"}
# What `kubectl describe node` asks for.
EVENTS = "/api/v1/namespaces/default/events?" + urlencode(
    {
        "fieldSelector": f"involvedObject.kind=Node,involvedObject.name={NAME},"
        f"involvedObject.namespace=,involvedObject.uid={NAME}"
    }
)


@pytest.fixture
def token(workloads: Workloads) -> Iterator[Token]:
    manifests = [(FOLDER / name).read_text() for name in ("account.yaml", "rbac.yaml")]
    with workloads.applied(chain.from_iterable(map(yaml.safe_load_all, manifests))):
        answer = json.loads(workloads.client.send("POST", f"{ACCOUNT}/token", {"spec": {}}))
        yield Token(answer["status"]["token"])


@pytest.fixture
def node(workloads: Workloads) -> Iterator[None]:
    workloads.client.send("POST", NODES, {"metadata": {"name": NAME, "labels": LABELS}})
    yield
    workloads.client.send("DELETE", f"{NODES}/{NAME}")


@pytest.mark.usefixtures("node")
async def test_labels_are_read_and_events_are_found_where_people_look(
    cluster: ControlPlane, workloads: Workloads, token: Token, tmp_path: Path
) -> None:
    authority = cluster.authority.keys.certificate
    path = write_kubeconfig(tmp_path / "kubeconfig", server=cluster.url, ca=authority, credentials=token)
    connection = ApiConnection(path)
    own = OwnNode(NAME, connection, labels_changed=lambda: None, failed=lambda: None, read_s=1.0)

    def events() -> list[Any]:
        found: list[Any] = json.loads(workloads.client.send("GET", EVENTS))["items"]
        return found

    running = asyncio.create_task(own.run())
    try:
        own.report("google.com/tpu", ["two sources disagree"])
        await eventually(lambda: LABELS.items() <= own.labels.items(), 30)
        await eventually(
            lambda: [one.get("series", {}).get("count", 1) > 1 for one in events()] == [True], 30
        )
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        connection.close()
    assert events()[0]["message"] == "google.com/tpu: two sources disagree"


@pytest.mark.parametrize(
    "path",
    [NODES, f"{NODES}/{NAME}/proxy/pods", "/api/v1/pods", "/apis/events.k8s.io/v1/namespaces/default/events"],
)
def test_nothing_else_is_allowed(path: str, cluster: ControlPlane, token: Token) -> None:
    agents = Client(cluster.url, token, cluster.authority.keys.certificate)
    with pytest.raises(RefusedError) as refused:
        agents.send("GET", path)
    assert refused.value.status == 403
