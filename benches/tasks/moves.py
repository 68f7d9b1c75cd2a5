"""Which moves let a gang in: 500 nodes with 50,000 holders of parts of cards, by seed.

`python -m benches.tasks.moves [INSTANCES]`.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from statistics import median, quantiles
from time import process_time

from accelet.accelerators.device import UnitId
from accelet.assignments.assignment import Assignment, Naming, Piece
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kinds.gputask import TaskMoves
from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX, Gang, find_gangs
from accelet.scheduler.moves.finding.letsin import LetsInTerms, find_lets_in
from accelet.scheduler.moves.movable import MovableTask, as_if_waiting, movable_task
from accelet.scheduler.moves.tasks import TaskTerms
from benches.scheduler.cards import CARDS, I915, TILES, card_node

NODES, HOLDERS, INSTANCES = 500, 50_000, 200
_SHARED = 4
"""So many cards of each node have small holders, which nobody moves; tasks have tiles of the others."""

_PLACES = [(card, tile) for card in range(_SHARED, CARDS) for tile in range(TILES)]

_TERMS = LetsInTerms()


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster that is full in fragments, and a gang that asks for whole cards of one node each."""

    waiting: Gang
    tasks: Sequence[MovableTask]
    supposed: Supposition


class Scenes:
    """Scenes of one cluster: most small holders stay, the rest of each node is as the seed says."""

    def __init__(self) -> None:
        self._nodes = [card_node(f"n{number}") for number in range(NODES)]
        self._cluster = Cluster(Scheme(), self._nodes)
        self._here: list[Pod] = []
        for node in self._nodes:
            for each in range(HOLDERS // NODES - len(_PLACES)):
                self._cluster.set_pod(_holder(f"h{node.name}-{each}", node.name, each % _SHARED))

    def make(self, seed: int) -> Scene:
        """How crowded it is differs from scene to scene; half of the tasks may be moved."""
        for pod in self._here:
            self._cluster.remove_pod(pod.key)
        random, tasks = Random(seed), list[MovableTask]()  # noqa: S311  no secret
        self._here, crowd = [], random.uniform(0.7, 1.0)
        for node in self._nodes:
            for each, (card, tile) in enumerate(_PLACES):
                if random.random() >= (1.0 if tile == 0 else crowd):
                    self._here.append(_holder(f"e{node.name}-{each}", node.name, each % _SHARED))
                    continue
                pod, task = _tile_holder(node.name, card, tile)
                self._here.append(pod)
                tasks += [task] if random.random() < 0.5 else []
        for pod in self._here:
            self._cluster.set_pod(pod)
        cards, ranks = random.choice((1, 1, 2, 3)), random.choice((1, 2))
        gang = _gang(ranks, cards)
        supposed = self._cluster.suppose(
            self._cluster.snapshot(), [pod for task in tasks for pod in task.pods]
        )
        return Scene(gang, tasks, supposed)


def _gang(ranks: int, cards: int) -> Gang:
    waiting = [_asking(f"w-{rank}", cards=cards, tiles=cards * TILES) for rank in range(ranks)]
    (gang,) = find_gangs([replace(pod, labels={"job-name": "w"}) for pod in waiting])
    return gang


def _asking(name: str, **parts: int) -> Pod:
    cards = parts.pop("cards", 1)
    asked = {"cpu": 0, I915: cards, **{f"gpu.intel.com/{part}": amount for part, amount in parts.items()}}
    gates = (f"{GATE_PREFIX}j", CARDS_GATE)
    return Pod("ml", name, uid=name, gates=gates, containers=(Container("main", asked, asked),))


@cache
def _holder(name: str, node: str, card: int, tile: int | None = None) -> Pod:
    pod = _asking(f"{name}-0", **({"millicores": 20} if tile is None else {"tiles": 1}))
    piece = Piece(
        Naming.UNIT, UnitId(f"0000-{card:02x}-00.0"), frozenset() if tile is None else frozenset((tile,))
    )
    said = {
        ASSIGNMENT_ANNOTATION: render_own(Assignment({"main": {I915: (piece,)}})),
        "batch.kubernetes.io/job-completion-index": "0",
    }
    return replace(
        pod, node_name=node, phase="Running", gates=(), labels={"job-name": name}, annotations=said
    )


@cache
def _tile_holder(node: str, card: int, tile: int) -> tuple[Pod, MovableTask]:
    pod = _holder(f"t{node}-{card}-{tile}", node, card, tile)
    return pod, _task(pod)


def _task(pod: Pod) -> MovableTask:
    (gang,) = find_gangs([as_if_waiting(pod)])
    name = pod.labels["job-name"]
    terms = TaskTerms("ml", name, name, 1, TaskMoves(policy="WhenItHelps"))
    task = movable_task(terms, [pod], gang, 0.0)
    assert task is not None
    return task


def _judge(scene: Scene) -> str:
    answer = find_lets_in(scene.waiting, scene.tasks, scene.supposed, _TERMS)
    if answer.moves:
        return f"let in by {sum(len(move.nodes) for move in answer.moves)} ranks"
    if not answer.is_settled:
        return "undecided"
    return "none, proven, or none needed"


def main(instances: int) -> None:
    """Prints what share was decided, and how long it took."""
    scenes, kinds, took_s = Scenes(), Counter[str](), list[float]()
    for seed in range(instances):
        scene = scenes.make(seed)
        began_s = process_time()
        kinds[_judge(scene)] += 1
        took_s.append(process_time() - began_s)
    decided = instances - kinds["undecided"]
    print(f"{instances} clusters of {NODES} nodes and {HOLDERS:,} holders")  # noqa: T201
    print(f"decided: {100 * decided / instances:.1f} %; {dict(sorted(kinds.items()))}")  # noqa: T201
    slow = quantiles(took_s, n=20)[-1] if instances > 1 else took_s[0]
    print(f"processor time: median {median(took_s):.2f} s, 95th {slow:.2f} s, most {max(took_s):.2f} s")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else INSTANCES)
