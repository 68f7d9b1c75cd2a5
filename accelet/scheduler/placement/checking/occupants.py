"""Whether a plan keeps domains of the network to the gangs that have them to themselves."""

from collections.abc import Mapping, Sequence
from functools import cache

from accelet.kube.nodes import Node
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL
from accelet.scheduler.placement.checking.seats import Seating, domain_of, find_apart


def find_occupant_fault(seating: Seating) -> str | None:
    """A pod of the plan in the domain of another gang, or one of others in the gang's own."""
    return _find_intrusion(seating) or _find_company(seating)


def _find_intrusion(seating: Seating) -> str | None:
    """A node of the plan in a domain that another gang has to itself."""
    scheme, gang = seating.layout.tree.scheme, seating.gang.key

    @cache
    def planned(level: int) -> Mapping[tuple[str, ...], str]:
        return {domain_of(node, level, scheme): node.name for node in _nodes_of(seating)}

    @cache
    def labelled(label: str) -> Mapping[str | None, str]:
        return {node.labels.get(label): node.name for node in _nodes_of(seating)}

    for name in seating.residents.with_domain:
        node = seating.node(name)
        for occupant in seating.residents.occupants_of(name) if node is not None else ():
            if node is None or occupant.gang == gang:
                continue
            value = node.labels.get(occupant.label) if occupant.label else None
            if value is not None and (inside := labelled(occupant.label).get(value)) is not None:
                return f"node {inside} is in the {occupant.label} that {occupant.gang} has to itself"
            if occupant.level not in scheme.levels:
                continue
            level = scheme.levels.index(occupant.level)
            taken = planned(level).get(domain_of(node, level, scheme))
            if taken is not None:
                return f"node {taken} is in the {occupant.level} that {occupant.gang} has to itself"
    return None


def _nodes_of(seating: Seating) -> Sequence[Node]:
    return [node for name in seating.by_node if (node := seating.node(name)) is not None]


def _find_company(seating: Seating) -> str | None:
    """Pods of the gang in two domains where it is to have one to itself, or pods of others in that."""
    level = seating.gang.exclusive_level
    if level is None:
        return None
    scheme = seating.layout.tree.scheme
    number = level.number(scheme)
    rule = f"the gang must have one {level.text} to itself"
    if fault := find_apart(seating, number, seating.by_node, seating.kept, rule):
        return fault
    homes = {domain_of(node, number, scheme) for node in _nodes_of(seating)}
    for node in seating.layout.nodes:
        for occupant in seating.residents.occupants_of(node.name):
            if occupant.gang != seating.gang.key and domain_of(node, number, scheme) in homes:
                return f"{rule} ({EXCLUSIVE_LEVEL}), but node {node.name} has pods of {occupant.gang}"
    return None
