"""What is to be solved to place a gang: within which domains, in which room, beside whom."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from accelet.kube.pods import Pod
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.apart import find_apart
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.room import Room
from accelet.scheduler.cluster.shape import leaves_one_a_leaf
from accelet.scheduler.cluster.spread import spread_within
from accelet.scheduler.cluster.together import SharedDomains, together_within
from accelet.scheduler.cluster.topology import ROOT, Scheme
from accelet.scheduler.gangs.exclusive import find_kept_out
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.gangs.rankslices import SliceTerms
from accelet.scheduler.placement.knapsack import RankSlices
from accelet.scheduler.placement.podsets.groups import Members, check_layers, find_levels
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.repairs.gaps import TAKEN
from accelet.scheduler.placement.why import level_name

_MEMBER = 2
"""What a member costs of the gang's budget, each time its places are looked for."""

REFUSED = "where one of its pods was refused"


def required_level(gang: Gang, layout: Layout) -> int:
    """The number of the level within which the gang says that it must stay, ROOT if it says none.

    So it does within that of which it is to have a domain to itself.

    Raises:
        UnknownLevelError: there is no such level.
    """
    named = (gang.required_level, gang.exclusive_level)
    return max((level.number(layout.tree.scheme) for level in named if level), default=ROOT)


def levels_of(gang: Gang, layout: Layout) -> Sequence[int]:
    """Within one domain of which level the gang is to be, the best first: the preferred one, then wider ones.

    Pods that are placed in several domains of a level have no preference for it any more.

    Raises:
        UnknownLevelError: the gang names a level that there is not.
    """
    if gang.pod_sets:
        find_levels(gang, layout.tree, members_of(gang, layout))
    required = required_level(gang, layout)
    preferred = gang.preferred_level.number(layout.tree.scheme) if gang.preferred_level else ROOT
    kept = [leaf for leaf in kept_of(gang, layout) if leaf is not None]
    narrow = (
        level
        for level in range(preferred, required, -1)
        if not kept or len(set(layout.tree.codes[level][kept].tolist())) == 1
    )
    return (*narrow, required)


def slices_of(gang: Gang, layout: Layout) -> RankSlices | None:
    """The slices of ranks that are to be together, if the gang has any.

    Raises:
        UnknownLevelError: the gang names a level that there is not.
    """
    return _rank_slices(gang.slices, layout.tree.scheme) if gang.slices else None


def _rank_slices(terms: SliceTerms, scheme: Scheme) -> RankSlices:
    check_layers(terms.layers, [layer.level.number(scheme) for layer in terms.layers])
    inner = _rank_slices(terms.inner, scheme) if terms.inner else None
    return RankSlices(terms.size, terms.level.number(scheme), inner)


def problems_of(gang: Gang, layout: Layout, room: Room, within: int) -> list[PlacementProblem]:
    """What is to be placed within one domain of level `within`, that in which the gang is already.

    There are several, of which one is to be solved, where pod affinity keeps the gang within one of several
    parts of the cluster that are no level's.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    for kept_out in find_kept_out(gang, layout, room.residents, room.budget):
        room = room.without(kept_out.closed, kept_out.reason)
    together = _together(gang, layout, room.budget)
    if together is None:
        return [_problem_of(gang, layout, room, within)]
    room, within = room.without(together.closed, together.reason), max(within, together.level)
    if not together.choices:
        return [_problem_of(gang, layout, room, within)]
    why = f"in another {together.labels} than the largest"
    return [_problem_of(gang, layout, room.without(~one, why), within) for one in together.choices]


def _together(gang: Gang, layout: Layout, budget: Budget) -> SharedDomains | None:
    if not gang.pods[0].together_with:
        return None
    there = [(member, leaf) for member, leaf in places_of(gang, layout) if leaf is not None]
    return together_within(gang.pods, gang.shapes, there, layout, budget)


def _problem_of(gang: Gang, layout: Layout, room: Room, within: int) -> PlacementProblem:
    room.budget.spend(_MEMBER * len(gang.members))
    room = room.without(_excluded(gang, layout), REFUSED) if gang.excluded else room
    there = [(member, leaf) for member, leaf in places_of(gang, layout) if leaf is not None]
    apart = find_apart(gang.pods, there, layout, room.budget)
    limits = [
        *apart.limits,
        *spread_within(gang.pods, gang.shapes, there, layout, room.budget),
    ]
    room, shapes = room.with_limits(gang.shapes, limits, apart.separations)
    is_exclusive = gang.is_exclusive or (not there and any(map(leaves_one_a_leaf, limits)))
    slices = slices_of(gang, layout)
    problem = PlacementProblem(layout.tree, room, tuple(shapes), within, is_exclusive, slices)
    kept = [leaf for _, leaf in there]
    if not kept:
        return problem
    if within != ROOT:
        codes = layout.tree.codes[within]
        closed = codes != codes[kept[0]]
        room = room.without(closed, f"in another {level_name(problem)} than the rest of the gang")
    if gang.is_exclusive:
        taken = np.zeros(len(layout.nodes), dtype=bool)
        taken[kept] = True
        room = room.without(taken, TAKEN)
    return replace(problem, room=room)


def _excluded(gang: Gang, layout: Layout) -> Mask:
    closed = np.zeros(len(layout.nodes), dtype=bool)
    closed[[layout.leaf_of[name] for name in gang.excluded if name in layout.leaf_of]] = True
    return closed


def members_of(gang: Gang, layout: Layout) -> Members:
    """The rank of each pod to be placed, and the leaf of each member that has one."""
    leaves = {pod.key: leaf for pod, leaf in places_of(gang, layout) if leaf is not None}
    return Members({pod.key: rank for rank, pod in enumerate(gang.pods)}, leaves)


def kept_of(gang: Gang, layout: Layout) -> list[int | None]:
    """By rank, the leaf of each member that has a node, and None for each that is to be placed."""
    return [leaf for _, leaf in places_of(gang, layout)]


def places_of(gang: Gang, layout: Layout) -> list[tuple[Pod, int | None]]:
    """The members by rank, and where they are, None for those that are to be placed."""
    pending = {pod.key for pod in gang.pods}
    places: list[tuple[Pod, int | None]] = []
    for member in gang.members:
        if member.key in pending:
            places.append((member, None))
        elif member.node_name and member.node_name in layout.leaf_of:
            places.append((member, layout.leaf_of[member.node_name]))
    return places
