"""Every card and tile of a cluster as people look at them: who holds it, what is free, what is wrong."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import MILLICORES, NodeCard
from accelet.kube.nodes import Node
from accelet.kube.objects import ObjectKey
from accelet.scheduler.cards.account import CardAccount, Use
from accelet.scheduler.cards.labels import CardLabels, read_card_labels
from accelet.scheduler.cards.lingering import split_key
from accelet.scheduler.cards.state import CardState
from resourcemanager.target import describe

TileState = Literal["free", "held", "shared", "closed", "blocked", "contested"]
"""What is with a tile.

`free`: whoever asks for a tile can have it. `held`: by one container, alone. `shared`: its card is given
whole, to one or several. `closed`: ill, out of service, or on a node that is cordoned. `blocked`:
nobody holds it, but its card has no share left for another holder. `contested`: two hold it of whom each was
to have it alone.
"""


@dataclass(frozen=True, slots=True)
class HolderView:
    """A container (`namespace/pod/name`) and what it holds of a card; without tiles, it shares the whole.

    `is_lingering`: its pod was deleted by force, and nobody has said yet that it has ended.
    """

    container: str
    tiles: tuple[int, ...]
    millicores: int
    memory_bytes: int
    is_lingering: bool = False


@dataclass(frozen=True, slots=True)
class TileView:
    """`holders` has those too who share the whole card. Not `in_service`: a label on the Node says so."""

    tile: int
    holders: tuple[str, ...]
    state: TileState
    in_service: bool


@dataclass(frozen=True, slots=True)
class CardView:
    """One card. What is free is what pods can still get of it (`CardState.free`), as everywhere here.

    Memory is None where the node's agent cannot tell; then the scheduler gives none of it. Of the card's
    shares, `unassigned` are with containers to which no scheduler has assigned anything: which these are is
    not known, and they see it whole. `conflicts` are sentences: what is held that cannot be held together.
    """

    id: UnitId
    card: str | None
    model: str | None
    tiles: tuple[TileView, ...]
    millicores_free: int
    memory_free_bytes: int | None
    health: str
    resource: str
    pci: str | None
    numa_node: int | None
    memory_bytes: int | None
    shares: int
    shares_free: int
    unassigned: int
    in_service: bool
    holders: tuple[HolderView, ...]
    conflicts: tuple[str, ...]

    @property
    def is_free(self) -> bool:
        """Whether nobody has anything of it, and who asks for all of it can have it."""
        return not self.holders and all(tile.state == "free" for tile in self.tiles)


@dataclass(frozen=True, slots=True)
class StrayView:
    """A container that is assigned `devices` which its node does not publish."""

    container: str
    devices: str


NO_CARDS = "publishes no cards"


@dataclass(frozen=True, slots=True)
class NodeCardsView:
    """One node. `problem` says why it has no cards here, None where it has.

    One that is cordoned gives no pod anything: of its cards nothing is free.
    """

    name: str
    cards: tuple[CardView, ...]
    problem: str | None
    strays: tuple[StrayView, ...]
    is_cordoned: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing to say of its cards, as of any node without."""
        return self.problem == NO_CARDS and not self.strays


@dataclass(frozen=True, slots=True)
class TotalView:
    """All cards of one resource: how many there are, how many are free, and the most that one card has free.

    The tiles by what is with them add up to `tiles`. Where many are free and `largest_tiles` is small, the
    cards are fragmented.
    """

    resource: str
    cards: int
    cards_free: int
    tiles: int
    tiles_free: int
    largest_tiles: int
    largest_millicores: int
    largest_memory_bytes: int | None
    tiles_held: int = 0
    tiles_shared: int = 0
    tiles_blocked: int = 0
    tiles_closed: int = 0
    tiles_contested: int = 0


@dataclass(frozen=True, slots=True)
class ClusterView:
    nodes: tuple[NodeCardsView, ...]
    totals: tuple[TotalView, ...]


def view_cluster(nodes: Iterable[Node], book: CardAccount) -> ClusterView:
    """The nodes, in order of their names, as `book` counts their cards."""
    ordered = sorted(nodes, key=lambda node: node.name)
    views = tuple(_view_node(node, book) for node in ordered)
    return ClusterView(views, merge_totals(total for view in views for total in _totals(view)))


def merge_totals(totals: Iterable[TotalView]) -> tuple[TotalView, ...]:
    """One total for each resource, of those of parts of a cluster, in order of the resources' names."""
    merged: dict[str, TotalView] = {}
    for total in totals:
        known = merged.get(total.resource)
        merged[total.resource] = total if known is None else _merge(known, total)
    return tuple(merged[resource] for resource in sorted(merged))


def _merge(one: TotalView, other: TotalView) -> TotalView:
    return TotalView(
        resource=one.resource,
        cards=one.cards + other.cards,
        cards_free=one.cards_free + other.cards_free,
        tiles=one.tiles + other.tiles,
        tiles_free=one.tiles_free + other.tiles_free,
        largest_tiles=max(one.largest_tiles, other.largest_tiles),
        largest_millicores=max(one.largest_millicores, other.largest_millicores),
        largest_memory_bytes=_largest((one.largest_memory_bytes, other.largest_memory_bytes)),
        tiles_held=one.tiles_held + other.tiles_held,
        tiles_shared=one.tiles_shared + other.tiles_shared,
        tiles_blocked=one.tiles_blocked + other.tiles_blocked,
        tiles_closed=one.tiles_closed + other.tiles_closed,
        tiles_contested=one.tiles_contested + other.tiles_contested,
    )


def _largest(amounts: Iterable[int | None]) -> int | None:
    """None where no amount is known."""
    return max((amount for amount in amounts if amount is not None), default=None)


def _view_node(node: Node, book: CardAccount) -> NodeCardsView:
    states = book.states(node.name) or ()
    held: defaultdict[UnitId, list[HolderView]] = defaultdict(list)
    for pod, use, card in book.holders(node.name):
        held[card].append(_holder(pod, use))
    strays = (StrayView(_name(pod, use), describe((use.piece,))) for pod, use in book.strays(node.name))
    counted = zip(book.cards(node.name), states, strict=True)
    cards = tuple(_view_card(card, state, node, held[card.id]) for card, state in counted)
    return NodeCardsView(
        name=node.name,
        cards=tuple(map(give_nothing, cards)) if node.unschedulable else cards,
        problem=None if states else book.fault(node.name) or NO_CARDS,
        strays=tuple(sorted(strays, key=lambda stray: (stray.container, stray.devices))),
        is_cordoned=node.unschedulable,
    )


def give_nothing(card: CardView) -> CardView:
    """The card as pods find it on a node that is cordoned."""
    tiles = (
        replace(tile, state="closed") if tile.state in ("free", "blocked") else tile for tile in card.tiles
    )
    return replace(
        card,
        tiles=tuple(tiles),
        millicores_free=0,
        memory_free_bytes=None if card.memory_free_bytes is None else 0,
        shares_free=0,
    )


def _holder(pod: ObjectKey, use: Use) -> HolderView:
    return HolderView(
        _name(pod, use),
        tuple(sorted(use.piece.tiles)),
        use.each.millicores,
        use.each.memory_bytes,
        is_lingering=bool(split_key(pod)[1]),
    )


def _name(pod: ObjectKey, use: Use) -> str:
    return f"{pod[0]}/{split_key(pod)[0]}/{use.container}"


def _view_card(card: NodeCard, state: CardState, node: Node, held: Iterable[HolderView]) -> CardView:
    holders = sorted(held, key=lambda holder: (holder.tiles, holder.container))
    labels = read_card_labels(node.labels, card.resource.partition("/")[0])
    free = state.free
    return CardView(
        id=card.id,
        card=card.card,
        model=card.model,
        tiles=tuple(_view_tile(tile, card, state, holders, labels) for tile in range(card.tiles)),
        millicores_free=free.millicores,
        memory_free_bytes=None if card.memory_bytes is None else free.memory_bytes,
        health=card.health.reason or "Healthy",
        resource=card.resource,
        pci=card.pci,
        numa_node=card.numa_node,
        memory_bytes=card.memory_bytes,
        shares=card.shares,
        shares_free=free.shares,
        unassigned=card.unassigned,
        in_service=card.card not in labels.closed,
        holders=tuple(holders),
        conflicts=tuple(_conflicts(card, state, holders)),
    )


def _view_tile(
    tile: int, card: NodeCard, state: CardState, holders: Sequence[HolderView], labels: CardLabels
) -> TileView:
    closed = labels.closed_tiles.get(card.card or "", frozenset())
    names = [holder.container for holder in holders if not holder.tiles or tile in holder.tiles]
    return TileView(
        tile=tile,
        holders=tuple(dict.fromkeys(names)),
        state=_tile_state(tile, state, holders),
        in_service=tile not in closed and card.card not in labels.closed,
    )


def _tile_state(tile: int, state: CardState, holders: Sequence[HolderView]) -> TileState:
    alone = sum(tile in holder.tiles for holder in holders)
    if alone:
        return "contested" if alone > 1 or state.is_shared else "held"
    if state.is_shared:
        return "shared"
    if not state.is_open or tile not in state.tiles:
        return "closed"
    return "free" if tile in state.free.tiles else "blocked"


def _conflicts(card: NodeCard, state: CardState, holders: Sequence[HolderView]) -> Iterator[str]:
    by_tile: defaultdict[int, list[str]] = defaultdict(list)
    for holder in holders:
        for tile in holder.tiles:
            by_tile[tile].append(holder.container)
    for tile, names in sorted(by_tile.items()):
        if len(names) > 1:
            yield f"tile {tile} is held by {' and '.join(names)}, each alone"
        if tile >= card.tiles:
            yield f"{names[0]} holds tile {tile}, which the card does not have"
    if state.is_split and state.is_shared:
        split = " and ".join(dict.fromkeys(holder.container for holder in holders if holder.tiles))
        whole = list(dict.fromkeys(holder.container for holder in holders if not holder.tiles))
        unassigned = ["containers without an assignment"] if card.unassigned else []
        yield f"tiles of it are held by {split}, and the whole of it by {' and '.join(whole + unassigned)}"
    if state.millicores < 0:
        yield f"{MILLICORES - state.millicores} of its {MILLICORES} millicores are held"
    if state.memory_bytes < 0 and state.is_memory_known:
        yield f"{-state.memory_bytes} bytes of memory are held that it does not have"
    if state.shares < 0:
        yield f"it has {state.share_total - state.shares} holders and {state.share_total} shares"


def _totals(node: NodeCardsView) -> Iterator[TotalView]:
    by_resource: defaultdict[str, list[CardView]] = defaultdict(list)
    for card in node.cards:
        by_resource[card.resource].append(card)
    for resource, some in by_resource.items():
        yield total_of(resource, some)


def total_of(resource: str, cards: Sequence[CardView]) -> TotalView:
    """The total of one resource; there is at least one card."""
    free = [sum(tile.state == "free" for tile in card.tiles) for card in cards]
    states = Counter(tile.state for card in cards for tile in card.tiles)
    return TotalView(
        resource=resource,
        cards=len(cards),
        cards_free=sum(card.is_free for card in cards),
        tiles=states.total(),
        tiles_free=states["free"],
        largest_tiles=max(free),
        largest_millicores=max(card.millicores_free for card in cards),
        largest_memory_bytes=_largest(card.memory_free_bytes for card in cards),
        tiles_held=states["held"],
        tiles_shared=states["shared"],
        tiles_blocked=states["blocked"],
        tiles_closed=states["closed"],
        tiles_contested=states["contested"],
    )
