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
from accelet.scheduler.cluster.usage import UNLIMITED

MOST_RULES = 16
"""Terms of one gang that are looked at."""

_REASON = "where pod anti-affinity keeps its pods apart"
_MATCHES_A_UNIT = 2


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
    with_terms = [pod for pod in (*pods, *(pod for pod, _ in kept)) if pod.apart_from]
    if not with_terms:
        return KeptApart()
    counts = Counter(term for pod in with_terms for term in pod.apart_from)
    rules = sorted(counts, key=lambda term: (-counts[term], _order(term)))[:MOST_RULES]
    budget.spend(len(rules) * (len(pods) + len(kept)) // _MATCHES_A_UNIT)
    labelled = layout.labelled(HOSTNAME)
    found: list[Limit] = []
    for needs, capacity in dict.fromkeys(pair for term in rules for pair in _needs(term, pods)):
        found.append(Limit(needs, np.where(labelled, capacity, UNLIMITED), _REASON))
    closed: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for term in rules:
        for pod, leaf in kept:
            closed[_kept_away(term, pods, pod)].append(leaf)
    for needs, leaves in closed.items():
        if any(needs):
            free = np.full(len(labelled), UNLIMITED)
            free[[leaf for leaf in leaves if labelled[leaf]]] = 0
            found.append(Limit(needs, free, _REASON))
    groups = dict.fromkeys(pair for term in rules for pair in _separated(term, pods))
    return KeptApart(found, [Separation(one, other, labelled) for one, other in groups])


def _order(term: PodTerm) -> tuple[object, ...]:
    """The same in every process, so that plans can be repeated."""
    requirements = sorted((one.key, one.operator, one.values) for one in term.requirements)
    return sorted(term.namespaces or ()), requirements


class _Roles(NamedTuple):
    """By rank, whether a pod has a term and is selected by it, only has it, or only is selected by it."""

    both: Sequence[bool]
    only_has: Sequence[bool]
    only_selected: Sequence[bool]


def _roles(term: PodTerm, pods: Sequence[Pod]) -> _Roles:
    sides = [(term in pod.apart_from, term.selects(pod.namespace, pod.labels)) for pod in pods]
    return _Roles(
        [has and selected for has, selected in sides],
        [has and not selected for has, selected in sides],
        [selected and not has for has, selected in sides],
    )


def _separated(term: PodTerm, pods: Sequence[Pod]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Several pods that only have a term, and several others that it selects: no amount keeps these apart.

    They come in one order, whoever of them has the term.
    """
    _, only_has, only_selected = _roles(term, pods)
    if min(sum(only_has), sum(only_selected)) < 2:
        return []
    one, other = sorted((tuple(map(int, only_has)), tuple(map(int, only_selected))), reverse=True)
    return [(one, other)]


def _needs(term: PodTerm, pods: Sequence[Pod]) -> list[tuple[tuple[int, ...], int]]:
    """What each pod needs of which amount of a node, so that those that a term keeps apart share none.

    A pod that has the term and is selected by it is alone among the others; they may be together.
    """
    both, only_has, only_selected = _roles(term, pods)
    rules = [(both, only_has), (both, only_selected)]
    if sum(only_has) == 1 or sum(only_selected) == 1:
        alone, others = (only_has, only_selected) if sum(only_has) == 1 else (only_selected, only_has)
        rules.append((alone, others))
    return [_amount(alone, others) for alone, others in rules if sum(alone) and sum(alone) + sum(others) > 1]


def _amount(alone: Sequence[bool], others: Sequence[bool]) -> tuple[tuple[int, ...], int]:
    """An amount of which one of those that are alone takes all, and each of the others one."""
    capacity = max(1, sum(others))
    return tuple(capacity * one or int(other) for one, other in zip(alone, others, strict=True)), capacity


def _kept_away(term: PodTerm, pods: Sequence[Pod], kept: Pod) -> tuple[int, ...]:
    """Which of the pods the term keeps away from one that is on its node already."""
    has, is_selected = term in kept.apart_from, term.selects(kept.namespace, kept.labels)
    return tuple(
        int((has and term.selects(pod.namespace, pod.labels)) or (is_selected and term in pod.apart_from))
        for pod in pods
    )
