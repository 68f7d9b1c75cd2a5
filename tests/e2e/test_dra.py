"""Dynamic Resource Allocation on a real kubelet 1.36, with all that is shipped in force.

Each role's containers see what their claims say; a storm of claims with a kill of agent and of kubelet.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from accelet.cli.reading.claimlists import list_claim_objects
from accelet.kube.kubeconfig import Kubeconfig
from accelet.scheduler.claims.outlook import foresee
from tests.e2e.agent import device_pod
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.dra.oracle import parts_of, seen_in
from tests.e2e.dra.requests import templates
from tests.e2e.dra.roles import STAY, allocated, log_of, run_each_role
from tests.e2e.dra.site import CLAIMS, LABEL, PODS, SLICES, Site, dra_site
from tests.e2e.dra.storm import kill_agent, kill_kubelet, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dra")


@pytest.fixture(scope="module")
def whole_site(cluster: ControlPlane, node: Node, workspace: Workspace, folder: Path) -> Iterator[Site]:
    with dra_site(cluster, node, workspace, folder) as site:
        yield site


@pytest.fixture
def site(whole_site: Site) -> Iterator[Site]:
    """The site, clean again at the end of each test: what stays prepared spoils the next."""
    whole_site.wait_for_slices()
    yield whole_site
    whole_site.clean()


def tried(site: Site, pod: Json, namespace: str = "default") -> Json:
    """A pod's spec as the API server would have it."""
    path = PODS.replace("default", namespace)
    spec: Json = json.loads(site.admin.client.send("POST", f"{path}?dryRun=All", pod))["spec"]
    return spec


def test_each_role_sees_exactly_what_its_claim_was_given(site: Site) -> None:
    run_each_role(site)


def test_devices_of_claims_that_wait_are_foreseen(site: Site, cluster: ControlPlane, node: Node) -> None:
    """Each pod gets from kube-scheduler what `accelet claims` said while it was held by a gate."""
    for template in templates():
        site.user.apply(template)
    kubeconfig = Kubeconfig((Path(cluster.kubeconfig),))
    for number, name in enumerate(("tile", "pair", "share-250", "share-500", "each", "chips-2")):
        pod = device_pod(f"foreseen-{number}", {}, script=STAY)
        pod["spec"] |= {
            "resourceClaims": [{"name": "own", "resourceClaimTemplateName": name}],
            "schedulingGates": [{"name": "example.com/wait"}],
        }
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "own"}]}
        site.user.apply(pod)
        (found,) = (
            one
            for one in foresee(asyncio.run(list_claim_objects(kubeconfig))).outlooks
            if one.pod == f"foreseen-{number}"
        )
        assert (found.state, found.first) == ("fits", node.name)
        path = f"{PODS}/foreseen-{number}"
        site.admin.client.send("PATCH", path, {"spec": {"schedulingGates": []}})
        site.admin.wait_for_phase(f"foreseen-{number}", "Running")
        given = [
            (one["request"], one["pool"], one["device"]) for one in allocated(site, f"foreseen-{number}")
        ]
        assert [(one.request, one.pool, one.device) for one in found.claims[0].devices] == given


def test_classic_pod_gets_tiles_by_their_old_name(site: Site) -> None:
    site.user.apply(device_pod("classic", {"gpu.intel.com/tiles": 2}, script=STAY))
    site.admin.wait_for_phase("classic", "Running")
    assert seen_in(log_of(site, "classic")) == parts_of(allocated(site, "classic"))


@pytest.mark.parametrize("selector", [{}, {"zone": "a"}])
@pytest.mark.parametrize("resource", ["gpu.intel.com/tiles", "gpu.intel.com/i915", "gpu.intel.com/xe"])
def test_tiles_or_cards_alone_are_left_to_claims_on_nodes_that_serve_them(
    whole_site: Site, resource: str, selector: dict[str, str]
) -> None:
    pod = device_pod("plain", {resource: 2})
    pod["spec"] |= {"nodeSelector": selector} if selector else {}
    made = tried(whole_site, pod)
    assert "schedulingGates" not in made
    assert made["nodeSelector"] == {**selector, LABEL: "dra"}
    assert made["containers"][0]["resources"]["limits"] == {resource: "2"}


@pytest.mark.parametrize(
    ("namespace", "limits", "annotations"),
    [
        ("kube-public", {"gpu.intel.com/tiles": 1}, {}),
        ("default", {"gpu.intel.com/tiles": 1, "gpu.intel.com/i915": 1}, {}),
        ("default", {"gpu.intel.com/tiles": 1, "gpu.intel.com/millicores": 10}, {}),
        ("default", {"gpu.intel.com/i915": 1, "gpu.intel.com/memory.max": 10}, {}),
        ("default", {"gpu.intel.com/tiles": 1}, {"gas-allow": "card0"}),
        ("default", {"gpu.intel.com/i915": 1}, {"gas-allow": "card0"}),
        ("kube-public", {"gpu.intel.com/i915": 1}, {}),
    ],
)
def test_what_claims_cannot_say_is_still_held_for_our_scheduler(
    whole_site: Site, namespace: str, limits: dict[str, int], annotations: dict[str, str]
) -> None:
    """Elsewhere, and whatever is more than a number of tiles or of cards."""
    pod = device_pod("held", limits)
    pod["metadata"]["annotations"] = annotations
    made = tried(whole_site, pod, namespace)
    assert made["schedulingGates"] == [{"name": "accelet.dev/cards"}]
    assert "nodeSelector" not in made
    assert made["containers"][0]["resources"]["limits"]["gpu.intel.com/i915"] == "1"


def test_a_pod_that_names_its_node_is_refused_as_ever(whole_site: Site) -> None:
    with pytest.raises(RefusedError, match="leaves its node to the scheduler"):
        tried(whole_site, device_pod("placed", {"gpu.intel.com/tiles": 1}, nodeName="some-node"))


def test_forty_claims_with_a_kill_of_agent_and_of_kubelet(site: Site, say: Progress) -> None:
    for template in templates():
        site.user.apply(template)
    storm = run(site, Random(14), 40, [kill_agent(site), kill_kubelet(site)], timeout_s=480)
    assert not storm.wrong, "\n".join(storm.wrong)
    site.wait_until_nothing_is_left()
    say(f"dra: {storm.summary}")


def test_agents_token_writes_slices_of_its_own_node_pool_and_drivers_alone(
    cluster: ControlPlane, node: Node, whole_site: Site
) -> None:
    client = Client(cluster.url, whole_site.token, cluster.authority.keys.certificate)

    def refusal(**changed: Any) -> str:
        spec: Json = {
            "driver": "gpu.accelet.dev",
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
            **changed,
        }
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": "try-"},
            "spec": spec,
        }
        try:
            client.send("POST", f"{SLICES}?dryRun=All", body)
        except RefusedError as error:
            return str(error)
        return ""

    assert refusal() == ""
    assert "slices of its own node alone" in refusal(nodeName="another")
    assert "its own drivers alone" in refusal(driver="gpu.example.com")
    pool = {"name": "foreign", "generation": 1, "resourceSliceCount": 1}
    assert "named like their node" in refusal(pool=pool)
    with pytest.raises(RefusedError, match="403"):
        client.send("GET", CLAIMS)
