"""The sliding-window rule of GKE's topology scheduler, plainly, to compare with.

Nodes are sorted by their labels and pods by rank; each pod has a pointer into the nodes, and pointers move
on one after the other, the last pod's first. One pod a node; the first least sum of distances wins.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

Path = tuple[str, ...]


def slide(
    paths: Sequence[Path], pods: int, fits: Callable[[int, int], bool], weights: Sequence[int]
) -> tuple[int, list[int]] | None:
    """The least distance the rule finds and the node of each pod, or None where it finds no placement.

    `paths` are the nodes' places, sorted; `fits(pod, node)` judges one node for one pod.
    """
    pointers = list(range(-pods, 0))
    best: tuple[int, list[int]] | None = None
    while True:
        is_whole = _move_on(pointers, len(paths), fits)
        if pointers[-1] >= len(paths):
            return best
        if is_whole:
            distance = _length(pointers, paths, weights)
            if best is None or distance < best[0]:
                best = distance, pointers.copy()


def _move_on(pointers: list[int], nodes: int, fits: Callable[[int, int], bool]) -> bool:
    """Moves each pointer to its next node that fits, the last first; whether all of them found one.

    A pointer that finds none before its right neighbour ends the round: those left of it stay behind.
    """
    end = nodes
    for pod in range(len(pointers) - 1, -1, -1):
        pointers[pod] += 1
        while pointers[pod] < end and not (pointers[pod] >= 0 and fits(pod, pointers[pod])):
            pointers[pod] += 1
        if pointers[pod] >= end:
            # It stands before its neighbour, or, the last, behind all nodes.
            pointers[pod] = end if pod == len(pointers) - 1 else end - 1
            return False
        end = pointers[pod]
    return True


def _length(pointers: Sequence[int], paths: Sequence[Path], weights: Sequence[int]) -> int:
    total = 0
    for before, after in pairwise(pointers):
        total += _distance(paths[before], paths[after], weights)
    return total


def _distance(one: Path, other: Path, weights: Sequence[int]) -> int:
    for level, weight in enumerate(weights):
        if one[level] != other[level]:
            return weight
    return 0
