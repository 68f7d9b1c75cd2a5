"""What has been seen of a cluster so far, kept up with events, and the picture of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace
from typing import TypeVar

from accelet.dra.preparing.claim import AllocatedClaim
from accelet.dra.publishing.published import PublishedSlice
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.move import Move
from accelet.kube.apiresources import NO_NAME, ClusterName
from accelet.kube.nodes import Node
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.watching.store import Change
from accelet.overview.bounds import MOST_HOLDERS, MOST_NODES, MOST_ROWS, MOST_SENTENCE, cut, first
from accelet.overview.claimedcards import with_claimed
from accelet.overview.nodes import Extended, box_node, box_totals, extended_of
from accelet.overview.picture import AboutBox, Box, Boxes, NodeBox, Picture
from accelet.overview.waiting import box_gangs, box_plans, box_pods
from accelet.overview.wishes import box_slices, box_tasks
from accelet.provisioner.record import SliceRequest
from accelet.scheduler.cards.view import ClusterView, TotalView, merge_totals, view_cluster
from accelet.scheduler.cluster.cluster import Snapshot
from accelet.scheduler.gangs.grouping import GATE_PREFIX, Gang
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.record import Record
from accelet.scheduler.settings import SchedulerSettings
from accelet.scheduler.state import SchedulerState

_B = TypeVar("_B")
_S = TypeVar("_S", bound=Sized)


class SeenCluster:
    """Nodes, pods, owners, plans, slices, claims, slice requests and tasks. No I/O and no clock.

    A node is looked at anew only when something of it has changed: a pod's event costs the same however
    large the cluster is.
    """

    def __init__(self, settings: SchedulerSettings, name: ClusterName = NO_NAME) -> None:
        self._name = name
        cards = settings.cards
        self.state = SchedulerState(settings.scheme(), GATE_PREFIX, cards.resources, cards.policy)
        self.requests: dict[ObjectKey, SliceRequest] = {}
        self.tasks: dict[ObjectKey, GpuTask] = {}
        self.moves: dict[ObjectKey, Move] = {}
        self._slices: defaultdict[str, dict[ObjectKey, PublishedSlice]] = defaultdict(dict)
        self._claims: defaultdict[str, dict[ObjectKey, AllocatedClaim]] = defaultdict(dict)
        self._asks: dict[ObjectKey, Extended] = {}
        self._on: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._touched: set[str] = set()
        self._boxes: dict[str, NodeBox] = {}
        self._totals: dict[str, Sequence[TotalView]] = {}

    def see_node(self, change: Change[Node]) -> None:
        self._touched.add(change.key[1])
        if change.after is not None:
            self.state.set_node(change.after)
        else:
            self.state.remove_node(change.key[1])

    def see_pod(self, change: Change[Pod], now_s: float) -> None:
        self._touch([change.key])
        for pod, is_there in ((change.before, False), (change.after, True)):
            if pod is not None and pod.node_name is not None:
                self._touched.add(pod.node_name)
                (self._on[pod.node_name].add if is_there else self._on[pod.node_name].discard)(change.key)
        if change.after is None:
            self._asks.pop(change.key, None)
            self.state.remove_pod(change.key, now_s)
        else:
            self._asks[change.key] = extended_of(change.after)
            self.state.set_pod(change.after)
        self._touch([change.key])

    def see_record(self, change: Change[Record]) -> None:
        pods = [
            (one.gang.namespace, placement.pod)
            for one in (change.before, change.after)
            if one is not None
            for placement in one.placements
        ]
        self._touch(pods)
        if change.after is not None:
            self.state.set_record(change.after)
        elif change.before is not None:
            self.state.remove_record(change.before)
        self._touch(pods)

    def see_workload(self, kind: str, change: Change[Workload]) -> None:
        if change.after is not None:
            self.state.set_workload(change.after)
        else:
            self.state.remove_workload(kind, *change.key)

    def see_slice(self, change: Change[PublishedSlice | None]) -> None:
        if change.before is not None:
            self._touched.add(change.before.node)
            self._slices[change.before.node].pop(change.key, None)
        if change.after is not None:
            self._touched.add(change.after.node)
            self._slices[change.after.node][change.key] = change.after

    def see_claim(self, change: Change[AllocatedClaim | None]) -> None:
        for claim, is_there in ((change.before, False), (change.after, True)):
            for node in {result.pool for result in claim.results} if claim is not None else ():
                self._touched.add(node)
                self._claims[node].pop(change.key, None)
                if is_there and claim is not None:
                    self._claims[node][change.key] = claim

    def see_request(self, change: Change[SliceRequest]) -> None:
        _keep(self.requests, change)

    def see_task(self, change: Change[GpuTask]) -> None:
        _keep(self.tasks, change)

    def see_move(self, change: Change[Move]) -> None:
        _keep(self.moves, change)

    @property
    def has_slices(self) -> bool:
        """Whether any node's cards are served through DRA."""
        return any(self._slices.values())

    def let_go(self, now_s: float) -> float | None:
        """Frees the cards of pods deleted by force; in how many seconds there may be more to free."""
        self._touched.update(one.node for one in self.state.lingering())
        return self.state.let_go(now_s)

    def rebuild(self, most: int = 50) -> bool:
        """Looks anew at some of the nodes and gangs that have changed; whether some are left."""
        for name in [name for name, _ in zip(self._touched, range(most), strict=False)]:
            self._touched.discard(name)
            node = self.state.cluster.node(name)
            if node is None:
                self._boxes.pop(name, None)
                self._totals.pop(name, None)
                self._forget_empty(name)
                continue
            view = self._view(node)
            pods = ((self.state.pods[key], self._asks[key]) for key in self._on.get(name, ()))
            live = ((pod, asks) for pod, asks in pods if not pod.is_terminal)
            scheme, prefix = self.state.cluster.scheme, self.state.prefix
            self._boxes[name] = box_node(node, view.nodes[0], scheme, live, prefix)
            self._totals[name] = view.totals
        return bool(self._touched) or self.state.rebuild_gangs()

    def waiting(self) -> tuple[Sequence[Gang], Snapshot]:
        """The gangs that wait, in order, and what they are planned with; once nothing is left to rebuild."""
        return self.state.gangs(), self.state.cluster.snapshot()

    def picture(
        self,
        gangs: Sequence[Gang],
        plans: Sequence[Plan],
        *,
        notes: Iterable[str] = (),
        kinds: Iterable[str] = (),
        is_whole: bool = True,
    ) -> Picture:
        """What has been seen, with the planner's word on the gangs that wait."""
        said = [cut(note, MOST_SENTENCE) for note in notes]
        nodes = bounded(self._boxes, MOST_NODES, "nodes", said)
        pods = ((pod, self._asks[key]) for key, pod in self.state.pods.items() if self._is_on_its_own(pod))
        waiting = {**box_gangs(gangs, plans, self._asks_of), **box_pods(pods, self.state.prefix)}
        totals = merge_totals(one for totals in self._totals.values() for one in totals)
        picture = Picture(
            nodes=nodes,
            waiting=bounded(waiting, MOST_ROWS, "gangs and pods that wait", said),
            plans=bounded(box_plans(self.state.records.values(), self.state.pods), MOST_ROWS, "plans", said),
            slices=bounded(box_slices(self.requests.values()), MOST_ROWS, "slices", said),
            tasks=bounded(box_tasks(self.tasks.values(), self.moves.values()), MOST_ROWS, "tasks", said),
        )
        about = AboutBox(
            levels=tuple(cut(level) for level in self.state.cluster.scheme.levels),
            totals=box_totals(totals, self._boxes.values()),
            notes=_notes(said),
            kinds=tuple(kinds),
            is_whole=is_whole,
            context=cut(self._name.context),
            cluster=cut(self._name.cluster),
            server=cut(self._name.server),
        )
        return replace(picture, about={"cluster": about})

    def _is_on_its_own(self, pod: Pod) -> bool:
        """Whether it waits, and no plan that is under way has a node for it."""
        return pod.node_name is None and self.state.planned_node(pod) is None

    def _asks_of(self, pod: Pod) -> Extended:
        return self._asks.get(pod.key, {})

    def _view(self, node: Node) -> ClusterView:
        """One node's cards, as `accelet cards` has them."""
        view = view_cluster([node], self.state.cluster.cards)
        slices = self._slices.get(node.name)
        return with_claimed(view, slices.values(), self._claims[node.name].values()) if slices else view

    def _touch(self, pods: Iterable[ObjectKey]) -> None:
        """The nodes on which these pods are charged at present are to be looked at anew."""
        places = (self.state.cluster.cards.place(key) for key in pods)
        self._touched.update(place for place in places if place is not None)

    def _forget_empty(self, name: str) -> None:
        """Nodes come and go under ever new names."""
        _drop_empty(self._slices, name)
        _drop_empty(self._claims, name)
        _drop_empty(self._on, name)


def _drop_empty(known: dict[str, _S], name: str) -> None:
    if name in known and not known[name]:
        del known[name]


def _keep(known: dict[ObjectKey, _B], change: Change[_B]) -> None:
    if change.after is not None:
        known[change.key] = change.after
    else:
        known.pop(change.key, None)


def bounded(boxes: Boxes, most: int, what: str, notes: list[str]) -> Boxes:
    """As many as are shown, of each namespace in turn the one seen first; a note on the others."""
    if len(boxes) <= most:
        return dict(boxes)
    notes.append(f"{len(boxes) - most:,} more {what} are not shown: the page shows {most:,}")
    counts: Counter[str] = Counter()
    turns: dict[str, int] = {}
    for key, box in boxes.items():
        counts[namespace := _namespace(box)] += 1
        turns[key] = counts[namespace]
    return {key: boxes[key] for key in sorted(boxes, key=turns.__getitem__)[:most]}


def _namespace(box: Box) -> str:
    return "" if isinstance(box, NodeBox | AboutBox) else box.name.partition("/")[0]


def _notes(said: Sequence[str]) -> tuple[str, ...]:
    shown, more = first(dict.fromkeys(said), MOST_HOLDERS)
    return (*shown, *([f"and {more:,} notes more"] if more else ()))
