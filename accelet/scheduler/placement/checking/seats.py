"""A finished plan as who sits where: what every check of it looks at."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelet.assignments.assignment import Assignment
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.residents import Residents
from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import Gang


@dataclass(frozen=True, slots=True)
class Seat:
    """A pod of the plan, its rank among the pods that are placed, and what it is assigned."""

    rank: int
    pod: Pod
    shape: PodShape
    assignment: Assignment | None


@dataclass(frozen=True, eq=False)
class Seating:
    """Places for the pods of `gang`: `nodes` and `assignments` by rank.

    Of the layout the nodes themselves count, and the names of levels; `residents` are who is there already.
    """

    gang: Gang
    nodes: Sequence[str]
    assignments: Sequence[Assignment | None]
    layout: Layout
    residents: Residents

    def node(self, name: str) -> Node | None:
        leaf = self.layout.leaf_of.get(name)
        return None if leaf is None else self.layout.nodes[leaf]

    @cached_property
    def by_node(self) -> Mapping[str, Sequence[Seat]]:
        """The pods of the plan on each node, by rank."""
        found: defaultdict[str, list[Seat]] = defaultdict(list)
        pods = zip(self.gang.pods, self.gang.shapes, self.assignments, self.nodes, strict=True)
        for rank, (pod, shape, given, node) in enumerate(pods):
            found[node].append(Seat(rank, pod, shape, given))
        return found

    @cached_property
    def kept(self) -> Mapping[str, Sequence[Pod]]:
        """By node, the members that have a place already and keep it."""
        pending = {pod.key for pod in self.gang.pods}
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        for member in self.gang.members:
            node = member.node_name
            if node is not None and node in self.layout.leaf_of and member.key not in pending:
                found[node].append(member)
        return found


def find_apart(
    seating: Seating, level: int, placed: Iterable[str], kept: Iterable[str], rule: str
) -> str | None:
    """What is wrong where the nodes `placed` are not in one domain, or in none of those `kept`."""
    scheme = seating.layout.tree.scheme
    homes = {domain_of(node, level, scheme) for name in kept if (node := seating.node(name)) is not None}
    first: str | None = None
    for name in placed:
        node = seating.node(name)
        home = None if node is None else domain_of(node, level, scheme)
        if homes and home not in homes:
            return f"{rule}, but node {name} is in another than the rest of it"
        if first is not None:
            other = seating.node(first)
            if other is None or domain_of(other, level, scheme) != home:
                return f"{rule}, but nodes {first} and {name} are in two"
        first = first or name
    return None


def domain_of(node: Node, level: int, scheme: Scheme) -> tuple[str, ...]:
    """Where a node is, down to a level; one that says nothing of its place is a domain of its own."""
    path = scheme.path(node.labels)
    return ("", node.name) if path is None else path[: level + 1]
