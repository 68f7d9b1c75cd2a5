"""Looks at owners and requests one at a time, and does the next step of each."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from accelet.control.errors import NotLeadingError
from accelet.control.workqueue import WorkQueue
from accelet.kube.errors import ForbiddenError, InvalidError
from accelet.provisioner.bookings.keeper import BookingKeeper
from accelet.provisioner.deciding.attempts import after_create
from accelet.provisioner.deciding.decide import decide
from accelet.provisioner.deciding.retire import after_delete, asks_for_end
from accelet.provisioner.deciding.view import (
    Action,
    Close,
    Create,
    Delete,
    Discard,
    Evict,
    Finish,
    Open,
    SliceRecord,
    SlicesView,
    Step,
)
from accelet.provisioner.demand.owners import JobOwner
from accelet.provisioner.demand.requests import spec_of
from accelet.provisioner.demand.slices import WantedSlice, derive_slices, why_not_asked
from accelet.provisioner.events import SliceEvents
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.nodes import Rebindings
from accelet.provisioner.operations import Operations
from accelet.provisioner.planning import Identity, order_for, plan_pool
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.pool import Failure, NodePool, PoolList, Trouble
from accelet.provisioner.pools.tiers import Attempt, Tier
from accelet.provisioner.providers.protocol import Provider
from accelet.provisioner.record import SliceRequest
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import Key, OwnerKey, ProvisionerState, marks_of
from accelet.provisioner.writer import SliceWriter
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log

_log = Log(__name__)

_PARALLEL: Final = 8
_FULL_S: Final = 60.0
"""Whoever waits for a place among the requests under way is told of it, and looks again after this time."""

_UNDER_WAY_S: Final = 1.0
_BOOKING_AFTER_S: Final = 0.2
_CROWD_AFTER_S: Final = 0.2
_NO_LIST_S: Final = 1.0
_OWNER_AGAIN_S: Final = 300.0
_REFUSED_AGAIN_S: Final = 60.0
_NOT_LEADING_S: Final = 1.0
_TURN_S: Final = 0.1
_MOVING: Final = frozenset(("Creating", "Joining", "Repairing", "Failing", "Releasing"))
_HELD: Final = frozenset(("Creating", "Joining", "Joined", "Ready", "Repairing"))
"""Phases from which no step uses more of the limits than before."""

_BOUND: Final = frozenset(("Ready", "Repairing"))
_IDLE: Final = frozenset(("Pending", "BackingOff", "Refused"))
"""Phases in which nothing counts below the limits."""

_WATCHED: Final = frozenset(("Joining", "Repairing"))


@dataclass(frozen=True, slots=True)
class Look:
    """What is to be looked at: a request, an owner, a booking, or pools of a mark that no request has.

    A `crowd` are all requests of an owner that has fewer groups than these.
    """

    kind: Literal["request", "owner", "booking", "crowd", "orphan"]
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(self.key)}"


class Controller:
    """What one leader does. Made anew for each leadership."""

    def __init__(
        self,
        state: ProvisionerState,
        writer: SliceWriter,
        provider: Provider,
        settings: ProvisionerSettings,
        metrics: ProvisionerMetrics,
        *,
        events: SliceEvents,
        bookings: BookingKeeper,
        cluster: str,
        clock: Clock = SYSTEM_CLOCK,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._writer, self._provider = state, writer, provider
        self._settings, self._metrics, self._events = settings, metrics, events
        self._bookings, self._cluster = bookings, cluster
        self._clock, self._wall_s = clock, wall_s
        self._queue: WorkQueue[Look] = WorkQueue(clock)
        self._operations = Operations(
            provider,
            metrics,
            self._see_pools,
            self._is_busy,
            poll_s=settings.poll_s,
            most=settings.most_operations,
            clock=clock,
            wall_s=wall_s,
        )
        self._begun = asyncio.Lock()
        self._has_listed = False
        self._rebindings = Rebindings()
        self._orphan_since_s: dict[str, float] = {}

    async def run(self) -> None:
        """Works until it is cancelled."""
        for key in self._state.requests:
            self.see_request(key)
        for owner in self._state.owners:
            self.see_owner(owner)
        for booking in self._state.bookings.all():
            self.see_booking(booking.key)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._provider.run())
            group.create_task(self._operations.run())
            group.create_task(self._queue.work(self._look, parallel=_PARALLEL))

    def see_request(self, key: Key) -> None:
        self._queue.add(Look("request", key))

    def see_owner(self, key: OwnerKey) -> None:
        self._queue.add(Look("owner", key))

    def see_booking(self, key: Key) -> None:
        """One look for the changes of a moment: it goes over all slices that are booked."""
        self._queue.add_after(Look("booking", key), _BOOKING_AFTER_S)

    def see_pool(self, pool: str) -> None:
        """A Node or a pod of a pool came, changed or went."""
        for request in self._state.with_pool(pool):
            self.see_request(request.key)
            if (owner := self._state.crowded_owner(request)) is not None:
                self._queue.add_after(Look("crowd", owner), _CROWD_AFTER_S)
            if request.status.phase == "Creating":
                self._operations.list_soon()

    def _is_busy(self) -> bool:
        """Whether some slice comes or goes, so that the pools are worth looking at."""
        return any(_is_moving(one.record) for one in self._state.requests.values())

    def _see_pools(self, changed: set[NodePool]) -> None:
        """Has those looked at that a list concerns: whose pools changed, and whose pool may be missing.

        What is Pending gets room, or a pool to adopt, only where one went or one of the original's came.
        """
        marks = {pool.mark for pool in changed}
        listed = self._operations.listed
        there = {pool.name for pool in listed.pools} if listed is not None else set[str]()
        is_room = not self._has_listed or any(pool.name not in there for pool in changed)
        self._has_listed = True
        for request in self._state.with_marks(marks):
            self.see_request(request.key)
        for request in self._state.in_phases("Creating"):
            if request.status.sent and request.status.pool not in there:
                self.see_request(request.key)
        if is_room:
            self._see_room()
        for mark in marks_of(self._operations.listed):
            if not self._state.holds(mark):
                self._queue.add(Look("orphan", (mark,)))
        self._metrics.slices.clear()
        for phase, count in self._state.count_phases().items():
            self._metrics.slices.labels(phase).set(count)
        problems = Counter(kind for one in self._state.requests.values() for kind, _ in one.problems)
        self._metrics.problems.clear()
        for kind, count in problems.items():
            self._metrics.problems.labels(kind).set(count)

    def _see_room(self) -> None:
        """Something ended: who waits for room may have it now."""
        for request in self._state.in_phases("Pending"):
            self.see_request(request.key)

    async def _look(self, look: Look) -> float | None:
        again_s: float | None = None
        try:
            again_s = await self._take_up(look)
        except NotLeadingError:  # a renewal that was under way may keep the lease: then nobody else looks
            again_s = _NOT_LEADING_S
        finally:
            # What was only written down goes on at once, and has kept its place for that.
            if again_s != 0.0:
                self._operations.pass_on(look)
        return again_s

    async def _take_up(self, look: Look) -> float | None:
        match look.kind, look.key:
            case "request", (namespace, name):
                return await self._look_at_request((namespace, name))
            case "owner", (kind, namespace, name):
                return await self._look_at_owner((kind, namespace, name))
            case "booking", (namespace, name):
                return await self._bookings.look((namespace, name))
            case "crowd", (kind, namespace, name):
                owner = self._state.owners.get((kind, namespace, name))
                for request in self._state.of_owner(owner.uid) if owner is not None else ():
                    self.see_request(request.key)
            case _, (uid, *_):
                return await self._look_at_orphan(uid)
        return None

    async def _look_at_owner(self, key: OwnerKey) -> float | None:
        """Makes the SliceRequests that an owner lacks."""
        owner = self._state.owners.get(key)
        if owner is None or owner.controller == "JobSet":
            return None
        if why_not_asked(owner, self._settings.demand) is not None:
            return None
        derived = derive_slices(owner, self._settings.node_labels, self._settings.pod_labels)
        for refused in derived.refused:
            job = f"{refused.replicated_job}: " if refused.replicated_job else ""
            self._events.refuse(owner, job + refused.reason)
        slices = self._with_a_place(owner, derived.slices)
        for wanted in self._missing(owner, slices):
            try:
                await self._writer.ask(wanted)
            except (ForbiddenError, InvalidError) as error:
                # A quota or a policy: nobody else tells the author of the job.
                self._events.refuse(owner, f"the API server refuses {wanted.name}: {error.message or error}")
                return _REFUSED_AGAIN_S
            self.see_request((owner.namespace, wanted.name))
        return _OWNER_AGAIN_S if slices else None

    def _with_a_place(self, owner: JobOwner, slices: Sequence[WantedSlice]) -> Sequence[WantedSlice]:
        """Those for which the settings name a place: all of a set, or none. The owner is told of others."""
        found: list[WantedSlice] = []
        for wanted in slices:
            order = order_for(spec_of(wanted), owner.namespace, self._settings)
            if not isinstance(order, Refusal):
                found.append(wanted)
                continue
            self._events.refuse(owner, order.reason)
            if not owner.is_of_groups:
                return ()
        return found

    def _missing(self, owner: JobOwner, slices: Sequence[WantedSlice]) -> Sequence[WantedSlice]:
        """Those that have no SliceRequest. Groups run on any slice of theirs, so that their number counts."""
        requests = self._state.requests
        missing = [one for one in slices if (owner.namespace, one.name) not in requests]
        if not owner.is_of_groups:
            return missing
        for one in slices:
            known = requests.get((owner.namespace, one.name))
            if known is not None and known.spec != spec_of(one):
                self._events.refuse(owner, _made_for_others(one.name))
        lacking = Counter(one.replicated_job for one in slices)
        for job in lacking:
            lacking[job] -= len(self._state.live_of(owner, job))
        found = []
        for one in missing:
            lacking[one.replicated_job] -= 1
            if lacking[one.replicated_job] >= 0:
                found.append(one)
        return found

    async def _look_at_request(self, key: Key) -> float | None:
        async with self._fence(key):
            request, listed = self._state.requests.get(key), self._operations.listed
            if request is None or self._operations.is_under_way(request.uid):
                return None
            if listed is None:
                return await self._say_unlisted(request)
            silent = self._operations.silence(self._settings.lag_s)
            view = replace(self._state.view(request, listed, self._wall_s()), silent=silent)
            step = decide(view)
            if step.record != view.record and not asks_for_end(view.record, step.record):
                return await self._write_down(request, view, step.record)
        return await self._go_on(request, view, step)

    async def _go_on(self, request: SliceRequest, view: SlicesView, step: Step) -> float | None:
        """Does what was decided, where all that it rests on is written down."""
        if asks_for_end(view.record, step.record):
            return await self._end_pool(request, view, step.record)
        if view.hosts != request.status.hosts and step.record.phase in _WATCHED:
            await self._writer.write(request, step.record, view.hosts)
            return 0.0
        if step.action is not None:
            return await self._act(request, view, step.action, step.again_s)
        return step.again_s

    async def _write_down(self, request: SliceRequest, view: SlicesView, record: SliceRecord) -> float:
        """Writes down what was decided."""
        if await self._writer.write(request, record, view.hosts):
            self._tell(request, view.record, record)
            if record.phase in _IDLE and view.record.phase not in _IDLE:
                self._see_room()
            if _is_moving(record) and not _is_moving(view.record):
                self._operations.list_soon()  # nobody lists often while nothing comes or goes
        return 0.0

    async def _end_pool(self, request: SliceRequest, view: SlicesView, record: SliceRecord) -> float | None:
        """Writes down that the provider is asked to delete the pool, and asks it, once there is room.

        What is done is decided by the time that is written, on what there is then: however long the write
        takes, it is not too late for it.
        """
        if not self._has_place(Look("request", request.key)):
            return _FULL_S
        await self._write_down(request, view, record)
        written, listed = self._state.requests.get(request.key), self._operations.listed
        if written is None or listed is None or not asks_for_end(view.record, written.record):
            return 0.0
        now_s = max(view.now_s, written.record.asked_end_s)
        later = replace(self._state.view(written, listed, now_s), silent=view.silent)
        step = decide(later)
        if step.record != later.record or step.action is None:
            return 0.0
        return await self._act(written, later, step.action, step.again_s)

    def _fence(self, key: Key) -> AbstractAsyncContextManager[object]:
        """What the limits count must not grow between a look and its write. Where it cannot, nobody waits."""
        request = self._state.requests.get(key)
        return nullcontext() if request is not None and request.status.phase in _HELD else self._begun

    async def _say_unlisted(self, request: SliceRequest) -> float:
        """There was no list yet: nothing is decided, but what waits for one is told why."""
        silent, phase = self._operations.silence(self._settings.lag_s), request.status.phase
        if silent and not request.record.silent and (phase in _MOVING or phase == "Pending"):
            record = replace(request.record, silent=silent)
            if await self._writer.write(request, record, request.status.hosts):
                self._tell(request, request.record, record)
        return _NO_LIST_S

    async def _act(
        self, request: SliceRequest, view: SlicesView, action: Action, again_s: float | None
    ) -> float | None:
        match action:
            case Create():
                return self._create(request, view, again_s)
            case Delete():
                return self._delete(request.uid, Look("request", request.key), action, view, again_s)
            case Open(nodes):
                if request.status.phase in _BOUND:
                    if (wait_s := self._rebindings.wait_s(request.uid, self._clock.now_s())) > 0:
                        return wait_s
                    self._rebindings.note(request.uid, self._clock.now_s())
                await self._writer.open(request, nodes)
            case Close(nodes):
                await self._writer.close(request.uid, nodes, view.now_s)
            case Evict(nodes):
                await self._writer.evict(nodes)
                return again_s
            case Discard():
                await self._writer.discard(request)
            case Finish():
                await self._writer.finish(request)
                return None
        return _TURN_S

    def _create(self, request: SliceRequest, view: SlicesView, again_s: float | None) -> float | None:
        look = Look("request", request.key)
        if not self._has_place(look):
            return _FULL_S
        self._operations.start(
            request.uid,
            partial(self._ask_for_pool, request, view),
            partial(self._note_create, request, view),
            partial(self._queue.add_after, look),
        )
        return again_s

    def _has_place(self, look: Look) -> bool:
        """Whether the provider may be asked for one thing more; if not, the look comes again once it may.

        The place is the look's until it passes it on.
        """
        has_place = self._operations.has_place(look)
        if has_place:
            self._operations.keep_place(look)
        else:
            self._operations.tell_when_free(look, partial(self._queue.add, look))
        return has_place

    async def _ask_for_pool(self, request: SliceRequest, view: SlicesView) -> Failure | None:
        record = view.record
        if isinstance(view.machines, Refusal):
            return Failure(Trouble.INVALID, view.machines.reason)
        attempt = Attempt(Tier.parse(record.tier), record.zone)
        identity = Identity(record.pool, request.uid, self._cluster, request.namespace)
        plan = plan_pool(request.spec, view.machines, attempt, identity, self._settings)
        if isinstance(plan, Refusal):
            return Failure(Trouble.INVALID, plan.reason)
        failure = await self._provider.create(plan)
        self._operations.count("create", failure)
        return failure

    async def _note_create(self, request: SliceRequest, view: SlicesView, failure: Failure | None) -> None:
        """Writes down what came of it; where that fails, the same request is made again and is the same."""
        record = after_create(replace(view, now_s=self._wall_s()), view.record, failure)
        known = self._state.requests.get(request.key)
        if known is None or known.uid != request.uid or known.record != view.record:
            return
        if await self._writer.write(known, record, view.hosts):
            self._tell(known, view.record, record)

    def _delete(
        self, uid: str, look: Look, action: Delete, view: SlicesView, again_s: float | None
    ) -> float | None:
        if not self._has_place(look):
            return _FULL_S
        is_forced = view.is_forced

        async def delete() -> Failure | None:
            if not is_forced and await self._writer.has_work(action.nodes):
                return None
            failure = await self._provider.delete(action.pool)
            self._operations.count("delete", failure)
            if failure is not None:
                _log.warning("pool is not deleted", pool=action.pool, error=failure.sentence)
            return failure

        async def done(failure: Failure | None) -> None:
            if action.pool == view.record.pool:
                await self._note_delete(uid, view, failure)

        def finished(wait_s: float) -> None:
            self._queue.add_after(look, max(wait_s, again_s or _UNDER_WAY_S))

        self._operations.start(uid, delete, done, finished)
        return again_s

    async def _note_delete(self, uid: str, view: SlicesView, failure: Failure | None) -> None:
        """Writes down that the provider does not delete a pool, or that it does now."""
        known = self._state.request_with(uid)
        if known is None or known.record != view.record:
            return
        record = after_delete(replace(view, now_s=self._wall_s()), view.record, failure)
        if record != view.record and await self._writer.write(known, record, view.hosts):
            self._tell(known, view.record, record)

    async def _look_at_orphan(self, uid: str) -> float | None:
        """A pool with our mark whose request is gone: after a while it is given back as any other."""
        listed = self._operations.listed
        if listed is None or uid not in listed.by_mark or self._state.holds(uid):
            self._orphan_since_s.pop(uid, None)
            return None
        now_s = self._wall_s()
        since_s = self._orphan_since_s.setdefault(uid, now_s)
        if now_s - since_s < self._settings.lag_s:
            return since_s + self._settings.lag_s - now_s
        if self._operations.is_under_way(uid):
            return _UNDER_WAY_S
        return await self._give_back(uid, listed, now_s)

    async def _give_back(self, uid: str, listed: PoolList, now_s: float) -> float | None:
        view = self._state.orphan_view(uid, listed, now_s)
        step = decide(view)
        match step.action:
            case Close(nodes):
                await self._writer.close(uid, nodes, now_s)
                return _TURN_S
            case Delete():
                _log.info("giving back a pool that nobody asked for", pool=step.action.pool)
                return self._delete(uid, Look("orphan", (uid,)), step.action, view, step.again_s)
        return step.again_s or _OWNER_AGAIN_S

    def _tell(self, request: SliceRequest, before: SliceRecord, after: SliceRecord) -> None:
        self._events.tell(request, before, after)
        if before.phase == after.phase:
            return
        _log.info("slice", request="/".join(request.key), phase=after.phase, why=after.why, pool=after.pool)
        if after.phase == "Ready" and before.phase == "Joined":
            self._metrics.attempts.labels("ready").inc()
            created_s = after.sent_s or before.since_s
            self._metrics.ready_seconds.observe(max(0.0, after.since_s - created_s))
        if after.phase == "Failing":
            self._metrics.attempts.labels("failed").inc()


def _is_moving(record: SliceRecord) -> bool:
    """Whether the next lists will tell something of it: it comes, goes, or the last list spoke against it."""
    return record.phase in _MOVING or record.doubted_s > 0.0


def _made_for_others(name: str) -> str:
    return (
        f"the SliceRequest {name} was made for other pods than the template describes now: "
        "it is made anew once you have deleted it and its pods have ended"
    )
