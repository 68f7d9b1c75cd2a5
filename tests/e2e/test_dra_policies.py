"""The switch that leaves tiles to Dynamic Resource Allocation, with the policies on a real API server."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.e2e.agent import device_pod
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.policies import policies_in_force

SERVE = "accelet.dev/serve"
TILES, CARDS, MILLICORES = "gpu.intel.com/tiles", "gpu.intel.com/i915", "gpu.intel.com/millicores"


@pytest.fixture(scope="module")
def pods(cluster: ControlPlane) -> Iterator[str]:
    """Where pods are made in a namespace whose tiles are served through DRA; with the policies in force."""
    name = f"dra-{time.time_ns():x}"
    with policies_in_force(cluster.workloads):
        labels = {SERVE: "dra"}
        cluster.workloads.apply({"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until("it has an account", lambda: cluster.client.try_get(account), timeout_s=30)
        yield f"/api/v1/namespaces/{name}/pods"
        cluster.client.send("DELETE", f"/api/v1/namespaces/{name}")


def tried(cluster: ControlPlane, pods: str, pod: Json) -> Json:
    """The pod as the API server would have it."""
    spec: Json = json.loads(cluster.client.send("POST", f"{pods}?dryRun=All", pod))["spec"]
    return spec


@pytest.mark.parametrize("selector", [{}, {"zone": "a"}])
def test_tiles_alone_are_left_to_claims_on_nodes_that_serve_them(
    cluster: ControlPlane, pods: str, selector: dict[str, str]
) -> None:
    pod = device_pod("plain", {TILES: 2})
    pod["spec"] |= {"nodeSelector": selector} if selector else {}
    made = tried(cluster, pods, pod)
    assert "schedulingGates" not in made
    assert made["nodeSelector"] == {**selector, SERVE: "dra"}
    assert made["containers"][0]["resources"]["limits"] == {TILES: "2"}


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [({TILES: 1, CARDS: 1}, {}), ({TILES: 1, MILLICORES: 10}, {}), ({TILES: 1}, {"gas-allow": "card0"})],
)
def test_what_claims_cannot_say_is_still_held_for_our_scheduler(
    cluster: ControlPlane, pods: str, limits: dict[str, int], annotations: dict[str, str]
) -> None:
    pod = device_pod("held", limits)
    pod["metadata"]["annotations"] = annotations
    made = tried(cluster, pods, pod)
    assert made["schedulingGates"] == [{"name": "accelet.dev/cards"}]
    assert "nodeSelector" not in made
    assert made["containers"][0]["resources"]["limits"][CARDS] == "1"


def test_tiles_alone_are_still_held_in_other_namespaces(cluster: ControlPlane, pods: str) -> None:
    made = tried(cluster, pods.replace(pods.split("/")[4], "default"), device_pod("held", {TILES: 1}))
    assert made["schedulingGates"] == [{"name": "accelet.dev/cards"}]
    assert "nodeSelector" not in made


def test_a_pod_that_names_its_node_is_refused_as_ever(cluster: ControlPlane, pods: str) -> None:
    with pytest.raises(RefusedError, match="leaves its node to the scheduler"):
        tried(cluster, pods, device_pod("placed", {TILES: 1}, nodeName="some-node"))
