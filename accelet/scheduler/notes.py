"""Writes on the first pod of each gang that waits why it does, not too often."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from accelet.control.errors import NotLeadingError
from accelet.control.workqueue import WorkQueue
from accelet.kinds.waiting import WaitingReason
from accelet.kube.errors import ForbiddenError, InvalidError
from accelet.kube.objects import ObjectKey
from accelet.runtime.clock import Clock
from accelet.scheduler.gangs.grouping import is_gated
from accelet.scheduler.gangs.noting import reason_of
from accelet.scheduler.gangs.placeholders import is_placeholder
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_EVERY_S: Final = 30.0
"""The reason of one gang may change with every node."""

_PAUSE_S: Final = 0.1
"""Between two writes: each is news to all who watch pods."""


class WaitingNotes:
    """What is to be written; a reason that changes before it was written is not."""

    def __init__(self, state: SchedulerState, writer: PlanWriter, clock: Clock) -> None:
        self._state, self._writer, self._clock = state, writer, clock
        self._queue: WorkQueue[ObjectKey] = WorkQueue(clock)
        self._wanted: dict[ObjectKey, WaitingReason] = {}
        self._written_s: dict[ObjectKey, float] = {}

    def take(self, waiting: Sequence[Plan]) -> None:
        """The gangs that wait as of one round, and why; of all others nothing more is written."""
        wanted = {
            plan.gang.pods[0].key: reason_of(plan.gang, plan.reason or "", is_settled=plan.is_settled)
            for plan in waiting
            if plan.gang.pods and not is_placeholder(plan.gang.pods[0])
        }
        news = [key for key, reason in wanted.items() if self._wanted.get(key) != reason]
        self._wanted = wanted
        for key in [key for key in self._written_s if key not in wanted]:
            del self._written_s[key]
        for key in news:
            since_s = self._clock.now_s() - self._written_s.get(key, float("-inf"))
            self._queue.add_after(key, max(0.0, _EVERY_S - since_s))

    async def run(self) -> None:
        """Writes until it is cancelled."""
        await self._queue.work(self._look)

    async def _look(self, key: ObjectKey) -> float | None:
        reason, pod = self._wanted.get(key), self._state.pods.get(key)
        if reason is None or pod is None or not is_gated(pod, self._state.prefix):
            return None
        # What the API server does not allow is tried again with the next reason alone: people have the Event.
        with suppress(ForbiddenError, InvalidError, NotLeadingError):
            if not await self._writer.note(pod, reason):
                return None
        self._written_s[key] = self._clock.now_s()
        await self._clock.sleep(_PAUSE_S)
        return None
