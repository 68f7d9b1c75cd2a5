"""Move: a running task that is to go to other nodes, why that helps, and how far it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from accelet.kinds.definition import GROUP, Column, Definition
from accelet.kinds.gputask import MOST_RANKS, TaskConditionShape
from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import ObjectKey, RawObject, WireObject, read_object

MOVES: Final = ApiResource("Move", "moves", GROUP, "v1alpha1")

MovePhase = Literal["Proposed", "Approved", "Held", "Saving", "Leaving", "Arriving", "Done", "Withdrawn"]
"""How far a move is.

The scheduler proposes it and, once it is approved, holds the new places (`Held`); everything else is the task
controller's to write. Until `Leaving` either may withdraw it, and nothing but the program's own time is lost.
From `Leaving` on it goes through: the old pods are ended and the new places are the task's alone.
"""
GainKind = Literal["LetsIn", "Nearer", "Drain", "Person", "Packs"]

ENDED: Final[frozenset[MovePhase]] = frozenset(("Done", "Withdrawn"))
HOLDS: Final[frozenset[MovePhase]] = frozenset(("Held", "Saving", "Leaving", "Arriving"))
"""In these phases the new places and the old ones are given to nobody but the task."""

UNDER_WAY: Final[frozenset[MovePhase]] = frozenset(("Leaving", "Arriving"))
"""In these the old pods are being ended or have, and the move is not withdrawn any more."""

MOST_MOVED: Final = 256
"""A task of more ranks is not moved: the object would be too large."""

_Time = Annotated[datetime, Meta(tz=True)]
_Word = Annotated[str, Meta(max_length=63)]
_Name = Annotated[str, Meta(min_length=1, max_length=253)]
_Sentence = Annotated[str, Meta(max_length=1024)]
_LabelKey = Annotated[str, Meta(max_length=317)]
_Cards = Annotated[str, Meta(max_length=2048)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the shapes: camel case in JSON, what has its default is left out."""


class MoveTask(_Part, frozen=True, kw_only=True):
    """The GPUTask that is moved, and which of its attempts."""

    name: _Name
    uid: Annotated[str, Meta(min_length=1, max_length=63)]
    attempt: Annotated[int, Meta(ge=1, le=9999)]


class MovePlace(_Part, frozen=True, kw_only=True):
    """One rank: its pod now, where that is, and where the rank is to be.

    `fromCards` and `toCards` are assignments as on pods, empty where it has no cards of gpu.intel.com.
    A rank that stays has the same place twice: it begins anew with its peers.
    """

    rank: Annotated[int, Meta(ge=0, le=MOST_RANKS - 1)]
    pod_uid: Annotated[str, Meta(min_length=1, max_length=63)]
    from_node: _Name
    to_node: _Name
    from_cards: _Cards = ""
    to_cards: _Cards = ""


class MoveGain(_Part, frozen=True, kw_only=True):
    """What it is good for, in a sentence for people.

    `letsIn` stands for the waiting gang that gets in: a digest of its key, which tells nobody who it is.
    """

    kind: GainKind
    text: _Sentence = ""
    lets_in: _Word = ""


class MoveSpec(_Part, frozen=True, kw_only=True):
    """What is proposed; it cannot be changed.

    `takes` is what each rank has of its node, by resource, cpu in thousandths. After `validUntil` it is
    withdrawn, unless it is under way.
    """

    task: MoveTask
    takes: Annotated[dict[_LabelKey, Annotated[int, Meta(ge=0, le=2**46)]], Meta(max_length=32)]
    places: Annotated[tuple[MovePlace, ...], Meta(min_length=1, max_length=MOST_MOVED)]
    gain: MoveGain
    valid_until: _Time

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        return [("self == oldSelf", "the spec cannot be changed: withdraw this Move and propose another")]


class MoveStatus(_Part, frozen=True, kw_only=True):
    """How far it is. A phase is written before what it says is done. `saveBy`: the program's time to save."""

    phase: MovePhase = "Proposed"
    reason: _Word = ""
    why: _Sentence = ""
    save_by: _Time | None = None
    left_at: _Time | None = None
    ended_at: _Time | None = None
    conditions: Annotated[tuple[TaskConditionShape, ...], Meta(max_length=8)] = ()

    def advance(
        self, phase: MovePhase, reason: str, why: str, now: datetime, *, save_by: datetime | None = None
    ) -> "MoveStatus":
        """The status once the move has come to `phase`: one condition for each phase that it has come to."""
        said = TaskConditionShape(
            type=phase, status="True", reason=reason, message=why, last_transition_time=now
        )
        return msgspec.structs.replace(
            self,
            phase=phase,
            reason=reason,
            why=why,
            save_by=save_by or self.save_by,
            left_at=now if phase == "Leaving" else self.left_at,
            ended_at=now if phase in ENDED else self.ended_at,
            conditions=(*(one for one in self.conditions if one.type != phase), said),
        )


@dataclass(frozen=True, slots=True)
class Move:
    """One Move. `status` is what the API server has of it; `created_s` is in seconds since the epoch."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    created_s: float
    spec: MoveSpec
    status: MoveStatus

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    @property
    def phase(self) -> MovePhase:
        return self.status.phase

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDED

    @property
    def is_under_way(self) -> bool:
        """Whether it goes through: its pods are being ended, or their successors arrive."""
        return self.phase in UNDER_WAY

    @property
    def pod_uids(self) -> frozenset[str]:
        """The pods that are to end, and no others."""
        return frozenset(place.pod_uid for place in self.spec.places)

    @property
    def save_by_s(self) -> float:
        return _seconds(self.status.save_by)

    @property
    def valid_until_s(self) -> float:
        return self.spec.valid_until.timestamp()


class _WireMove(WireObject, frozen=True):
    spec: MoveSpec
    status: MoveStatus | None = None


def parse_move(raw: RawObject) -> Move:
    """The Move that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the kind promises, or it names a rank or a pod twice.
    """
    wire = read_object(raw, "Move", _WireMove)
    metadata, places = wire.metadata, wire.spec.places
    namespace = metadata.namespace or "default"
    ranks, pods = {place.rank for place in places}, {place.pod_uid for place in places}
    if min(len(ranks), len(pods)) < len(places):
        problem = "names a rank or pod twice"
        raise MalformedObjectError("Move", namespace, metadata.name, "spec.places", problem)
    created = metadata.creation_timestamp
    return Move(
        namespace=namespace,
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        created_s=_seconds(created),
        spec=wire.spec,
        status=wire.status or MoveStatus(),
    )


def _seconds(time: datetime | None) -> float:
    return 0.0 if time is None else time.timestamp()


_END_RULE: Final = (
    (
        "!has(oldSelf.status) || !has(oldSelf.status.phase)"
        " || !(oldSelf.status.phase in ['Done', 'Withdrawn'])"
        " || (has(self.status) && has(self.status.phase) && self.status.phase == oldSelf.status.phase)"
    ),
    "a Move that is Done or Withdrawn stays so: propose another",
)
_LEFT_RULE: Final = (
    (
        "!has(oldSelf.status) || !has(oldSelf.status.phase)"
        " || !(oldSelf.status.phase in ['Leaving', 'Arriving'])"
        " || (has(self.status) && has(self.status.phase)"
        " && self.status.phase in ['Leaving', 'Arriving', 'Done'])"
    ),
    "a Move that is under way goes through: it is not withdrawn",
)

MOVE_DEFINITION: Final = Definition(
    resource=MOVES,
    singular="move",
    short_names=("mv",),
    spec=MoveSpec,
    status=MoveStatus,
    description="A running task that is to go to other nodes.",
    rules=(_END_RULE, _LEFT_RULE),
    selectable=(".status.phase", ".spec.task.name"),
    columns=(
        Column("Phase", ".status.phase"),
        Column("Task", ".spec.task.name"),
        Column("Gain", ".spec.gain.kind"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("For", ".spec.gain.text", priority=1),
        Column("Why", ".status.why", priority=1),
    ),
)
