"""A cluster's nodes as leaves of the topology, and which of them a pod's rules allow."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from accelet.kube.nodes import Node
from accelet.kube.selection import NodeTerm, Requirement, Taint
from accelet.scheduler.cluster.eligibility import (
    barrier_text,
    barriers,
    first_barrier,
    holds,
    holds_name,
    lacking_text,
    unlabelled_text,
)
from accelet.scheduler.cluster.shape import NodeRules
from accelet.scheduler.cluster.topology import Ints, Scheme, Tree, build_tree

Mask = npt.NDArray[np.bool_]

_T = TypeVar("_T")

_MOST_MASKS = 256
_MOST_COLUMNS = 256
"""Of labels that nodes have: one takes 8 bytes a node. Others, which pods name as they like, have none."""

_SERVED_BY_CLAIMS = ("accelet.dev/serve", "dra")
"""The label of nodes whose devices are given out through Dynamic Resource Allocation (docs/dra.md)."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Nodes in the order of the tree's leaves.

    A rule is judged once for each different value it looks at, not once a node; what was judged is kept
    until a node changes and a new layout is made.
    """

    tree: Tree
    nodes: tuple[Node, ...]
    _barriers: tuple[tuple[Taint, ...], ...]
    _barrier_codes: Ints
    _columns: dict[str, tuple[Ints, tuple[str | None, ...]]] = field(default_factory=dict)
    _masks: dict[NodeRules, Mask] = field(default_factory=dict)

    @cached_property
    def leaf_of(self) -> Mapping[str, int]:
        """The leaf of each node by its name."""
        return {node.name: leaf for leaf, node in enumerate(self.nodes)}

    def eligible(self, rules: NodeRules) -> Mask:
        """Which leaves these rules allow. Not to be changed by the caller."""
        mask = self._masks.get(rules)
        if mask is None:
            # Plans are made in a thread of their own, while this is asked for plans under way.
            if len(self._masks) >= _MOST_MASKS:
                self._masks.clear()
            mask = self._masks[rules] = self._untainted(rules) & self._selected(rules)
            if rules.features:
                mask &= self._declaring(rules.features)
            for key in rules.keys:
                mask &= self.labelled(key)
            for reach in rules.reaches:
                mask &= self._matching_any(reach.terms)
        return mask

    def with_nodes(self, changed: Iterable[Node]) -> "Layout":
        """The layout once these nodes have changed, at the same places in the network."""
        nodes, codes = list(self.nodes), self._barrier_codes.copy()
        kinds = {kind: code for code, kind in enumerate(self._barriers)}
        columns = {
            key: (of.copy(), dict(zip(values, range(len(values)), strict=True)))
            for key, (of, values) in self._columns.items()
        }
        for node in changed:
            leaf = self.leaf_of[node.name]
            nodes[leaf] = node
            codes[leaf] = kinds.setdefault(barriers(node), len(kinds))
            for key, (of, values) in columns.items():
                of[leaf] = values.setdefault(node.labels.get(key), len(values))
        found = Layout(
            self.tree,
            tuple(nodes),
            tuple(kinds),
            codes,
            {key: (of, tuple(values)) for key, (of, values) in columns.items()},
        )
        found.__dict__["leaf_of"] = self.leaf_of
        return found

    def refusals(self, rules: NodeRules) -> Counter[str]:
        """How many nodes the rules refuse, by the reason for people: `12 not ready`."""
        found: Counter[str] = Counter()
        taken = np.bincount(self._barrier_codes, minlength=len(self._barriers))
        for taints, count in zip(self._barriers, taken.tolist(), strict=True):
            taint = first_barrier(taints, rules.tolerations)
            if taint is not None:
                found[barrier_text(taint)] += count
        untainted, selected = self._untainted(rules), self._selected(rules)
        unselected = int(np.count_nonzero(untainted & ~selected))
        if unselected:
            found["not selected by the pods' node selector or affinity"] = unselected
        left = untainted & selected
        if rules.features:
            declaring = self._declaring(rules.features)
            found[lacking_text(rules.features)] += int(np.count_nonzero(left & ~declaring))
            left &= declaring
        for key in sorted(rules.keys):
            labelled = self.labelled(key)
            found[unlabelled_text(key)] += int(np.count_nonzero(left & ~labelled))
            left &= labelled
        for reach in sorted(rules.reaches, key=lambda reach: reach.volume):
            reaching = self._matching_any(reach.terms)
            found[f"where {reach.volume} cannot be reached"] += int(np.count_nonzero(left & ~reaching))
            left &= reaching
        return +found

    def labelled(self, key: str) -> Mask:
        """Which leaves have this label."""
        return self._where(key, Requirement(key, "Exists"))

    def values(self, key: str) -> Ints:
        """For each leaf, the number of its value of this label; -1 without it. Not to be changed."""
        if key not in self._labels:
            return np.full(len(self.nodes), -1)
        codes, values = self._column(key)
        return np.array([-1 if value is None else number for number, value in enumerate(values)])[codes]

    @property
    def served_by_claims(self) -> Mask:
        """Which leaves say that claims alone give out their devices."""
        key, value = _SERVED_BY_CLAIMS
        return self._where(key, Requirement(key, "In", (value,)))

    def _untainted(self, rules: NodeRules) -> Mask:
        passable = [first_barrier(taints, rules.tolerations) is None for taints in self._barriers]
        return np.array(passable, dtype=bool)[self._barrier_codes]

    def _selected(self, rules: NodeRules) -> Mask:
        mask = np.ones(len(self.nodes), dtype=bool)
        for key, value in rules.node_selector:
            mask &= self._where(key, Requirement(key, "In", (value,)))
        if rules.required_terms is not None:
            mask &= self._matching_any(rules.required_terms)
        return mask

    def _declaring(self, features: frozenset[str]) -> Mask:
        return np.array([features <= node.features for node in self.nodes], dtype=bool)

    def _matching_any(self, terms: Iterable[NodeTerm]) -> Mask:
        allowed = np.zeros(len(self.nodes), dtype=bool)
        for term in terms:
            allowed |= self._matching(term)
        return allowed

    def _matching(self, term: NodeTerm) -> Mask:
        mask = np.full(len(self.nodes), bool(term.expressions or term.fields))
        for requirement in term.expressions:
            mask &= self._where(requirement.key, requirement)
        for requirement in term.fields:
            mask &= self._named(requirement)
        return mask

    def _named(self, requirement: Requirement) -> Mask:
        """By `metadata.name`: one node, or all but one."""
        mask = np.full(len(self.nodes), holds_name(requirement, ""))
        leaf = self.leaf_of.get(requirement.values[0]) if requirement.values else None
        if leaf is not None:
            mask[leaf] = holds_name(requirement, self.nodes[leaf].name)
        return mask

    def _where(self, key: str, requirement: Requirement) -> Mask:
        if key not in self._labels:
            return np.full(len(self.nodes), holds(requirement, None))
        codes, values = self._column(key)
        among = frozenset(requirement.values)
        return np.array([holds(requirement, value, among) for value in values], dtype=bool)[codes]

    def _column(self, key: str) -> tuple[Ints, tuple[str | None, ...]]:
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= _MOST_COLUMNS:
                self._columns.clear()
            column = self._columns[key] = _coded(self.nodes, lambda node: node.labels.get(key))
        return column

    @cached_property
    def _labels(self) -> frozenset[str]:
        """The keys of all labels that some node has."""
        return frozenset(key for node in self.nodes for key in node.labels)


def lay_out(scheme: Scheme, nodes: Iterable[Node]) -> Layout:
    listed = list(nodes)
    tree = build_tree(scheme, [node.name for node in listed], [scheme.path(node.labels) for node in listed])
    ordered = tuple(listed[row] for row in tree.order)
    codes, values = _coded(ordered, barriers)
    return Layout(tree, ordered, values, codes)


def _coded(nodes: Sequence[Node], read: Callable[[Node], _T]) -> tuple[Ints, tuple[_T, ...]]:
    numbers: dict[_T, int] = {}
    codes = [numbers.setdefault(read(node), len(numbers)) for node in nodes]
    return np.array(codes, dtype=np.int64), tuple(numbers)
