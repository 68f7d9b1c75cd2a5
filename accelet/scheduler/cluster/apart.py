"""Pods that keep others away from their node, as kube-scheduler's plugin InterPodAffinity judges it.

The rules are those of Kubernetes 1.33 to 1.37, for the topology key `kubernetes.io/hostname`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from accelet.kube.pods import Pod
from accelet.kube.selection import HOSTNAME, PodTerm
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.shape import Limit
from accelet.scheduler.cluster.usage import UNLIMITED

MOST_RULES = 16
"""Terms of one gang that are looked at."""

_REASON = "where pod anti-affinity keeps its pods apart"
_MATCHES_A_UNIT = 2


def limits_within(
    pods: Sequence[Pod], kept: Sequence[tuple[Pod, int]], layout: Layout, budget: Budget
) -> list[Limit]:
    """What keeps these pods apart from each other, and from those of their gang that are `kept` on leaves.

    Exact but where of a term some pods have it that it does not select, and it selects others that do not
    have it: these two may get one node.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    with_terms = [pod for pod in (*pods, *(pod for pod, _ in kept)) if pod.apart_from]
    if not with_terms:
        return []
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
    return found


def _order(term: PodTerm) -> tuple[object, ...]:
    """The same in every process, so that plans can be repeated."""
    requirements = sorted((one.key, one.operator, one.values) for one in term.requirements)
    return sorted(term.namespaces or ()), requirements


def _needs(term: PodTerm, pods: Sequence[Pod]) -> list[tuple[tuple[int, ...], int]]:
    """What each pod needs of which amount of a node, so that those that a term keeps apart share none.

    A pod that has the term and is selected by it is alone among the others; they may be together.
    """
    has = [term in pod.apart_from for pod in pods]
    selected = [term.selects(pod.namespace, pod.labels) for pod in pods]
    both = [one and other for one, other in zip(has, selected, strict=True)]
    only_has = [one and not other for one, other in zip(has, selected, strict=True)]
    only_selected = [other and not one for one, other in zip(has, selected, strict=True)]
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
