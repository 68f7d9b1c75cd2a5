"""Whose claims a pod may use, as a kubelet judges it by what the API server has of a claim.

Kubernetes 1.37, k8s.io/dynamic-resource-allocation/resourceclaim: IsForPod and IsReservedForPod.
"""

from pathlib import Path
from typing import Any

import pytest

from accelet.fakeapi import FakeApi
from accelet.fakekubelet.claims.kubeclaims import KubeClaims
from accelet.fakekubelet.pods import Pod, a_pod
from accelet.kube.client import Client

_CLAIMS = "apis/resource.k8s.io/v1/resourceclaims"
_GROUPS = "scheduling.k8s.io"


def _pod(group: str = "") -> Pod:
    return a_pod("one", uid="uid-one", claims={"it": "it"}, pod_group=group)


def _consumer(group: str, resource: str, name: str, uid: str = "u") -> dict[str, str]:
    return {"apiGroup": group, "resource": resource, "name": name, "uid": uid}


@pytest.mark.parametrize(
    ("consumer", "pod", "may"),
    [
        (_consumer("", "pods", "one", "uid-one"), _pod(), True),
        (_consumer("", "pods", "one", "uid-another"), _pod(), False),
        (_consumer(_GROUPS, "podgroups", "train"), _pod("train"), True),
        (_consumer(_GROUPS, "podgroups", "train"), _pod("another"), False),
        (_consumer(_GROUPS, "podgroups", "train"), _pod(), False),
        (_consumer("example.com", "podgroups", "train"), _pod("train"), False),
        (_consumer(_GROUPS, "workloads", "train"), _pod("train"), False),
    ],
)
async def test_a_claim_is_for_whom_it_is_reserved(
    tmp_path: Path, consumer: dict[str, str], pod: Pod, *, may: bool
) -> None:
    status = {"allocation": {"devices": {"results": []}}, "reservedFor": [consumer]}
    assert (
        await _problem(tmp_path, {"metadata": {"name": "it"}, "status": status}, pod, must_own=False) is may
    )


@pytest.mark.parametrize(
    ("api_version", "kind", "may"),
    [
        (f"{_GROUPS}/v1beta1", "PodGroup", True),
        ("example.com/v1", "PodGroup", False),
        (f"{_GROUPS}/v1beta1", "Workload", False),
    ],
)
async def test_a_claim_made_for_a_pod_group_is_of_its_pods(
    tmp_path: Path, api_version: str, kind: str, *, may: bool
) -> None:
    owner = {"apiVersion": api_version, "kind": kind, "name": "train", "uid": "u", "controller": True}
    status = {
        "allocation": {"devices": {"results": []}},
        "reservedFor": [_consumer(_GROUPS, "podgroups", "train")],
    }
    claim = {"metadata": {"name": "it", "ownerReferences": [owner]}, "status": status}
    assert await _problem(tmp_path, claim, _pod("train"), must_own=True) is may


async def _problem(tmp_path: Path, claim: dict[str, Any], pod: Pod, *, must_own: bool) -> bool:
    with FakeApi() as api:
        api.state.create(_CLAIMS, "default", claim)
        client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"))
        found = await KubeClaims(client).find_claim("default", "it")
        client.close()
    return found.problem(pod, must_own=must_own) is None
