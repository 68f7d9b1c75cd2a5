"""The best placement of unlike pods that visits leaves in a given order, each with one run of ranks."""

from collections.abc import Callable

import numpy as np

from accelet.scheduler.cluster.topology import Ints, Tree
from accelet.scheduler.placement.knapsack import NEVER


def place_monotone(
    tree: Tree, leaves: Ints, starts: Callable[[int], Ints], demand: int
) -> tuple[int, Ints] | None:
    """The least distance and the leaf of each rank; None if no such placement exists.

    `leaves` are visited in this order, which keeps every domain in one piece (any order of siblings
    will do); `starts(leaf)[j]` is the first rank `i` for which ranks `i … j-1` fit there together.
    It takes time and memory in proportion to leaves times pods.

    `reach[l][i]` is the least cost of the first `i` ranks with the last of them inside the current domain
    of level `l - 1` (0: the cluster); a leaf is entered from there for the distance of level `l`.
    """
    if not len(leaves):
        return None
    levels = tree.lowest + 1
    weights = np.array((*tree.scheme.weights, 0), dtype=np.int64)
    reach = np.full((levels + 1, demand + 1), NEVER)
    costs = np.full((len(leaves), demand + 1), NEVER)
    codes = np.array([at_level[leaves] for at_level in tree.codes])
    changes = np.diff(codes, axis=1) != 0
    for position, leaf in enumerate(leaves.tolist()):
        if position:
            reach[1:][changes[:, position - 1]] = NEVER
        enter = (reach + weights[:, np.newaxis]).min(axis=0)
        enter[0] = 0
        costs[position] = _least_in_windows(enter, starts(leaf))
        np.minimum(reach, costs[position], out=reach)
    if reach[0, demand] >= NEVER:
        return None
    return int(reach[0, demand]), _trace_back(tree, leaves, starts, costs)


def _least_in_windows(values: Ints, starts: Ints) -> Ints:
    """For each `j`, the least of `values[starts[j]:j]`; NEVER where that is empty."""
    size = len(values)
    ends = np.arange(size)
    lengths = ends - starts
    longest = int(lengths.max())
    # Row p has the least of 2^p values from each place on: two of them cover any window.
    rows = [values]
    while 2 ** len(rows) <= longest:
        half = 2 ** (len(rows) - 1)
        row = rows[-1].copy()
        np.minimum(row[:-half], rows[-1][half:], out=row[:-half])
        rows.append(row)
    if len(rows) == 1:
        return np.where(lengths > 0, values[starts], NEVER)
    table = np.concatenate(rows)
    power = np.frexp(np.maximum(lengths, 1))[1].astype(np.int64) - 1
    row_start = power * size
    least = np.minimum(table[row_start + starts], table[row_start + np.maximum(ends - 2**power, 0)])
    return np.where(lengths > 0, least, NEVER)


def _trace_back(tree: Tree, leaves: Ints, starts: Callable[[int], Ints], costs: Ints) -> Ints:
    """The choices that made the least cost, from the last rank to the first."""
    end = costs.shape[1] - 1
    position = int(np.argmin(costs[:, end]))
    placed = np.empty(end, dtype=np.int64)
    while True:
        leaf, cost = int(leaves[position]), int(costs[position, end])
        start = int(starts(leaf)[end])
        if start == 0 and cost == 0:
            placed[:end] = leaf
            return placed
        ways = costs[:position, start:end] + tree.distances(leaf, leaves[:position])[:, np.newaxis]
        before, offset = np.argwhere(ways == cost)[-1]
        placed[start + offset : end] = leaf
        position, end = int(before), start + int(offset)
