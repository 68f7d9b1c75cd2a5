"""The rights that deploy/agent-assignments gives are enough for the agent, and are no more."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.e2e.agent import AGENT, wait_for_allocatable
from tests.e2e.assigning_agent import GPU, PROJECT, SHARES, write_cards_config
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, RefusedError
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.integration.identity.storm import CARDS

RIGHTS = PROJECT / "deploy" / "agent-assignments" / "rbac.yaml"
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-agent"
MASK = "echo mask=$ZE_AFFINITY_MASK"


@pytest.fixture
def token(workloads: Workloads) -> Iterator[Token]:
    with workloads.applied(yaml.safe_load_all(RIGHTS.read_text())):
        answer = json.loads(workloads.client.send("POST", f"{ACCOUNT}/token", {"spec": {}}))
        yield Token(answer["status"]["token"])


@pytest.fixture
def agent(cluster: ControlPlane, node: Node, token: Token, tmp_path: Path) -> Iterator[None]:
    authority = cluster.authority.keys.certificate
    path = write_kubeconfig(tmp_path / "kubeconfig", server=cluster.url, ca=authority, credentials=token)
    config = write_cards_config(tmp_path / "config.yaml", options=["on_mismatch: lenient"])
    words: list[str | Path] = [AGENT, "agent", "--config", config, "--kubeconfig", path]
    process = node.process("agent-rights", [*words, "--node-name", node.name, "--http", "127.0.0.1:0"])
    with process.running():
        wait_for_allocatable(node, GPU, CARDS * SHARES)
        yield
    wait_for_allocatable(node, GPU, 0)


def has_mask(workloads: Workloads, name: str) -> bool:
    return "mask=1" in workloads.log(name)


@pytest.mark.usefixtures("agent")
def test_agent_follows_assignments_and_writes_events_with_them(workloads: Workloads) -> None:
    for name in ("first", "second"):
        workloads.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "annotations": {
                        "gas-container-cards": "card5",
                        "gas-container-tiles": "card5:gt1",
                    },
                },
                "spec": {
                    "hostNetwork": True,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [
                        {
                            "name": "main",
                            "image": BUSYBOX_IMAGE,
                            "imagePullPolicy": "Never",
                            "command": ["sh", "-c", f"{MASK}; sleep 3600"],
                            "resources": {"limits": {GPU: "1"}},
                        }
                    ],
                },
            }
        )
        workloads.wait_for_phase(name, "Running")
        wait_until("it has printed its mask", partial(has_mask, workloads, name), timeout_s=20)
    wait_until(
        "the conflict is an Event",
        lambda: any(event["reason"] == "AssignmentConflict" for event in workloads.events("second")),
        timeout_s=30,
    )
    for name in ("first", "second"):
        workloads.delete_pod(name)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nodes",
        "/api/v1/nodes/node-1/proxy/pods",
        "/api/v1/namespaces/kube-system/secrets",
        "/api/v1/namespaces/default/pods/first/log",
        "/api/v1/namespaces/default/events",
    ],
)
def test_nothing_else_is_allowed(path: str, cluster: ControlPlane, token: Token) -> None:
    agents = Client(cluster.url, token, cluster.authority.keys.certificate)
    with pytest.raises(RefusedError) as refused:
        agents.send("GET", path)
    assert refused.value.status == 403
