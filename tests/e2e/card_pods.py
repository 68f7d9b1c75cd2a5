"""Pods that ask for parts of cards, as users write them, and what must hold of all that run."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from accelet.assignments.assignment import Pieces
from accelet.assignments.nodecards import NodeCard
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, parse_own
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Container, Pod
from tests.e2e.assigned_pods import STAY, VIEW
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE

CARD = "gpu.intel.com/i915"
LABEL = "sharing"
GIB = 2**30


@dataclass(frozen=True)
class Asking:
    """What the containers of a pod ask for, by container, and what its annotations say."""

    containers: Mapping[str, Mapping[str, int]]
    annotations: Mapping[str, str]


KINDS: Mapping[str, Asking] = {
    # The admission policy adds the card that is not named.
    "tile": Asking({"main": {"tiles": 1}}, {}),
    "tiles": Asking({"main": {"tiles": 2}}, {}),
    "two-cards": Asking({"main": {"i915": 2, "tiles": 2}}, {}),
    "half": Asking({"main": {"millicores": 500}}, {}),
    "memory": Asking({"main": {"i915": 1, "memory.max": 20 * GIB}}, {}),
    "both": Asking({"main": {"millicores": 300, "memory.max": 8 * GIB}}, {}),
    "two-containers": Asking({"main": {"tiles": 1}, "side": {"millicores": 200}}, {}),
    "same-card": Asking({"main": {"tiles": 1}, "side": {"tiles": 1}}, {"gas-same-gpu": "main,side"}),
    "one-numa": Asking({"main": {"i915": 2, "tiles": 2}}, {"gas-allocate-single-numa": "true"}),
}


def draw_pod(name: str, random: Random, *, is_short: bool) -> Json:
    """A pod of a random kind; a short one ends by itself after some seconds."""
    kind = KINDS[random.choice(sorted(KINDS))]
    stay = f"sleep {random.randint(2, 6)}" if is_short else STAY
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: "yes"}, "annotations": dict(kind.annotations)},
        "spec": {
            "restartPolicy": "Never",
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": container,
                    "image": BUSYBOX_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", f"{VIEW}; {stay}"],
                    "resources": {
                        "limits": {f"gpu.intel.com/{part}": str(amount) for part, amount in asked.items()}
                    },
                }
                for container, asked in kind.containers.items()
            ],
        },
    }


def assigned(pod: Json) -> Mapping[str, Pieces]:
    """What each container of a pod is assigned."""
    text = (pod["metadata"].get("annotations") or {}).get(ASSIGNMENT_ANNOTATION)
    names = [container["name"] for container in pod["spec"]["containers"]]
    if text is None:
        return {}
    assignment = parse_own(text, names)
    return {name: assignment.pieces(name, CARD) or () for name in names}


def broken_rules(pods: Iterable[Json], cards: Mapping[str, Sequence[NodeCard]]) -> list[str]:
    """What is given twice or beyond a card's amounts among live pods: an account of its own."""
    known = {(node, str(card.id)): card for node, some in cards.items() for card in some}
    tiles: Counter[tuple[str, str, int]] = Counter()
    whole: set[tuple[str, str]] = set()
    millicores: defaultdict[tuple[str, str], float] = defaultdict(float)
    memory: defaultdict[tuple[str, str], float] = defaultdict(float)
    for raw in pods:
        pod, node = parse_pod(raw), raw["spec"].get("nodeName")
        if node is None or pod.is_terminal:
            continue
        for container in pod.containers:
            pieces = assigned(raw).get(container.name, ())
            for piece in pieces:
                at = node, piece.name
                tiles.update((*at, tile) for tile in piece.tiles)
                whole |= set() if piece.tiles else {at}
                millicores[at] += _part(container, "millicores") / len(pieces)
                memory[at] += _part(container, "memory.max") / len(pieces)
    return [
        *(f"tile {tile} has {count} holders" for tile, count in tiles.items() if count > 1),
        *(f"{at} is divided and shared whole" for at in whole & {(n, c) for n, c, _ in tiles}),
        *(f"{at} has {used} of 1000 millicores in use" for at, used in millicores.items() if used > 1000),
        *(
            f"{at} has {used} bytes in use"
            for at, used in memory.items()
            if used > (known[at].memory_bytes or 0)
        ),
    ]


def wrong_shares(raw: Json) -> list[str]:
    """Containers of a placed pod that are not assigned what they ask for."""
    pod: Pod = parse_pod(raw)
    found = []
    for container in pod.containers:
        pieces = assigned(raw).get(container.name, ())
        cards, tiles = _part(container, "i915"), _part(container, "tiles")
        if len(pieces) != cards or sum(len(piece.tiles) for piece in pieces) != tiles:
            found.append(f"{pod.name}/{container.name} asks for {container.requests} and has {pieces}")
    return found


def is_gated(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def render_events(events: Iterable[Json]) -> str:
    return json.dumps([f"{event['reason']}: {event['message']}" for event in events])


def _part(container: Container, part: str) -> int:
    return int(container.requests.get(f"gpu.intel.com/{part}", 0))
