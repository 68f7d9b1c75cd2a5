"""The groups of a gang's pods that must each share a domain: pod sets, their slices, and slices of these."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from accelet.kube.objects import ObjectKey
from accelet.scheduler.cluster.topology import ROOT, Tree
from accelet.scheduler.errors import UnknownLevelError
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.gangs.podsets import PodSetTerms
from accelet.scheduler.gangs.rankslices import SliceTerms
from accelet.scheduler.placement.knapsack import RankSlices

MOST_GROUPS = 128
"""So many pod sets and slices with pods to be placed are chosen for together."""


@dataclass(frozen=True, slots=True)
class PodsTogether:
    """Pods that must share one domain of `level`, inside that of the group of number `parent`, if any.

    `ranks` are those of its pods that are to be placed, among all that are. `homes` are the domains in which
    others of its pods are, empty if none are placed. `name` is for people.
    """

    name: str
    level: int
    ranks: tuple[int, ...]
    homes: frozenset[int] = frozenset()
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a gang: the rank of each pod to be placed, and the leaf of each that has one."""

    rank_of: dict[ObjectKey, int]
    leaf_of: dict[ObjectKey, int]


def sets_of(gang: Gang) -> Sequence[PodSetTerms]:
    """The pod sets that ask for something; the gang itself where slices of it are to be judged."""
    if gang.slices is None:
        return gang.pod_sets
    members = frozenset(member.key for member in gang.members)
    return (*gang.pod_sets, PodSetTerms("the gang", members, slices=gang.slices))


def find_levels(gang: Gang, tree: Tree, members: Members) -> Sequence[Sequence[int]]:
    """For each pod set the levels of which it may be in one domain, the best first; ROOT where it need not.

    A set with pods in several domains of a level has no preference for it any more.

    Raises:
        UnknownLevelError: a set names a level that there is not, or slices within narrower ones.
    """
    found: list[Sequence[int]] = []
    for terms in sets_of(gang):
        try:
            required = terms.required.number(tree.scheme) if terms.required else ROOT
            preferred = terms.preferred.number(tree.scheme) if terms.preferred else ROOT
            layers = terms.slices.layers if terms.slices else ()
            check_layers(layers, [layer.level.number(tree.scheme) for layer in layers])
        except UnknownLevelError as error:
            raise UnknownLevelError(f"{terms.title}: {error}") from None
        leaves = [members.leaf_of[key] for key in terms.members if key in members.leaf_of]
        narrow = (
            level for level in range(preferred, required, -1) if len(set(tree.codes[level][leaves])) < 2
        )
        found.append((*narrow, required))
    return found


def check_layers(layers: Sequence[SliceTerms], levels: Sequence[int]) -> None:
    """
    Raises:
        UnknownLevelError: a layer of slices has no narrower level than the one around it.
    """
    if any(narrow <= wide for wide, narrow in pairwise(levels)):
        annotation = layers[0].level.annotation
        raise UnknownLevelError(f"{annotation} does not go from wide levels to narrow ones")


def make_groups(gang: Gang, tree: Tree, members: Members, levels: Sequence[int]) -> list[PodsTogether]:
    """The groups that have pods to be placed, parents before their children, with sets at these levels."""
    made = _Groups(tree, members)
    for terms, level in zip(sets_of(gang), levels, strict=True):
        parent = None if level == ROOT else made.add(terms.title, level, terms.members, None)
        if terms.slices is not None:
            made.add_slices(terms.slices, terms.title, terms.members, parent)
    return made.groups


def as_slices(groups: Sequence[PodsTogether], pods: int) -> RankSlices | None:
    """Groups of one size that follow each other in rank, with all pods, as the slices that they then are.

    None where they are not so, or members of them are placed.
    """
    children: defaultdict[int | None, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        children[group.parent].append(number)
    return _as_slices(groups, children, None, range(pods))


def _as_slices(
    groups: Sequence[PodsTogether], children: Mapping[int | None, list[int]], of: int | None, ranks: range
) -> RankSlices | None:
    """The same of the groups of one parent, which has these ranks."""
    own = [groups[number] for number in children.get(of, ())]
    if not own or len(ranks) % len(own):
        return None
    size = len(ranks) // len(own)
    for at, group in enumerate(own):
        first = ranks.start + at * size
        if group.homes or group.level != own[0].level or group.ranks != tuple(range(first, first + size)):
            return None
    inner = {
        _as_slices(groups, children, number, range(groups[number].ranks[0], groups[number].ranks[-1] + 1))
        for number in children[of]
        if number in children
    }
    if len(inner) > 1 or None in inner or (inner and any(one not in children for one in children[of])):
        return None
    return RankSlices(size, own[0].level, next(iter(inner), None))


class _Groups:
    def __init__(self, tree: Tree, members: Members) -> None:
        self._tree, self._members = tree, members
        self.groups: list[PodsTogether] = []

    def add(self, name: str, level: int, keys: frozenset[ObjectKey], parent: int | None) -> int | None:
        """The number of a group of these members; None where none of them is to be placed.

        It is that of its parent where the parent's domain is narrow enough.
        """
        rank_of, leaf_of = self._members.rank_of, self._members.leaf_of
        ranks = sorted(rank_of[key] for key in keys if key in rank_of)
        if not ranks:
            return None
        if parent is not None and self.groups[parent].level >= level:
            return parent
        codes = self._tree.codes[level]
        homes = frozenset(int(codes[leaf_of[key]]) for key in keys if key in leaf_of)
        self.groups.append(PodsTogether(name, level, tuple(ranks), homes, parent))
        return len(self.groups) - 1

    def add_slices(
        self, slices: SliceTerms, name: str, among: frozenset[ObjectKey], parent: int | None
    ) -> None:
        """A group for each slice of these members, and for those of which it is made."""
        level = slices.level.number(self._tree.scheme)
        for number, keys in _by_slice(slices, among):
            own = self.add(f"slice {number} of {name}", level, keys, parent)
            if own is not None and slices.inner is not None:
                self.add_slices(slices.inner, name, keys, own)


def _by_slice(slices: SliceTerms, among: frozenset[ObjectKey]) -> Iterator[tuple[int, frozenset[ObjectKey]]]:
    found: defaultdict[int, set[ObjectKey]] = defaultdict(set)
    for key in among:
        if key in slices.of:
            found[slices.of[key]].add(key)
    for number in sorted(found):
        yield number, frozenset(found[number])
