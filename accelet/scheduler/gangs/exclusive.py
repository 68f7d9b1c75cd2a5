"""A domain of the network for one gang alone: whose pods count, which domains are closed to whom, and why."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.requests import scheduling_units
from accelet.kube.selection import pinned_node
from accelet.runtime.excerpts import printable
from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.residents import Occupant, Residents
from accelet.scheduler.cluster.room import Room
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.cluster.usage import PODS, UNLIMITED
from accelet.scheduler.gangs.grouping import GATE_PREFIX, Gang, gang_key
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL
from accelet.scheduler.gangs.withheld import EXCLUSIVE_TOPOLOGY, OwnDomain, own_label

_SYSTEM = "kube-system"
_LEAVES_A_UNIT = 4
"""How many nodes' pods are looked at for one unit of a gang's budget."""

_LONGEST_SHOWN = 100


def occupant_of(pod: Pod, prefix: str = GATE_PREFIX) -> Occupant | None:
    """Whose a pod is that is on a node or is to go there; None where it counts for nobody.

    Those count that this scheduler has placed, and those that hold devices: extended resources, or resource
    claims. Those of DaemonSets and static ones do not, and of the namespace kube-system none but the former.
    Only where this scheduler has placed it, a pod keeps others from a domain.
    """
    if pod.is_mirror or any(owner.is_controller and owner.kind == "DaemonSet" for owner in pod.owners):
        return None
    if pod.node_name is None or pinned_node(pod.required_terms) == pod.node_name:
        gang = gang_key(pod, prefix)
        return Occupant(gang, pod.annotations.get(EXCLUSIVE_LEVEL, ""), own_label(pod, gang.kind) or "")
    if pod.namespace != _SYSTEM and (pod.has_resource_claims or _holds_devices(pod)):
        return Occupant(gang_key(pod, prefix))
    return None


def _holds_devices(pod: Pod) -> bool:
    """Whether a container asks for an extended resource: no other resource has such a name."""
    return any(
        amount > 0 and "/" in name and "kubernetes.io/" not in name
        for container in pod.all_containers
        for name, amount in container.requests.items()
    )


def as_occupant(gang: Gang) -> Occupant:
    """Whose the pods of a gang are once they have a place, if each had all that some of them have alone."""
    level = gang.exclusive_level.text if gang.exclusive_level else ""
    return Occupant(gang.key, level, gang.own_domains[0].label if gang.own_domains else "")


def occupants_of(gang: Gang) -> Sequence[Occupant]:
    """Whose each of the pods to be placed will be: those without a domain alone have none."""
    owned = frozenset[ObjectKey]().union(*(own.members for own in gang.own_domains))
    whole = as_occupant(gang)
    other = whole._replace(label="")
    return [whole if pod.key in owned else other for pod in gang.pods]


@dataclass(frozen=True, eq=False)
class KeptOut:
    """Leaves on which no pod of a gang may be; `reason` says why, behind a number of nodes."""

    closed: Mask
    reason: str


def find_kept_out(gang: Gang, layout: Layout, residents: Residents, budget: Budget) -> Sequence[KeptOut]:
    """Which domains are closed to a gang: those of other gangs alone, and those that it cannot have alone.

    Raises:
        BudgetSpentError: it takes too much work.
        UnknownLevelError: the gang names a level that there is not.
    """
    budget.spend(len(residents.with_domain))
    found = list(_held_by_others(gang, layout, residents, budget))
    if gang.exclusive_level is None:
        return found
    budget.spend(len(layout.nodes) // _LEAVES_A_UNIT)
    codes = layout.tree.codes[gang.exclusive_level.number(layout.tree.scheme)]
    strangers = _strangers(gang, layout, residents)
    if strangers:
        taken = np.isin(codes, codes[list(strangers)])
        level = gang.exclusive_level.text
        found.append(KeptOut(taken, f"in a {level} that has pods of others ({EXCLUSIVE_LEVEL})"))
    return found


def whole_domains(occupant: Occupant, layout: Layout, nodes: Iterable[str]) -> Mask:
    """The leaves of these nodes, and with them those of domains that the gang is to have to itself."""
    leaves = [layout.leaf_of[name] for name in nodes if name in layout.leaf_of]
    mask = np.zeros(len(layout.nodes), dtype=bool)
    mask[leaves] = True
    for kind in _kinds_of(occupant, layout):
        mask |= _domains_with(_codes_of(kind, layout), leaves)
    return mask


def with_others(own: OwnDomain, gang: Gang, layout: Layout, residents: Residents, budget: Budget) -> Mask:
    """The leaves in domains of which pods of other gangs are, so that they are not for `own`.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    budget.spend(len(layout.nodes) // _LEAVES_A_UNIT)
    return _domains_with(layout.values(own.label), _strangers(gang, layout, residents))


def explain_nearest(gang: Gang, layout: Layout, room: Room) -> str:
    """Which of the domains that the gang could have to itself has the fewest pods of others, for people.

    Empty where all are too small, or where it takes too much work.
    """
    if gang.exclusive_level is None:
        return ""
    tree, number = layout.tree, gang.exclusive_level.number(layout.tree.scheme)
    codes, strangers = tree.codes[number], _strangers(gang, layout, room.residents)
    there: defaultdict[int, Counter[Hashable]] = defaultdict(Counter)
    for leaf, gangs in strangers.items():
        there[int(codes[leaf])].update(gangs)
    try:
        room.budget.spend(len(layout.nodes))
    except BudgetSpentError:
        return ""
    has_room = _large_enough(gang, layout, codes)
    domains = [domain for domain in there if has_room[domain]]
    if not domains:
        return ""
    nearest = min(domains, key=lambda domain: (there[domain].total(), domain))
    what = f"{EXCLUSIVE_LEVEL} is {gang.exclusive_level.text}"
    name = tree.domain_name(number, nearest)
    return f"{what}: nearest is {name}, where {_names(there[nearest])} pods"


def _large_enough(gang: Gang, layout: Layout, codes: Ints) -> Mask:
    """Which domains would take the gang's pods if nothing were there, kind by kind."""
    offered = [{PODS: UNLIMITED, **scheduling_units(node.allocatable)} for node in layout.nodes]
    fits = np.ones(int(codes.max(initial=-1)) + 1, dtype=bool)
    for shape, count in Counter(gang.shapes).items():
        slots = [min(units.get(name, 0) // amount for name, amount in shape.units) for units in offered]
        of_kind = np.where(layout.eligible(shape.rules), np.minimum(slots, count), 0)
        fits &= np.bincount(codes, weights=of_kind, minlength=len(fits)) >= count
    return fits


def _held_by_others(gang: Gang, layout: Layout, residents: Residents, budget: Budget) -> Iterator[KeptOut]:
    """The leaves of domains that other gangs have to themselves, by what they ask for it with."""
    leaves_of: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    holders: defaultdict[str, dict[Hashable, None]] = defaultdict(dict)
    for name in sorted(residents.with_domain):
        leaf = layout.leaf_of.get(name)
        if leaf is None:
            continue
        for occupant in residents.occupants_of(name):
            for kind in _kinds_of(occupant, layout) if occupant.gang != gang.key else ():
                leaves_of[kind].add(leaf)
                holders[kind[0]][occupant.gang] = None
    budget.spend(len(leaves_of) * len(layout.nodes) // _LEAVES_A_UNIT)
    for what, gangs in holders.items():
        closed = np.zeros(len(layout.nodes), dtype=bool)
        for kind, leaves in leaves_of.items():
            if kind[0] == what:
                closed |= _domains_with(_codes_of(kind, layout), leaves)
        if closed.any():
            yield KeptOut(closed, f"in a domain that {_names(gangs)} to itself ({what})")


def _kinds_of(occupant: Occupant, layout: Layout) -> Iterator[tuple[str, str]]:
    """What a gang has domains to itself by: the annotation as people call it, and a level or a label."""
    if occupant.level in layout.tree.scheme.levels:
        yield EXCLUSIVE_LEVEL, occupant.level
    if occupant.label:
        yield EXCLUSIVE_TOPOLOGY, occupant.label


def _codes_of(kind: tuple[str, str], layout: Layout) -> Ints:
    """The domain of each leaf; -1 for none."""
    what, name = kind
    tree = layout.tree
    return tree.codes[tree.scheme.levels.index(name)] if what == EXCLUSIVE_LEVEL else layout.values(name)


def _domains_with(codes: Ints, leaves: Iterable[int]) -> Mask:
    """The leaves of all domains of which one of these is."""
    there = codes[list(leaves)]
    return np.isin(codes, there[there >= 0])


def _strangers(gang: Gang, layout: Layout, residents: Residents) -> dict[int, list[Hashable]]:
    """By leaf, the other gangs that have pods there, once for each pod."""
    found: dict[int, list[Hashable]] = {}
    for leaf, node in enumerate(layout.nodes):
        others = [
            occupant.gang for occupant in residents.occupants_of(node.name) if occupant.gang != gang.key
        ]
        if others:
            found[leaf] = others
    return found


def _names(gangs: Iterable[Hashable]) -> str:
    """`ml/a has`, `ml/a and 2 others have`."""
    first, *others = dict.fromkeys(gangs)
    name = printable(str(first), _LONGEST_SHOWN)
    if not others:
        return f"{name} has"
    return f"{name} and {len(others)} other{'s' * (len(others) > 1)} have"
