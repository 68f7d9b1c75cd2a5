"""A world for `decide`: a provider with faults, an API server with versions, nodes, pods, and time."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from accelet.kinds.slicerequest import Phase
from accelet.provisioner.deciding.attempts import after_create
from accelet.provisioner.deciding.decide import decide
from accelet.provisioner.deciding.offers import ParkedSlice, Party, given_of, is_in_the_way, offers_for
from accelet.provisioner.deciding.parking import OFFERED_S
from accelet.provisioner.deciding.places import Counted
from accelet.provisioner.deciding.retire import after_delete
from accelet.provisioner.deciding.room import BEGINNING, Limits, RoomBook
from accelet.provisioner.deciding.view import (
    Action,
    Close,
    Create,
    Delete,
    Discard,
    Evict,
    Finish,
    Open,
    ParkedPool,
    SliceNode,
    SliceRecord,
    SlicesView,
    Step,
    Times,
)
from accelet.provisioner.pools.machines import Machines, PlacementPolicy
from accelet.provisioner.pools.pool import Failure, NodePool, PoolList, PoolState, Trouble
from accelet.provisioner.pools.tiers import Attempt, Order, Tier
from tests.unit.provisioner.members import Member, sum_up

HOSTS = 2
MACHINES = Machines("tpu-v6e-slice", "2x4", HOSTS, 4, "ct6e-standard-4t", PlacementPolicy.COMPACT)
ORDER = Order(tuple(Attempt(Tier(kind), zone) for kind in ("spot", "on-demand") for zone in ("a", "b")))
TIMES = Times(lag_s=60.0)
LAG_S = 45.0
USED = frozenset(("Joining", "Joined", "Ready", "Repairing"))


@dataclass
class SimPool:
    name: str
    mark: str
    place: tuple[str, str]
    visible_s: float
    runs_s: float
    fails: bool = False
    state: PoolState = "creating"
    gone_s: float = 0.0


@dataclass
class SimNode:
    name: str
    pool: str
    ready: bool = True
    open: bool = False
    bound: bool = False
    closed_s: float | None = None
    pods: int = 0
    owner: str = ""


@dataclass
class SimRequest:
    name: str
    uid: str
    set_name: str
    set_size: int
    record: SliceRecord = field(default_factory=SliceRecord)
    version: int = 0
    unwanted: str | None = None
    ended: bool = False
    deleted: bool = False
    no_service: str = ""
    fingerprint: str = "now"
    named: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Thought:
    """A step that a leader has decided on, and the version of what it saw."""

    uid: str
    version: int
    view: SlicesView
    step: Step


class World:
    """`faults` is how often a call fails in some way; `crashes` how often what follows a write is lost."""

    def __init__(
        self, chance: random.Random, *, faults: float = 0.0, crashes: float = 0.0, park_s: float = 0.0
    ) -> None:
        self.chance, self.faults, self.crashes = chance, faults, crashes
        self.times = replace(TIMES, park_s=park_s)
        self.now_s = 1_000_000.0
        self.limits = Limits()
        self.requests: dict[str, SimRequest] = {}
        self.pools: dict[str, SimPool] = {"foreign": SimPool("foreign", "", ("spot", "a"), 0.0, 0.0)}
        self.nodes: dict[str, SimNode] = {}
        self.capacity: dict[tuple[str, str], int] = {}
        self.default_capacity = 1000
        self.create_s = (5.0, 300.0)
        self.most_operations = 1000
        self.refusal: Failure | None = None
        self.delete_refusal: Failure | None = None
        self.creates = 0
        self.is_idle = False
        self.silent_list: PoolList | None = None
        self.whole_once: set[str] = set()

    def ask(self, name: str, size: int = 1) -> None:
        for index in range(size):
            uid = f"{name}-{index}"
            self.requests[uid] = SimRequest(uid, uid, name, size)

    def phase(self, uid: str) -> Phase:
        return self.requests[uid].record.phase

    def fall_silent(self) -> None:
        """The provider answers no more: the last list stays, and nothing that is sent has an effect."""
        self.silent_list = PoolList(tuple(self.listed()), self.now_s)

    def answer_again(self) -> None:
        self.silent_list = None

    def of_set(self, name: str) -> list[SimRequest]:
        return [request for request in self.requests.values() if request.set_name == name]

    # What a leader does.

    def think(self, uid: str) -> Thought:
        request = self.requests[uid]
        view = self.view(request)
        step = decide(view)
        assert decide(view) == step
        self.check_findings(view, step)
        if view.record.phase not in BEGINNING:
            assert decide(replace(view, no_room="none")) == step, "room decides where it was not judged"
        return Thought(uid, request.version, view, step)

    def check_findings(self, view: SlicesView, step: Step) -> None:
        """What is only noted changes nothing that is done. What a slice is parked and taken by is no note."""
        before = view.record
        noted = (before.no_service, before.drift, before.silent, view.no_service, view.silent)
        if not any(noted) and not view.fingerprint:
            return
        record = replace(before, no_service="", drift="", silent="")
        fingerprint = "" if record.phase in ("Ready", "Repairing") else view.fingerprint
        plain = decide(replace(view, record=record, no_service="", silent="", fingerprint=fingerprint))
        assert step.record.phase == plain.record.phase
        assert step.action in (None, plain.action)

    def act(self, thought: Thought) -> None:
        request, step = self.requests.get(thought.uid), thought.step
        if request is None:
            return
        if step.record != thought.view.record:
            self.write(request, thought.version, step.record)
        elif step.action is not None:
            self.perform(request, thought, step.action)

    def write(self, request: SimRequest, version: int, record: SliceRecord) -> None:
        if request.version != version or self.chance.random() < self.faults:
            return
        assert record.why or record.phase in ("Ready", "Pending"), record
        if (request.record.phase, record.phase) == ("Joined", "Ready"):
            assert all(self.is_whole(one) for one in self.of_set(request.set_name) if one is not request)
        request.record, request.version = record, version + 1
        request.named.add(record.pool)
        self.check_one_hand()

    def perform(self, request: SimRequest, thought: Thought, action: Action) -> None:
        match action:
            case Create():
                failure = self.create(request, thought.view.record)
                if self.chance.random() < self.crashes:
                    return
                after = after_create(thought.view, thought.view.record, failure)
                self.write(request, thought.version, after)
            case Open(nodes) | Close(nodes) | Evict(nodes):
                self.perform_on_nodes(request, action, list(self.some(nodes)))
            case Delete(pool, nodes):
                self.check_own(request, {pool})
                failure = self.delete_refusal
                if failure is None:
                    self.delete(pool, nodes)
                self.write(request, thought.version, after_delete(thought.view, request.record, failure))
            case Discard():
                request.deleted = True
            case Finish():
                assert not self.live_pools(request), "a pool is leaked"
                del self.requests[request.uid]

    def perform_on_nodes(self, request: SimRequest, action: Action, nodes: list[SimNode]) -> None:
        if isinstance(action, Close):
            self.check_own(request, {node.pool for node in nodes})
        for node in nodes:
            match action:
                case Open():
                    node.open, node.bound, node.closed_s, node.owner = True, True, None, request.uid
                case Close():
                    node.open, node.closed_s = False, self.now_s
                case _:
                    node.pods = 0

    def some(self, names: Iterable[str]) -> Iterable[SimNode]:
        """The nodes, until a crash."""
        for name in names:
            if self.chance.random() < self.crashes:
                return
            if (node := self.nodes.get(name)) is not None:
                yield node

    def create(self, request: SimRequest, record: SliceRecord) -> Failure | None:
        assert record.pool in request.named, "it was sent before it was written"
        self.creates += 1
        kind = self.chance.random()
        if self.refusal is not None or kind < self.faults / 2 or self.silent_list is not None:
            return self.refusal or Failure(Trouble.UNKNOWN, "no answer")
        if kind < self.faults or self.operations >= self.most_operations:
            return Failure(Trouble.BUSY, "the cluster is busy")
        if record.pool in self.pools:
            return Failure(Trouble.EXISTS, "it exists")
        place = (record.tier, record.zone)
        if self.used(place) >= self.capacity.get(place, self.default_capacity):
            if self.chance.random() < 0.5:
                return Failure(Trouble.NO_CAPACITY, f"no capacity in {place[1]}")
            fails = True
        else:
            fails = False
        lag_s = self.chance.choice((0.0, LAG_S))
        runs_s = self.now_s + self.chance.uniform(*self.create_s)
        self.pools[record.pool] = SimPool(
            record.pool, request.uid, place, self.now_s + lag_s, max(runs_s, self.now_s + lag_s), fails
        )
        assert len(self.live_pools(request)) <= 1, "two pools for one request"
        if self.chance.random() < self.faults:
            return Failure(Trouble.UNKNOWN, "the answer was lost")
        return None

    def delete(self, name: str, nodes: tuple[str, ...]) -> None:
        pool = self.pools.get(name)
        if pool is None or any(self.nodes[node].pods for node in nodes if node in self.nodes):
            return
        if self.silent_list is not None:
            return
        if pool.state == "creating" or self.chance.random() < self.faults:
            return
        assert pool.mark, "a foreign pool is deleted"
        running = [node for node in self.nodes.values() if node.pool == name and node.pods]
        assert not running, "a running pod's node is deleted"
        pool.state, pool.gone_s = "deleting", self.now_s + self.chance.uniform(1.0, 100.0)

    # What a leader sees.

    def room(self) -> RoomBook:
        room = RoomBook()
        for one in self.requests.values():
            room.set(self.counted(one))
        return room

    def view(self, request: SimRequest) -> SlicesView:
        phase = request.record.phase
        asks = phase in ("Pending", "BackingOff") and request.unwanted is None
        room = self.room() if asks or phase in BEGINNING or phase == "Parked" else RoomBook()
        view = SlicesView(
            name=request.name,
            uid=request.uid,
            record=request.record,
            machines=MACHINES,
            order=ORDER,
            listed=self.silent_list or PoolList(tuple(self.listed()), self.now_s),
            now_s=self.now_s,
            nodes=tuple(self.seen(node, request) for node in self.nodes_of(request)),
            rest=sum_up(
                (
                    Member(one.record, self.is_sound(one), one.unwanted is None, self.is_listed(one))
                    for one in self.of_set(request.set_name)
                    if one is not request
                ),
                self.now_s,
                self.times.hold_s,
            ),
            set_size=request.set_size,
            unwanted=request.unwanted,
            is_ended=request.ended,
            is_deleted=request.deleted,
            no_room=room.judge(self.counted(request), self.limits) if phase in BEGINNING else None,
            fingerprint=request.fingerprint,
            no_service=request.no_service,
            silent="it does not answer" if self.silent_list is not None else "",
            given=self.given(request),
            times=self.times,
        )
        if asks:
            return replace(view, parked=tuple(self.offers(request, view, room)))
        if phase in ("Parked", "Releasing"):
            askers = (
                one.uid
                for one in self.requests.values()
                if one.record.asks_of == request.uid and one.record.phase == "Pending" and not one.unwanted
            )
            way = phase == "Parked" and self.is_in_the_way(request, room)
            return replace(view, askers=tuple(sorted(askers)), is_in_the_way=way)
        return view

    def offers(self, request: SimRequest, view: SlicesView, room: RoomBook) -> Iterable[ParkedPool]:
        listed = {pool.name: pool for pool in view.listed.pools}
        parked = [
            ParkedSlice(self.counted(one), listed[one.record.pool])
            for one in self.requests.values()
            if self.is_offered(one)
            and one.record.pool in listed
            and listed[one.record.pool].state == "running"
        ]
        members = [self.counted(one) for one in self.of_set(request.set_name)]
        return offers_for(self.counted(request), members, parked, room, self.limits)

    def is_offered(self, one: SimRequest) -> bool:
        record = one.record
        is_going = record.phase == "Releasing" and not (record.parked_s or record.asked_end_s)
        return record.phase == "Parked" or (is_going and self.now_s < record.since_s + OFFERED_S)

    def is_in_the_way(self, request: SimRequest, room: RoomBook) -> bool:
        waiting = [
            self.counted(one)
            for one in self.requests.values()
            if (one.record.phase, one.record.no_room, one.unwanted) == ("Pending", True, None)
        ]
        every = [self.counted(one) for one in self.requests.values()]
        return is_in_the_way(request.uid, waiting, every, room, self.limits)

    def given(self, request: SimRequest) -> frozenset[str]:
        parties = [Party(one.uid, one.record) for one in self.requests.values() if one.record.mark]
        return given_of(Party(request.uid, request.record), parties)

    def held(self, request: SimRequest) -> frozenset[str]:
        """The pools it has by its own mark or one it took over, visible or not."""
        record = request.record
        return frozenset(
            pool.name
            for pool in self.pools.values()
            if pool.mark == request.uid or (pool.mark == record.mark and pool.name == record.pool)
        ) - self.given(request)

    def counted(self, one: SimRequest) -> Counted:
        pools = self.held(one)
        return Counted(one.uid, ("ns", one.set_name), one.set_size, MACHINES.chips, one.record, pools)

    def listed(self) -> Iterable[NodePool]:
        for pool in self.pools.values():
            if pool.visible_s > self.now_s:
                continue
            failure = Failure(Trouble.NO_CAPACITY, "out of stock") if pool.state == "failed" else None
            yield NodePool(pool.name, pool.mark, pool.state, "now", pool.place[0], pool.place[1], failure)

    def seen(self, node: SimNode, request: SimRequest) -> SliceNode:
        chips, is_bound = 4 if node.ready else 0, node.bound and node.owner == request.uid
        return SliceNode(
            node.name, node.pool, node.ready, chips, node.open, is_bound, node.closed_s, ("ns/p",) * node.pods
        )

    def is_whole(self, request: SimRequest) -> bool:
        pool = self.pools.get(request.record.pool)
        nodes = [self.nodes.get(f"{request.record.pool}-{index}") for index in range(HOSTS)]
        return pool is not None and all(node is not None and node.ready for node in nodes)

    def nodes_of(self, request: SimRequest) -> Iterable[SimNode]:
        pools = {request.record.pool, *self.held(request)}
        return (node for node in self.nodes.values() if node.pool in pools)

    def is_sound(self, request: SimRequest) -> bool:
        """Whether it is whole and nothing is said against it."""
        pool = self.pools.get(request.record.pool)
        return pool is not None and pool.state not in ("failed", "deleting") and self.is_whole(request)

    def is_listed(self, request: SimRequest) -> bool:
        pool = self.pools.get(request.record.pool)
        return pool is not None and pool.visible_s <= self.now_s

    @property
    def operations(self) -> int:
        """How many pools are being made or deleted."""
        return sum(pool.state in ("creating", "deleting") and bool(pool.mark) for pool in self.pools.values())

    def live_pools(self, request: SimRequest) -> list[SimPool]:
        held = self.held(request)
        return [pool for pool in self.pools.values() if pool.name in held and pool.state != "deleting"]

    def used(self, place: tuple[str, str]) -> int:
        return sum(pool.place == place and pool.mark != "" for pool in self.pools.values())

    # What happens by itself.

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        for pool in list(self.pools.values()):
            if pool.state == "creating" and pool.mark and self.now_s >= pool.runs_s:
                pool.state = "failed" if pool.fails else "running"
                for index in range(0 if pool.fails else HOSTS):
                    self.nodes[f"{pool.name}-{index}"] = SimNode(f"{pool.name}-{index}", pool.name)
            if pool.state == "deleting" and self.now_s >= pool.gone_s:
                del self.pools[pool.name]
                for name in [name for name, node in self.nodes.items() if node.pool == pool.name]:
                    del self.nodes[name]
        self.start_pods()

    def start_pods(self) -> None:
        """kube-scheduler: pods of a wanted set go to its open nodes, unless these do not suit them."""
        if self.is_idle:
            return
        for request in self.requests.values():
            for node in self.nodes.values():
                is_own = node.owner == request.uid and node.pool in self.held(request)
                if is_own and node.open and node.bound and node.ready and request.unwanted is None:
                    if not node.pods:
                        self.check_set(request)
                    node.pods = 1

    def check_set(self, request: SimRequest) -> None:
        """No pod starts before its whole set was there once."""
        if request.set_name in self.whole_once:
            return
        assert all(self.is_whole(one) for one in self.of_set(request.set_name)), "a part of a set is used"
        self.whole_once.add(request.set_name)

    def end_pods(self, set_name: str) -> None:
        owners = {request.uid for request in self.of_set(set_name)}
        for node in self.nodes.values():
            if node.owner in owners:
                node.pods = 0

    def check_own(self, request: SimRequest, pools: set[str]) -> None:
        """Nothing is taken away that another uses."""
        others = [one for one in self.requests.values() if one is not request and one.record.phase in USED]
        assert not pools & {one.record.pool for one in others}, "another's pool is taken away"

    def check_one_hand(self) -> None:
        """No slice is used by two, whatever hand it went through."""
        used = [one.record.pool for one in self.requests.values() if one.record.phase in USED]
        assert len(used) == len(set(used)), used

    def check_limits(self) -> None:
        ours = [pool for pool in self.pools.values() if pool.mark]
        assert self.limits.allow(len(ours), len(ours) * MACHINES.chips), "the limits are passed"
        assert "foreign" in self.pools
