"""Whether a plan keeps domains to the Jobs, or groups, that are to have them to themselves."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from accelet.kube.pods import Pod
from accelet.scheduler.placement.checking.seats import Seating

_Values = defaultdict[str, set[str | None]]


def find_shared_domain(seating: Seating) -> str | None:
    """Pods that are to have a domain to themselves in two of them, or in one with any others.

    Where pods stay, others of their Job follow them, whoever came there meanwhile. A node that has lost the
    label is in no domain.
    """
    own_domains = seating.gang.own_domains
    if not own_domains:
        return None
    label = own_domains[0].label
    title_of = {key: own.title for own in own_domains for key in own.members}
    seats = {name: [seat.pod for seat in some] for name, some in seating.by_node.items()}
    stay, stay_beside = _values_by_title(seating, label, title_of, seating.kept)
    come, come_beside = _values_by_title(seating, label, title_of, seats)
    stay = _Values(set, {title: found for title, values in stay.items() if (found := values - {None})})
    owner: dict[str | None, str] = {value: title for title, values in stay.items() for value in values}
    new: dict[str, str] = {}
    for title, values in come.items():
        rule = f"{title} must have one {label} to itself"
        if title in stay:
            if not values <= stay[title]:
                return f"{rule}, but not all of its pods are where the rest of them is"
            continue
        value = next(iter(values))
        if value is None or len(values) > 1:
            return f"{rule}, but its pods are in none or in several"
        if value in stay_beside or value in owner:
            return f"{rule}, but {owner.get(value, 'another pod of the gang')} is in {value}"
        owner[value] = new[value] = title
    for value in come_beside & owner.keys() - {None}:
        return f"{owner[value]} must have one {label} to itself, but other pods of the gang are in {value}"
    return _find_strangers(seating, label, new)


def _values_by_title(
    seating: Seating, label: str, title_of: Mapping[tuple[str, str], str], pods: Mapping[str, Sequence[Pod]]
) -> tuple[_Values, set[str | None]]:
    """The values of the label that the nodes of each Job's pods have, and those of the other pods' nodes."""
    found, beside = _Values(set), set[str | None]()
    for pod, value in _values(seating, label, pods):
        title = title_of.get(pod.key)
        (beside if title is None else found[title]).add(value)
    return found, beside


def _find_strangers(seating: Seating, label: str, alone: Mapping[str, str]) -> str | None:
    for node in seating.layout.nodes:
        title = alone.get(node.labels.get(label, ""))
        for occupant in seating.residents.occupants_of(node.name) if title is not None else ():
            if occupant.gang != seating.gang.key:
                return f"{title} must have one {label} to itself, but {occupant.gang} is on node {node.name}"
    return None


def _values(
    seating: Seating, label: str, by_node: Mapping[str, Sequence[Pod]]
) -> Iterator[tuple[Pod, str | None]]:
    """Each of these pods, and the value of the label that its node has."""
    for name, pods in by_node.items():
        node = seating.node(name)
        for pod in pods:
            yield pod, None if node is None else node.labels.get(label)
