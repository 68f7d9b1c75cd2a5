"""What deploy/agent-cards lets an agent change: cards and their amounts on its own Node, nothing else."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import pytest
import yaml

from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard, parse_node_cards
from accelet.fakehost.nvidia import DGX_A100, write_nvidia
from accelet.node.discovery import SCAN_S
from tests.e2e.agent import AGENT, allocatable, device_pod, wait_for_allocatable, write_cards
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
MANIFESTS = [
    DEPLOY / "agent-assignments" / "rbac.yaml",
    DEPLOY / "agent-cards" / "rbac.yaml",
    DEPLOY / "agent-cards" / "policy.yaml",
]
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-agent"
NODES = "/api/v1/nodes"
OTHER = "other-node"
GPU = "gpu.intel.com/i915"
TILES, MILLICORES, MEMORY = (f"gpu.intel.com/{name}" for name in ("tiles", "millicores", "memory.max"))
ALONE = "memory.max of gpu.intel.com, nvidia.com and amd.com alone"
Say = Callable[[str], None]
CARDS = {"metadata": {"annotations": {NODE_CARDS_ANNOTATION: '{"version":1,"cards":[]}'}}}


@pytest.fixture
def rights(workloads: Workloads) -> Iterator[None]:
    manifests = chain.from_iterable(yaml.safe_load_all(path.read_text()) for path in MANIFESTS)
    with workloads.applied(manifests):
        yield


@pytest.fixture
def other_node(workloads: Workloads) -> Iterator[None]:
    workloads.client.send("POST", NODES, {"metadata": {"name": OTHER, "labels": {"a": "b"}}})
    yield
    workloads.client.send("DELETE", f"{NODES}/{OTHER}")


@pytest.fixture
def holder(rights: None, node: Node, workloads: Workloads) -> Iterator[Json]:
    """A pod of the agent's account on the node: what its tokens are bound to."""
    name = "card-agent"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system"},
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
    made = workloads.apply(pod)
    yield {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"]}
    workloads.delete_pod(name, "kube-system")


def make_token(workloads: Workloads, holder: Json | None) -> Token:
    spec = {} if holder is None else {"boundObjectRef": holder}
    answer = json.loads(workloads.client.send("POST", f"{ACCOUNT}/token", {"spec": spec}))
    return Token(answer["status"]["token"])


@pytest.fixture
def agents(cluster: ControlPlane, workloads: Workloads, node: Node, holder: Json) -> Client:
    """Requests as the agent on the node makes them, from when the policy is in force."""
    client = Client(cluster.url, make_token(workloads, holder), cluster.authority.keys.certificate)
    wait_until(
        "the policy is in force",
        lambda: "changes no labels" in refusal(client, f"{NODES}/{node.name}?dryRun=All", labelled()),
        timeout_s=30,
    )
    return client


def refusal(client: Client, path: str, change: Json) -> str:
    """Why a change is refused; empty if it is not."""
    try:
        client.send("PATCH", path, change)
    except RefusedError as error:
        if error.status != 403:
            raise
        return str(json.loads(str(error).removeprefix("403: "))["message"])
    return ""


def labelled() -> Json:
    return {"metadata": {"labels": {"example.com/mine": "yes"}}}


def amounts(**of: Mapping[str, str | None]) -> Json:
    return {"status": {part: dict(values) for part, values in of.items()}}


def test_own_node_gets_its_cards_and_amounts(agents: Client, node: Node) -> None:
    offered = {TILES: "4", MILLICORES: "2000", MEMORY: "68719476736"}
    own = f"{NODES}/{node.name}"
    agents.send("PATCH", own, CARDS)
    agents.send("PATCH", f"{own}/status", amounts(capacity=offered, allocatable=offered))
    seen = node.object()
    assert seen["metadata"]["annotations"][NODE_CARDS_ANNOTATION] == '{"version":1,"cards":[]}'
    for part in ("capacity", "allocatable"):
        assert [seen["status"][part][name] for name in (TILES, MILLICORES, MEMORY)] == [
            "4",
            "2k",
            offered[MEMORY],
        ]
    nothing = dict.fromkeys(offered)
    agents.send("PATCH", own, {"metadata": {"annotations": {NODE_CARDS_ANNOTATION: None}}})
    agents.send("PATCH", f"{own}/status", amounts(capacity=nothing, allocatable=nothing))
    assert TILES not in node.object()["status"]["capacity"]


@pytest.mark.parametrize("domain", ["nvidia.com", "amd.com"])
def test_amounts_of_other_vendors_cards_are_its_own_too(agents: Client, node: Node, domain: str) -> None:
    own = f"{NODES}/{node.name}"
    wanted = {f"{domain}/{name}": "8" for name in ("tiles", "millicores", "memory.max")}
    agents.send("PATCH", f"{own}/status", amounts(capacity=wanted, allocatable=wanted))
    seen = node.object()["status"]
    assert wanted.items() <= seen["capacity"].items()
    assert wanted.items() <= seen["allocatable"].items()
    assert ALONE in refusal(agents, f"{own}/status", amounts(capacity={f"{domain}/gpu": "9"}))
    nothing = dict.fromkeys(wanted)
    agents.send("PATCH", f"{own}/status", amounts(capacity=nothing, allocatable=nothing))
    assert not wanted.keys() & node.object()["status"]["capacity"].keys()


@pytest.mark.parametrize("amount", ["9" * 19, "9" * 5_000, "1e20000", "1e-20000", "-1"])
def test_absurd_amounts_are_refused(agents: Client, node: Node, amount: str) -> None:
    offered = amounts(capacity={TILES: amount}, allocatable={TILES: amount})
    with pytest.raises(RefusedError) as refused:
        agents.send("PATCH", f"{NODES}/{node.name}/status?dryRun=All", offered)
    by_policy, by_validation = 403, 422
    assert refused.value.status in (by_policy, by_validation)


def test_policy_can_judge_a_node_with_much_to_say(agents: Client, node: Node, workloads: Workloads) -> None:
    own = f"{NODES}/{node.name}"
    labels = {f"example.com/label-{number}": "x" * 60 for number in range(300)}
    images = [
        {"names": [f"registry.example.com/{number}-{name}{'x' * 200}" for name in range(5)]}
        for number in range(100)
    ]
    workloads.client.send("PATCH", own, {"metadata": {"labels": labels}})
    workloads.client.send("PATCH", f"{own}/status", {"status": {"images": images}})
    try:
        agents.send("PATCH", own, CARDS)
        agents.send("PATCH", f"{own}/status", amounts(capacity={TILES: "1"}))
        assert len(node.object()["metadata"]["labels"]) > 300
    finally:
        workloads.client.send("PATCH", own, {"metadata": {"labels": dict.fromkeys(labels)}})
        workloads.client.send("PATCH", own, {"metadata": {"annotations": {NODE_CARDS_ANNOTATION: None}}})
        nothing = {TILES: None}
        gone = amounts(capacity=nothing, allocatable=nothing)
        workloads.client.send("PATCH", f"{own}/status", {"status": {"images": None, **gone["status"]}})


@pytest.mark.usefixtures("other_node")
def test_another_node_is_refused(agents: Client, node: Node) -> None:
    said = f"the agent on node {node.name} changes its own Node alone, not {OTHER}"
    assert said in refusal(agents, f"{NODES}/{OTHER}", CARDS)
    assert said in refusal(agents, f"{NODES}/{OTHER}/status", amounts(capacity={TILES: "1"}))


def test_token_of_no_pod_changes_nothing(
    agents: Client, cluster: ControlPlane, workloads: Workloads, node: Node
) -> None:
    stray = Client(cluster.url, make_token(workloads, None), agents.ca)
    assert "does not say on which node its pod is" in refusal(stray, f"{NODES}/{node.name}", CARDS)


@pytest.mark.parametrize(
    ("place", "change", "said"),
    [
        ("", labelled(), "changes no labels"),
        ("", {"metadata": {"labels": {"kubernetes.io/hostname": None}}}, "changes no labels"),
        ("", {"metadata": {"finalizers": ["example.com/mine"]}}, "changes no labels"),
        ("", {"metadata": {"annotations": {"example.com/a": "b"}}}, "accelet.dev/cards alone"),
        (
            "",
            {"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "9"}}},
            "accelet.dev/cards alone",
        ),
        ("", {"metadata": {"annotations": None}}, "accelet.dev/cards alone"),
        ("", {"spec": {"unschedulable": True}}, "nothing in the spec"),
        ("", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, "nothing in the spec"),
        ("/status", labelled(), "changes no labels"),
        ("/status", {"metadata": {"annotations": {"example.com/a": "b"}}}, "accelet.dev/cards alone"),
        ("/status", {"status": {"conditions": []}}, "capacity and allocatable alone"),
        ("/status", {"status": {"addresses": None}}, "capacity and allocatable alone"),
        ("/status", {"status": {"nodeInfo": {"kernelVersion": "1"}}}, "capacity and allocatable alone"),
        ("/status", {"status": {"images": []}}, "capacity and allocatable alone"),
        ("/status", amounts(capacity={"cpu": "1000"}), ALONE),
        ("/status", amounts(allocatable={"memory": None}), ALONE),
        ("/status", amounts(capacity={GPU: "7"}), ALONE),
        ("/status", amounts(capacity={"example.com/tiles": "7"}), ALONE),
        ("/status", amounts(capacity={"nvidia.com/gpu": "7"}), ALONE),
        ("/status", amounts(capacity={"amd.com/cpx_nps4": "7"}), ALONE),
        ("/status", {"status": {"allocatable": None}}, ALONE),
    ],
    ids=str,
)
def test_anything_else_of_its_own_node_is_refused(
    place: str, change: Json, said: str, agents: Client, node: Node
) -> None:
    before = json.dumps(node.object()["spec"])
    assert said in refusal(agents, f"{NODES}/{node.name}{place}", change)
    assert json.dumps(node.object()["spec"]) == before


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", NODES), ("DELETE", f"{NODES}/node-1"), ("PUT", f"{NODES}/node-1"), ("POST", NODES)],
)
def test_nothing_else_is_allowed(method: str, path: str, agents: Client) -> None:
    with pytest.raises(RefusedError) as refused:
        agents.send(method, path, None if method == "GET" else {"metadata": {"name": "node-1"}})
    assert refused.value.status == 403


@pytest.fixture
def cards_file(tmp_path: Path) -> Path:
    write_cards(tmp_path / "cards.yaml", 2)
    return tmp_path / "cards.yaml"


@pytest.fixture
def agent(
    agents: Client, cluster: ControlPlane, node: Node, cards_file: Path, tmp_path: Path
) -> Iterator[NodeProcess]:
    """The agent with a pod's token, which publishes the cards of the file."""
    config = tmp_path / "config.yaml"
    resource = f"{{name: {GPU}, backend: simulated, shares: 10, assignment: annotations, file: {cards_file}}}"
    config.write_text(f"version: v1\npublish_cards: true\nresources:\n- {resource}\n")
    authority = cluster.authority.keys.certificate
    path = write_kubeconfig(
        tmp_path / "kubeconfig", server=cluster.url, ca=authority, credentials=agents.token
    )
    words: list[str | Path] = [AGENT, "agent", "--config", config, "--kubeconfig", path]
    process = node.process("agent-cards", [*words, "--node-name", node.name, "--http", "127.0.0.1:0"])
    with process.running():
        wait_for_allocatable(node, TILES, 4)
        yield process
        config.write_text(f"version: v1\nresources:\n- {resource}\n")
        wait_until("nothing is said any more", lambda: offered(node) == {}, timeout_s=30)
        assert NODE_CARDS_ANNOTATION not in node.object()["metadata"].get("annotations", {})
    wait_for_allocatable(node, GPU, 0)


def offered(node: Node) -> Mapping[str, tuple[str | None, str | None]]:
    """Capacity and allocatable of the parts of cards, as far as there are any."""
    status = node.object()["status"]
    found = {
        name: (status["capacity"].get(name), status["allocatable"].get(name))
        for name in (TILES, MILLICORES, MEMORY)
    }
    return {name: amounts for name, amounts in found.items() if amounts != (None, None)}


def said_cards(node: Node) -> tuple[NodeCard, ...]:
    return parse_node_cards(node.object()["metadata"]["annotations"][NODE_CARDS_ANNOTATION])


@pytest.mark.usefixtures("agent")
def test_agent_follows_its_cards_on_a_real_node(node: Node, cards_file: Path, say: Say) -> None:
    assert [card.tiles for card in said_cards(node)] == [2, 2]
    assert offered(node) == {TILES: ("4", "4"), MILLICORES: ("2k", "2k")}  # memory is not known
    started = time.monotonic()
    write_cards(cards_file, 2, unhealthy=[1])
    wait_until("a sick card lowers the amounts", lambda: offered(node)[TILES] == ("2", "2"), timeout_s=15)
    took_s = time.monotonic() - started
    say(f"\na card's illness was on the Node after {took_s:.1f} s")
    assert took_s < 1.5 * SCAN_S + 2  # after a hint the next scan by the timer may be so far away
    assert [card.health.reason for card in said_cards(node)] == [None, "the test says so"]
    assert offered(node)[MILLICORES] == ("1k", "1k")


def test_nvidias_gpus_and_instances_are_published(
    agents: Client, cluster: ControlPlane, node: Node, tmp_path: Path
) -> None:
    """By an agent with a pod's token, under the policy: cards without a DRM name, and their amounts."""
    root = write_nvidia(tmp_path / "host", DGX_A100)
    gpu, mig = "nvidia.com/gpu", "nvidia.com/mig"
    followed = "backend: nvidia-gpu, assignment: annotations"
    served = f"resources:\n- {{name: {gpu}, {followed}}}\n- {{name: {mig}, {followed}, unit: mig}}\n"
    config = tmp_path / "config.yaml"
    config.write_text(f"version: v1\npublish_cards: true\n{served}")
    path = write_kubeconfig(
        tmp_path / "kubeconfig",
        server=cluster.url,
        ca=cluster.authority.keys.certificate,
        credentials=agents.token,
    )
    places: list[str | Path] = ["--config", config, "--kubeconfig", path, "--host-root", root]
    process = node.process(
        "agent-nvidia", [AGENT, "agent", *places, "--node-name", node.name, "--http", "127.0.0.1:0"]
    )
    whole, parts = 6, 4
    with process.running():
        wait_for_allocatable(node, "nvidia.com/tiles", whole + parts)
        cards = said_cards(node)
        assert [card.resource for card in cards] == [gpu] * whole + [mig] * parts
        assert {card.card for card in cards} == {None}
        assert {(card.mode, card.part_of is None) for card in cards} == {(None, True), ("mig", False)}
        assert "nvidia.com/memory.max" not in node.object()["status"]["allocatable"]
        config.write_text(f"version: v1\n{served}")
        wait_until(
            "the amounts are gone", lambda: allocatable(node, "nvidia.com/tiles") is None, timeout_s=30
        )
        assert NODE_CARDS_ANNOTATION not in node.object()["metadata"].get("annotations", {})
    for name in (gpu, mig):
        wait_for_allocatable(node, name, 0)


@pytest.mark.usefixtures("agent")
def test_pod_that_asks_for_tiles_fits_as_long_as_there_are_some(node: Node, workloads: Workloads) -> None:
    workloads.apply(device_pod("some-tiles", {GPU: 1, TILES: 3}))
    workloads.wait_for_phase("some-tiles", "Running")
    wait_until("its holder is told", lambda: unassigned(node) == 1, timeout_s=10)
    workloads.apply(device_pod("more-tiles", {GPU: 1, TILES: 2}))
    workloads.wait_for_pod(
        "more-tiles",
        lambda pod: f"Insufficient {TILES}" in json.dumps(pod["status"].get("conditions")),
        what="there are not enough tiles left",
    )
    workloads.delete_pod("some-tiles")
    workloads.wait_for_phase("more-tiles", "Running")
    workloads.delete_pod("more-tiles")
    wait_until("nobody holds anything", lambda: unassigned(node) == 0, timeout_s=20)


def unassigned(node: Node) -> int:
    return sum(card.unassigned for card in said_cards(node))


@pytest.mark.usefixtures("agent")
def test_amounts_outlive_a_kubelets_restart_and_what_others_do(node: Node, workloads: Workloads) -> None:
    before = offered(node)
    node.kubelet.process.kill()
    node.kubelet.start()
    node.wait_until_ready()
    # What a kubelet does that finds no records of its own: the node might be another machine.
    zeros = dict.fromkeys((TILES, MILLICORES, MEMORY), "0")
    workloads.client.send("PATCH", f"{NODES}/{node.name}/status", amounts(capacity=zeros, allocatable=zeros))
    wait_until("the amounts are back", lambda: offered(node) == before, timeout_s=90)
