"""The whole loop on a real cluster: users ask for parts of GPUs, containers see exactly what was chosen."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from subprocess import PIPE, Popen, run

import pytest
import yaml

from accelet.accelerators.device import UnitId
from accelet.assignments.assignment import Pieces
from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard, parse_node_cards
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from tests.e2e.agent import AGENT, wait_for_allocatable
from tests.e2e.assigning_agent import SHARES
from tests.e2e.card_pods import CARD, LABEL, assigned, broken_rules, draw_pod, is_gated, wrong_shares
from tests.e2e.cluster import proc
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.policies import policies_in_force, requests_out_of_force
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.test_assignments import own_view
from tests.integration.identity.storm import CARDS, TILES, wanted_view

PROJECT = Path(__file__).parents[2]
PODS = "/api/v1/namespaces/default/pods"
FIRST, SECOND = 30, 20
SETTLED_S = 3.0
GRACE_S = 30
STUBBORN = ("sleep", "3599")
SMALL = NodeCard(UnitId("0000-03-00.0"), CARD, card="card0", memory_bytes=16 * 2**30, shares=SHARES)
Say = Callable[[str], None]

pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Scene:
    """What the test talks to; `user` may make pods and no more."""

    workloads: Workloads
    node: Node
    user: Client
    agent: NodeProcess
    config: Path
    kubeconfig: Path

    def pods(self) -> list[Json]:
        answer = self.workloads.client.send("GET", f"{PODS}?labelSelector={LABEL}%3Dyes")
        items: list[Json] = json.loads(answer)["items"]
        return items

    def cards(self) -> Mapping[str, Sequence[NodeCard]]:
        nodes = json.loads(self.workloads.client.send("GET", "/api/v1/nodes"))["items"]
        texts = {
            node["metadata"]["name"]: (node["metadata"].get("annotations") or {}).get(NODE_CARDS_ANNOTATION)
            for node in nodes
        }
        return {name: parse_node_cards(text) for name, text in texts.items() if text}


def token_of(cluster: ControlPlane, account: str, namespace: str) -> Token:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return Token(json.loads(cluster.client.send("POST", path, {"spec": {}}))["status"]["token"])


@pytest.fixture
def user(cluster: ControlPlane, workloads: Workloads) -> Iterator[Client]:
    here = {"name": "user", "namespace": "default"}
    rbac = "rbac.authorization.k8s.io"
    verbs = ["create", "get", "list", "update", "patch", "delete"]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    binding = {
        "kind": "RoleBinding",
        "metadata": here,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "user"},
        "subjects": [{"kind": "ServiceAccount", **here}],
    }
    role = {"kind": "Role", "metadata": here, "rules": rules}
    with workloads.applied([{"kind": "ServiceAccount", "metadata": here}, role, binding]):
        yield Client(cluster.url, token_of(cluster, "user", "default"), cluster.authority.keys.certificate)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """8 cards of 2 tiles, published."""
    config = tmp_path / "config.yaml"
    config.write_text(write_config())
    return config


@pytest.fixture
def agent(cluster: ControlPlane, node: Node, config: Path) -> Iterator[NodeProcess]:
    """Serves the cards on the real kubelet."""
    words: list[str | Path] = [AGENT, "agent", "--config", config, "--kubeconfig", str(cluster.kubeconfig)]
    process = node.process("agent-sharing", [*words, "--node-name", node.name, "--http", "127.0.0.1:0"])
    with process.running():
        wait_for_allocatable(node, CARD, CARDS * SHARES, timeout_s=90)
        wait_for_allocatable(node, "gpu.intel.com/tiles", CARDS * TILES, timeout_s=90)
        yield process
        config.write_text(config.read_text().replace("publish_cards: true\n", ""))
        wait_until(
            "nothing is published any more",
            lambda: NODE_CARDS_ANNOTATION not in (node.object()["metadata"].get("annotations") or {}),
            timeout_s=30,
            depends_on=[process],
        )
    wait_for_allocatable(node, CARD, 0)


def write_config() -> str:
    lines = [
        "version: v1\npublish_cards: true\nresources:",
        f"- name: {CARD}\n  backend: simulated\n  shares: {SHARES}",
        "  assignment: annotations\n  on_conflict: refuse\n  cards:",
    ]
    for card in range(CARDS):
        nodes = f"nodes: [{{path: /dev/null, mount_path: /dev/dri/card{card}}}]"
        at = f'pci: "0000:{card + 3:02x}:00.0", card: card{card}, numa_node: {card * 2 // CARDS}'
        lines.append(f"  - {{{at}, tiles: {TILES}, memory_mib: 65536, {nodes}}}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def scheduler(cluster: ControlPlane, workloads: Workloads, tmp_path: Path) -> Iterator[None]:
    """With the account and the rights of deploy/scheduler.yaml."""
    manifests = list(yaml.safe_load_all((PROJECT / "deploy" / "scheduler.yaml").read_text()))
    with workloads.applied(each for each in manifests if each["kind"] != "Deployment"):
        ca = cluster.authority.keys.certificate
        token = token_of(cluster, "accelet-scheduler", "kube-system")
        path = write_kubeconfig(
            tmp_path / "scheduler-kubeconfig", server=cluster.url, ca=ca, credentials=token
        )
        words = [str(AGENT), "scheduler", "--kubeconfig", str(path)]
        with (tmp_path / "scheduler.log").open("wb") as log, Popen(words, stdout=log, stderr=log) as process:
            yield
            process.terminate()


@pytest.fixture
def scene(  # noqa: PLR0917  what a scene is made of
    cluster: ControlPlane,
    node: Node,
    workloads: Workloads,
    user: Client,
    agent: NodeProcess,
    config: Path,
    scheduler: None,
) -> Iterator[Scene]:
    small = {f"simulated-{number}": [SMALL] for number in range(2)}
    with policies_in_force(workloads), card_nodes(cluster.client, small):
        scene = Scene(workloads, node, user, agent, config, Path(cluster.kubeconfig))
        try:
            yield scene
        finally:
            now = {"gracePeriodSeconds": 0}
            cluster.client.send("DELETE", f"{PODS}?labelSelector={LABEL}%3Dyes", now)
            wait_until("all pods are gone", lambda: not scene.pods(), timeout_s=120)


def test_users_ask_for_parts_and_containers_see_exactly_what_was_chosen(scene: Scene, say: Say) -> None:
    random = Random("sharing")
    arrive(scene, random, range(FIRST))
    settle(scene)
    arrive(scene, random, range(FIRST, FIRST + SECOND))
    pods = settle(scene)
    kinds = Counter(what_became_of(pod, scene.node.name) for pod in pods)
    say(f"\nof {len(pods)} pods: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}")
    assert kinds["running"] > 5
    assert kinds["ended"] > 5
    assert kinds["waiting"] > 0, "there were to be more pods than there is room for"
    assert kinds["failed"] == 0, [pod["status"].get("message") for pod in pods]
    placed = [pod for pod in pods if pod["spec"].get("nodeName")]
    assert [wrong for pod in placed for wrong in wrong_shares(pod)] == []
    seen = check_views(scene, [pod for pod in placed if pod["spec"]["nodeName"] == scene.node.name])
    say(f"{seen} containers saw the nodes and the mask that their annotation says")
    check_waiting(scene, [pod for pod in pods if is_gated(pod)])
    check_explain(scene, [pod for pod in placed if what_became_of(pod, scene.node.name) == "running"])
    check_cards_command(scene, placed)


def test_a_user_cannot_write_an_assignment(scene: Scene) -> None:
    forged = {ASSIGNMENT_ANNOTATION: json.dumps({"version": 1, "containers": {}})}
    pod = draw_pod("forged", Random(1), is_short=True)
    with pytest.raises(RefusedError, match="only the scheduler"):
        scene.user.send("POST", PODS, {**pod, "metadata": {**pod["metadata"], "annotations": forged}})
    scene.user.send("POST", PODS, pod)
    with pytest.raises(RefusedError, match="only the scheduler"):
        scene.user.send("PATCH", f"{PODS}/forged", {"metadata": {"annotations": forged}})


def test_a_pod_that_the_kubelet_serves_alone_keeps_away_from_tiles_and_tiles_from_it(scene: Scene) -> None:
    tile, plain = asking(scene, "tile", {"tiles": 1}), asking(scene, "plain", {"i915": 1})
    scene.user.send("POST", PODS, tile)
    scene.workloads.wait_for_phase("tile", "Running")
    with requests_out_of_force(scene.workloads):
        scene.user.send("POST", PODS, plain)
    seen = scene.workloads.wait_for_phase("plain", "Running")
    assert ASSIGNMENT_ANNOTATION not in seen["metadata"].get("annotations", {})
    view = own_view(scene.node, seen, "main")
    assert view is not None
    (shared,) = view[0]
    (other,) = as_cards(assigned(scene.workloads.pod("tile"))["main"])
    assert shared != f"/dev/dri/card{other}"

    def known() -> bool:
        cards = scene.cards()[scene.node.name]
        return [f"/dev/dri/{card.card}" for card in cards if card.unassigned] == [shared]

    wait_until("the Node says who has a card unassigned", known, timeout_s=30)
    for number in range(CARDS * TILES - 3):
        scene.user.send("POST", PODS, asking(scene, f"more-{number}", {"tiles": 1}))
    pods = settle(scene)
    given = {card for pod in pods for pieces in assigned(pod).values() for card in as_cards(pieces)}
    assert shared not in {f"/dev/dri/card{card}" for card in given}
    assert sum(is_gated(pod) for pod in pods) == 0


def test_pods_that_ended_while_the_agent_was_away_keep_nobody_from_their_cards(scene: Scene) -> None:
    """The kubelet's checkpoint has them until it admits another pod, which would not come to a full node."""
    names = [f"full-{number}" for number in range(CARDS)]
    for name in names:
        scene.user.send("POST", PODS, asking(scene, name, {"tiles": TILES}))
    for name in names:
        scene.workloads.wait_for_phase(name, "Running")
    scene.agent.terminate()
    for name in names:
        scene.user.send("DELETE", f"{PODS}/{name}")
    wait_until("all pods are gone", lambda: not scene.pods(), timeout_s=60)
    wait_for_allocatable(scene.node, CARD, 0)
    scene.agent.start()
    wait_for_allocatable(scene.node, CARD, CARDS * SHARES)
    scene.user.send("POST", PODS, asking(scene, "next", {"tiles": 1}))
    scene.workloads.wait_for_phase("next", "Running")


@pytest.mark.parametrize("when", ["at-once", "while-it-ends"])
def test_cards_of_a_pod_deleted_by_force_are_given_away_when_its_containers_have_ended(
    scene: Scene, say: Say, when: str
) -> None:
    # Names of their own: one that recurs soon after a deletion by force may be refused once.
    name, following = f"stubborn-{when}", f"next-{when}"
    others = [f"full-{when}-{number}" for number in range(CARDS - 1)]
    for other in others:
        scene.user.send("POST", PODS, asking(scene, other, {"tiles": TILES}))
    stubborn = asking(scene, name, {"tiles": TILES})
    stubborn["spec"]["terminationGracePeriodSeconds"] = GRACE_S
    (container,) = stubborn["spec"]["containers"]
    container["command"] = ["sh", "-c", f"trap '' TERM; exec {' '.join(STUBBORN)}"]
    scene.user.send("POST", PODS, stubborn)
    for each in (*others, name):
        scene.workloads.wait_for_phase(each, "Running")
    scene.user.send("POST", PODS, asking(scene, following, {"tiles": 1}))
    if when == "while-it-ends":
        scene.user.send("DELETE", f"{PODS}/{name}")
        # Until the kubelet has begun to end it, a second deletion decides how long that takes.
        wait_until("the kubelet ends it", lambda: ending(scene, name), timeout_s=20)
    forced_s = time.monotonic()
    scene.user.send("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    looks = [0.0]

    def given() -> bool:
        if is_running(STUBBORN):
            looks.append(time.monotonic() - forced_s)
        return bool(assigned(scene.workloads.pod(following)))

    wait_until("the next pod is given a tile", given, timeout_s=90)
    assert not is_running(STUBBORN)
    waited_s = time.monotonic() - forced_s
    say(f"\nthe container ran {looks[-1]:.0f} s longer; its tiles were given away after {waited_s:.0f} s")
    scene.workloads.wait_for_phase(following, "Running")


def ending(scene: Scene, pod: str) -> bool:
    return any(event["reason"] == "Killing" for event in scene.workloads.events(pod))


def is_running(command: Sequence[str]) -> bool:
    """Whether a process with exactly these arguments lives on this machine, containers included."""
    wanted = "".join(f"{word}\0" for word in command).encode()
    return any(proc.command(int(folder.name)) == wanted for folder in Path("/proc").glob("[0-9]*"))


def asking(scene: Scene, name: str, parts: Mapping[str, int]) -> Json:
    """A pod that asks for these parts of cards of the real node, and stays."""
    pod = draw_pod(name, Random(1), is_short=False)
    pod["metadata"]["annotations"] = {}
    (container, *_) = pod["spec"]["containers"]
    limits = {f"gpu.intel.com/{part}": str(amount) for part, amount in parts.items()}
    pod["spec"]["containers"] = [{**container, "resources": {"limits": limits}}]
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": scene.node.name}
    return pod


def arrive(scene: Scene, random: Random, numbers: Sequence[int]) -> None:
    """Pods as a user makes them: without gate, and mostly without naming a card."""
    for number in numbers:
        pod = draw_pod(f"share-{number}", random, is_short=random.random() < 0.4)
        scene.user.send("POST", PODS, pod)
        assert broken_rules(scene.pods(), scene.cards()) == []


def settle(scene: Scene) -> list[Json]:
    """Waits until nothing has happened for a while; at each look nothing may be given twice."""
    last: tuple[object, float] = (None, time.monotonic())

    def calm() -> list[Json] | None:
        nonlocal last
        pods = scene.pods()
        assert broken_rules(pods, scene.cards()) == []
        state = {pod["metadata"]["name"]: what_became_of(pod, scene.node.name) for pod in pods}
        if state != last[0]:
            last = state, time.monotonic()
        is_done = "under way" not in state.values() and time.monotonic() - last[1] > SETTLED_S
        return pods if is_done else None

    return wait_until(
        "nothing happens any more", calm, timeout_s=300, evidence=lambda: json.dumps(last[0], indent=1)
    )


def what_became_of(pod: Json, node: str) -> str:
    if is_gated(pod):
        return "waiting"
    phase = pod["status"].get("phase")
    if pod["spec"].get("nodeName") not in (None, node):
        return "on a simulated node"
    is_short = "sleep 3600" not in pod["spec"]["containers"][0]["command"][-1]
    if phase == "Running" and not is_short:
        statuses = pod["status"].get("containerStatuses", [])
        return "running" if all("running" in one["state"] for one in statuses) else "under way"
    return {"Succeeded": "ended", "Failed": "failed"}.get(str(phase), "under way")


def as_cards(pieces: Pieces) -> dict[int, frozenset[int]]:
    """Tiles by card, as the account of the storm has them: cards are at PCI slots from 3."""
    return {int(piece.name[5:7], 16) - 3: piece.tiles for piece in pieces}


def check_views(scene: Scene, pods: Sequence[Json]) -> int:
    wrong, seen = [], 0
    for pod in pods:
        for container, pieces in assigned(pod).items():
            view, wanted = own_view(scene.node, pod, container), wanted_view(as_cards(pieces))
            seen += 1
            if view != wanted:
                wrong.append(f"{pod['metadata']['name']}/{container}: sees {view}, not {wanted}")
    assert wrong == []
    return seen


def check_waiting(scene: Scene, pods: Sequence[Json]) -> None:
    for pod in pods:
        events = scene.workloads.events(pod["metadata"]["name"])
        said = [event["message"] for event in events if event["reason"] == "Waiting"]
        assert any("card" in sentence or "gpu.intel.com" in sentence for sentence in said), (
            pod["metadata"]["name"],
            said,
        )


def check_explain(scene: Scene, pods: Sequence[Json]) -> None:
    for pod in pods:
        name = f"default/{pod['metadata']['name']}"
        words: list[str | Path] = [AGENT, "explain", name, "--config", scene.config, "--json"]
        explained = json.loads(scene.node.run([*words, "--kubeconfig", scene.kubeconfig]))
        for line in explained["containers"]:
            assert line["agrees"], line
            pieces = assigned(pod)[line["name"]]
            tiles = {f"card{card}": sorted(tiles or range(TILES)) for card, tiles in as_cards(pieces).items()}
            assert {card: sorted(some) for card, some in line["tiles"].items()} == tiles


def check_cards_command(scene: Scene, placed: Sequence[Json]) -> None:
    """`accelet cards` says of each tile who of the live pods has it."""
    words = [str(AGENT), "cards", "--json", "--kubeconfig", str(scene.kubeconfig)]
    shown = json.loads(run(words, check=True, stdout=PIPE).stdout)
    holders = {
        (node["name"], card["id"], tile["tile"]): sorted(tile["holders"])
        for node in shown["nodes"]
        for card in node["cards"]
        for tile in card["tiles"]
    }
    wanted: dict[tuple[str, str, int], list[str]] = {key: [] for key in holders}
    for pod in placed:
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        for container, pieces in assigned(pod).items():
            for piece in pieces:
                where = pod["spec"]["nodeName"]
                count = TILES if where == scene.node.name else 1
                for tile in piece.tiles or range(count):
                    name = f"default/{pod['metadata']['name']}/{container}"
                    wanted[where, piece.name, tile].append(name)
    assert holders == {key: sorted(names) for key, names in wanted.items()}
