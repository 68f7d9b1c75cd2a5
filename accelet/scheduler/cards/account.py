"""Who holds what of which node's cards: an account kept up with events."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from accelet.accelerators.device import UnitId
from accelet.assignments.annotations import read_assignment
from accelet.assignments.assignment import Assignment, AssignmentError, Naming, Piece
from accelet.assignments.nodecards import (
    MILLICORES,
    NODE_CARDS_ANNOTATION,
    NodeCard,
    NodeCardsError,
    parse_node_cards,
)
from accelet.kube.nodes import Node
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.scheduler.cards.labels import read_card_labels, read_links
from accelet.scheduler.cards.needs import Amounts, CardNeeds, read_needs
from accelet.scheduler.cards.state import CardState, CardStates
from accelet.scheduler.errors import NeedsError

NO_CARDS = "publish no cards"
UNREADABLE = f"publish an unreadable {NODE_CARDS_ANNOTATION}"


@dataclass(frozen=True, slots=True)
class Use:
    """What one container holds of one card, named as its assignment names it."""

    container: str
    resource: str
    piece: Piece
    each: Amounts


def list_uses(assignment: Assignment, needs: CardNeeds | None) -> tuple[Use, ...]:
    """What an assignment lets the containers of a pod hold.

    Plain init containers hold nothing that is not their heirs'. Of a container whose needs cannot be read,
    the tiles count, which its assignment names.
    """
    each = {need.name: need.each for need in needs.containers} if needs else {}
    early = {one.name for one in needs.before} if needs else set()
    return tuple(
        Use(name, resource, piece, each.get(name, Amounts()))
        for name, resources in assignment.containers.items()
        if name not in early
        for resource, pieces in resources.items()
        for piece in pieces
    )


def read_uses(pod: Pod, card_resources: Sequence[str]) -> tuple[Use, ...]:
    """What a pod holds by its annotations; nothing where these cannot be read, for no agent follows them."""
    try:
        assignment = read_assignment(pod)
    except AssignmentError:
        return ()
    if assignment is None:
        return ()
    try:
        needs = read_needs(pod, card_resources)
    except NeedsError:
        needs = None
    return list_uses(assignment, needs)


def is_as_asked(uses: Iterable[Use], needs: CardNeeds | None) -> bool:
    """Whether containers are assigned as many cards, and as many tiles of each, as they ask for."""
    found: defaultdict[tuple[str, str], list[Piece]] = defaultdict(list)
    for use in uses:
        found[use.container, use.resource].append(use.piece)
    for need in needs.containers if needs else ():
        pieces = found.pop((need.name, need.resource), [])
        if sum(piece.count for piece in pieces) != need.cards:
            return False
        if any(len(piece.tiles) != need.each.tiles for piece in pieces):
            return False
    return not found


@dataclass(slots=True)
class _NodeCards:
    """One node: its cards as published and labelled, and who holds what of them."""

    cards: tuple[NodeCard, ...] | None = None
    problem: str = NO_CARDS
    fault: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    holders: dict[ObjectKey, tuple[Use, ...]] = field(default_factory=dict)
    lasting: set[ObjectKey] = field(default_factory=set)
    states: CardStates | None = None
    taken: Mapping[UnitId, "_Taken"] = field(default_factory=dict)
    end: CardStates | None = None


@dataclass(slots=True)
class _Taken:
    """What is held of one card."""

    tiles: Counter[int] = field(default_factory=Counter)
    millicores: int = 0
    memory_bytes: int = 0
    shares: int = 0
    whole: int = 0

    def count(self, use: Use, times: int = 1) -> None:
        """Takes what is used; -1 times: gives it back."""
        for tile in use.piece.tiles:
            self.tiles[tile] += times
        self.millicores += times * use.each.millicores
        self.memory_bytes += times * use.each.memory_bytes
        self.shares += times * use.piece.count
        self.whole += times * (not use.piece.tiles)


class CardAccount:
    """Cards by node. A pod may be seen before its node, and a node may come back."""

    def __init__(self) -> None:
        self._nodes: defaultdict[str, _NodeCards] = defaultdict(_NodeCards)
        self._places: dict[ObjectKey, str] = {}

    def set_node(self, node: Node) -> bool:
        """A node has come or changed; whether in its cards."""
        text = node.annotations.get(NODE_CARDS_ANNOTATION)
        if text is None and node.name not in self._nodes:
            return False
        known = self._nodes[node.name]
        if text == known.text and node.labels == known.labels:
            return False
        if text != known.text:
            known.text = text
            known.cards, known.problem, known.fault = None, NO_CARDS, None
            if text is not None:
                try:
                    known.cards = parse_node_cards(text)
                except NodeCardsError as error:
                    known.problem, known.fault = UNREADABLE, str(error)
        known.labels = node.labels
        known.states = known.end = None
        self._forget_empty(node.name)
        return True

    def remove_node(self, name: str) -> None:
        if name in self._nodes:
            kept = self._nodes[name]
            self._nodes[name] = _NodeCards(holders=kept.holders, lasting=kept.lasting)
            self._forget_empty(name)

    def _forget_empty(self, name: str) -> None:
        """Nodes come and go under ever new names."""
        known = self._nodes[name]
        if known.text is None and not known.holders:
            del self._nodes[name]

    def hold(self, pod: ObjectKey, node: str, uses: tuple[Use, ...], *, is_lasting: bool = False) -> None:
        """Charges a node's cards with a pod, which is charged once only.

        One that is lasting stays as long as its node.
        """
        self.give_back(pod)
        if uses:
            self._places[pod] = node
            known = self._nodes[node]
            known.holders[pod] = uses
            known.states = None
            if is_lasting:
                known.lasting.add(pod)
                known.end = None

    def give_back(self, pod: ObjectKey) -> str | None:
        """Ends a pod's charge; the node on which it had any."""
        node = self._places.pop(pod, None)
        if node is not None:
            known = self._nodes[node]
            del known.holders[pod]
            known.states = None
            if pod in known.lasting:
                known.lasting.remove(pod)
                known.end = None
            self._forget_empty(node)
        return node

    def states(self, node: str) -> CardStates | None:
        """What is free of each of a node's cards; None if it publishes none that can be read."""
        known = self._nodes.get(node)
        if known is None or known.cards is None:
            return None
        if known.states is None:
            known.taken = _taken(known.cards, known.holders.values())
            known.states = tuple(_states(known.cards, known.labels, known.taken))
        return known.states

    def states_in_the_end(self, node: str) -> CardStates | None:
        """The same when all pods have ended that ever do."""
        known = self._nodes.get(node)
        if known is None or known.cards is None:
            return None
        if known.end is None:
            ended = tuple(replace(card, unassigned=0) for card in known.cards)
            lasting = [known.holders[pod] for pod in known.lasting]
            known.end = tuple(_states(ended, known.labels, _taken(ended, lasting)))
        return known.end

    def states_if(
        self, node: str, gone: Collection[ObjectKey], come: Iterable[tuple[Use, ...]]
    ) -> CardStates | None:
        """`states` if some pods had gone and others had come; None as there."""
        now = self.states(node)
        known = self._nodes.get(node)
        if now is None or known is None or known.cards is None:
            return None
        find, taken = _Finder(known.cards), dict[UnitId, _Taken]()
        leaving = (use for pod in gone for use in known.holders.get(pod, ()))
        changes = [*((use, -1) for use in leaving), *((use, 1) for uses in come for use in uses)]
        for use, times in changes:
            card = find(use)
            if card is not None:
                if card.id not in taken:
                    before = known.taken.get(card.id, _Taken())
                    taken[card.id] = replace(before, tiles=before.tiles.copy())
                taken[card.id].count(use, times)
        return tuple(
            _left(state, card, of_card, known.labels) if (of_card := taken.get(card.id)) else state
            for state, card in zip(now, known.cards, strict=True)
        )

    def copy(self) -> "CardAccount":
        """An account that later events do not change."""
        copied = CardAccount()
        copied._places = dict(self._places)
        for name, known in self._nodes.items():
            own = replace(known, holders=dict(known.holders), lasting=set(known.lasting))
            copied._nodes[name] = own
        return copied

    def problem(self, node: str) -> str:
        """Why a node's cards are not known, to follow a number of nodes."""
        known = self._nodes.get(node)
        return known.problem if known is not None else NO_CARDS

    def fault(self, node: str) -> str | None:
        """What is wrong with the cards that a node publishes, a sentence; None where they can be read."""
        known = self._nodes.get(node)
        return known.fault if known is not None else None

    @property
    def nodes(self) -> Iterable[str]:
        """Those that have published cards, or of whose cards a pod holds any."""
        return self._nodes.keys()

    def cards(self, node: str) -> tuple[NodeCard, ...]:
        known = self._nodes.get(node)
        return known.cards or () if known is not None else ()

    def holders(self, node: str) -> Iterator[tuple[ObjectKey, Use, UnitId]]:
        """Who holds what of a node's cards, as far as these are there."""
        known = self._nodes.get(node)
        if known is not None and known.cards is not None:
            find = _Finder(known.cards)
            for pod, uses in known.holders.items():
                for use in uses:
                    card = find(use)
                    if card is not None:
                        yield pod, use, card.id

    def strays(self, node: str) -> Iterator[tuple[ObjectKey, Use]]:
        """Who is assigned what a node does not publish; all who are, where it publishes nothing."""
        known = self._nodes.get(node)
        if known is not None:
            find = _Finder(known.cards or ())
            for pod, uses in known.holders.items():
                for use in uses:
                    if find(use) is None:
                        yield pod, use

    def uses(self, pod: ObjectKey) -> tuple[Use, ...]:
        """What a pod is charged with."""
        node = self._places.get(pod)
        return () if node is None else self._nodes[node].holders[pod]

    def place(self, pod: ObjectKey) -> str | None:
        """The node with whose cards a pod is charged."""
        return self._places.get(pod)

    def is_charged(self, pod: ObjectKey) -> bool:
        """Whether a pod holds anything of any node's cards."""
        return pod in self._places

    def still_fits(self, pod: ObjectKey) -> bool:
        """Whether the cards of a pod that is charged are still there, in service, and not held twice over."""
        node = self._places.get(pod)
        if node is None:
            return True
        known = self._nodes[node]
        states = {state.id: state for state in self.states(node) or ()}
        if known.cards is None:
            return False
        find, taken = _Finder(known.cards), _taken(known.cards, known.holders.values())
        cards = ((use, find(use)) for use in known.holders[pod])
        return all(
            card is not None
            and states[card.id].is_open
            and not use.piece.tiles & _closed_tiles(card, known.labels)
            and _has_its_own(use, card, taken[card.id])
            for use, card in cards
        )


def _closed_tiles(card: NodeCard, labels: Mapping[str, str]) -> frozenset[int]:
    words = read_card_labels(labels, card.resource.partition("/")[0])
    return words.closed_tiles.get(card.card or "", frozenset())


def _has_its_own(use: Use, card: NodeCard, taken: "_Taken") -> bool:
    """Whether a card has what is held of it, and nobody else holds what this use names."""
    tiles = use.piece.tiles
    if tiles and (taken.whole or card.unassigned or any(taken.tiles[tile] > 1 for tile in tiles)):
        return False
    if not tiles and taken.tiles:
        return False
    return (
        all(tile < card.tiles for tile in tiles)
        and taken.millicores <= MILLICORES
        and taken.memory_bytes <= (card.memory_bytes or 0)
        and taken.shares + card.unassigned <= card.shares
    )


class _Finder:
    """Which of a node's cards a use means."""

    def __init__(self, cards: Iterable[NodeCard]) -> None:
        self._cards = tuple(cards)
        self._by_id = {card.id: card for card in self._cards}
        self._by_name = {card.card: card for card in self._cards if card.card is not None}

    def __call__(self, use: Use) -> NodeCard | None:
        name = use.piece.name
        match use.piece.naming:
            case Naming.UNIT:
                return self._by_id.get(UnitId(name))
            case Naming.CARD:
                return self._by_name.get(name)
            case Naming.DEVICE:
                # A device's id is its unit's, and what tells it from the unit's other devices.
                return next(
                    (card for card in self._cards if name == card.id or name.startswith(f"{card.id}-")), None
                )


def _taken(cards: tuple[NodeCard, ...], holders: Iterable[tuple[Use, ...]]) -> Mapping[UnitId, _Taken]:
    find = _Finder(cards)
    taken: defaultdict[UnitId, _Taken] = defaultdict(_Taken)
    for uses in holders:
        for use in uses:
            card = find(use)
            if card is not None:
                taken[card.id].count(use)
    return taken


def _states(
    cards: tuple[NodeCard, ...], labels: Mapping[str, str], taken: Mapping[UnitId, _Taken]
) -> Iterator[CardState]:
    links = read_links(cards, labels)
    said = {card.resource.partition("/")[0]: None for card in cards}
    by_domain = {domain: read_card_labels(labels, domain) for domain in said}
    for card in cards:
        name = card.card or ""
        words = by_domain[card.resource.partition("/")[0]]
        whole = CardState(
            id=card.id,
            resource=card.resource,
            card=card.card,
            numa_node=card.numa_node,
            links=tuple(sorted(links[card.id])),
            tile_count=card.tiles,
            memory_total=card.memory_bytes or 0,
            is_memory_known=card.memory_bytes is not None,
            share_total=card.shares,
            is_open=card.health.is_healthy and name not in words.closed,
            is_preferred=name in words.preferred,
            preferred_tiles=words.preferred_tiles.get(name, frozenset()),
        )
        yield _left(whole, card, taken.get(card.id, _Taken()), labels)


def _left(state: CardState, card: NodeCard, taken: _Taken, labels: Mapping[str, str]) -> CardState:
    """The state of a card of which so much is taken."""
    held = {tile for tile, times in taken.tiles.items() if times > 0}
    return replace(
        state,
        tiles=frozenset(range(card.tiles)).difference(held, _closed_tiles(card, labels)),
        millicores=MILLICORES - taken.millicores,
        memory_bytes=state.memory_total - taken.memory_bytes,
        shares=card.shares - taken.shares - card.unassigned,
        is_split=bool(held),
        is_shared=bool(taken.whole or card.unassigned),
    )
