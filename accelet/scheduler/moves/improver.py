"""Looks for better places for running tasks while nobody waits, in turn and not for long."""

import asyncio
from collections.abc import Sequence
from typing import Final

from accelet.runtime.clock import Clock
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.moves.budgets import MoveHistory
from accelet.scheduler.moves.finding.nearer import NearerTerms
from accelet.scheduler.moves.finding.packs import PacksTerms
from accelet.scheduler.moves.movable import MovableTask
from accelet.scheduler.moves.proposing import Proposal, propose_nearer, propose_packs
from accelet.scheduler.settings import MoveSettings

_REST_S: Final = 60.0
"""Between the end of one look at all tasks and the next look."""

_AT_ONCE_S: Final = 1.0
"""How long tasks are looked at, at a time: everybody's planning waits."""


class Improver:
    """Made anew for each leadership."""

    def __init__(self, settings: MoveSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._nearer = NearerTerms(factor=settings.improve_factor)
        self._packs = PacksTerms(factor=settings.improve_factor)
        self._looked_at: set[str] = set()
        self._rests_until_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether anything is looked for, and it is time for it."""
        is_on = self._settings.nearer or self._settings.packs
        return is_on and self._clock.now_s() >= self._rests_until_s

    async def find(
        self, tasks: Sequence[MovableTask], supposed: Supposition, history: MoveHistory
    ) -> Proposal | None:
        """A move to a better place, of those tasks that have not been looked at since all were."""
        ends_s = self._clock.now_s() + _AT_ONCE_S
        for task in tasks:
            if task.uid in self._looked_at or task.terms.moves.policy == "Never":
                continue
            if self._clock.now_s() >= ends_s:
                return None
            self._looked_at.add(task.uid)
            found = await asyncio.to_thread(self._find, task, supposed, history)
            if found is not None:
                return found
        self._looked_at.clear()
        self._rests_until_s = self._clock.now_s() + _REST_S
        return None

    def _find(self, task: MovableTask, supposed: Supposition, history: MoveHistory) -> Proposal | None:
        found = None
        if self._settings.nearer:
            found = propose_nearer(task, supposed, history, self._nearer).proposal
        if found is None and self._settings.packs:
            found = propose_packs(task, supposed, history, self._packs).proposal
        return found
