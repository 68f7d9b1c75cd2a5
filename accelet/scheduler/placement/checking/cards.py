"""Whether the cards and tiles of a plan are what its pods ask for, and nobody else's."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from accelet.assignments.assignment import Assignment, Naming, Piece, Pieces
from accelet.assignments.nodecards import (
    MILLICORES,
    NODE_CARDS_ANNOTATION,
    NodeCard,
    NodeCardsError,
    parse_node_cards,
)
from accelet.kube.nodes import Node
from accelet.scheduler.cards.account import Use, list_uses
from accelet.scheduler.cards.labels import read_card_labels, read_links
from accelet.scheduler.cards.needs import CardNeeds, ContainerNeed
from accelet.scheduler.placement.checking.seats import Seat, Seating


def find_card_fault(seating: Seating) -> str | None:
    """Cards that are not there, not in service, not as asked for, or somebody else's too."""
    for name, seats in seating.by_node.items():
        asking = [seat for seat in seats if seat.shape.cards is not None or seat.assignment is not None]
        node = seating.node(name)
        if not asking or node is None:
            continue
        held = [use for resident in seating.residents.of(name) for use in resident.uses]
        fault = next(_faults(node, asking, held), None)
        if fault is not None:
            return f"{fault} on node {name}"
    return None


def _faults(node: Node, asking: Sequence[Seat], held: Sequence[Use]) -> Iterator[str]:
    cards = _read_cards(node)
    if cards is None:
        for seat in asking:
            if seat.assignment is not None or not (seat.shape.cards and seat.shape.cards.is_plain):
                yield f"pod {seat.pod.name} would get cards that are not published"
        return
    known = _NodeCards(node, cards)
    uses: list[Use] = []
    for seat in asking:
        needs, given = seat.shape.cards, seat.assignment
        if needs is None or given is None:
            yield f"pod {seat.pod.name} would get {'cards it does not ask for' if given else 'no cards'}"
            return
        for fault in _misassigned(needs, given, known):
            yield f"container {fault[0]} of pod {seat.pod.name} would get {fault[1]}"
        uses += list_uses(given, needs)
    yield from _overdrawn(known, uses, held)


def _read_cards(node: Node) -> tuple[NodeCard, ...] | None:
    text = node.annotations.get(NODE_CARDS_ANNOTATION)
    try:
        return None if text is None else parse_node_cards(text)
    except NodeCardsError:
        return None


class _NodeCards:
    """A node's cards, and which of them are in service."""

    def __init__(self, node: Node, cards: tuple[NodeCard, ...]) -> None:
        self.cards = cards
        self.links = read_links(cards, node.labels)
        domains = {card.resource.partition("/")[0] for card in cards}
        self._words = {domain: read_card_labels(node.labels, domain) for domain in domains}

    def find(self, piece: Piece) -> NodeCard | None:
        """The card that a piece names; a device's name begins with that of its card."""
        for card in self.cards:
            match piece.naming:
                case Naming.UNIT:
                    is_meant = card.id == piece.name
                case Naming.CARD:
                    is_meant = card.card == piece.name
                case Naming.DEVICE:
                    is_meant = piece.name == card.id or piece.name.startswith(f"{card.id}-")
            if is_meant:
                return card
        return None

    def is_in_service(self, card: NodeCard, tiles: frozenset[int]) -> bool:
        words = self._words[card.resource.partition("/")[0]]
        closed = words.closed_tiles.get(card.card or "", frozenset())
        is_closed = (card.card or "") in words.closed
        return (
            card.health.is_healthy
            and not is_closed
            and not tiles & closed
            and max(tiles, default=0) < card.tiles
        )


def _misassigned(needs: CardNeeds, given: Assignment, known: _NodeCards) -> Iterator[tuple[str, str]]:
    """Each container that gets other than it asks for, and what."""
    asking = {need.name for need in needs.containers} | {one.name for one in needs.before}
    for name in given.containers.keys() ^ asking:
        yield name, "no cards" if name not in given.containers else "cards it does not ask for"
        return
    for need in needs.containers:
        for fault in _misgiven(need, needs, given, known):
            yield need.name, fault
    pieces = [piece for need in needs.containers for piece in _pieces(given, need.name, need.resource)]
    numas = {card.numa_node for piece in pieces if (card := known.find(piece)) is not None}
    if needs.is_single_numa and (len(numas) > 1 or None in numas):
        yield needs.containers[0].name, "cards of several NUMA nodes"
    yield from _misshared(needs, given, known)


def _misgiven(need: ContainerNeed, needs: CardNeeds, given: Assignment, known: _NodeCards) -> Iterator[str]:
    """What is wrong with the cards of one container."""
    pieces = _pieces(given, need.name, need.resource)
    if len(given.containers[need.name]) > 1 or len(pieces) != need.cards:
        yield f"{len(pieces)} cards of {need.resource} instead of {need.cards}"
    cards = [card for piece in pieces if (card := known.find(piece)) is not None]
    if len({card.id for card in cards}) < len(pieces):
        yield "a card twice, or one that is not there"
        return
    for piece, card in zip(pieces, cards, strict=True):
        if (fault := _ill_suited(need, needs, piece, card, known)) is not None:
            yield fault
    if needs.is_linked and not _are_linked(pieces, cards, known):
        yield "cards that are not linked"


def _misshared(needs: CardNeeds, given: Assignment, known: _NodeCards) -> Iterator[tuple[str, str]]:
    """Containers that share a card with others than they must, or hand on what the others do not get."""
    resources = {need.name: need.resource for need in needs.containers}
    pieces = [piece for name in needs.same_card for piece in _pieces(given, name, resources[name])]
    if len({card.id for piece in pieces if (card := known.find(piece)) is not None}) > 1:
        yield min(needs.same_card), "another card than those it must share one with"
    for one in needs.before:
        heir = _pieces(given, one.heir, resources[one.heir])
        if not _are_within(_pieces(given, one.name, resources[one.heir]), heir):
            yield one.name, f"cards that container {one.heir} does not get after it"


def _pieces(given: Assignment, container: str, resource: str) -> Pieces:
    return given.containers[container].get(resource, ())


def _ill_suited(
    need: ContainerNeed, needs: CardNeeds, piece: Piece, card: NodeCard, known: _NodeCards
) -> str | None:
    if card.resource != need.resource:
        return f"card {card.id}, which is of {card.resource}"
    if len(piece.tiles) != need.each.tiles:
        return f"{len(piece.tiles)} tiles of card {card.id} instead of {need.each.tiles}"
    if not known.is_in_service(card, piece.tiles):
        return f"card {card.id}, which is not in service"
    if card.card in needs.denied or (needs.allowed is not None and card.card not in needs.allowed):
        return f"card {card.id}, which the pod does not want"
    return None


def _are_linked(pieces: Pieces, cards: Sequence[NodeCard], known: _NodeCards) -> bool:
    """Whether each two that follow each other have a link between their tiles."""
    places = list(zip(pieces, cards, strict=True))
    for (one, card), (other, far) in zip(places[::2], places[1::2], strict=False):
        links = known.links[card.id]
        if not any(
            link.far == far.id and link.tile in one.tiles and link.far_tile in other.tiles for link in links
        ):
            return False
    return len(places) % 2 == 0


def _are_within(some: Pieces, all_of: Pieces) -> bool:
    tiles = {(piece.naming, piece.name): piece.tiles for piece in all_of}
    return all((one.naming, one.name) in tiles and one.tiles <= tiles[one.naming, one.name] for one in some)


def _overdrawn(known: _NodeCards, uses: Sequence[Use], held: Sequence[Use]) -> Iterator[str]:
    """Each card that has less than is held of it, or a tile that two hold."""
    new, all_of = _by_card(known, uses), _by_card(known, (*held, *uses))
    for card in known.cards:
        mine, everybodys = new.get(card.id, ()), all_of.get(card.id, ())
        if not mine:
            continue
        tiles: Counter[int] = Counter(tile for use in everybodys for tile in use.piece.tiles)
        whole = sum(not use.piece.tiles for use in everybodys) + card.unassigned
        for use in mine:
            if use.piece.tiles and (whole or any(tiles[tile] > 1 for tile in use.piece.tiles)):
                yield f"a tile of card {card.id} would be somebody else's too"
            if not use.piece.tiles and tiles:
                yield f"card {card.id} would be shared whole, though tiles of it are held"
        if sum(use.piece.count for use in everybodys) + card.unassigned > card.shares:
            yield f"card {card.id} would have more than its {card.shares} holders"
        for what, wanted, taken, there in (
            (
                "millicores",
                sum(use.each.millicores for use in mine),
                sum(use.each.millicores for use in everybodys),
                MILLICORES,
            ),
            (
                "memory",
                sum(use.each.memory_bytes for use in mine),
                sum(use.each.memory_bytes for use in everybodys),
                card.memory_bytes or 0,
            ),
        ):
            if wanted and what == "memory" and card.memory_bytes is None:
                yield f"{taken} of memory would be taken of card {card.id}, whose memory is not known"
            elif wanted and taken > there:
                yield f"{taken} of {what} would be taken of card {card.id}, which has {there}"


def _by_card(known: _NodeCards, uses: Sequence[Use]) -> Mapping[str, Sequence[Use]]:
    found: defaultdict[str, list[Use]] = defaultdict(list)
    for use in uses:
        card = known.find(use.piece)
        if card is not None:
            found[card.id].append(use)
    return found
