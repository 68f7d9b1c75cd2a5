"""Prepare and Unprepare, as the kubelet calls them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from accelet.accelerators.device import UnitId
from accelet.dra.errors import DraError, NotYetError, StateError
from accelet.dra.metrics import DraMetrics
from accelet.dra.preparing.entry import EntryKey
from accelet.dra.running.changes import Forget, GiveUp, Grant, Outcomes, Prepared, RecordChanges
from accelet.dra.running.claimreader import LOOK_S, ClaimReader, ClaimRef, ReadClaim
from accelet.runtime.logs import Log

PATIENCE_S: Final = 25.0
"""How long a call waits for what will pass; the kubelet gives it 45 s and repeats it after 60 to 90."""

HeldUnits = Callable[[Collection[UnitId]], Awaitable[frozenset[UnitId]]]
"""Which of these units containers hold by the device plugin; raises NotYetError where it cannot be told."""

_log = Log(__name__)
T = TypeVar("T")


class Claims:
    """Prepares claims of one driver."""

    def __init__(
        self,
        reader: ClaimReader,
        changes: RecordChanges,
        *,
        metrics: DraMetrics,
        driver: str,
        held_units: HeldUnits,
        patience_s: float = PATIENCE_S,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`held_units` is asked right before each grant; `changed` is called when others may be prepared."""
        self._changed = changed
        self._reader, self._changes = reader, changes
        self._patience_s = patience_s
        self._held_units = held_units
        self._seconds = metrics.prepare_seconds.labels(driver)
        self._refused = metrics.refused.labels(driver)

    async def prepare(self, refs: Sequence[ClaimRef]) -> Mapping[str, Prepared]:
        """The outcome for each claim, by UID. Waits for what will pass, all claims side by side."""
        with self._seconds.time():
            outcomes = await self._prepare(refs, time.monotonic() + self._patience_s)
        self._changed()
        for ref in refs:
            if isinstance(error := outcomes[ref.uid], DraError):
                self._refused.inc()
                _log.warning("claim refused", claim=f"{ref.namespace}/{ref.name}", reason=str(error))
        return outcomes

    async def _prepare(self, refs: Sequence[ClaimRef], deadline: float) -> Mapping[str, Prepared]:
        reads = await asyncio.gather(*(_outcome(self._reader.read(ref, deadline)) for ref in refs))
        read = {ref.uid: one for ref, one in zip(refs, reads, strict=True) if isinstance(one, ReadClaim)}
        failed = {ref.uid: one for ref, one in zip(refs, reads, strict=True) if isinstance(one, DraError)}
        done: dict[str, Prepared] = {**failed}
        while waiting := {uid: one for uid, one in read.items() if uid not in done}:
            outcomes = await self._grant(waiting)
            is_over = time.monotonic() > deadline
            done |= {uid: one for uid, one in outcomes.items() if is_over or not isinstance(one, NotYetError)}
            if len(done) < len(refs):
                await asyncio.sleep(LOOK_S)
        return done

    async def unprepare(self, refs: Sequence[ClaimRef]) -> Mapping[str, DraError | None]:
        """Undoes what is prepared of each claim, by UID; nothing prepared is nothing to undo.

        A record that cannot be read keeps no claim: a node with such a record is to be drained, and the drain
        ends with the last Unprepare.
        """
        uids = frozenset(ref.uid for ref in refs)
        try:
            try:
                await self._changes.make(Forget(uids))
            except StateError as error:
                if not await self._changes.forget_unread(uids):
                    raise
                _log.warning("unprepared without the record", claims=len(refs), reason=str(error))
        except DraError as error:
            _log.error("cannot unprepare", claims=len(refs), reason=str(error))
            return {ref.uid: error for ref in refs}
        self._changed()
        return {ref.uid: None for ref in refs}

    async def _grant(self, reads: Mapping[str, ReadClaim]) -> Outcomes:
        try:
            return await self._changes.make(Grant(reads, await self._find_held()))
        except DraError as error:
            return dict.fromkeys(reads, error)

    def begin_look(self) -> None:
        """From here on it is looked which allocations nobody has."""
        self._changes.begin_look()

    async def give_up(self, keys: Collection[EntryKey]) -> None:
        """Undoes what is prepared of these allocations, but for those given again since the look began.

        Raises:
            DraError: the record cannot be changed.
        """
        await self._changes.make(GiveUp(frozenset(keys)))
        self._changed()

    async def _find_held(self) -> Collection[UnitId] | NotYetError:
        try:
            return await self._held_units(self._changes.units)
        except NotYetError as error:
            return error  # which concerns what is new alone


async def _outcome(work: Awaitable[T]) -> T | DraError:
    try:
        return await work
    except DraError as error:
        return error
