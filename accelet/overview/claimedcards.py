"""Cards that are served through DRA, and what claims hold of them, beside those the scheduler counts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelet.accelerators.device import UnitId
from accelet.dra.names import ALL_MILLICORES, GPU_DRIVER
from accelet.dra.pool import MEMORY, MILLICORES
from accelet.dra.preparing.claim import AllocatedClaim, Result
from accelet.dra.publishing.published import PublishedGpu, PublishedSlice, newest_gpus
from accelet.scheduler.cards.view import (
    NO_CARDS,
    CardView,
    ClusterView,
    HolderView,
    NodeCardsView,
    StrayView,
    TileState,
    TileView,
    give_nothing,
    total_of,
)


@dataclass(frozen=True, slots=True)
class _Hold:
    """What a claim was given of one device; `tile` is None where that is a whole card."""

    claim: str
    tile: int | None
    millicores: int
    memory: int


@dataclass(frozen=True, slots=True)
class _Claimed:
    cards: tuple[CardView, ...]
    strays: tuple[StrayView, ...]


def with_claimed(
    view: ClusterView, slices: Iterable[PublishedSlice], claims: Iterable[AllocatedClaim]
) -> ClusterView:
    """The view with the cards of its nodes that are in slices; the claims are all of the cluster.

    Holders are claims, as `namespace/name`; a card's resource is the driver.
    """
    published = newest_gpus(slices)
    results: defaultdict[str, list[tuple[str, Result]]] = defaultdict(list)
    for claim in claims:
        for result in claim.results:
            if not result.is_admin:
                results[result.pool].append((f"{claim.namespace}/{claim.name}", result))
    claimed = {
        node.name: _view_node(node, published[node.name], results[node.name])
        for node in view.nodes
        if node.name in published
    }
    nodes = tuple(_with_cards(node, claimed.get(node.name)) for node in view.nodes)
    cards = [card for one in claimed.values() for card in one.cards]
    return ClusterView(nodes, (*view.totals, total_of(GPU_DRIVER, cards)) if cards else view.totals)


def _with_cards(node: NodeCardsView, claimed: _Claimed | None) -> NodeCardsView:
    if claimed is None:
        return node
    problem = None if claimed.cards and node.problem == NO_CARDS else node.problem
    cards, strays = (*node.cards, *claimed.cards), (*node.strays, *claimed.strays)
    return replace(node, cards=cards, strays=strays, problem=problem)


def _view_node(
    node: NodeCardsView, gpus: Sequence[PublishedGpu], results: Iterable[tuple[str, Result]]
) -> _Claimed:
    by_name = {gpu.name: gpu for gpu in gpus}
    holds: defaultdict[str, list[_Hold]] = defaultdict(list)
    strays: set[tuple[str, str]] = set()
    for claim, result in results:
        gpu = by_name.get(result.device)
        if gpu is not None:
            millicores = result.amounts.get(MILLICORES, ALL_MILLICORES)
            holds[gpu.card].append(_Hold(claim, gpu.tile, millicores, result.amounts.get(MEMORY, 0)))
        elif not result.device.endswith("-monitor"):
            strays.add((claim, result.device))
    tiles: defaultdict[str, dict[int, PublishedGpu]] = defaultdict(dict)
    for gpu in gpus:
        if gpu.tile is not None:
            tiles[gpu.card][gpu.tile] = gpu
    wholes = sorted((gpu for gpu in gpus if gpu.tile is None), key=lambda gpu: gpu.card)
    cards = tuple(_view_card(gpu, tiles[gpu.card], holds[gpu.card]) for gpu in wholes)
    cards = tuple(map(give_nothing, cards)) if node.is_cordoned else cards
    return _Claimed(cards, tuple(StrayView(*stray) for stray in sorted(strays)))


def _view_card(gpu: PublishedGpu, tiles: Mapping[int, PublishedGpu], holds: Sequence[_Hold]) -> CardView:
    views = tuple(_view_tile(tile, tiles.get(tile, gpu), holds) for tile in range(gpu.tiles))
    millicores = ALL_MILLICORES - sum(
        hold.millicores if hold.tile is None else hold.millicores // gpu.tiles for hold in holds
    )
    takes_more = any(view.state != "closed" for view in views) and millicores > 0
    taints = sorted({key for one in (gpu, *tiles.values()) for key in one.taints})
    return CardView(
        id=UnitId(gpu.card),
        card=None,
        model=gpu.model,
        tiles=views,
        millicores_free=millicores if takes_more else 0,
        memory_free_bytes=None
        if gpu.memory is None
        else takes_more * max(0, _memory_free(gpu, tiles, holds)),
        health=f"tainted: {', '.join(taints)}" if taints else "Healthy",
        resource=GPU_DRIVER,
        pci=gpu.pci,
        numa_node=gpu.numa_node,
        memory_bytes=gpu.memory,
        shares=ALL_MILLICORES // gpu.default_millicores or 1,
        shares_free=millicores // gpu.default_millicores if takes_more else 0,
        unassigned=0,
        in_service=True,
        holders=_holders(holds),
        conflicts=tuple(_conflicts(holds)),
    )


def _view_tile(tile: int, device: PublishedGpu, holds: Sequence[_Hold]) -> TileView:
    mine = [hold for hold in holds if hold.tile in (None, tile)]
    holders = tuple(dict.fromkeys(hold.claim for hold in mine))
    return TileView(tile, holders, _state(device, mine), in_service=True)


def _state(device: PublishedGpu, holds: Sequence[_Hold]) -> TileState:
    if not holds:
        return "closed" if device.taints else "free"
    are_alike = len({hold.tile for hold in holds}) == 1
    if not are_alike or sum(hold.millicores for hold in holds) > ALL_MILLICORES:
        return "contested"
    is_alone = holds[0].tile is not None and holds[0].millicores == ALL_MILLICORES
    return "held" if is_alone else "shared"


def _memory_free(gpu: PublishedGpu, tiles: Mapping[int, PublishedGpu], holds: Sequence[_Hold]) -> int:
    """What a claim could still ask for: none of a device whose millicores are all taken."""
    whole = [hold for hold in holds if hold.tile is None]
    if whole or not holds:
        return _left(gpu, whole)
    return sum(_left(device, [hold for hold in holds if hold.tile == tile]) for tile, device in tiles.items())


def _left(device: PublishedGpu, holds: Sequence[_Hold]) -> int:
    if sum(hold.millicores for hold in holds) >= ALL_MILLICORES:
        return 0
    return (device.memory or 0) - sum(hold.memory for hold in holds)


def _holders(holds: Sequence[_Hold]) -> tuple[HolderView, ...]:
    """A line for each claim, with the tiles it has together."""
    found = []
    for claim in dict.fromkeys(hold.claim for hold in holds):
        mine = [hold for hold in holds if hold.claim == claim]
        tiles = tuple(sorted({hold.tile for hold in mine if hold.tile is not None}))
        sums = sum(hold.millicores for hold in mine), sum(hold.memory for hold in mine)
        found.append(HolderView(claim, tiles, *sums))
    return tuple(sorted(found, key=lambda holder: (holder.tiles, holder.container)))


def _conflicts(holds: Sequence[_Hold]) -> Iterable[str]:
    by_device: defaultdict[int | None, list[_Hold]] = defaultdict(list)
    for hold in holds:
        by_device[hold.tile].append(hold)
    for tile, some in sorted(by_device.items(), key=lambda item: -1 if item[0] is None else item[0]):
        taken = sum(hold.millicores for hold in some)
        if taken > ALL_MILLICORES:
            what = "it" if tile is None else f"tile {tile}"
            yield f"{taken} of {ALL_MILLICORES} millicores of {what} are held"
    if None in by_device and len(by_device) > 1:
        yield "it is held whole and in tiles at once"
