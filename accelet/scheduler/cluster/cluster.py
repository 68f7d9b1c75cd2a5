"""The nodes of a cluster and what is free on them, kept up with events."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from accelet.assignments.annotations import ASSIGNED_BY
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kube.nodes import Node
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.requests import pod_units, scheduling_units
from accelet.scheduler.cards.account import CardAccount, is_as_asked, read_uses
from accelet.scheduler.cards.catalog import CardCatalog, NodesCards
from accelet.scheduler.cards.needs import CARD_RESOURCES
from accelet.scheduler.cards.search import CardPolicy
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.eligibility import barriers, first_barrier, is_selected
from accelet.scheduler.cluster.hostports import HostPorts, PortRoom
from accelet.scheduler.cluster.layout import Layout, lay_out
from accelet.scheduler.cluster.residents import Occupant, Resident, ResidentAccount, Residents
from accelet.scheduler.cluster.room import NodeRoom, Room
from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.cluster.topology import Floats, Ints, Scheme
from accelet.scheduler.cluster.usage import PODS, UNKNOWN_END_S, Usage

_MOST_KNOWN = 200_000
"""Cards and answers of the catalog before it is begun anew: some 150 MB."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The nodes, what is free on them, and what will be when all pods have ended that ever do.

    `ends_s` has for each leaf when all that ever ends there has ended at the latest: 0 where there is
    nothing, infinite where nobody knows. `version` counts the times that room has become free anywhere;
    `grown` has for each leaf at which of these it last did.
    """

    layout: Layout
    room: CardRoom
    room_in_the_end: CardRoom
    ends_s: Floats
    version: int
    grown: Ints

    def without(self, nodes: Collection[str], reason: str) -> Self:
        """The same with some nodes closed to everybody, now and in the end."""
        closed = np.array([node.name in nodes for node in self.layout.nodes], dtype=bool)
        room, end = self.room.without(closed, reason), self.room_in_the_end.without(closed, reason)
        return replace(self, room=room, room_in_the_end=end)


def _of_nobody(_: Pod) -> Occupant | None:
    return None


class Cluster:
    """One mutable state of the cluster. A pod's event costs the same however large the cluster is.

    `occupant_of` says whose a pod is that is on a node or is to go there, where that counts for gangs that
    have a domain to themselves.
    """

    def __init__(
        self,
        scheme: Scheme,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        *,
        card_resources: Sequence[str] = CARD_RESOURCES,
        card_policy: CardPolicy = "packed",
        occupant_of: Callable[[Pod], Occupant | None] = _of_nobody,
    ) -> None:
        self.scheme = scheme
        self._occupant_of = occupant_of
        self._card_resources = card_resources
        self._card_account = CardAccount()
        self._catalog = CardCatalog(card_policy)
        self._nodes: dict[str, Node] = {}
        self._node_rows: dict[str, int] = {}
        self._usage = Usage()
        self._ports = HostPorts()
        self._residents = ResidentAccount()
        # For nodes that go while a layout of them is made; no node has such a name.
        self._no_row = self._usage.offer("", {PODS: 0})
        self._version = 0
        self._grown: Ints = np.zeros(16, dtype=np.int64)
        self._layout: Layout = lay_out(scheme, ())
        self._layout_is_old = False
        self._changed: dict[str, Node] = {}
        self._leaf_rows: Ints = np.zeros(0, dtype=np.int64)
        for node in nodes:
            self.set_node(node)
        for pod in pods:
            self.set_pod(pod)

    def set_scheme(self, scheme: Scheme) -> None:
        """Other levels than at first; only before there are nodes."""
        assert not self._nodes, "what is known of nodes is by the former levels"
        self.scheme = scheme
        self._layout = lay_out(scheme, ())

    def set_node(self, node: Node) -> bool:
        """A node has come or changed; whether in anything that the planner looks at."""
        before = self._nodes.get(node.name)
        self._nodes[node.name] = node
        has_other_cards = self._card_account.set_node(node)
        if before is None or self.scheme.path(before.labels) != self.scheme.path(node.labels):
            self._layout_is_old = True
        elif has_other_cards or _planning_facts(before) != _planning_facts(node):
            self._changed[node.name] = node
        else:
            return False
        self._node_rows[node.name] = self._usage.offer(node.name, scheduling_units(node.allocatable))
        self._note_growth(node.name)
        return True

    def remove_node(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._layout_is_old = True
            self._changed.pop(name, None)
            del self._node_rows[name]
            self._usage.withdraw(name)
            self._card_account.remove_node(name)

    def set_pod(self, pod: Pod, owner_ends_s: float | None = None) -> None:
        """Charges a pod's node from its binding until its containers have ended for good.

        `owner_ends_s` is when its owner has it end at the latest, where that is known.
        """
        if pod.node_name and not pod.is_terminal:
            ends_s = [end_s for end_s in (pod.ends_by_s, owner_ends_s) if end_s is not None]
            self._charge(pod, pod.node_name, min(ends_s, default=UNKNOWN_END_S))
        else:
            self.remove_pod(pod.key)

    def hold(self, pod: Pod, node: str, assignment: str = "") -> None:
        """Charges `node` with a pod that is to go there, until the pod's next event says otherwise.

        `assignment` is what its annotation is to say, empty where it gets no cards.
        """
        if assignment or any(name in pod.annotations for name in ASSIGNED_BY):
            annotations = {name: text for name, text in pod.annotations.items() if name not in ASSIGNED_BY}
            if assignment:
                annotations[ASSIGNMENT_ANNOTATION] = assignment
            pod = replace(pod, annotations=annotations)
        self._charge(pod, node, UNKNOWN_END_S)

    def _charge(self, pod: Pod, node: str, until_s: float) -> None:
        is_lasting = not pod.ends or pod.is_mirror
        units = pod_units(pod)
        freed = self._usage.take(pod.key, node, units, is_lasting=is_lasting, until_s=until_s)
        uses = read_uses(pod, self._card_resources)
        has_freed_ports = self._ports.hold(pod.key, node, pod.host_ports, is_lasting=is_lasting)
        if freed is not None or has_freed_ports or self._card_account.uses(pod.key) not in ((), uses):
            self._note_growth(freed if freed is not None else node)
        self._card_account.hold(pod.key, node, uses, is_lasting=is_lasting)
        resident = Resident(pod.key, units, pod.host_ports, uses, self._occupant_of(pod), is_lasting)
        if self._residents.hold(resident, node):
            self._note_growth(node)

    def remove_pod(self, key: ObjectKey) -> None:
        self._note_growth(self._usage.give_back(key))
        self._ports.give_back(key)
        self._card_account.give_back(key)
        self._residents.give_back(key)

    def keep_cards(self, pod: Pod, key: ObjectKey) -> bool:
        """Charges the cards of a pod that is gone, under another key; whether it has any."""
        if pod.node_name:
            uses = read_uses(pod, self._card_resources)
            self._card_account.hold(key, pod.node_name, uses)
            if uses:
                lingering = Resident(key, {}, uses=uses, occupant=self._occupant_of(pod))
                self._residents.hold(lingering, pod.node_name)
        return self._card_account.is_charged(key)

    def let_go_of_cards(self, key: ObjectKey) -> None:
        node = self._card_account.give_back(key)
        self._residents.give_back(key)
        self._note_growth(node)

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    @property
    def nodes(self) -> Iterable[Node]:
        return self._nodes.values()

    @property
    def layout(self) -> Layout:
        if self._layout_is_old:
            self.set_layout(lay_out(self.scheme, self.begin_layout()))
        return self.kept_layout()

    @property
    def layout_is_old(self) -> bool:
        """Whether nodes have come, gone or moved, so that `layout` takes long in a large cluster."""
        return self._layout_is_old

    def begin_layout(self) -> Sequence[Node]:
        """The nodes for a layout that is made elsewhere; what happens from now on will be missed."""
        self._layout_is_old = False
        self._changed.clear()
        return list(self._nodes.values())

    def give_up_layout(self) -> None:
        """The layout that was begun does not come."""
        self._layout_is_old = True

    def set_layout(self, layout: Layout) -> None:
        """The layout that was begun."""
        self._layout = layout
        rows = (self._node_rows.get(node.name, self._no_row) for node in layout.nodes)
        self._leaf_rows = np.fromiter(rows, dtype=np.int64, count=len(layout.nodes))

    def kept_layout(self) -> Layout:
        """The layout without nodes that have come since it was made, but with all that changed in place."""
        if self._changed:
            known = [node for name, node in self._changed.items() if name in self._layout.leaf_of]
            self._layout = self._layout.with_nodes(known)
            self._changed.clear()
        return self._layout

    @property
    def cards(self) -> CardAccount:
        """Who holds what of which node's cards."""
        return self._card_account

    def residents(self) -> Residents:
        """Who is on which node now."""
        return self._residents.now()

    def room(self) -> Room:
        """What is free now, to plan with."""
        return self.snapshot(self.layout).room

    def snapshot(self, layout: Layout | None = None) -> Snapshot:
        """The cluster as it is now, for one round of planning; later events do not change it.

        `layout` is this cluster's own, if it is not to be made here.
        """
        layout = layout or self.layout
        if self._catalog.size > _MOST_KNOWN:
            self._catalog = CardCatalog(self._catalog.policy)
        cards = NodesCards(self._catalog, self._card_account, layout.leaf_of)
        ports, residents = self._ports.now(), self._residents.now()
        return Snapshot(
            layout,
            self._room(layout, self._usage.free(self._leaf_rows), (ports, residents), cards.now, cards),
            self._room(
                layout,
                self._usage.free_in_the_end(self._leaf_rows),
                (replace(ports, lasting_only=True), residents.lasting()),
                cards.in_the_end,
                cards,
            ),
            self._usage.ends_s(self._leaf_rows),
            self._version,
            self._grown[self._leaf_rows],
        )

    def suppose(self, snapshot: Snapshot, pods: Iterable[ObjectKey]) -> "Supposition":
        """What can be asked of a snapshot that was just made: what were free if some of `pods` had gone."""
        charges = {pod: found for pod in pods if (found := self._usage.charge_of(pod)) is not None}
        return Supposition(snapshot.layout, snapshot.room, charges, self._card_account.copy())

    def _note_growth(self, node: str | None) -> None:
        """A node may take more than before: who was refused may fit now."""
        row = self._node_rows.get(node or "")
        if row is None:
            return
        if row >= len(self._grown):
            self._grown = np.pad(self._grown, (0, max(row + 1, 2 * len(self._grown)) - len(self._grown)))
        self._version += 1
        self._grown[row] = self._version

    def allows(self, shape: PodShape, node: str) -> bool:
        """Whether a node is there, keeps such a pod away by nothing, and is one that it may be on."""
        known, rules = self._nodes.get(node), shape.rules
        if known is None or first_barrier(barriers(known), rules.tolerations) is not None:
            return False
        return (
            rules.features <= known.features
            and rules.keys <= known.labels.keys()
            and is_selected(known, rules.node_selector, rules.required_terms)
            and all(is_selected(known, (), reach.terms) for reach in rules.reaches)
        )

    def still_takes(self, shape: PodShape, node: str, pod: ObjectKey) -> bool:
        """Whether a node allows a pod that is charged to it, and has no less than all that is charged.

        Its host ports are nobody else's there either.

        Whoever wrote its plan: a pod is assigned what it asks for, no more and no less.
        """
        if not self.allows(shape, node):
            return False
        if shape.cards and not shape.cards.is_plain and not self._card_account.uses(pod):
            # An older scheduler, which knew nothing of cards, has planned it.
            return False
        uses = self._card_account.uses(pod)
        if uses and not (is_as_asked(uses, shape.cards) and self._card_account.still_fits(pod)):
            return False
        if not self._ports.has_its_own(pod):
            return False
        return self._usage.is_enough(node, (resource for resource, _ in shape.units))

    def _room(
        self,
        layout: Layout,
        free: Ints,
        held: tuple[PortRoom, Residents],
        codes: Ints,
        cards: NodesCards,
    ) -> CardRoom:
        closed = np.zeros(len(layout.nodes), dtype=bool)
        columns, amounts_free = dict(self._usage.columns), np.ascontiguousarray(free.T)
        amounts = NodeRoom(layout, columns, amounts_free, closed, ports=held[0], residents=held[1])
        return CardRoom(amounts, codes, cards)


def _planning_facts(node: Node) -> tuple[object, ...]:
    """What the planner looks at on a node, its cards apart."""
    return node.labels, barriers(node), node.allocatable, node.features
