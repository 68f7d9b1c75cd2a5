"""Pods that keep others away from their node, as kube-scheduler's plugin InterPodAffinity judges it.

The rules are those of Kubernetes 1.33 to 1.37, for the topology key `kubernetes.io/hostname`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accelet.kube.pods import Pod
from accelet.kube.selection import HOSTNAME, PodTerm
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.shape import Limit, Separation
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.cluster.usage import UNLIMITED

MOST_RULES = 16
"""Terms of one gang that are looked at."""

_REASON = "where pod anti-affinity keeps its pods apart"
_POD, _LABELS_A_UNIT, _REQUIREMENTS_A_UNIT = 2, 4, 2
_GROUPS_A_UNIT, _LEAVES_A_UNIT = 20, 600
"""What a pod costs of a gang's budget, and how much else is looked at for one unit."""


class KeptApart(NamedTuple):
    """What keeps pods apart: amounts of nodes, and groups that share no node."""

    limits: Sequence[Limit] = ()
    separations: Sequence[Separation] = ()


def find_apart(
    pods: Sequence[Pod], kept: Sequence[tuple[Pod, int]], layout: Layout, budget: Budget
) -> KeptApart:
    """What keeps these pods apart from each other, and from those of their gang that are `kept` on leaves.

    Exact, for as many terms as are looked at.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    said = Counter(pod.apart_from for pod in (*pods, *(pod for pod, _ in kept)))
    budget.spend(sum(map(len, said)))
    counts: Counter[PodTerm] = Counter()
    for terms, number in said.items():
        counts.update(dict.fromkeys(terms, number))
    if not counts:
        return KeptApart()
    rules = sorted(counts, key=lambda term: (-counts[term], _order(term)))[:MOST_RULES]
    everybody = _divide((*pods, *(pod for pod, _ in kept)), rules, budget)
    ours, theirs = everybody.of_pods[: len(pods)], everybody.of_pods[len(pods) :]
    roles = [
        _roles(term, everybody.first, np.bincount(ours, minlength=len(everybody.first))) for term in rules
    ]
    labelled = layout.labelled(HOSTNAME)
    found: list[Limit] = []
    for needs, capacity in dict.fromkeys(pair for of_term in roles for pair in _needs(of_term)):
        by_rank = tuple(np.array(needs)[ours].tolist())
        found.append(Limit(by_rank, np.where(labelled, capacity, UNLIMITED), _REASON))
    closed: defaultdict[tuple[bool, ...], list[int]] = defaultdict(list)
    leaves_of: defaultdict[int, list[int]] = defaultdict(list)
    for group, (_, leaf) in zip(theirs.tolist(), kept, strict=True):
        leaves_of[group].append(leaf)
    budget.spend(len(rules) * len(leaves_of) * (1 + len(everybody.first) // _GROUPS_A_UNIT))
    for of_term in roles:
        for group, leaves in leaves_of.items():
            closed[_kept_away(of_term, group)] += leaves
    for away, leaves in closed.items():
        needs_by_rank = np.array(away)[ours]
        if needs_by_rank.any():
            free = np.full(len(labelled), UNLIMITED)
            free[[leaf for leaf in leaves if labelled[leaf]]] = 0
            budget.spend(1 + len(free) // _LEAVES_A_UNIT)
            found.append(Limit(tuple(needs_by_rank.astype(int).tolist()), free, _REASON))
    groups = dict.fromkeys(pair for of_term in roles for pair in _separated(of_term))
    sides = ((np.array(one)[ours].tolist(), np.array(other)[ours].tolist()) for one, other in groups)
    return KeptApart(found, [Separation(tuple(one), tuple(other), labelled) for one, other in sides])


class _Divided(NamedTuple):
    """Pods in groups that all terms judge alike: a pod of each group, and the group of each pod."""

    first: Sequence[Pod]
    of_pods: Ints


def _divide(pods: Sequence[Pod], rules: Sequence[PodTerm], budget: Budget) -> _Divided:
    """Only the labels that the terms are about divide pods: most of a gang are of one group.

    Raises:
        BudgetSpentError: it takes too much work, or the terms would be asked of too many groups.
    """
    keys = {one.key for term in rules for one in term.requirements}
    numbers: dict[object, int] = {}
    first: list[Pod] = []
    of_pods: list[int] = []
    for pod in pods:
        budget.spend(_POD + len(pod.labels) // _LABELS_A_UNIT)
        said = frozenset((key, text) for key, text in pod.labels.items() if key in keys)
        kind = pod.namespace, said, pod.apart_from
        if kind not in numbers:
            numbers[kind] = len(first)
            first.append(pod)
        of_pods.append(numbers[kind])
    budget.spend(len(first) * sum(1 + len(term.requirements) // _REQUIREMENTS_A_UNIT for term in rules))
    return _Divided(first, np.array(of_pods, dtype=np.int64))


def _order(term: PodTerm) -> tuple[object, ...]:
    """The same in every process, so that plans can be repeated."""
    requirements = sorted((one.key, one.operator, one.values) for one in term.requirements)
    return sorted(term.namespaces or ()), requirements


class _Roles(NamedTuple):
    """By group, whether its pods have a term, whether it selects them, and how many are to be placed."""

    has: Sequence[bool]
    selected: Sequence[bool]
    counts: Sequence[int]

    @property
    def both(self) -> Sequence[int]:
        return [int(has and selected) for has, selected in zip(self.has, self.selected, strict=True)]

    @property
    def only_has(self) -> Sequence[int]:
        return [int(has and not selected) for has, selected in zip(self.has, self.selected, strict=True)]

    @property
    def only_selected(self) -> Sequence[int]:
        return [int(selected and not has) for has, selected in zip(self.has, self.selected, strict=True)]

    def count(self, groups: Sequence[int]) -> int:
        return sum(count for count, is_in in zip(self.counts, groups, strict=True) if is_in)


def _roles(term: PodTerm, first: Sequence[Pod], counts: Ints) -> _Roles:
    return _Roles(
        [term in pod.apart_from for pod in first],
        [term.selects(pod.namespace, pod.labels) for pod in first],
        counts.tolist(),
    )


def _separated(roles: _Roles) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Several pods that only have a term, and several others that it selects: no amount keeps these apart.

    They come in one order, whoever of them has the term.
    """
    only_has, only_selected = roles.only_has, roles.only_selected
    if min(roles.count(only_has), roles.count(only_selected)) < 2:
        return []
    one, other = sorted((tuple(only_has), tuple(only_selected)), reverse=True)
    return [(one, other)]


def _needs(roles: _Roles) -> list[tuple[tuple[int, ...], int]]:
    """What the pods of each group need of which amount of a node, so that those kept apart share none.

    A pod that has the term and is selected by it is alone among the others; they may be together.
    """
    both, only_has, only_selected = roles.both, roles.only_has, roles.only_selected
    rules = [(both, only_has), (both, only_selected)]
    if roles.count(only_has) == 1 or roles.count(only_selected) == 1:
        is_one = roles.count(only_has) == 1
        rules.append((only_has, only_selected) if is_one else (only_selected, only_has))
    return [
        _amount(alone, others, roles.count(others))
        for alone, others in rules
        if roles.count(alone) and roles.count(alone) + roles.count(others) > 1
    ]


def _amount(alone: Sequence[int], others: Sequence[int], count: int) -> tuple[tuple[int, ...], int]:
    """An amount of which one of those that are alone takes all, and each of the others one."""
    capacity = max(1, count)
    return tuple(capacity * one or other for one, other in zip(alone, others, strict=True)), capacity


def _kept_away(roles: _Roles, kept: int) -> tuple[bool, ...]:
    """The groups whose pods the term keeps away from one of this group that is on its node already."""
    has, is_selected = roles.has[kept], roles.selected[kept]
    return tuple(
        (has and selected) or (is_selected and having)
        for having, selected in zip(roles.has, roles.selected, strict=True)
    )
