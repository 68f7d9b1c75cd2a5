"""How long it takes to look for a better place for a task: 500 nodes, 600 tasks of 8 ranks anywhere.

`python -m benches.tasks.better [TASKS]`.
"""

import sys
from collections import Counter
from dataclasses import replace
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
from accelet.scheduler.gangs.grouping import find_gangs
from accelet.scheduler.moves.finding.nearer import NearerTerms, find_nearer
from accelet.scheduler.moves.finding.packs import PacksTerms, find_packs
from accelet.scheduler.moves.movable import MovableTask, as_if_waiting, movable_task
from accelet.scheduler.moves.tasks import TaskTerms
from benches.scheduler.cards import CARDS, I915, TILES, card_node

_NODES, _RANKS, _TASKS, _USED = 500, 8, 200, 0.6
_BLOCKS, _RACKS = 5, 50
_LABELS = Scheme().label_sets[0]


def main(count: int) -> None:
    """Prints how long each of the two searches took for a task, and how often there was a better place."""
    random = Random(0)  # noqa: S311  no secret
    nodes = []
    for number in range(_NODES):
        place = f"b{number % _BLOCKS}", f"r{number % _RACKS}", f"h{number}"
        node = card_node(f"n{number}")
        nodes.append(replace(node, labels={**node.labels, **dict(zip(_LABELS, place, strict=True))}))
    free = [(node.name, card, tile) for node in nodes for card in range(CARDS) for tile in range(TILES)]
    random.shuffle(free)
    pods = [
        [_rank(f"t{task}", rank, *free.pop()) for rank in range(_RANKS)]
        for task in range(int(len(free) * _USED) // _RANKS)
    ]
    tasks = [_task(of) for of in pods[:count]]
    cluster = Cluster(Scheme(), nodes, [pod for of in pods for pod in of])
    supposed = cluster.suppose(cluster.snapshot(), [pod for task in tasks for pod in task.pods])
    for name, look in (("nearer", _nearer), ("packed", _packed)):
        took_s, found = list[float](), Counter[bool]()
        for task in tasks:
            began_s = process_time()
            found[look(task, supposed)] += 1
            took_s.append(process_time() - began_s)
        slow = quantiles(took_s, n=20)[-1]
        print(  # noqa: T201
            f"{name}: {found[True]} of {len(tasks)}; processor time a task: "
            f"median {median(took_s):.3f} s, 95th {slow:.3f} s, most {max(took_s):.3f} s"
        )


def _nearer(task: MovableTask, supposed: Supposition) -> bool:
    return find_nearer(task, supposed, NearerTerms()).move is not None


def _packed(task: MovableTask, supposed: Supposition) -> bool:
    return find_packs(task, supposed, PacksTerms(factor=1.0)).move is not None


def _rank(name: str, rank: int, node: str, card: int, tile: int) -> Pod:
    asked = {"cpu": 0, I915: 1, "gpu.intel.com/tiles": 1}
    piece = Piece(Naming.UNIT, UnitId(f"0000-{card:02x}-00.0"), frozenset((tile,)))
    said = {
        ASSIGNMENT_ANNOTATION: render_own(Assignment({"main": {I915: (piece,)}})),
        "batch.kubernetes.io/job-completion-index": str(rank),
    }
    own = Pod("ml", f"{name}-{rank}", uid=f"{name}-{rank}", containers=(Container("main", asked, asked),))
    return replace(own, node_name=node, phase="Running", labels={"job-name": name}, annotations=said)


def _task(pods: list[Pod]) -> MovableTask:
    (gang,) = find_gangs([as_if_waiting(pod) for pod in pods])
    name = pods[0].labels["job-name"]
    terms = TaskTerms("ml", name, name, 1, TaskMoves(policy="WhenItHelps"))
    task = movable_task(terms, pods, gang, 0.0)
    assert task is not None
    return task


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _TASKS)
