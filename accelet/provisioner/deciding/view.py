"""What a decision is made of: the record, the pools, the nodes, the rest of the set."""

from dataclasses import dataclass, field, replace
from typing import Final

from accelet.kinds.slicerequest import Phase
from accelet.provisioner.pools.machines import Machines, Refusal
from accelet.provisioner.pools.pool import NodePool, PoolList
from accelet.provisioner.pools.tiers import Attempt, Order


@dataclass(frozen=True, slots=True)
class Times:
    """How patient to be, in seconds.

    `join_s`: for the next machine of a running pool to offer its chips. `flex_start_s`: for the first
    machine of a pool of flex-start. `hold_s`: for how long a whole slice waits for its set after the set's
    last progress. `repair_s`: for the next lost machine to come
    back. `grace_s`: before a slice is given back. `settle_s`: between closing nodes and deleting them, for
    bindings under way to show. `park_s`: how long a slice that nobody wants is kept for the next one, 0 for
    not at all. `lag_s`: after which a list has what was made before. `rest_s`: after all attempts failed,
    doubled each round up to `longest_rest_s`. `refused_s`: for how long a place is asked again that refuses
    for a reason that may pass. `slow_s`: after which a provider that has not made or deleted a pool is
    reported. `evict_s`: after which pods are evicted that still run on a slice that is lost, None for
    never. `unused_s`: after which a ready slice without pods is reported, and `release_unused_s` after which
    it is given back, None for never.
    """

    join_s: float = 900.0
    flex_start_s: float = 86400.0
    hold_s: float = 600.0
    repair_s: float = 1200.0
    grace_s: float = 60.0
    settle_s: float = 5.0
    park_s: float = 0.0
    lag_s: float = 60.0
    rest_s: float = 300.0
    longest_rest_s: float = 1800.0
    refused_s: float = 900.0
    slow_s: float = 1800.0
    evict_s: float | None = None
    unused_s: float = 900.0
    release_unused_s: float | None = None


GATHERING: Final = frozenset(("Joining", "Joined"))
"""Phases in which a slice that was whole still waits for its set."""

LEAVING: Final = frozenset(("Failing", "Releasing"))
"""Phases in which a pool is on its way out."""

HELD: Final = frozenset(("Joined", "Ready", "Repairing"))
"""Phases in which a slice was whole, and is as far as its set is concerned."""

COMING: Final = frozenset(("Joining", "Joined", "Ready", "Repairing"))


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """What is written down of a slice: the status of its SliceRequest. Times are seconds since the epoch.

    `no_service`, `drift`, `silent` and `doubt` are sentences on what was found and changes nothing, empty for
    nothing.
    `parked_s` is when it was put aside, 0 for never, and `taker` the UID of the request that it is then given
    to. `asks_of` is the UID of the request whose parked slice this one asks for, and `mark` that on its pool
    where it was another's. `no_room`: it waits for room below the limits.

    `came` is the most machines that have offered their chips in this phase, and `progress_s` when the last
    of them came, 0 for not since the phase began. `held_s` is when the slice first was whole and began to
    wait for its set, 0 for not yet. `doubted_s` is since when the provider's list speaks against its pool,
    0 while it does not, and `doubt` the sentence on that. `asked_end_s` is when the provider was last asked
    to delete the pool, 0 for not in this phase. `refused_s` is since when the attempt's place refuses for a
    reason that may pass, 0 while it does not. `was_ready`: the slice failed after it had been Ready.
    `undeletable` is why the provider does not delete the pool, `slow` that it takes too long. `staying`
    names the pods that keep a pool from being deleted. `idle_s` is since when a ready slice has no pods, 0
    while it has, and `unused` the sentence on that. `is_lapsed`: it was given back for that.
    """

    phase: Phase = "Pending"
    why: str = ""
    since_s: float = 0.0
    attempt: int = 0
    tried: int = 0
    rounds: int = 0
    pool: str = ""
    tier: str = ""
    zone: str = ""
    sent: bool = False
    sent_s: float = 0.0
    retry_s: float = 0.0
    refusals: int = 0
    dry_tiers: tuple[str, ...] = ()
    no_service: str = ""
    drift: str = ""
    silent: str = ""
    parked_s: float = 0.0
    taker: str = ""
    asks_of: str = ""
    mark: str = ""
    no_room: bool = False
    came: int = 0
    progress_s: float = 0.0
    held_s: float = 0.0
    doubted_s: float = 0.0
    doubt: str = ""
    asked_end_s: float = 0.0
    staying: str = ""
    refused_s: float = 0.0
    was_ready: bool = False
    undeletable: str = ""
    slow: str = ""
    idle_s: float = 0.0
    unused: str = ""
    is_lapsed: bool = False

    def enter(self, phase: Phase, why: str, now_s: float, **changes: object) -> "SliceRecord":
        """The record in another phase, from now on."""
        begun: dict[str, object] = {
            "came": 0,
            "progress_s": 0.0,
            "asked_end_s": 0.0,
            "held_s": self.held_s if phase in GATHERING else 0.0,
        }
        begun["was_ready"] = phase == "Failing" and (self.was_ready or self.phase in ("Ready", "Repairing"))
        begun["doubted_s"] = self.doubted_s if phase in COMING else 0.0
        entered = {**begun, **changes}
        return replace(self, phase=phase, why=why, since_s=now_s, **entered)  # type: ignore[arg-type]  # of this class

    def say(self, why: str) -> "SliceRecord":
        return self if self.why == why else replace(self, why=why)


@dataclass(frozen=True, slots=True)
class SliceNode:
    """One Node of a pool.

    `is_open`: pods may come, by its taint and cordon. `is_bound`: it has our labels. `closed_s` is when we
    closed it, None if we did not. `pods` are those that keep it from being deleted, as NAMESPACE/NAME.
    `is_starting`: it has the taint of its start that autoscalers know, by which it counts as not ready there.
    """

    name: str
    pool: str
    is_ready: bool = False
    chips: int = 0
    is_open: bool = False
    is_bound: bool = False
    closed_s: float | None = None
    pods: tuple[str, ...] = ()
    is_starting: bool = False

    @property
    def has_pods(self) -> bool:
        return bool(self.pods)


def progress_of(record: SliceRecord, *, is_listed: bool) -> float:
    """When a slice last came nearer to being ready, 0 for not in this attempt.

    That is when its attempt began, when the provider took it up, and when its machines came. `is_listed`: the
    provider's list has its pool.
    """
    if record.phase == "Creating":
        return record.sent_s if is_listed and record.sent_s else record.since_s
    return max(record.since_s, record.progress_s) if record.phase in COMING else 0.0


@dataclass(frozen=True, slots=True)
class RestOfSet:
    """All other slices of a set, summed up: a set may have a thousand. By default there are none.

    `known` is how many there are, and `wanted` how many of these somebody wants. `is_whole`: each of the
    wanted is held and has all its machines; only a slice that is Joined is told so. `progress_s` is when one
    of the wanted last came nearer to being ready, 0 for none. `held_tiers` are those of the wanted that wait
    for their set. `resting_until_s` is until when those rest that back off, None if none does. `dry_tiers`
    are tiers in which one of the others found no room. `is_unused`: each is unused, or was given back for
    that.
    """

    known: int = 0
    wanted: int = 0
    is_whole: bool = True
    progress_s: float = 0.0
    held_tiers: frozenset[str] = frozenset()
    resting_until_s: float | None = None
    dry_tiers: frozenset[str] = frozenset()
    is_unused: bool = True


NO_REST: Final = RestOfSet()


@dataclass(frozen=True, slots=True)
class ParkedPool:
    """A parked slice, as a request that could take it sees it.

    `holder` is the UID of the request that put it aside, `taker` that of the one it is given to, empty if
    nobody has it yet. `no_room` is why it could not be taken either.
    """

    holder: str
    pool: str
    mark: str
    fingerprint: str
    attempt: Attempt
    taker: str = ""
    no_room: str | None = None


@dataclass(frozen=True, slots=True)
class SlicesView:
    """Everything that a decision about one slice depends on.

    `rest` is what the others of its set are, `NO_REST` in phases in which decisions do not look at it.

    `unwanted` is why nobody wants it any more, None if somebody does; `is_ended`: nobody ever will.
    `is_deleted`: its SliceRequest is being deleted. `no_room` is why none may be begun now. `fingerprint` is
    that of a pool as it would be made today, `no_service` a sentence on the Service its workers lack; empty
    where nobody knows. `silent` says that the list is an old one: the provider does not answer. `parked` are
    slices that it could take instead of a new one. `askers` ask for its own parked slice, and
    `is_in_the_way`: others need the room of that. `given` are pools that were its own and are another's now.
    `original` is the pool that the original provisioner has made for its Job. `rival` says who else makes a
    Job of this name, and came first.
    """

    name: str
    uid: str
    record: SliceRecord
    machines: Machines | Refusal
    order: Order | Refusal
    listed: PoolList
    now_s: float
    nodes: tuple[SliceNode, ...] = ()
    rest: RestOfSet = NO_REST
    set_size: int = 1
    unwanted: str | None = None
    is_ended: bool = False
    is_deleted: bool = False
    is_forced: bool = False
    no_room: str | None = None
    fingerprint: str = ""
    no_service: str = ""
    silent: str = ""
    parked: tuple[ParkedPool, ...] = ()
    askers: tuple[str, ...] = ()
    is_in_the_way: bool = False
    given: frozenset[str] = frozenset()
    original: NodePool | None = None
    rival: str = ""
    times: Times = field(default_factory=Times)

    @property
    def pools(self) -> tuple[NodePool, ...]:
        """The pools with this request's mark, whatever attempt they are of, and one that it took over."""
        uid, record, given = self.uid, self.record, self.given
        own = list(self.listed.by_mark.get(uid, ()))
        if record.mark:
            others = (*self.listed.by_mark.get(record.mark, ()), *self.listed.originals)
            own += [pool for pool in others if (pool.mark, pool.name) == (record.mark, record.pool)]
        return tuple(pool for pool in own if pool.name not in given)

    @property
    def pool(self) -> NodePool | None:
        """The pool of the present attempt, if the list has it."""
        return next((pool for pool in self.pools if pool.name == self.record.pool), None)

    def nodes_of(self, pool: str) -> tuple[SliceNode, ...]:
        return tuple(node for node in self.nodes if node.pool == pool)

    @property
    def is_sound(self) -> bool:
        """Whether the list has the pool of the present attempt, neither failed nor on its way out."""
        return self.pool is not None and self.pool.state not in ("failed", "deleting")

    @property
    def has_pool(self) -> bool:
        """Whether the list has the pool of the present attempt, and not on its way out."""
        return self.pool is not None and self.pool.state != "deleting"

    @property
    def is_whole(self) -> bool:
        """Whether exactly the machines of the slice are there, each with all its chips, by their Nodes."""
        if isinstance(self.machines, Refusal) or not self.record.pool:
            return False
        nodes = self.nodes_of(self.record.pool)
        return len(nodes) == self.machines.hosts and all(
            node.is_ready and node.chips == self.machines.chips_per_host for node in nodes
        )

    @property
    def whole_hosts(self) -> int:
        """How many machines are ready and offer all of their chips."""
        if isinstance(self.machines, Refusal):
            return 0
        wanted = self.machines.chips_per_host
        return sum(node.is_ready and node.chips == wanted for node in self.nodes_of(self.record.pool))

    @property
    def hosts(self) -> str:
        """How many machines offer their chips, of how many: `3/4`."""
        return "" if isinstance(self.machines, Refusal) else f"{self.whole_hosts}/{self.machines.hosts}"


@dataclass(frozen=True, slots=True)
class Create:
    """Ask the provider for the pool that the record names."""


@dataclass(frozen=True, slots=True)
class Open:
    """Bind these nodes by our labels and let pods come."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """Keep new pods from these nodes."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evict:
    """Have the pods on these nodes evicted, as their disruption budgets allow it."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this pool, if a list newer than this decision shows no pod on these nodes."""

    pool: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete the SliceRequest: its owner has no more use for it, and its pool is gone."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Take the finalizer off: nothing is left."""


Action = Create | Open | Close | Evict | Delete | Discard | Finish


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next. A record that is not written down yet is written first, and nothing is done.

    `again_s`: a decision by then may be another, without any event.
    """

    record: SliceRecord
    action: Action | None = None
    again_s: float | None = None
