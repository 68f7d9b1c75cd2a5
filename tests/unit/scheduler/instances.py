"""Random small clusters with one gang, and the least distance found by trying every placement."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from random import Random

from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.kube.pods import Container, Pod
from accelet.kube.selection import Taint, Toleration
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import EXCLUSIVE, GATE_PREFIX
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from benches.scheduler.window import slide
from tests.fakes import pods as fakes

_LEVELS = ("a", "b", "c")
_SPOT = Taint("spot", "NoSchedule", "yes")


@dataclass(frozen=True)
class Instance:
    """One gang of `gated` pods in rank order, and pods that are `bound` already."""

    scheme: Scheme
    nodes: tuple[Node, ...]
    bound: tuple[Pod, ...]
    gated: tuple[Pod, ...]
    is_exclusive: bool
    level: int | None
    is_identical: bool

    @cached_property
    def free(self) -> list[dict[str, int]]:
        free = [{name: int(amount) for name, amount in node.allocatable.items()} for node in self.nodes]
        for pod in self.bound:
            at = next(i for i, node in enumerate(self.nodes) if node.name == pod.node_name)
            for name, amount in _needs(pod).items():
                free[at][name] -= amount
        return free

    @cached_property
    def paths(self) -> list[tuple[str, ...]]:
        """A node that is nowhere is far from all others: its name is a place of its own."""
        return [
            self.scheme.path(node.labels) or (node.name,) * len(self.scheme.levels) for node in self.nodes
        ]

    def distance(self, one: int, other: int) -> int:
        for weight, a, b in zip(self.scheme.weights, self.paths[one], self.paths[other], strict=True):
            if a != b:
                return weight
        return 0

    def allows(self, pod: Pod, at: int) -> bool:
        node = self.nodes[at]
        return all(node.labels.get(key) == value for key, value in pod.node_selector.items()) and (
            not node.taints or bool(pod.tolerations)
        )

    def fits(self, pods: Sequence[Pod], at: int) -> bool:
        needs = Counter[str]()
        for pod in pods:
            needs.update(_needs(pod))
        return all(self.allows(pod, at) for pod in pods) and all(
            amount <= self.free[at].get(name, 0) for name, amount in needs.items()
        )

    def length(self, leaves: Sequence[int]) -> int:
        return sum(self.distance(a, b) for a, b in pairwise(leaves))

    def obeys(self, leaves: Sequence[int]) -> bool:
        """Whether this placement breaks no rule."""
        if self.is_exclusive and len(set(leaves)) < len(leaves):
            return False
        if self.level is not None and len({self.paths[at][: self.level + 1] for at in leaves}) > 1:
            return False
        return all(
            self.fits([pod for pod, leaf in zip(self.gated, leaves, strict=True) if leaf == at], at)
            for at in set(leaves)
        )

    def least_distance(self) -> int | None:
        """By trying every placement that can still be better than the best one seen."""
        best: int | None = None

        def extend(leaves: list[int], length: int) -> None:
            nonlocal best
            if best is not None and length >= best:
                return
            if len(leaves) == len(self.gated):
                best = length
                return
            for at in range(len(self.nodes)):
                longer = [*leaves, at]
                here = [pod for pod, leaf in zip(self.gated, longer, strict=False) if leaf == at]
                if self.is_exclusive and len(here) > 1:
                    continue
                if (
                    self.level is not None
                    and self.paths[at][: self.level + 1] != (self.paths[longer[0]][: self.level + 1])
                ):
                    continue
                if self.fits(here, at):
                    extend(longer, length + (self.distance(leaves[-1], at) if leaves else 0))

        extend([], 0)
        return best

    def window_distance(self) -> int | None:
        """What the sliding-window rule finds, which knows one pod a node and no required level."""
        order = sorted(range(len(self.nodes)), key=lambda at: self.paths[at])
        found = slide(
            [self.paths[at] for at in order],
            len(self.gated),
            lambda rank, position: self.fits([self.gated[rank]], order[position]),
            self.scheme.weights,
        )
        return found and found[0]


def random_instance(random: Random) -> Instance:
    """Four to seven nodes, two to five pods; every third gang exclusive, every second of unlike pods."""
    width = random.choice((2, 3, 3))
    weights = random.choice(((1_000_000, 10_000, 100), (100, 10, 1), (9, 9, 2), (50, 7, 0)))
    scheme = Scheme(_LEVELS[:width], weights[:width], (_LEVELS[:width],))
    nodes = tuple(_random_node(random, number, width) for number in range(random.randint(4, 7)))
    bound = tuple(
        _pod(f"other-{number}", random.choice(nodes).name, _Kind(random.choice((1, 2))))
        for number in range(random.randint(0, 3))
    )
    is_exclusive, is_identical = random.random() < 1 / 3, random.random() < 1 / 2
    level = random.randrange(width) if random.random() < 0.15 else None
    annotations = {EXCLUSIVE: "true"} if is_exclusive else {}
    if level is not None:
        annotations[REQUIRED_LEVEL] = scheme.levels[level]
    count = random.randint(2, 5)
    kinds = [_random_kind(random) for _ in range(1 if is_identical else random.randint(2, 3))]
    ranks = random.choice(
        (
            [kinds[0], *[kinds[-1]] * (count - 1)],
            sorted((random.choice(kinds) for _ in range(count)), key=kinds.index),
            [random.choice(kinds) for _ in range(count)],
        )
    )
    gated = tuple(_pod(f"p-{rank}", None, kind, annotations) for rank, kind in enumerate(ranks))
    return Instance(scheme, nodes, bound, gated, is_exclusive, level, is_identical)


def _random_node(random: Random, number: int, width: int) -> Node:
    labels = {level: random.choice("xy") for level in _LEVELS[:width]}
    if random.random() < 0.08:
        del labels["a"]
    labels["pool"] = random.choice(("big", "small"))
    return Node(
        name=f"n{number}",
        labels=labels,
        taints=(_SPOT,) if random.random() < 0.1 else (),
        conditions=(Condition("Ready", "True"),),
        allocatable={"cpu": random.choice((2, 4, 8)), "gpu": random.choice((0, 1, 2, 2, 3, 4)), "pods": 4},
    )


@dataclass(frozen=True)
class _Kind:
    gpus: int
    cpus: int = 0
    pool: str | None = None
    is_tolerant: bool = False


def _random_kind(random: Random) -> _Kind:
    return _Kind(
        gpus=random.choice((0, 1, 1, 2)),
        cpus=random.choice((1, 1, 2)),
        pool=random.choice(("big", "small")) if random.random() < 0.25 else None,
        is_tolerant=random.random() < 0.3,
    )


def _pod(name: str, on: str | None, kind: _Kind, annotations: dict[str, str] | None = None) -> Pod:
    requests = {name: amount for name, amount in (("gpu", kind.gpus), ("cpu", kind.cpus)) if amount}
    return fakes.pod(
        name,
        Container("main", requests),
        on=on,
        labels={} if on else {"job-name": "gang"},
        annotations=annotations,
        gates=() if on else (f"{GATE_PREFIX}gang",),
        selector={"pool": kind.pool} if kind.pool else {},
        tolerations=(Toleration("spot", "Exists"),) if kind.is_tolerant else (),
    )


def _needs(pod: Pod) -> dict[str, int]:
    requests = pod.containers[0].requests
    return {"pods": 1, **{name: int(amount) for name, amount in requests.items()}}
