"""Claims of a PodGroup on a real kubelet 1.37 with the feature gate for them; `make e2e-dra`."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.dra.oracle import VIEW, seen_in
from tests.e2e.dra.requests import CARD, _request, _template
from tests.e2e.dra.site import CLAIMS, DEPLOY, GROUPS, PODS, Site, dra_site

pytestmark = pytest.mark.timeout(900)
_GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
_POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


@pytest.fixture(scope="module")
def site(
    workspace: Workspace,
    kubernetes_1_37: Binaries,
    base_images: Sequence[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    flags = ["--runtime-config=scheduling.k8s.io/v1beta1=true"]
    part = workspace.part("dra-groups")
    with (
        ControlPlane(part, kubernetes_1_37, feature_gates=_GATES, api_server_flags=flags) as cluster,
        Node(cluster, kubernetes_1_37, name="dra-groups", feature_gates=_GATES) as node,
    ):
        cluster.start()
        node.start(base_images)
        with dra_site(cluster, node, workspace, tmp_path_factory.mktemp("groups")) as site:
            yield site


def _pod(name: str) -> Json:
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{VIEW}; echo end; sleep 3600"],
        "resources": {"claims": [{"name": "shared"}]},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "schedulingGroup": {"podGroupName": "train"},
        "resourceClaims": [{"name": "shared", "resourceClaimTemplateName": "card"}],
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _view(site: Site, name: str) -> str:
    """What its container has printed, once it has looked at all of it."""
    wait_until(f"{name} has looked", lambda: "end\n" in site.admin.log(name), timeout_s=30)
    return site.admin.log(name)


def test_the_pods_of_a_group_have_the_card_of_its_claim(site: Site) -> None:
    admin = site.admin
    site.user.apply(_template("card", _request("gpu", CARD)))
    shared = [{"name": "shared", "resourceClaimTemplateName": "card"}]
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": shared}
    admin.client.send("POST", _POD_GROUPS, {"metadata": {"name": "train"}, "spec": spec})
    names = ("first", "second")
    for name in names:
        site.user.apply(_pod(name))

    def is_told() -> bool:
        told = " ".join(event["message"] for name in names for event in admin.events(name))
        return "the agent may not list pods: kubectl apply -k deploy/agent-dra/pod-groups" in told

    wait_until("the missing right is told", is_told, timeout_s=120, depends_on=[site.agent])
    (claim,) = json.loads(admin.client.send("GET", CLAIMS))["items"]
    (consumer,) = claim["status"]["reservedFor"]
    assert (consumer["apiGroup"], consumer["resource"], consumer["name"]) == (
        "scheduling.k8s.io",
        "podgroups",
        "train",
    )
    rights = yaml.safe_load_all((DEPLOY / "agent-dra" / "pod-groups" / "rbac.yaml").read_text())
    with admin.applied(rights):
        for name in names:
            admin.wait_for_phase(name, "Running", timeout_s=240)
        first, second = (seen_in(_view(site, name), GROUPS) for name in names)
        assert first == second
        assert first
        admin.client.send("DELETE", PODS, {"gracePeriodSeconds": 0})
        admin.client.send("DELETE", f"{_POD_GROUPS}/train")
        site.wait_until_nothing_is_left()
