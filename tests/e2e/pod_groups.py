"""Gangs of PodGroups on real control planes 1.36 and 1.37: bound all at once, or not; `make e2e-versions`."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from accelet.kube.apiresources import JOBS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ForbiddenError, InvalidError
from tests.e2e import test_scheduler as site
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.workspace import open_workspace

_SUBBLOCK = site._LABELS[1]
_INDEX = "batch.kubernetes.io/job-completion-index"
_POLICIES = ApiResource("", "validatingadmissionpolicies", "admissionregistration.k8s.io")
_BINDINGS = ApiResource("", "validatingadmissionpolicybindings", "admissionregistration.k8s.io")
_HELD_BACK = "held-back"


@dataclass(frozen=True)
class Version:
    """A version of PodGroups, and what the control plane that has it is told."""

    version: str
    gates: tuple[str, ...]

    @property
    def groups(self) -> ApiResource:
        return ApiResource("PodGroup", "podgroups", "scheduling.k8s.io", self.version)


_ALPHA = Version(
    "v1alpha2",
    (
        "GenericWorkload",
        "GangScheduling",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    ),
)
_BETA = Version("v1beta1", ("GenericWorkload", "TopologyAwareWorkloadScheduling"))


@pytest.fixture(params=[_ALPHA, _BETA], ids=["1.36", "1.37"])
def version(request: pytest.FixtureRequest) -> Version:
    chosen: Version = request.param
    return chosen


@pytest.fixture
def control_plane(version: Version, binaries: Binaries, kubernetes_1_37: Binaries) -> Iterator[ControlPlane]:
    with (
        open_workspace() as workspace,
        ControlPlane(
            workspace,
            binaries if version is _ALPHA else kubernetes_1_37,
            feature_gates=dict.fromkeys(version.gates, True),
            api_server_flags=[f"--runtime-config=scheduling.k8s.io/{version.version}=true"],
        ) as control_plane,
    ):
        control_plane.start()
        yield control_plane


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(control_plane.kubeconfig), threads=8)
    yield client
    client.close()


@pytest.fixture
async def two_nodes(client: Client) -> AsyncIterator[Mapping[str, tuple[str, str, str]]]:
    """Two nodes in one sub-block and one in another, of 8 GPUs each, that are alive."""
    places = {"near-0": ("b", "s0", "h0"), "near-1": ("b", "s0", "h1"), "far": ("b", "s1", "h2")}
    for name, place in places.items():
        await site._make_node(client, name, place)
    beating = asyncio.create_task(site._beat(client, list(places)))

    async def are_open() -> bool:
        nodes = [json.loads(await client.get(NODES, None, node)) for node in places]
        return not any(node["spec"].get("taints") for node in nodes)

    await site.until(are_open, 120)
    yield places
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)


def _job(pods: int, group: str) -> dict[str, Any]:
    job = site.gang_job("train", pods, 2)
    job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": group}
    return job


def _group(name: str, least: int, **spec: Any) -> dict[str, Any]:
    topology = {"topology": [{"key": _SUBBLOCK}]}
    policy = {"gang": {"minCount": least}}
    return {
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy, "schedulingConstraints": topology, **spec},
    }


async def _hold_back(client: Client, below: int) -> None:
    """Nobody may lift the gates of the ranks below this one, from now on."""
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    rank = f"int(object.metadata.?labels['{_INDEX}'].orValue('99'))"
    lifted = (
        "size(oldObject.spec.?schedulingGates.orValue([])) > size(object.spec.?schedulingGates.orValue([]))"
    )
    policy = {
        "metadata": {"name": _HELD_BACK},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rules]},
            "validations": [{"expression": f"!({rank} < {below} && {lifted})"}],
        },
    }
    await client.create(_POLICIES, None, policy)
    binding = {"policyName": _HELD_BACK, "validationActions": ["Deny"]}
    await client.create(_BINDINGS, None, {"metadata": {"name": _HELD_BACK}, "spec": binding})
    gated = {
        "metadata": {"name": "canary", "labels": {_INDEX: "0"}},
        "spec": {
            "schedulingGates": [{"name": "example.com/held"}],
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    await client.create(PODS, "default", gated)

    async def is_refused() -> bool:
        patch: dict[str, Any] = {"spec": {"schedulingGates": []}}
        try:
            await client.patch(PODS, "default", "canary", patch, "merge", dry_run=True)
        except (ForbiddenError, InvalidError):
            return True
        return False

    await site.until(is_refused)
    await client.delete(PODS, "default", "canary")


async def _bind_another(client: Client) -> None:
    """Returns when kube-scheduler has bound a pod that came after everything else."""
    pod = {
        "metadata": {"name": "later"},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    await client.create(PODS, "default", pod)

    async def is_bound() -> bool:
        page = await client.list_page(PODS, "default", {"fieldSelector": "metadata.name=later"})
        return any(b'"nodeName"' in bytes(item) for item in page.items)

    await site.until(is_bound)


async def test_a_gang_of_a_pod_group_is_bound_all_at_once_though_its_scheduler_was_killed(
    control_plane: ControlPlane,
    client: Client,
    version: Version,
    two_nodes: Mapping[str, tuple[str, str, str]],
    tmp_path: Path,
) -> None:
    kubeconfig, log = Path(control_plane.kubeconfig), tmp_path / "scheduler.log"
    await _hold_back(client, 3)
    await client.create(version.groups, "default", _group("g", 8))
    async with site.running_scheduler(kubeconfig, log) as first:
        await client.create(JOBS, "default", _job(8, "g"))

        async def is_half_released() -> bool:
            return [not pod.gates for pod in await site._pods(client, "default", "train")].count(True) == 5

        await site.until(is_half_released, 120)
        first.kill()
        await first.wait()
    await _bind_another(client)
    assert not any(pod.node_name for pod in await site._pods(client, "default", "train"))
    await client.delete(_BINDINGS, None, _HELD_BACK)
    async with site.running_scheduler(kubeconfig, log):
        await site.until(lambda: site._is_bound(client, "default", "train", 8))
    used = {pod.node_name or "" for pod in await site._pods(client, "default", "train")}
    assert {two_nodes[name][1] for name in used} == {"s0"}
