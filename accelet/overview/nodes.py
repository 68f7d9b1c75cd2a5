"""Nodes as they are shown: their cards, what else they offer, and which pods have it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.kube.requests import pod_units, scheduling_units
from accelet.overview.bounds import MOST_CARDS, MOST_HOLDERS, MOST_SENTENCE, cut, first
from accelet.overview.picture import AmountBox, CardBox, HolderBox, NodeBox, PodBox, StrayBox, TotalBox
from accelet.scheduler.cards.view import CardView, NodeCardsView, TotalView
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import gang_key

Extended = Mapping[str, int]
"""Amounts of extended resources: those whose names have a domain."""


_QUEUES = ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/local-queue-name")
"""Labels of pods: the first is its owner's wish, the second is set by Kueue (AssignQueueLabelsForPods)."""


def extended_of(pod: Pod) -> Extended:
    """What a pod asks for of extended resources, as kube-scheduler counts it."""
    return {name: amount for name, amount in pod_units(pod).items() if "/" in name and amount}


def box_amounts(amounts: Extended) -> tuple[AmountBox, ...]:
    boxes = (AmountBox(resource=cut(name), taken=amount) for name, amount in sorted(amounts.items()))
    return first(boxes, MOST_HOLDERS)[0]


def box_node(
    node: Node, view: NodeCardsView, scheme: Scheme, pods: Iterable[tuple[Pod, Extended]], prefix: str
) -> NodeBox:
    """One node, with the pods there that ask for extended resources."""
    asking = [(pod, asks) for pod, asks in pods if asks]
    cards, more_cards = first(view.cards, MOST_CARDS)
    shown, more = first(sorted(asking, key=lambda one: one[0].key), MOST_HOLDERS)
    return NodeBox(
        place=tuple(cut(part) for part in scheme.path(node.labels) or ()),
        is_away=not node.is_ready,
        is_cordoned=node.unschedulable,
        problem="" if view.problem is None or view.is_bare else cut(view.problem, MOST_SENTENCE),
        cards=tuple(_box_card(card) for card in cards),
        more_cards=more_cards,
        strays=tuple(
            StrayBox(container=cut(one.container), devices=cut(one.devices))
            for one in first(view.strays, MOST_HOLDERS)[0]
        ),
        amounts=_amounts(node, view, (asks for _, asks in asking)),
        pods=tuple(_box_pod(pod, asks, prefix) for pod, asks in shown),
        more_pods=more,
    )


def _box_pod(pod: Pod, asks: Extended, prefix: str) -> PodBox:
    gang = gang_key(pod, prefix)
    name = f"{pod.namespace}/{pod.name}"
    return PodBox(
        name=cut(name),
        asks=box_amounts(asks),
        gang="" if str(gang) == name else cut(str(gang)),
        queue=queue_of(pod),
    )


def queue_of(pod: Pod) -> str:
    """The name of Kueue's LocalQueue that a pod is in; empty where no label says."""
    return cut(next((pod.labels[name] for name in _QUEUES if pod.labels.get(name)), ""))


def _amounts(node: Node, view: NodeCardsView, asked: Iterable[Extended]) -> tuple[AmountBox, ...]:
    """Of what is not shown card by card: a resource of cards, and all that its cards are divided into."""
    domains = {card.resource.partition("/")[0] for card in view.cards}
    taken: Counter[str] = Counter()
    for asks in asked:
        taken.update(asks)
    offered = scheduling_units(node.allocatable)
    names = [name for name in sorted(offered) if "/" in name and name.partition("/")[0] not in domains]
    boxes = (AmountBox(resource=cut(name), offered=offered[name], taken=taken[name]) for name in names)
    return first((box for box in boxes if box.offered or box.taken), MOST_HOLDERS)[0]


def _box_card(card: CardView) -> CardBox:
    holders, more = first(card.holders, MOST_HOLDERS)
    return CardBox(
        id=cut(card.id),
        resource=cut(card.resource),
        tiles=tuple(tile.state for tile in card.tiles),
        closed_tiles=tuple(tile.tile for tile in card.tiles if not tile.in_service),
        card=cut(card.card or ""),
        model=cut(card.model or ""),
        pci=cut(card.pci or ""),
        numa_node=card.numa_node,
        ill="" if card.health == "Healthy" else cut(card.health, MOST_SENTENCE),
        is_closed=not card.in_service,
        millicores_free=card.millicores_free,
        memory_bytes=card.memory_bytes,
        memory_free_bytes=card.memory_free_bytes,
        shares=card.shares,
        shares_free=card.shares_free,
        unassigned=card.unassigned,
        holders=tuple(
            HolderBox(
                name=cut(one.container),
                tiles=one.tiles,
                millicores=one.millicores,
                memory_bytes=one.memory_bytes,
                is_lingering=one.is_lingering,
            )
            for one in holders
        ),
        more_holders=more,
        conflicts=tuple(cut(one, MOST_SENTENCE) for one in first(card.conflicts, MOST_HOLDERS)[0]),
    )


def box_totals(totals: Iterable[TotalView], nodes: Iterable[NodeBox]) -> tuple[TotalBox, ...]:
    """Cards by resource, then what is offered of other resources."""
    offered: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for node in nodes:
        for amount in node.amounts:
            offered[amount.resource] += amount.offered
            taken[amount.resource] += amount.taken
    cards = [
        TotalBox(
            resource=cut(total.resource),
            cards=total.cards,
            cards_free=total.cards_free,
            tiles=total.tiles,
            tiles_free=total.tiles_free,
            tiles_held=total.tiles_held,
            tiles_shared=total.tiles_shared,
            tiles_blocked=total.tiles_blocked,
            tiles_closed=total.tiles_closed,
            tiles_contested=total.tiles_contested,
        )
        for total in totals
    ]
    others: Sequence[TotalBox] = [
        TotalBox(resource=name, offered=offered[name], taken=taken[name]) for name in sorted(offered)
    ]
    return first([*cards, *others], MOST_HOLDERS)[0]
