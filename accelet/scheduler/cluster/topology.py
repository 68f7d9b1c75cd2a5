"""Where nodes are in the network: a tree read from their labels, and the distance it implies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_WEIGHT = 10**9
"""Sums of distances stay far within 64 bits."""

ROOT = -1
"""The level above all levels: the whole cluster."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """The levels of the network from far to near, the labels that name them, and how far apart is far.

    Two nodes are `weights[l]` apart where `levels[l]` is the first at which they differ, and 0 where
    they differ at none. Of `label_sets`, the first that a node has completely says where it is. The
    defaults are those of GKE's topology scheduler.

    Raises:
        ValueError: levels, labels and weights do not fit together; says how.
    """

    levels: tuple[str, ...] = ("block", "subblock", "host")
    weights: tuple[int, ...] = (1_000_000, 10_000, 100)
    label_sets: tuple[tuple[str, ...], ...] = (
        (
            "cloud.google.com/gce-topology-block",
            "cloud.google.com/gce-topology-subblock",
            "cloud.google.com/gce-topology-host",
        ),
        ("topology.gke.io/cluster", "topology.gke.io/rack", "topology.gke.io/host"),
    )

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise ValueError("a topology needs one or more levels of different names")
        if len(self.weights) != len(self.levels):
            raise ValueError(f"{len(self.levels)} levels need as many weights, not {len(self.weights)}")
        falling = (MOST_WEIGHT, *self.weights, 0)
        if any(far < near for far, near in pairwise(falling)):
            raise ValueError(f"weights are numbers from {MOST_WEIGHT} to 0 that do not rise from far to near")
        if not self.label_sets or any(len(labels) != len(self.levels) for labels in self.label_sets):
            raise ValueError(f"every set of labels needs one label for each of {len(self.levels)} levels")

    def path(self, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Where a node with these labels is, from far to near; None if no set of labels is complete."""
        for wanted in self.label_sets:
            values = tuple(labels.get(label, "") for label in wanted)
            if all(values):
                return values
        return None

    @property
    def steps(self) -> tuple[int, ...]:
        """What each level adds to the distance of nodes that differ at it: `weights[l] - weights[l+1]`."""
        return tuple(far - near for far, near in zip(self.weights, (*self.weights[1:], 0), strict=True))


PRESETS: Final[Mapping[str, Scheme]] = MappingProxyType(
    {
        "gke": Scheme(),
        "aws": Scheme(
            ("layer-1", "layer-2", "layer-3"),
            label_sets=(tuple(f"topology.k8s.aws/network-node-layer-{number}" for number in (1, 2, 3)),),
        ),
        "azure": Scheme(
            ("zone", "placement-group"),
            (1_000_000, 10_000),
            (("topology.kubernetes.io/zone", "kubernetes.azure.com/ppg"),),
        ),
        "nvlink": Scheme(
            ("domain",),
            (10_000,),
            (
                ("nvidia.com/gpu.clique",),
                ("accelerator.topograph.run/domain",),
                ("network.topology.nvidia.com/accelerator",),
            ),
        ),
        "oci": Scheme(
            ("island", "block", "local-block"),
            label_sets=(
                tuple(
                    f"oci.oraclecloud.com/rdma.{name}_id"
                    for name in ("hpc_island", "network_block", "local_block")
                ),
            ),
        ),
        "topograph": Scheme(
            ("core", "spine", "leaf"),
            label_sets=(
                tuple(f"fabric.topograph.run/tier-{number}" for number in (2, 1, 0)),
                tuple(f"network.topology.nvidia.com/{name}" for name in ("core", "spine", "leaf")),
                tuple(f"network.topology.nvidia.com/tier-{number}" for number in (2, 1, 0)),
                tuple(f"network.topology.nvidia.com/{name}" for name in ("datacenter", "spine", "block")),
            ),
        ),
    }
)
"""Schemes by the labels that clouds, NVIDIA's drivers and topograph write on nodes, of all its versions."""


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes as leaves in depth-first order, so that every domain is a range of leaves.

    `order[i]` is the caller's row of leaf `i`. `codes[l][i]` is the number of the level-`l` domain of
    leaf `i`, counted from 0 in depth-first order; `starts[l]` has the first leaf of each domain and, at
    its end, the number of leaves. A node without labels has domains of its own at every level.
    """

    scheme: Scheme
    order: Ints
    codes: tuple[Ints, ...]
    starts: tuple[Ints, ...]
    paths: tuple[tuple[str, ...] | None, ...]

    @property
    def leaf_count(self) -> int:
        return len(self.order)

    @property
    def lowest(self) -> int:
        """The index of the nearest level."""
        return len(self.codes) - 1

    def domain_count(self, level: int) -> int:
        return 1 if level == ROOT else len(self.starts[level]) - 1

    def ancestors(self, level: int, above: int) -> Ints:
        """For each domain of `level`, the number of the domain of level `above` that holds it."""
        if above == ROOT:
            return np.zeros(self.domain_count(level), dtype=np.int64)
        return self.codes[above][self.starts[level][:-1]]

    def children(self, level: int, domain: int) -> range:
        """The domains of the next level below that make up this one."""
        if level == ROOT:
            return range(self.domain_count(0))
        first, last = self.starts[level][domain], self.starts[level][domain + 1] - 1
        codes = self.codes[level + 1]
        return range(int(codes[first]), int(codes[last]) + 1)

    def leaves(self, level: int, domain: int) -> slice:
        if level == ROOT:
            return slice(0, self.leaf_count)
        return slice(int(self.starts[level][domain]), int(self.starts[level][domain + 1]))

    def domain_name(self, level: int, domain: int) -> str:
        """The label values down to `level`, joined by `/`; `unlabelled` for a node that is nowhere."""
        path = self.paths[self.leaves(level, domain).start]
        return "/".join(path[: level + 1]) if path else "unlabelled"

    def distances(self, leaf: int, others: Ints) -> Ints:
        """The distance of one leaf to each of `others`."""
        found = np.zeros(len(others), dtype=np.int64)
        for codes, step in zip(self.codes, self.scheme.steps, strict=True):
            found += step * (codes[others] != codes[leaf])
        return found

    def sum_of_distances(self, ones: Ints, others: Ints) -> int:
        """The distances from each of `ones` to that of `others` in its place, together."""
        return sum(
            step * int(np.count_nonzero(codes[ones] != codes[others]))
            for codes, step in zip(self.codes, self.scheme.steps, strict=True)
        )

    def length(self, leaves: Ints) -> int:
        """The distance from the first of `leaves` to the last, from each to the next."""
        return sum(
            step * int(np.count_nonzero(np.diff(codes[leaves])))
            for codes, step in zip(self.codes, self.scheme.steps, strict=True)
        )


def build_tree(scheme: Scheme, names: Sequence[str], paths: Sequence[tuple[str, ...] | None]) -> Tree:
    """The tree of nodes with these names and places (as `Scheme.path` gives them), in any order."""
    # A node that is nowhere sorts behind the others, and its name makes it a domain of its own.
    nowhere = np.array([path is None for path in paths], dtype=bool)
    placed = [path or (name,) * len(scheme.levels) for name, path in zip(names, paths, strict=True)]
    keys = [nowhere.astype(np.int64), *(_ranks(at_level) for at_level in zip(*placed, strict=True))]
    # Numbers are sorted without holding up the other threads, which texts would do for long.
    order = np.lexsort((_ranks(names), *reversed(keys))) if names else np.zeros(0, dtype=np.int64)
    codes = []
    changed = np.zeros(len(order), dtype=bool)
    for key in keys:
        changed[1:] |= np.diff(key[order]) != 0
        codes.append(np.cumsum(changed, dtype=np.int64))
    return _tree(scheme, order, _levels(scheme, codes[1:], order), tuple(paths[row] for row in order))


def _levels(scheme: Scheme, codes: list[Ints], order: Ints) -> list[Ints]:
    return codes or [np.zeros(len(order), dtype=np.int64)] * len(scheme.levels)


def _ranks(texts: Sequence[str]) -> Ints:
    """For each text, how many different ones sort before it."""
    ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.fromiter((ranks[text] for text in texts), dtype=np.int64, count=len(texts))


def _tree(
    scheme: Scheme, order: Ints, codes: Sequence[Ints], paths: tuple[tuple[str, ...] | None, ...]
) -> Tree:
    renumbered, starts = [], []
    changed = np.zeros(len(order), dtype=bool)
    for at_level in codes:
        changed[1:] |= np.diff(at_level) != 0
        renumbered.append(np.cumsum(changed, dtype=np.int64))
        first = np.flatnonzero(changed)
        zero = np.zeros(min(1, len(order)), dtype=np.int64)
        starts.append(np.concatenate((zero, first, [len(order)])).astype(np.int64))
    return Tree(scheme, order, tuple(renumbered), tuple(starts), paths)
