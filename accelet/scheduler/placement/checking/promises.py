"""Whether a finished plan keeps every promise, judged anew from the facts of its pods and nodes.

It stands behind every search for places, and knows none of them: neither their tables of free room, nor
their numbers of domains, nor their codes for cards.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from accelet.assignments.assignment import Assignment
from accelet.kube.objects import ObjectKey
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.residents import Residents
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.gangs.rankslices import SliceTerms
from accelet.scheduler.placement.checking.cards import find_card_fault
from accelet.scheduler.placement.checking.occupants import find_occupant_fault
from accelet.scheduler.placement.checking.owndomains import find_shared_domain
from accelet.scheduler.placement.checking.peers import find_apart_fault, find_spread_fault
from accelet.scheduler.placement.checking.room import find_node_fault, find_port_fault, find_room_fault
from accelet.scheduler.placement.checking.seats import Seating, find_apart

Check = Callable[[Seating], str | None]
_Nodes = defaultdict[int, set[str]]


def find_broken_promise(
    gang: Gang,
    nodes: Sequence[str],
    assignments: Sequence[Assignment | None],
    layout: Layout,
    residents: Residents,
) -> str | None:
    """What a plan for a gang's pods breaks, for people; None where it keeps every promise.

    `nodes` and `assignments` are by the rank of `gang.pods`, `residents` who is on which node without them.
    Promised are: enough pods, nodes that exist and take them, room, cards and tiles, the required level,
    those of pod sets and of rank slices, nodes of their own, domains that a gang or a Job of it has to
    itself, host ports, anti-affinity and topology spread. It takes time in proportion to the pods of the plan
    and to those on its nodes; where a domain is to be somebody's alone, to those on all nodes.
    """
    seating = Seating(gang, nodes, assignments, layout, residents)
    return next((fault for check in CHECKS if (fault := check(seating)) is not None), None)


def _find_missing_pods(seating: Seating) -> str | None:
    gang, pods = seating.gang, len(seating.gang.pods)
    if not pods or {len(seating.nodes), len(seating.assignments), len(gang.shapes)} != {pods}:
        return f"it has {len(seating.nodes)} places for {pods} pods"
    if len({pod.key for pod in gang.pods}) < pods:
        return "it has a pod twice"
    if gang.lacking or pods < gang.fewest:
        needed = pods + gang.lacking if gang.least is None else gang.fewest
        return f"it begins with {pods} pods, but needs {needed}"
    return None


def _find_level_fault(seating: Seating) -> str | None:
    """All pods of the plan are in one domain, where others of the gang are too, if any are."""
    required = seating.gang.required_level
    if required is None:
        return None
    number = required.number(seating.layout.tree.scheme)
    return find_apart(
        seating, number, seating.by_node, seating.kept, f"the gang must share one {required.text}"
    )


def _find_pod_set_fault(seating: Seating) -> str | None:
    """The same of each pod set that names a level of its own."""
    sets = [terms for terms in seating.gang.pod_sets if terms.required is not None]
    placed, kept = _nodes_by(seating, {key: at for at, terms in enumerate(sets) for key in terms.members})
    for at, terms in enumerate(sets):
        if terms.required is None:
            continue
        number = terms.required.number(seating.layout.tree.scheme)
        rule = f"{terms.title} must share one {terms.required.text}"
        if fault := find_apart(seating, number, placed[at], kept[at], rule):
            return fault
    return None


def _find_slice_fault(seating: Seating) -> str | None:
    """The same of each slice of ranks, of the gang's and of each pod set's, and of each layer of them."""
    gang = seating.gang
    sliced = [*(one.slices for one in gang.pod_sets), gang.slices]
    layers = (layer for slices in sliced if slices is not None for layer in slices.layers)
    return next((fault for layer in layers if (fault := _find_layer_fault(seating, layer))), None)


def _nodes_by(seating: Seating, of: Mapping[ObjectKey, int]) -> tuple[_Nodes, _Nodes]:
    """By slice the nodes of the pods of the plan, and of those that have a place already."""
    placed: _Nodes = defaultdict(set)
    kept: _Nodes = defaultdict(set)
    for node, seats in seating.by_node.items():
        for seat in seats:
            if seat.pod.key in of:
                placed[of[seat.pod.key]].add(node)
    for node, pods in seating.kept.items():
        for pod in pods:
            if pod.key in of:
                kept[of[pod.key]].add(node)
    return placed, kept


def _find_layer_fault(seating: Seating, slices: SliceTerms) -> str | None:
    number = slices.level.number(seating.layout.tree.scheme)
    placed, kept = _nodes_by(seating, slices.of)
    for which, nodes in placed.items():
        rule = f"slice {which} of its ranks must share one {slices.level.text}"
        if fault := find_apart(seating, number, nodes, kept[which], rule):
            return fault
    return None


def _find_shared_node(seating: Seating) -> str | None:
    if not seating.gang.is_exclusive:
        return None
    for node, seats in seating.by_node.items():
        if len(seats) + len(seating.kept.get(node, ())) > 1:
            return f"each of its pods must have a node of its own, but {node} would have two"
    return None


CHECKS: tuple[Check, ...] = (
    _find_missing_pods,
    find_node_fault,
    _find_level_fault,
    _find_pod_set_fault,
    _find_slice_fault,
    _find_shared_node,
    find_occupant_fault,
    find_shared_domain,
    find_room_fault,
    find_port_fault,
    find_apart_fault,
    find_spread_fault,
    find_card_fault,
)
"""In this order: the first two say that there are places at all, on nodes that exist."""
