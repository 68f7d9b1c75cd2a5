"""A node with the device plugin beside one with DRA, all that is shipped in force: who runs where, on what.

Part of `make e2e-dra`, and named so that `make e2e` does not collect it.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest
import yaml

from tests.e2e.agent import AGENT, device_pod, wait_for_allocatable
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.dra.oracle import FIRST_BUS, TILES_EACH, parts_of, seen_in
from tests.e2e.dra.roles import STAY, allocated, log_of
from tests.e2e.dra.site import CARDS, DEPLOY, GROUPS, LABEL, Site, dra_site
from tests.e2e.tpu_host import tpu_chips

CARD, TILES, TPU = "gpu.intel.com/i915", "gpu.intel.com/tiles", "google.com/tpu"
CHIPS = frozenset(("chip", number, 0) for number in range(len(GROUPS)))
ELSEWHERE = "kube-public"
"""A namespace without the label that leaves cards to DRA."""

BY_PLUGIN = """\
version: v1
publish_cards: true
resources:
  - {{name: gpu.intel.com/i915, backend: simulated, assignment: annotations, cards: [{cards}]}}
  - {{name: google.com/tpu, backend: tpu, log_folder: null}}
"""
NOT_WHOLE = "this node gives all its 8 TPU chips to one container, and 4 were asked for: ask for 8"

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def by_plugin(cluster: ControlPlane, binaries: Binaries, base_images: Sequence[Path]) -> Iterator[Node]:
    with Node(cluster, binaries, name="by-plugin") as node:
        node.start(base_images)
        yield node


@pytest.fixture(scope="module")
def site(
    cluster: ControlPlane,
    node: Node,
    by_plugin: Node,
    workspace: Workspace,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """The node that serves through DRA; beside it the other one, and the scheduler."""
    folder = tmp_path_factory.mktemp("mixed")
    with (
        dra_site(cluster, node, workspace, tmp_path_factory.mktemp("dra"), "whole-host") as site,
        _plugin_agent(cluster, by_plugin, workspace, folder),
        _scheduler(cluster, folder),
    ):
        yield site
        site.clean()
        site.admin.delete_pod("alone", ELSEWHERE)


@contextmanager
def _plugin_agent(cluster: ControlPlane, node: Node, workspace: Workspace, folder: Path) -> Iterator[None]:
    cards = ", ".join(
        f'{{pci: "0000:{FIRST_BUS + card:02x}:00.0", card: card{card}, tiles: {TILES_EACH},'
        f" nodes: [{{path: /dev/null, mount_path: /dev/dri/card{card}}}]}}"
        for card in range(CARDS)
    )
    config = folder / "config.yaml"
    config.write_text(BY_PLUGIN.format(cards=cards))
    words: list[str | Path] = [AGENT, "agent", "--host-root", folder, "--config", config]
    words += ["--kubeconfig", str(cluster.kubeconfig), "--node-name", node.name, "--http", "127.0.0.1:0"]
    with tpu_chips(node, workspace, folder), node.process("agent-by-plugin", words).running():
        for resource, amount in {CARD: CARDS, TILES: CARDS * TILES_EACH, TPU: len(CHIPS)}.items():
            wait_for_allocatable(node, resource, amount, timeout_s=90)
        yield


@contextmanager
def _scheduler(cluster: ControlPlane, folder: Path) -> Iterator[None]:
    """With the account and the rights of deploy/scheduler.yaml, whose policies are in force already."""
    manifests = yaml.safe_load_all((DEPLOY / "scheduler.yaml").read_text())
    rights = [one for one in manifests if one["kind"] != "Deployment" and "Validating" not in one["kind"]]
    with cluster.workloads.applied(rights):
        path = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-scheduler/token"
        token = Token(json.loads(cluster.client.send("POST", path, {"spec": {}}))["status"]["token"])
        ca = cluster.authority.keys.certificate
        kubeconfig = write_kubeconfig(
            folder / "scheduler-kubeconfig", server=cluster.url, ca=ca, credentials=token
        )
        words = [str(AGENT), "scheduler", "--kubeconfig", str(kubeconfig)]
        with (folder / "scheduler.log").open("wb") as log, Popen(words, stdout=log, stderr=log) as process:
            yield
            process.terminate()


def _started(site: Site, pod: Json) -> Json:
    site.admin.apply(pod)
    metadata = pod["metadata"]
    namespace = metadata.get("namespace", "default")
    return site.admin.wait_for_phase(metadata["name"], "Running", namespace=namespace, timeout_s=120)


def test_a_part_of_a_host_given_out_whole_is_refused_with_a_sentence(site: Site) -> None:
    site.user.apply(device_pod("half", {TPU: 4}, script=STAY, nodeSelector={LABEL: "dra"}))
    wait_until(
        "the pod is told why it does not start",
        lambda: any(NOT_WHOLE in event["message"] for event in site.admin.events("half")),
        timeout_s=60,
        evidence=lambda: site.admin.describe_pod("half"),
    )
    site.admin.delete_pod("half")
    site.wait_until_nothing_is_left()


def test_whole_hosts_are_given_by_their_old_name_on_nodes_of_either_kind(site: Site, by_plugin: Node) -> None:
    """Of two pods alike each has a host of its own; to one its chips came by a claim."""
    nodes = [
        _started(site, device_pod(name, {TPU: len(CHIPS)}, script=STAY))["spec"]["nodeName"]
        for name in ("one", "other")
    ]
    assert set(nodes) == {site.node.name, by_plugin.name}
    views = [log_of(site, name) for name in ("one", "other")]
    assert [seen_in(view, GROUPS) for view in views] == [CHIPS, CHIPS]
    for view in views:
        assert "TPU_CHIPS_PER_HOST_BOUNDS=2,4,1" in view.splitlines()
    claimed = ("one", "other")[nodes.index(site.node.name)]
    assert len(allocated(site, claimed)) == len(CHIPS)


def test_cards_come_by_claims_where_a_label_says_so(site: Site) -> None:
    pod = _started(site, device_pod("labelled", {CARD: 1}, script=STAY))
    assert pod["spec"]["nodeName"] == site.node.name
    assert seen_in(log_of(site, "labelled")) == parts_of(allocated(site, "labelled"))


def test_cards_elsewhere_and_cards_with_tiles_come_by_the_device_plugin(site: Site, by_plugin: Node) -> None:
    """Our scheduler chooses a node that can serve them, and the cards."""
    alone = device_pod("alone", {CARD: 1}, script=STAY)
    alone["metadata"]["namespace"] = ELSEWHERE
    assert _started(site, alone)["spec"]["nodeName"] == by_plugin.name
    pod = _started(site, device_pod("with-a-tile", {CARD: 1, TILES: 1}, script=STAY))
    assert pod["spec"]["nodeName"] == by_plugin.name
    seen = seen_in(log_of(site, "with-a-tile"))
    assert seen is not None
    assert len(seen) == 1
