"""What a pod asks of cards: how many, and how much of each; the words are those of GPU Aware Scheduling."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelet.accelerators.device import CARD_NAME
from accelet.assignments.assignment import MAX_TILE
from accelet.assignments.nodecards import MAX_CARDS, capacity_names
from accelet.kube.pods import Container, Pod
from accelet.runtime.excerpts import excerpt, printable
from accelet.scheduler.errors import NeedsError

CARD_RESOURCES = ("gpu.intel.com/i915", "gpu.intel.com/xe")
"""What counts cards where no settings say otherwise."""

SAME_CARD = "gas-same-gpu"
LINKED = "gas-allocate-xelink"
SINGLE_NUMA = "gas-allocate-single-numa"
ALLOW = "gas-allow"
DENY = "gas-deny"

_CARD = re.compile(CARD_NAME)
_MOST = 2**60


@dataclass(frozen=True, slots=True, order=True)
class Amounts:
    """Of one card. Without tiles, the whole card is shared with whoever else has no tiles of it."""

    tiles: int = 0
    millicores: int = 0
    memory_bytes: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(
            self.tiles + other.tiles,
            self.millicores + other.millicores,
            self.memory_bytes + other.memory_bytes,
        )


@dataclass(frozen=True, slots=True, order=True)
class ContainerNeed:
    """`cards` different cards of `resource`, and of each of them `each`."""

    name: str
    resource: str
    cards: int
    each: Amounts

    @property
    def has_parts(self) -> bool:
        return self.each != Amounts()


@dataclass(frozen=True, slots=True, order=True)
class Successor:
    """A plain init container that uses cards of `heir`, which the kubelet gives its devices to afterwards."""

    name: str
    heir: str
    cards: int
    tiles: int


@dataclass(frozen=True, slots=True)
class CardNeeds:
    """Everything that one pod asks of cards; pods of which it is the same are interchangeable.

    `same_card` are containers that must share one card. `allowed` is None where any card will do; these and
    `denied` are DRM names. If `is_linked`, cards come in pairs with a link between the tiles given. If
    `is_single_numa`, all cards of the pod are of one NUMA node.
    """

    containers: tuple[ContainerNeed, ...]
    before: tuple[Successor, ...] = ()
    same_card: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    is_linked: bool = False
    is_single_numa: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but a number of cards, which the kubelet alone can choose as well."""
        has_wishes = self.same_card or self.allowed is not None or self.denied
        return not (
            has_wishes
            or self.is_linked
            or self.is_single_numa
            or any(need.has_parts for need in self.containers)
        )


def read_needs(pod: Pod, card_resources: Sequence[str] = CARD_RESOURCES) -> CardNeeds | None:
    """What a pod asks of cards, None if nothing.

    What a container asks for is divided among its cards, as GPU Aware Scheduling does; what does not
    divide is rounded up, and tiles have to divide.

    Raises:
        NeedsError: it contradicts itself, or asks for parts of cards without a card.
    """
    needs = [need for one in pod.all_containers if (need := _container(one, card_resources)) is not None]
    if not needs:
        return None
    lasting, before = _inherit(pod, needs)
    found = CardNeeds(
        containers=lasting,
        before=before,
        same_card=_same_card(pod, lasting),
        allowed=_card_names(pod, ALLOW),
        denied=_card_names(pod, DENY) or frozenset(),
        is_linked=_is_true(pod, LINKED),
        is_single_numa=_is_true(pod, SINGLE_NUMA) and sum(need.cards for need in lasting) > 1,
    )
    if found.is_linked:
        _check_linked(found)
    return found


def _container(container: Container, card_resources: Sequence[str]) -> ContainerNeed | None:
    counted = [name for name in card_resources if container.requests.get(name)]
    parts = dict.fromkeys(part for name in sorted(card_resources) for part in capacity_names(name))
    asked = [part for part in parts if container.requests.get(part)]
    if not counted and not asked:
        return None
    if not counted:
        cards_of_it = " or ".join(f"{name}: 1" for name in card_resources)
        raise NeedsError(f"container {container.name} asks for {asked[0]} without a card: add {cards_of_it}")
    if len(counted) > 1:
        raise NeedsError(
            f"container {container.name} asks for {' and '.join(counted)}: one kind of card only"
        )
    domain = counted[0].partition("/")[0]
    if astray := [name for name in asked if not name.startswith(f"{domain}/")]:
        raise NeedsError(f"container {container.name} asks for {astray[0]}, but for cards of {domain}")
    cards = _whole(container, counted[0])
    amounts = [_whole(container, part) for part in capacity_names(counted[0])]
    if amounts[0] % cards:
        raise NeedsError(
            f"container {container.name} asks for {amounts[0]} tiles of {cards} cards: "
            f"make it a multiple of {cards}, since each card gives as many as the others"
        )
    tiles, millicores, memory = (-(-amount // cards) for amount in amounts)
    if tiles > MAX_TILE + 1:
        raise NeedsError(
            f"container {container.name} asks for {tiles} tiles of one card: no card has so many"
        )
    return ContainerNeed(container.name, counted[0], cards, Amounts(tiles, millicores, memory))


def _whole(container: Container, resource: str) -> int:
    amount = container.requests.get(resource, 0)
    if amount < 0 or not isinstance(amount, int):
        raise NeedsError(
            f"container {container.name} asks for {printable(str(amount))} of {resource}: "
            "write a whole number, which is not below 0"
        )
    return min(amount, _MOST)


def _inherit(
    pod: Pod, needs: Sequence[ContainerNeed]
) -> tuple[tuple[ContainerNeed, ...], tuple[Successor, ...]]:
    """The needs that last, and the init containers whose devices the kubelet hands on.

    It gives those of plain init containers to the next container that asks for any of the resource, and asks
    nobody. So they are of the same cards, and must not be more.
    """
    plain = {one.name for one in pod.init_containers if not one.is_sidecar}
    lasting = [need for need in needs if need.name not in plain]
    before: list[Successor] = []
    for need, heir in _heirs(needs, plain):
        if heir == need:
            lasting.append(need)
            continue
        if need.cards > heir.cards or not _covers(heir.each, need.each):
            raise NeedsError(
                f"init container {need.name} asks for more of {need.resource} than container {heir.name}, "
                "which the kubelet gives its devices to: ask for as much in both"
            )
        before.append(Successor(need.name, heir.name, need.cards, need.each.tiles))
    return tuple(lasting), tuple(before)


def _heirs(
    needs: Sequence[ContainerNeed], plain: Collection[str]
) -> list[tuple[ContainerNeed, ContainerNeed]]:
    """The plain init containers, each with its heir: of those that nobody comes after, the largest is."""
    later: dict[str, ContainerNeed] = {}
    largest: dict[str, ContainerNeed] = {}
    found: list[tuple[ContainerNeed, ContainerNeed | None]] = []
    for need in reversed(needs):
        if need.name not in plain:
            later[need.resource] = need
            continue
        heir = later.get(need.resource)
        if heir is None:
            rival = largest.get(need.resource, need)
            largest[need.resource] = max(need, rival, key=lambda one: (one.cards, one.each))
        found.append((need, heir))
    return [(need, heir or largest[need.resource]) for need, heir in reversed(found)]


def _covers(more: Amounts, less: Amounts) -> bool:
    """Whether who has `more` of a card may have it instead: also, tiles are no part of a shared card."""
    if bool(more.tiles) != bool(less.tiles):
        return False
    return (
        more.tiles >= less.tiles
        and more.millicores >= less.millicores
        and more.memory_bytes >= less.memory_bytes
    )


def _same_card(pod: Pod, needs: Sequence[ContainerNeed]) -> frozenset[str]:
    text = pod.annotations.get(SAME_CARD)
    if text is None:
        return frozenset()
    names = [name.strip() for name in text.split(",")]
    by_name: Mapping[str, ContainerNeed] = {need.name: need for need in needs}
    if len(set(names)) < 2:
        raise NeedsError(f"{SAME_CARD} is {excerpt(text)}: name two containers or more, separated by commas")
    for name in names:
        if name not in by_name:
            raise NeedsError(f"{SAME_CARD} names {excerpt(name)}, which is no container that asks for a card")
        if by_name[name].cards != 1:
            raise NeedsError(f"{SAME_CARD} names {name}, which asks for {by_name[name].cards} cards, not one")
    group = [by_name[name] for name in names]
    if len({need.resource for need in group}) > 1:
        raise NeedsError(f"{SAME_CARD} names containers that ask for different kinds of cards")
    if len({bool(need.each.tiles) for need in group}) > 1:
        raise NeedsError(
            f"{SAME_CARD}: some of the containers ask for tiles and some do not; "
            "a card is either divided into tiles or shared whole"
        )
    if _is_true(pod, LINKED):
        raise NeedsError(f"{SAME_CARD} and {LINKED} contradict each other")
    return frozenset(names)


def _check_linked(needs: CardNeeds) -> None:
    for need in needs.containers:
        if need.cards % 2 or need.each.tiles != 1:
            raise NeedsError(
                f"{LINKED}: container {need.name} must ask for an even number of cards and as many tiles"
            )


def _card_names(pod: Pod, annotation: str) -> frozenset[str] | None:
    text = pod.annotations.get(annotation)
    if text is None:
        return None
    names = frozenset(_split(text))
    if len(names) > MAX_CARDS:
        raise NeedsError(f"{annotation} names {len(names):,} cards: no node has so many")
    for name in sorted(names):
        if not _CARD.fullmatch(name):
            raise NeedsError(f"{annotation} has {excerpt(name)}, which is no card; it reads card0,card1")
    return names


def _split(text: str) -> Iterator[str]:
    return (part.strip() for part in text.split(",") if part.strip())


def _is_true(pod: Pod, annotation: str) -> bool:
    """Anything but `false` says yes: GPU Aware Scheduling does not look at the value."""
    return pod.annotations.get(annotation, "false") != "false"
