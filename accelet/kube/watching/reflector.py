"""A live copy of one resource: list, watch, and again."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

import msgspec

from accelet.kube.answers import api_error
from accelet.kube.errors import KubeError, MalformedObjectError, ObjectFaultError
from accelet.kube.objects import Wire
from accelet.kube.watching.comparing import MOST_CHANGED, list_present, read_at
from accelet.kube.watching.pace import (
    List,
    ListDone,
    ListFailed,
    Pace,
    StepOutcome,
    Uniform,
    Watch,
    Watched,
    begin,
    proceed,
)
from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import Change, Item, Key, Store, precedes, read_identity, read_item
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.failing import Failing
from accelet.runtime.foreign.nesting import decode_nested
from accelet.runtime.logs import Log

T = TypeVar("T")
_log = Log(__name__)
_ITEMS_AT_ONCE = 50


class _WireEvent(Wire, frozen=True):
    type: str
    object: msgspec.Raw


_read_event = partial(msgspec.json.decode, type=_WireEvent)


class Reflector(Generic[T]):
    """Keeps `store` equal to what the API server has in `scope`, while `run` runs.

    `changed` is called on the event loop for each change, after the store has it; `failed` for each fault
    (a request that failed, an object that is malformed or that ours cannot take over), so that it can be
    counted; it may not raise. What `changed` raises is a fault of ours with that one object: it is logged,
    told to `failed` as ObjectFaultError, and the other objects go on.
    `began` is called with the version that a watch is to begin at, at once after a list. `watched` is called,
    before `changed`, for each version that the watch has come to, with the UID of the object that came to be
    there (empty if none did) and the object that was deleted there as it was then: also where `refresh` has
    overtaken it. Neither may raise either.
    A malformed object stays as it was last; of one never seen before, `salvage` may say what is still to be
    known. With `earlier`, versions that a watch of this scope came to before, the first watch begins at the
    first of these that the server still has, and tells `watched` what was deleted before the first list.
    """

    def __init__(
        self,
        source: Source,
        scope: Scope,
        parse: Callable[[msgspec.Raw], T],
        *,
        changed: Callable[[Change[T]], None] | None = None,
        failed: Callable[[KubeError], None] | None = None,
        began: Callable[[str], None] | None = None,
        watched: Callable[[str, str, T | None], None] | None = None,
        salvage: Callable[[msgspec.Raw], T] | None = None,
        pace: Pace | None = None,
        uniform: Uniform = random.uniform,
        clock: Clock = SYSTEM_CLOCK,
        earlier: Sequence[str] = (),
    ) -> None:
        self._source, self._scope, self._parse = source, scope, parse
        self._changed, self._failed, self._salvage = changed, failed, salvage
        self._began, self._watched = began, watched
        self._pace, self._uniform, self._clock = pace or Pace(), uniform, clock
        self._earlier = earlier
        self._resumed_to = ""
        self._listing = asyncio.Lock()
        self._synced = asyncio.Event()
        self._heard_s = clock.now_s()
        log = _log.bind(resource=scope.resource.plural)
        self._failing = Failing(log, "watching fails", "watching works again")
        self.store: Store[T] = Store()

    @property
    def is_synced(self) -> bool:
        """Whether the store has been filled once."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Waits until the store has been filled once."""
        await self._synced.wait()

    @property
    def heard_s(self) -> float:
        """When the API server last said anything of this resource, by the clock; at first when this began.

        That nothing changes is heard too, by bookmarks; a watch that is silent for long is begun anew.
        """
        return self._heard_s

    def is_before_first_list(self, resource_version: str) -> bool:
        """Whether what the watch tells of this version was so before the first list, which knows better."""
        return precedes(resource_version, self._resumed_to, or_equals=True)

    async def run(self) -> None:
        """Lists and watches until it is cancelled; ends by itself for no fault of the API server."""
        progress = begin(from_cache=self._scope.starts_from_cache, earlier=self._earlier)
        while True:
            await self._clock.sleep(progress.step.wait_s)
            outcome = await self._do(progress.step)
            progress = proceed(progress, outcome, self._pace, self._uniform)
            if self._began is not None and isinstance(progress.step, Watch):
                self._began(progress.step.resource_version)
            if isinstance(outcome, ListDone):
                self._resumed_to = outcome.resource_version if progress.earlier else ""
            self._note(None if isinstance(outcome, ListDone) else outcome.error, progress.step.wait_s)

    async def refresh(self) -> None:
        """Lists once, up to date, into the store, beside a watch that may lag.

        Raises:
            KubeError: the list failed; the store is as it was.
        """
        async with self._listing:
            if not (self._scope.compares_first and await self._catch_up()):
                await self._list(List(0.0), is_own=False)

    async def _do(self, step: List | Watch) -> StepOutcome:
        if isinstance(step, Watch):
            return await self._watch(step)
        try:
            async with self._listing:
                return ListDone(await self._list(step, is_own=True))
        except KubeError as error:
            return ListFailed(error)

    def _note(self, error: KubeError | None, wait_s: float = 0.0) -> None:
        """Counts each fault, and logs when watching begins to fail and when it works again."""
        if error is None:
            self._failing.worked()
            return
        if self._failed is not None:
            self._failed(error)
        self._failing.failed(error, next_s=round(wait_s, 1))

    async def _list(self, step: List, *, is_own: bool) -> str:
        scope = self._scope
        size = scope.page_size if step.is_paged else None
        query = {**scope.query, **(_cached(size) if step.from_cache else {})}
        items: list[Item[T]] = []
        unreadable: list[Key] = []
        resource_version = ""
        async for page in self._source.list_pages(scope.resource, scope.namespace, query, size):
            self._heard_s = self._clock.now_s()
            resource_version = resource_version or page.resource_version
            for number, raw in enumerate(page.items):
                if number % _ITEMS_AT_ONCE == _ITEMS_AT_ONCE - 1:
                    await asyncio.sleep(0)  # a long page must not hold up the loop
                item = self._read(raw, unreadable)
                if item is not None:
                    items.append(item)
        await self._take_list(items, unreadable, resource_version, is_own=is_own)
        return resource_version

    async def _catch_up(self) -> bool:
        """Lists at the price of what has changed; False where that is much, and a whole list costs less."""
        there = await list_present(self._source, self._scope)
        changed = [who for who in there.objects if not self.store.has(who)]
        if len(changed) > MOST_CHANGED:
            return False
        items: list[Item[T]] = []
        unread = [who.key for who in there.objects if who not in changed]
        for who in changed:
            async for raw in read_at(self._source, self._scope, who, there.resource_version):
                item = self._read(raw, unread)
                if item is not None:
                    items.append(item)
        await self._take_list(items, unread, there.resource_version, is_own=False)
        return True

    async def _take_list(
        self, items: list[Item[T]], unread: list[Key], resource_version: str, *, is_own: bool
    ) -> None:
        """Takes over what there is at a version. `unread` objects are there, and stay as they are known."""
        # The watch may have overtaken a list asked for on the side. Our own list decides in any case: when
        # the API server's database was restored from a backup, its versions are lower than what we knew.
        if is_own or self.store.is_older_than(resource_version):
            for changes in self.store.replacing(items, unread, resource_version):
                self._tell(changes)
                # Beside our own list no watch runs, whose later news would be told before the list's earlier.
                if is_own:
                    await asyncio.sleep(0)
        self._synced.set()

    async def _watch(self, step: Watch) -> Watched:
        scope = self._scope
        query = {
            **scope.query,
            "resourceVersion": step.resource_version,
            "timeoutSeconds": str(step.timeout_s),
        }
        position = step.resource_version
        started_s = self._clock.now_s()
        error: KubeError | None = None
        try:
            async with self._source.watch(scope.resource, scope.namespace, query) as batches:
                self._heard_s = self._clock.now_s()
                async for lines in batches:
                    self._heard_s = self._clock.now_s()
                    for line in lines:
                        position = self._take(line) or position
                    self._note(None)
        except KubeError as caught:
            error = caught
        return Watched(position, self._clock.now_s() - started_s, error)

    def _take(self, line: bytes) -> str:
        """Takes over one event and returns the version that the watch has come to.

        Raises:
            ApiError: the event is an error. MalformedObjectError: it says not what it is about.
        """
        kind = self._scope.resource.kind
        try:
            event = decode_nested(_read_event, line)
        except ValueError as error:
            raise MalformedObjectError(f"watch event of {kind}", "", "", "", str(error)) from None
        if event.type == "ERROR":
            raise api_error(f"watch of {kind}s", 0, bytes(event.object))
        who = read_identity(event.object, kind)
        if self._watched is not None:
            deleted = self._read(event.object, []) if event.type == "DELETED" else None
            added = who.uid if event.type == "ADDED" else ""
            self._watched(who.resource_version, added, None if deleted is None else deleted.value)
        match event.type:
            case "BOOKMARK":
                self.store.advance(who.resource_version)
            case "ADDED" | "MODIFIED":
                item = self._read(event.object, [])
                if item is not None:
                    self._tell(self.store.put(item))
            case "DELETED":
                self._tell(self.store.remove(who.key, who.resource_version))
            case _:
                raise MalformedObjectError(f"watch event of {kind}", *who.key, "type", repr(event.type[:32]))
        return who.resource_version

    def _read(self, raw: msgspec.Raw, unreadable: list[Key]) -> Item[T] | None:
        """One object as an item; None, and its key among the unreadable, where it is malformed."""
        kind = self._scope.resource.kind
        try:
            return read_item(raw, kind, self._parse)
        except MalformedObjectError as error:
            key = error.namespace, error.name
            self._report(error)
            if self._salvage is not None and self.store.get(key) is None:
                with suppress(MalformedObjectError):
                    return read_item(raw, kind, self._salvage)
            unreadable.append(key)
            return None

    def _report(self, error: MalformedObjectError) -> None:
        _log.warning("object is malformed", error=str(error))
        if self._failed is not None:
            self._failed(error)

    def _tell(self, changes: list[Change[T]]) -> None:
        for change in changes if self._changed is not None else ():
            assert self._changed is not None
            try:
                self._changed(change)
            except Exception as fault:  # whatever it is, it is a fault of ours with this one object
                self._note_fault(change.key, fault)

    def _note_fault(self, key: Key, fault: Exception) -> None:
        kind, name = self._scope.resource.kind, "/".join(part for part in key if part)
        _log.exception("fault with one object", cause=fault, kind=kind, object=name)
        if self._failed is not None:
            self._failed(ObjectFaultError(f"{kind} {name} cannot be taken over: {type(fault).__name__}"))


def _cached(page_size: int | None) -> dict[str, str]:
    """What lets a list come from the API server's memory, at any version.

    Of version 0 it would come in one piece, however long, so pages are of any version but 0. Up to Kubernetes
    1.32 these come from the database.
    """
    if page_size is None:
        return {"resourceVersion": "0"}
    return {"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}
