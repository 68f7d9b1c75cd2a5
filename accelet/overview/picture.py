"""What the page shows, as values: each part under a key, so that changes can be told part by part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from accelet.scheduler.cards.view import TileState


class _Box(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what is shown; what has its default is left out on the wire."""


class HolderBox(_Box, frozen=True):
    """`namespace/pod/container`, or a claim; without tiles it shares the whole card."""

    name: str
    tiles: tuple[int, ...] = ()
    millicores: int = 0
    memory_bytes: int = 0
    is_lingering: bool = False


class CardBox(_Box, frozen=True):
    """A card as `accelet cards` has it. `tiles` are their states; `closed_tiles` those out of service."""

    id: str
    resource: str
    tiles: tuple[TileState, ...]
    closed_tiles: tuple[int, ...] = ()
    card: str = ""
    model: str = ""
    pci: str = ""
    numa_node: int | None = None
    ill: str = ""
    is_closed: bool = False
    millicores_free: int = 0
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    shares: int = 0
    shares_free: int = 0
    unassigned: int = 0
    holders: tuple[HolderBox, ...] = ()
    more_holders: int = 0
    conflicts: tuple[str, ...] = ()


class AmountBox(_Box, frozen=True):
    """An extended resource of a node: what it offers, and what pods there ask for."""

    resource: str
    offered: int = 0
    taken: int = 0


class PodBox(_Box, frozen=True):
    """A pod on a node that asks for extended resources; `gang` is empty where it is one by itself.

    `queue` is Kueue's LocalQueue.
    """

    name: str
    asks: tuple[AmountBox, ...]
    gang: str = ""
    queue: str = ""


class StrayBox(_Box, frozen=True):
    """A container that is assigned devices which its node does not publish."""

    container: str
    devices: str


class NodeBox(_Box, frozen=True):
    """One node. `place` is where it is in the network, from far to near; empty where no labels say."""

    place: tuple[str, ...] = ()
    is_away: bool = False
    is_cordoned: bool = False
    problem: str = ""
    cards: tuple[CardBox, ...] = ()
    more_cards: int = 0
    strays: tuple[StrayBox, ...] = ()
    amounts: tuple[AmountBox, ...] = ()
    pods: tuple[PodBox, ...] = ()
    more_pods: int = 0


class WaitingBox(_Box, frozen=True):
    """A gang, or a pod alone, that has no place. `reason` is why; with `fits`, where there is room for it.

    `is_ours`: it waits for accelet's scheduler; otherwise for kube-scheduler, or for somebody else's gate.
    `names` are its first pods, `queue` is Kueue's LocalQueue.
    """

    name: str
    pods: int
    reason: str
    kind: str = ""
    size: int | None = None
    priority: int = 0
    since_s: float = 0.0
    fits: bool = False
    is_ours: bool = True
    asks: tuple[AmountBox, ...] = ()
    names: tuple[str, ...] = ()
    queue: str = ""


class SeatBox(_Box, frozen=True):
    """Where a plan or a move puts a pod; `from_node` where it is before."""

    pod: str
    node: str
    from_node: str = ""


class PlanBox(_Box, frozen=True):
    """A gang's plan that is being carried out. `bound` of its pods are on their nodes."""

    name: str
    pods: int
    kind: str = ""
    bound: int = 0
    distance: int = 0
    lower_bound: int = 0
    seats: tuple[SeatBox, ...] = ()
    more_seats: int = 0


class SliceBox(_Box, frozen=True):
    """A SliceRequest, as `accelet slices` shows it."""

    name: str
    phase: str
    set: str = ""
    owner: str = ""
    accelerator: str = ""
    topology: str = ""
    hosts: str = ""
    tier: str = ""
    zone: str = ""
    pool: str = ""
    why: str = ""
    is_deleted: bool = False


class TaskBox(_Box, frozen=True):
    """A GPUTask, as `accelet task ps` shows it. `nodes` are texts: `n3: rank 0-3`; `move` is one too."""

    name: str
    phase: str
    ready: int = 0
    replicas: int = 1
    attempt: int = 0
    retries_left: int = 0
    cards: str = ""
    where: str = ""
    why: str = ""
    move: str = ""
    last_end: str = ""
    queue: str = ""
    nodes: tuple[str, ...] = ()
    is_deleted: bool = False


class TotalBox(_Box, frozen=True):
    """All cards of one resource; or, without cards, what nodes offer of it and pods ask for."""

    resource: str
    cards: int = 0
    cards_free: int = 0
    tiles: int = 0
    tiles_free: int = 0
    tiles_held: int = 0
    tiles_shared: int = 0
    tiles_blocked: int = 0
    tiles_closed: int = 0
    tiles_contested: int = 0
    offered: int = 0
    taken: int = 0


class AboutBox(_Box, frozen=True):
    """The cluster as a whole. `notes` are sentences on what is not shown, and why.

    `context`, `cluster` and `server` are its names in the kubeconfig, empty in a pod. `kinds`: which
    of our own kinds the cluster knows. `is_whole`: everything has been seen once.
    """

    levels: tuple[str, ...] = ()
    totals: tuple[TotalBox, ...] = ()
    notes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    is_whole: bool = False
    context: str = ""
    cluster: str = ""
    server: str = ""


Box: TypeAlias = NodeBox | WaitingBox | PlanBox | SliceBox | TaskBox | AboutBox
Boxes: TypeAlias = Mapping[str, Box]


def _nothing() -> Boxes:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is shown at one time, by sections; a section's keys are stable."""

    about: Boxes = field(default_factory=_nothing)
    nodes: Boxes = field(default_factory=_nothing)
    waiting: Boxes = field(default_factory=_nothing)
    plans: Boxes = field(default_factory=_nothing)
    slices: Boxes = field(default_factory=_nothing)
    tasks: Boxes = field(default_factory=_nothing)


SECTIONS = tuple(Picture.__dataclass_fields__)
