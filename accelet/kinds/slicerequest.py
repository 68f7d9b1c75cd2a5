"""SliceRequest: one TPU slice that is wanted, and how far it is."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from accelet.kinds.definition import GROUP, Column, Definition
from accelet.kube.apiresources import ApiResource

SLICE_REQUESTS: Final = ApiResource("SliceRequest", "slicerequests", GROUP, "v1alpha1")
FINALIZER: Final = "accelet.dev/slice"

Phase = Literal[
    "Pending",
    "Creating",
    "Joining",
    "Joined",
    "Ready",
    "Repairing",
    "Failing",
    "BackingOff",
    "Releasing",
    "Parked",
    "Refused",
]

_Time = Annotated[datetime, Meta(tz=True)]
_Word = Annotated[str, Meta(max_length=63)]
_Name = Annotated[str, Meta(max_length=253)]
_Sentence = Annotated[str, Meta(max_length=1024)]
_LabelKey = Annotated[str, Meta(max_length=317)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the shapes: camel case in JSON, what has its default is left out."""


class SliceOwner(_Part, frozen=True, kw_only=True):
    """Whose slice it is: a JobSet, Job, LeaderWorkerSet or RayCluster, and the Job or group it is made for.

    `exclusive`: JobSet binds the Job's pods by a label and a taint on the nodes.
    """

    api_version: _Name
    kind: _Word
    name: _Name
    uid: _Word
    job: _Name
    replicated_job: _Word | None = None
    index: Annotated[int, Meta(ge=0, le=1000)] = 0
    exclusive: bool = False


class SliceSet(_Part, frozen=True, kw_only=True):
    """The set a slice is a part of: all of its slices are had, or none is."""

    name: _Word
    size: Annotated[int, Meta(ge=1, le=1000)] = 1


class SliceRequestSpec(_Part, frozen=True, kw_only=True):
    """What is wanted; it cannot be changed.

    `chipsPerPod` decides between one machine of eight chips and two of four. `tier` (on-demand, spot,
    flex-start or reservation:NAME) and `zone` are insisted on, where given.
    """

    accelerator: _Word
    topology: Annotated[str, Meta(max_length=20)]
    chips_per_pod: Annotated[int, Meta(ge=1, le=8)]
    slice_set: SliceSet = msgspec.field(name="set")
    owner: SliceOwner | None = None
    machine_type: _Word | None = None
    ici_resiliency: Literal["true", "false"] | None = None
    placement_policy: _Word | None = None
    slice_class: _Name | None = None
    tier: Annotated[str, Meta(max_length=280)] | None = None
    zone: _Word | None = None
    tolerates_spot: bool = False
    node_labels: Annotated[dict[_LabelKey, _Word], Meta(max_length=32)] = {}

    @staticmethod
    def rules() -> Sequence[tuple[str, str]]:
        return [("self == oldSelf", "the spec cannot be changed: delete this SliceRequest and make another")]


class SliceCondition(_Part, frozen=True, kw_only=True):
    """One condition, as all of Kubernetes has them."""

    type: _Word
    status: Literal["True", "False", "Unknown"]
    last_transition_time: _Time
    reason: _Word = ""
    message: _Sentence = ""


class SliceRequestStatus(_Part, frozen=True, kw_only=True):
    """How far it is. Attempt and pool are written before the provider is asked.

    `tried` counts the attempts of this round, `rounds` those that went through all of them in vain. `sent`:
    the provider was asked at least once for this pool, at `sentAt`. `dryTiers` had no room in this round.
    `parkedAt` is when a slice that nobody wanted any more was put aside, `taker` the UID of the SliceRequest
    that it is given to. `asksOf` is the UID of the one whose parked slice is asked for. `mark` is that on the
    pool where it was another's before. `noRoom`: it waits for room below the limits.
    `came` is how many machines came in this phase, `progressAt` when the last one did. `heldAt` is when it
    was whole for the first time and began to wait for its set. `doubtedAt` is since when the provider's list
    speaks against its pool. `askedEndAt` is when the provider was last asked to delete the pool.
    `refusedAt` is since when the place refuses for a reason that may pass. `wasReady`: it failed after it had
    been Ready. `idleAt` is since when no pod is on it while it is Ready, `isLapsed` that it was given back
    for that.
    """

    phase: Phase = "Pending"
    why: _Sentence = ""
    since: _Time | None = None
    attempt: Annotated[int, Meta(ge=0)] = 0
    tried: Annotated[int, Meta(ge=0)] = 0
    rounds: Annotated[int, Meta(ge=0)] = 0
    pool: _Word = ""
    tier: Annotated[str, Meta(max_length=280)] = ""
    zone: _Word = ""
    sent: bool = False
    sent_at: _Time | None = None
    retry_at: _Time | None = None
    refusals: Annotated[int, Meta(ge=0)] = 0
    dry_tiers: Annotated[tuple[Annotated[str, Meta(max_length=280)], ...], Meta(max_length=16)] = ()
    parked_at: _Time | None = None
    taker: _Word = ""
    asks_of: _Word = ""
    mark: _Word = ""
    no_room: bool = False
    came: Annotated[int, Meta(ge=0)] = 0
    progress_at: _Time | None = None
    held_at: _Time | None = None
    doubted_at: _Time | None = None
    asked_end_at: _Time | None = None
    refused_at: _Time | None = None
    was_ready: bool = False
    idle_at: _Time | None = None
    is_lapsed: bool = False
    hosts: Annotated[str, Meta(max_length=15)] = ""
    conditions: Annotated[tuple[SliceCondition, ...], Meta(max_length=16)] = ()


SLICE_REQUEST_DEFINITION: Final = Definition(
    resource=SLICE_REQUESTS,
    singular="slicerequest",
    short_names=("slr",),
    spec=SliceRequestSpec,
    status=SliceRequestStatus,
    description="One TPU slice that is wanted.",
    columns=(
        Column("Phase", ".status.phase"),
        Column("Accelerator", ".spec.accelerator"),
        Column("Topology", ".spec.topology"),
        Column("Hosts", ".status.hosts"),
        Column("Tier", ".status.tier"),
        Column("Zone", ".status.zone"),
        Column("For", ".spec.owner.job"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Pool", ".status.pool", priority=1),
        Column("Why", ".status.why"),
    ),
)
