"""Pods of a gang that must be spread over nodes, as kube-scheduler's plugin PodTopologySpread judges it.

The rules are those of Kubernetes 1.33 to 1.37, for the topology key `kubernetes.io/hostname`. kube-scheduler
itself does not hold a pinned pod to them: of the nodes that its affinity allows there is one.
"""

from collections.abc import Sequence

import numpy as np

from accelet.kube.pods import Pod
from accelet.kube.selection import HOSTNAME, SpreadTerm
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.shape import Limit, PodShape

_REASON = "where topology spread allows no more of its pods"
_MATCHES_A_UNIT = 2


def spread_within(
    pods: Sequence[Pod],
    shapes: Sequence[PodShape],
    kept: Sequence[tuple[Pod, int]],
    layout: Layout,
    budget: Budget,
) -> list[Limit]:
    """How many of these pods each node takes beside those of their gang that are `kept` on leaves.

    Judged where that is exact: constraints that all of the pods have, that select all of them and only pods
    of their job, where more nodes are theirs than the gang has pods: some node is left without any, so that
    no other may have more than the skew.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    terms = frozenset[SpreadTerm].intersection(*(pod.spread for pod in pods)) if pods else frozenset()
    if not terms:
        return []
    budget.spend(len(terms) * (len(pods) + len(kept)) // _MATCHES_A_UNIT)
    labelled = layout.labelled(HOSTNAME)
    nodes = min(int(np.count_nonzero(layout.eligible(s.rules) & labelled)) for s in {*shapes})
    if nodes <= len(pods) + len(kept):
        return []
    found: list[Limit] = []
    for term in sorted(terms, key=_order):
        if not term.pods.is_of_one_job or not all(_selects(term, pod) for pod in pods):
            continue
        free = np.where(labelled, term.most, 0)
        for pod, leaf in kept:
            free[leaf] -= _selects(term, pod)
        found.append(Limit((1,) * len(pods), np.maximum(free, 0), _REASON))
    return found


def _order(term: SpreadTerm) -> tuple[object, ...]:
    """The same in every process, so that plans can be repeated."""
    return term.most, sorted((one.key, one.operator, one.values) for one in term.pods.requirements)


def _selects(term: SpreadTerm, pod: Pod) -> bool:
    return term.pods.selects(pod.namespace, pod.labels)
