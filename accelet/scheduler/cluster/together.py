"""Pods of a gang that must be beside each other, as kube-scheduler's plugin InterPodAffinity judges it.

The rules are those of Kubernetes 1.33 to 1.37, for labels of any key: a pod goes where, by each of its
terms, a pod is that all of them select; where there is no such pod yet, and they select it itself, to any
node that has the labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from accelet.kube.pods import Pod
from accelet.kube.selection import TogetherTerm
from accelet.runtime.excerpts import printable
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.cluster.topology import ROOT, Ints, Tree

MOST_DOMAINS = 16
"""In so many one gang is planned, one after the other, where no level of the network has these domains."""

_LONGEST_SHOWN = 100
_REQUIREMENTS_A_UNIT, _LEAVES_A_UNIT = 2, 20
"""How much is looked at for one unit of a gang's budget."""


@dataclass(frozen=True, eq=False)
class SharedDomains:
    """Where pods of a gang may be so that they are beside each other.

    `closed` are the leaves on which none may be, `reason` says why, behind a number of nodes. All are to be
    within one domain of `level`; or, where no level has these domains, within one of `choices`, the leaves of
    which are given, the largest first. `labels` is what people call such a domain.
    """

    closed: Mask
    reason: str
    labels: str
    level: int = ROOT
    choices: tuple[Mask, ...] = ()


def together_within(
    pods: Sequence[Pod],
    shapes: Sequence[PodShape],
    kept: Sequence[tuple[Pod, int]],
    layout: Layout,
    budget: Budget,
) -> SharedDomains | None:
    """Where these pods may be beside each other and those of their gang that are `kept` on leaves.

    Judged where that is exact: terms that all of the pods have, each of which selects all of them and only
    pods of their job; None else. So it is where no pod that is kept counts since its node has lost the
    labels, and where there are more than `MOST_DOMAINS` domains that no level of the network has.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    terms = _judged(pods, budget)
    if not terms:
        return None
    budget.spend(len(terms) * len(layout.nodes) // _LEAVES_A_UNIT)
    labels = sorted({term.label for term in terms})
    called = " and ".join(printable(label, _LONGEST_SHOWN) for label in labels[:2])
    numbers = [layout.values(label) for label in labels]
    if kept:
        return _beside(kept, terms, numbers, called)
    has_all = np.logical_and.reduce([of >= 0 for of in numbers])
    closed, reason = ~has_all, f"without the label {called} that pod affinity names"
    usable = np.flatnonzero(has_all & np.logical_or.reduce([layout.eligible(one.rules) for one in {*shapes}]))
    domains = reduce(_divided, (of[usable] for of in numbers), np.zeros(len(usable), dtype=np.int64))
    level = _level_of(layout.tree, usable, domains)
    if level is not None:
        return SharedDomains(closed, reason, called, level)
    sizes = np.bincount(domains)
    if len(sizes) > MOST_DOMAINS:
        return None
    choices = tuple(
        _mask(len(layout.nodes), usable[domains == domain])
        for domain in np.argsort(-sizes, kind="stable").tolist()
    )
    return SharedDomains(closed, reason, called, choices=choices)


def _judged(pods: Sequence[Pod], budget: Budget) -> frozenset[TogetherTerm]:
    """The terms that are judged of these pods: all that any of them has, or none."""
    terms, namespaces = pods[0].together_with or frozenset(), frozenset((pods[0].namespace,))
    if not all(term.pods.namespaces == namespaces and term.pods.is_of_one_job for term in terms):
        return frozenset()
    requirements = sum(len(term.pods.requirements) for term in terms)
    for pod in pods:
        budget.spend(1 + requirements // _REQUIREMENTS_A_UNIT)
        if pod.together_with != terms or not _selects(terms, pod):
            return frozenset()
    return terms


def _selects(terms: frozenset[TogetherTerm], pod: Pod) -> bool:
    return all(term.pods.selects(pod.namespace, pod.labels) for term in terms)


def _beside(
    kept: Sequence[tuple[Pod, int]], terms: frozenset[TogetherTerm], numbers: Sequence[Ints], called: str
) -> SharedDomains | None:
    """Where, by each label, one of those that are kept and selected is."""
    there = [leaf for pod, leaf in kept if _selects(terms, pod)]
    found = [values[values >= 0] for of in numbers for values in (np.unique(of[there]),)]
    if not any(len(values) for values in found):
        return None
    is_open = np.logical_and.reduce([np.isin(of, values) for of, values in zip(numbers, found, strict=True)])
    return SharedDomains(~is_open, f"in another {called} than the rest of the gang, of pod affinity", called)


def _divided(domains: Ints, more: Ints) -> Ints:
    """The domains of these leaves once each is divided further, numbered from 0."""
    pairs = domains * (int(more.max(initial=0)) + 1) + more
    return np.asarray(np.unique(pairs, return_inverse=True)[1])


def _level_of(tree: Tree, leaves: Ints, domains: Ints) -> int | None:
    """The farthest level that divides these leaves just so; ROOT where there is one domain."""
    count = len(np.unique(domains))
    if count <= 1:
        return ROOT
    changes = np.diff(domains) != 0
    if np.count_nonzero(changes) + 1 != count:
        return None
    for level, codes in enumerate(tree.codes):
        if np.array_equal(np.diff(codes[leaves]) != 0, changes):
            return level
    return None


def _mask(count: int, leaves: Ints) -> Mask:
    mask = np.zeros(count, dtype=bool)
    mask[leaves] = True
    return mask
