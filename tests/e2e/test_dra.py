"""Dynamic Resource Allocation on a real kubelet: each role's containers see what their claims say."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.agent import AGENT, device_pod, write_cards
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "deploy" / "agent-dra"
EXAMPLES = PROJECT / "examples" / "dra"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
PODS = "/api/v1/namespaces/default/pods"
CARDS, TILES_EACH = 4, 2
FIRST_BUS = 0x40
"""Cards that no other test serves: who held those, the kubelet's checkpoint tells long after it ended."""

CONFIG = """\
version: v1
resources:
  - {{name: gpu.intel.com/i915, backend: simulated, file: {cards}, serve: dra}}
"""


def manifests(*names: str) -> list[Json]:
    return [each for name in names for each in yaml.safe_load_all((DEPLOY / name).read_text())]


@pytest.fixture(scope="module")
def workloads_all(cluster: ControlPlane) -> Workloads:
    return cluster.workloads


@pytest.fixture(scope="module")
def holder(workloads_all: Workloads, node: Node) -> Iterator[Json]:
    """A pod of the agent's account on the node, to which its token is bound; its rights and the classes."""
    names = ("account.yaml", "rbac.yaml", "policy.yaml", "classes.yaml", "monitor-class.yaml")
    with workloads_all.applied(manifests(*names)):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "dra-holder", "namespace": "kube-system"},
            "spec": {
                "nodeName": node.name,
                "serviceAccountName": "accelet-agent",
                "hostNetwork": True,
                "containers": [
                    {
                        "name": "main",
                        "image": BUSYBOX_IMAGE,
                        "imagePullPolicy": "Never",
                        "command": ["sleep", "3600"],
                    }
                ],
            },
        }
        made = workloads_all.apply(pod)
        yield {"apiVersion": "v1", "kind": "Pod", "name": "dra-holder", "uid": made["metadata"]["uid"]}
        workloads_all.delete_pod("dra-holder", "kube-system")


@pytest.fixture(scope="module")
def token(workloads_all: Workloads, holder: Json) -> Token:
    path = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-agent/token"
    answer = json.loads(workloads_all.client.send("POST", path, {"spec": {"boundObjectRef": holder}}))
    return Token(answer["status"]["token"])


@pytest.fixture(scope="module")
def agent(
    cluster: ControlPlane, node: Node, token: Token, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeProcess]:
    """The agent with the rights of deploy/agent-dra and no others."""
    folder = tmp_path_factory.mktemp("dra")
    write_cards(folder / "cards.yaml", CARDS, tiles=TILES_EACH, first_bus=FIRST_BUS)
    cards = (folder / "cards.yaml").read_text()
    (folder / "cards.yaml").write_text(cards.replace("  tiles:", "  memory_mib: 131072\n  tiles:"))
    (folder / "config.yaml").write_text(CONFIG.format(cards=folder / "cards.yaml"))
    authority = cluster.authority.keys.certificate
    kubeconfig = write_kubeconfig(folder / "kubeconfig", server=cluster.url, ca=authority, credentials=token)
    words: list[str | Path] = [AGENT, "agent", "--config", folder / "config.yaml"]
    words += ["--kubeconfig", kubeconfig, "--node-name", node.name, "--http", "127.0.0.1:0"]
    process = node.process("agent-dra", words)
    with process.running():
        yield process


@pytest.fixture(autouse=True)
def nothing_left(agent: NodeProcess, node: Node, workloads: Workloads) -> Iterator[None]:
    """Takes away what a test made, however it ended: what stays prepared is kept from other tests' agents."""
    yield
    for pod in json.loads(workloads.client.send("GET", PODS))["items"]:
        workloads.delete_pod(pod["metadata"]["name"])
    workloads.client.send("DELETE", TEMPLATES)
    workloads.client.send("DELETE", CLAIMS)
    wait_until(
        "nothing is left",
        lambda: prepared(node) == "",
        timeout_s=60,
        depends_on=[agent],
        evidence=lambda: prepared(node),
    )


@pytest.fixture
def published(agent: NodeProcess, workloads: Workloads) -> None:
    wait_until("slices are there", lambda: len(slices(workloads)) == 2, timeout_s=30)


def slices(workloads: Workloads) -> list[Json]:
    items: list[Json] = json.loads(workloads.client.send("GET", SLICES))["items"]
    return [each for each in items if each["spec"]["driver"] == "gpu.accelet.dev"]


def example(name: str) -> list[Json]:
    """The claim template and a pod of one of the examples, with the image there is and a script to look."""
    template, pod = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    shown = device_pod(name, {})
    shown["spec"]["resourceClaims"] = pod["spec"]["resourceClaims"]
    shown["spec"]["containers"][0]["resources"] = pod["spec"]["containers"][0]["resources"]
    return [template, shown]


def allocated(workloads: Workloads, pod: str) -> list[Json]:
    """The results of the claim that was made for a pod."""
    items = json.loads(workloads.client.send("GET", CLAIMS))["items"]
    (claim,) = (c for c in items if c["metadata"]["ownerReferences"][0]["name"] == pod)
    results: list[Json] = claim["status"]["allocation"]["devices"]["results"]
    return results


def tiles_of(results: Sequence[Json]) -> set[tuple[int, int]]:
    """The tiles that an allocation names, as (card, tile)."""
    found = set()
    for result in results:
        match = re.fullmatch(r"gpu-0000-([0-9a-f]{2})-00-0(?:-tile-(\d+)|-monitor)?", result["device"])
        assert match is not None, result
        card = int(match[1], 16) - FIRST_BUS
        found |= {(card, int(match[2]))} if match[2] else {(card, tile) for tile in range(TILES_EACH)}
    return found


def seen_by(workloads: Workloads, pod: str) -> set[tuple[int, int]]:
    """The tiles that Level Zero would show in the container, by what it printed of itself."""
    log = wait_until("the container has looked", lambda: _looked(workloads, pod), timeout_s=30)
    cards = sorted(int(card) for card in re.findall(r"\bcard(\d+)", log))
    flat = [(card, tile) for card in cards for tile in range(TILES_EACH)]
    mask = re.search(r"mask=(\S*) hierarchy=(\S*)", log)
    assert mask is not None
    if not mask[1]:
        return set(flat)
    assert mask[2] == "FLAT"
    return {flat[int(number)] for number in mask[1].split(",")}


def _looked(workloads: Workloads, pod: str) -> str | None:
    log = workloads.log(pod)
    return log if "mask=" in log else None


def prepared(node: Node) -> str:
    """What is left of claims on the node: the driver's record, and its CDI files."""
    record = node.path("/var/lib/kubelet/plugins/gpu.accelet.dev/checkpoint.json")
    claims = json.loads(record.read_text().partition("\n")[2])["claims"] if record.exists() else []
    files = [path.name for path in node.path("/run/cdi").glob("k8s.gpu.accelet.dev*")]
    return " ".join([*(claim["name"] for claim in claims), *files])


ROLES = ("one-tile", "two-tiles-of-one-card", "quarter-card", "forty-gigabytes", "monitor")


@pytest.mark.usefixtures("published")
def test_each_role_sees_exactly_what_its_claim_was_given(workloads: Workloads) -> None:
    made = {name: example(name) for name in ROLES}
    given: set[tuple[int, int]] = set()
    for template, pod in made.values():
        workloads.apply(template)
        workloads.apply(pod)
    for name in made:
        workloads.wait_for_phase(name, "Running")
        results = allocated(workloads, name)
        assert seen_by(workloads, name) == tiles_of(results)
        if name != "monitor":
            assert given.isdisjoint(tiles_of(results))
            given |= tiles_of(results)
    assert len({card for card, _ in tiles_of(allocated(workloads, "two-tiles-of-one-card"))}) == 1


@pytest.mark.usefixtures("published")
def test_classic_pod_gets_tiles_by_their_old_name(workloads: Workloads) -> None:
    workloads.apply(device_pod("classic", {"gpu.intel.com/tiles": 2}))
    workloads.wait_for_phase("classic", "Running")
    assert seen_by(workloads, "classic") == tiles_of(allocated(workloads, "classic"))


@pytest.mark.usefixtures("published")
def test_agent_and_kubelet_may_be_killed_while_a_pod_holds_a_tile(
    node: Node, workloads: Workloads, agent: NodeProcess
) -> None:
    template, pod = example("one-tile")
    workloads.apply(template)
    workloads.apply(pod)
    workloads.wait_for_phase("one-tile", "Running")
    agent.kill()
    agent.start()
    node.kubelet.process.kill()
    node.kubelet.start()
    node.wait_until_ready()
    wait_until("slices are there again", lambda: len(slices(workloads)) == 2, timeout_s=60)
    other = example("quarter-card")
    for each in other:
        workloads.apply(each)
    workloads.wait_for_phase("quarter-card", "Running", timeout_s=120)
    assert seen_by(workloads, "quarter-card") == tiles_of(allocated(workloads, "quarter-card"))


@pytest.mark.usefixtures("published")
def test_agents_token_writes_slices_of_its_own_node_pool_and_drivers_alone(
    cluster: ControlPlane, node: Node, workloads: Workloads, token: Token
) -> None:
    client = Client(cluster.url, token, cluster.authority.keys.certificate)

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
