"""What deploy/agent-dra lets an agent say in the status of claims: what its drivers gave on its own node.

The product's own code writes, with a token as a pod of the agent has it; no kubelet is needed for that.
Part of `make e2e-dra`, and named so that `make e2e` does not collect it.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelet.accelerators.device import UnitId
from accelet.dra.preparing.claim import parse_claim
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.hold import DeviceHold
from accelet.dra.telling.claimconditions import ClaimConditions
from accelet.kube.client import Client as ProductClient
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.dra.site import CLAIMS, DEPLOY

GPU = "gpu.accelet.dev"
HERE, THERE = "claim-rights-a", "claim-rights-b"
CARD = "gpu-0000-03-00-0"
SICK = {(UnitId("0000-03-00.0"), 0): "it is too hot"}
TRIED = f"{CLAIMS}/claim-rights/status?dryRun=All"
POLICY = "accelet-agent-dra-claims"
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-agent"


@pytest.fixture
def tokens(workloads: Workloads) -> Iterator[Mapping[str, Token]]:
    """Tokens as pods of the agent on two nodes have them, and one that is bound to no pod."""
    shipped = [
        manifest
        for name in ("account", "rbac", "policy")
        for manifest in yaml.safe_load_all((DEPLOY / "agent-dra" / f"{name}.yaml").read_text())
    ]
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "claim-rights.example.com"},
        "spec": {},
    }
    with workloads.applied([*shipped, device_class, _pod(HERE), _pod(THERE)]):
        yield {
            "": _token(workloads, None),
            **{
                node: _token(workloads, workloads.pod(f"agent-of-{node}", "kube-system"))
                for node in (HERE, THERE)
            },
        }


def _pod(node: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"agent-of-{node}", "namespace": "kube-system"},
        "spec": {
            "nodeName": node,
            "serviceAccountName": "accelet-agent",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none"}],
        },
    }


def _token(workloads: Workloads, pod: Json | None) -> Token:
    spec: Json = {}
    if pod is not None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}}
    answer = json.loads(workloads.client.send("POST", f"{ACCOUNT}/token", {"spec": spec}))
    return Token(answer["status"]["token"])


@pytest.fixture
def claim(workloads: Workloads) -> Iterator[Json]:
    """A claim that has a device of each of two drivers on a node; the other driver speaks of its own."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "claim-rights", "namespace": "default"},
        "spec": {
            "schedulingGates": [{"name": "example.com/never"}],
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    with workloads.applied([pod]):
        yield from _claim(workloads, workloads.pod("claim-rights")["metadata"]["uid"])


def _claim(workloads: Workloads, pod_uid: str) -> Iterator[Json]:
    requests = [
        {"name": name, "exactly": {"deviceClassName": "claim-rights.example.com"}} for name in ("gpu", "nic")
    ]
    made = json.loads(
        workloads.client.send(
            "POST",
            CLAIMS,
            {"metadata": {"name": "claim-rights"}, "spec": {"devices": {"requests": requests}}},
        )
    )
    made["status"] = {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "gpu", "driver": GPU, "pool": HERE, "device": CARD},
                    {"request": "nic", "driver": "nic.example.com", "pool": HERE, "device": "nic-0"},
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [HERE]}]}
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "claim-rights", "uid": pod_uid}],
        "devices": [_says("nic.example.com", "nic-0")],
    }
    path = f"{CLAIMS}/claim-rights"
    yield json.loads(workloads.client.send("PUT", f"{path}/status", made))
    workloads.client.send("DELETE", path)


def _says(driver: str, device: str, reason: str = "Up") -> Json:
    ready = {"type": "Ready", "status": "True", "reason": reason, "message": ""}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    return {"driver": driver, "pool": HERE, "device": device, "conditions": [ready]}


def _entry(claim: Json) -> Entry:
    """What the driver of GPUs remembers of it."""
    read = parse_claim(json.dumps(claim).encode(), GPU)
    hold = DeviceHold("gpu", HERE, CARD, frozenset({(UnitId("0000-03-00.0"), 0)}))
    return Entry(read.uid, read.digest, read.namespace, read.name, "completed", (hold,), (), "")


def _devices(workloads: Workloads) -> dict[str, Any]:
    """The first condition of each device of the claim's status."""
    claim = json.loads(workloads.client.send("GET", f"{CLAIMS}/claim-rights"))
    return {one["device"]: one["conditions"][0] for one in claim["status"].get("devices", ())}


async def test_product_says_what_is_ill_and_what_is_well_again(
    cluster: ControlPlane, workloads: Workloads, judged: Mapping[str, Token], claim: Json, tmp_path: Path
) -> None:
    ca = cluster.authority.keys.certificate
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", server=cluster.url, ca=ca, credentials=judged[HERE]
    )
    client = await ProductClient.connect(kubeconfig)

    async def connect() -> ProductClient:
        return client

    conditions = ClaimConditions(connect, GPU)
    running = asyncio.create_task(conditions.run())
    try:
        conditions.tell([_entry(claim)], SICK)
        await _until_said(workloads, "False")
        said = _devices(workloads)
        assert (said[CARD]["reason"], said[CARD]["message"]) == (
            "DeviceUnhealthy",
            f"{CARD} is ill: it is too hot",
        )
        assert said["nic-0"]["reason"] == "Up"
        conditions.tell([_entry(claim)], {})
        await _until_said(workloads, "True")
        assert _devices(workloads)[CARD]["reason"] == "DeviceHealthy"
        assert _devices(workloads)["nic-0"]["reason"] == "Up"
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _until_said(workloads: Workloads, status: str) -> None:
    async with asyncio.timeout(60):
        while _devices(workloads).get(CARD, {}).get("status") != status:  # noqa: ASYNC110 - a status is asked for
            await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("who", "device", "is_allowed"),
    [
        (HERE, (GPU, CARD), True),
        (HERE, ("nic.example.com", "nic-0"), False),
        (HERE, (GPU, "gpu-0000-99-00-0"), False),
        (THERE, (GPU, CARD), False),
        ("", (GPU, CARD), False),
    ],
)
def test_an_agent_speaks_of_devices_of_its_own_drivers_on_its_own_node_alone(
    cluster: ControlPlane,
    tokens: Mapping[str, Token],
    claim: Json,
    who: str,
    device: tuple[str, str],
    *,
    is_allowed: bool,
) -> None:
    driver, name = device
    said = [_says("nic.example.com", "nic-0"), _says(driver, name, "Mine")]
    assert _may(cluster, tokens[who], {"devices": said[-1:] if driver != GPU else said}) == is_allowed


@pytest.mark.parametrize("status", [{"allocation": None}, {"reservedFor": None}])
def test_an_agent_takes_nothing_from_a_claim(
    cluster: ControlPlane, tokens: Mapping[str, Token], claim: Json, status: Json
) -> None:
    assert not _may(cluster, tokens[HERE], status)


@pytest.fixture
def judged(cluster: ControlPlane, tokens: Mapping[str, Token], claim: Json) -> Mapping[str, Token]:
    """The tokens, once the shipped policy is in force: an API server takes it up some time later."""
    wait_until("the policy is in force", lambda: POLICY in _refusal(cluster, tokens[""], {}), timeout_s=30)
    return tokens


@pytest.fixture
def policy_alone(
    cluster: ControlPlane, workloads: Workloads, judged: Mapping[str, Token]
) -> Iterator[Mapping[str, Token]]:
    """Tokens that may do everything, as far as RBAC says: the shipped policy alone narrows it.

    So it is before Kubernetes 1.36 with whoever may write the status of claims.
    """
    everything = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "claim-rights-everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "accelet-agent", "namespace": "kube-system"}],
    }
    with workloads.applied([everything]):
        wait_until(
            "nothing but the policy refuses",
            lambda: POLICY in _refusal(cluster, judged[HERE], {"reservedFor": None}),
            timeout_s=30,
        )
        yield judged


NIC = _says("nic.example.com", "nic-0")
OURS = _says(GPU, CARD, "Mine")
EMPTIED: Json = {"allocation": None, "reservedFor": None, "devices": None}


@pytest.mark.parametrize(
    ("who", "status", "is_allowed"),
    [
        (HERE, {"devices": [NIC, OURS]}, True),
        (HERE, {"devices": [OURS, NIC]}, True),
        (HERE, {"devices": [OURS, _says("nic.example.com", "nic-0", "Mine")]}, False),
        (HERE, {"devices": [OURS]}, False),
        (HERE, {"devices": None}, False),
        (THERE, {"devices": [NIC, OURS]}, False),
        ("", {"devices": [NIC, OURS]}, False),
        (HERE, {"reservedFor": None}, False),
        (HERE, {"reservedFor": [{"resource": "pods", "name": "another", "uid": "another"}]}, False),
        (HERE, EMPTIED, False),
        (HERE, {"devices": [NIC, OURS], "reservedFor": None}, False),
    ],
)
def test_shipped_policy_alone_keeps_the_agent_to_its_own_devices(
    cluster: ControlPlane,
    workloads: Workloads,
    policy_alone: Mapping[str, Token],
    who: str,
    status: Json,
    *,
    is_allowed: bool,
) -> None:
    """An administrator may do each of it: it is the policy that refuses."""
    workloads.client.send("PATCH", TRIED, {"status": status})
    refusal = _refusal(cluster, policy_alone[who], status)
    assert (refusal == "") == is_allowed, refusal
    assert is_allowed or POLICY in refusal


def _may(cluster: ControlPlane, token: Token, status: Json) -> bool:
    return not _refusal(cluster, token, status)


def _refusal(cluster: ControlPlane, token: Token, status: Json) -> str:
    """Why the status of the claim may not be changed so; empty where it may."""
    client = Client(cluster.url, token, cluster.authority.keys.certificate)
    try:
        client.send("PATCH", TRIED, {"status": status})
    except RefusedError as error:
        if error.status not in (403, 422):
            raise
        return str(error)
    return ""
