"""Whether the pods of a plan obey each other's rules: anti-affinity and topology spread of one node each."""

from collections import Counter
from collections.abc import Iterable, Sequence

from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.kube.selection import HOSTNAME, PodTerm, SpreadTerm
from accelet.scheduler.cluster.eligibility import barriers, first_barrier, is_selected
from accelet.scheduler.placement.checking.seats import Seat, Seating

_MOST_TERMS = 16
"""Terms of one gang that are promised: those that the most pods have."""


def find_apart_fault(seating: Seating) -> str | None:
    """Two pods of the gang on one node that anti-affinity keeps apart, one of them of the plan."""
    members = [*seating.gang.pods, *(pod for pods in seating.kept.values() for pod in pods)]
    terms = _promised(members)
    for term in terms:
        for name, seats in seating.by_node.items():
            node = seating.node(name)
            if node is None or HOSTNAME not in node.labels:
                continue
            new, kept = [seat.pod for seat in seats], seating.kept.get(name, ())
            if len(new) + len(kept) > 1 and (pods := _kept_apart(term, new, kept)):
                return f"pods {pods[0].name} and {pods[1].name} must not share a node, but would share {name}"
    return None


def _promised(members: Iterable[Pod]) -> Sequence[PodTerm]:
    counts = Counter(term for pod in members for term in pod.apart_from)
    least = sorted(counts.values(), reverse=True)[_MOST_TERMS:][:1]
    return [term for term, count in counts.items() if not least or count > least[0]]


def _kept_apart(term: PodTerm, new: Sequence[Pod], kept: Sequence[Pod]) -> tuple[Pod, Pod] | None:
    """A pod that has the term and another that it selects, of which not both were there before."""
    pods = [*((pod, True) for pod in new), *((pod, False) for pod in kept)]
    having = [(pod, is_new) for pod, is_new in pods if term in pod.apart_from]
    selected = [(pod, is_new) for pod, is_new in pods if _selects(term, pod)] if having else []
    both = {pod.key for pod, _ in having} & {pod.key for pod, _ in selected}
    # Of each kind two are enough: with more, some pair is found among these.
    for one, one_is_new in _few(having, both):
        for other, other_is_new in _few(selected, both):
            if one.key != other.key and (one_is_new or other_is_new):
                return one, other
    return None


def _few(pods: Sequence[tuple[Pod, bool]], both: set[tuple[str, str]]) -> Sequence[tuple[Pod, bool]]:
    """Two of each kind: new or not, on both sides of the term or not."""
    found: Counter[tuple[bool, bool]] = Counter()
    few: list[tuple[Pod, bool]] = []
    for pod, is_new in pods:
        kind = is_new, pod.key in both
        if found[kind] < 2:
            found[kind] += 1
            few.append((pod, is_new))
    return few


def _selects(term: PodTerm, pod: Pod) -> bool:
    return term.selects(pod.namespace, pod.labels)


def find_spread_fault(seating: Seating) -> str | None:
    """More pods of the gang on a node than its topology spread allows, where some node stays without any.

    That is so where more nodes are theirs than the gang has pods, and is promised for what all of its pods
    say of all of them.
    """
    pods = seating.gang.pods
    terms = frozenset[SpreadTerm].intersection(*(pod.spread for pod in pods))
    has_spare_nodes = bool(terms) and _has_spare_nodes(seating)
    for term in terms if has_spare_nodes else ():
        if not term.pods.is_of_one_job or not all(_selects(term.pods, pod) for pod in pods):
            continue
        for name, seats in seating.by_node.items():
            node = seating.node(name)
            if node is None:
                continue
            there = sum(_selects(term.pods, pod) for pod in seating.kept.get(name, ()))
            most = term.most if HOSTNAME in node.labels else 0
            if len(seats) + there > most:
                return (
                    f"node {name} would have {len(seats) + there} of its pods, topology spread allows {most}"
                )
    return None


def _has_spare_nodes(seating: Seating) -> bool:
    """Whether more nodes take each of the pods than the gang has placed ones."""
    seats = [seat for some in seating.by_node.values() for seat in some]
    placed = len(seats) + sum(map(len, seating.kept.values()))
    kinds = {seat.shape.rules: seat for seat in seats}.values()
    nodes = seating.layout.nodes
    return all(sum(_takes(node, seat) for node in nodes) > placed for seat in kinds)


def _takes(node: Node, seat: Seat) -> bool:
    pod = seat.pod
    return (
        HOSTNAME in node.labels
        and first_barrier(barriers(node), frozenset(pod.tolerations)) is None
        and pod.features <= node.features
        and is_selected(node, pod.node_selector.items(), pod.required_terms)
        and all(is_selected(node, (), reach.terms) for reach in seat.shape.rules.reaches)
    )
