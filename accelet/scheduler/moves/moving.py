"""Moves of running tasks as the planner's rounds see them."""

from collections.abc import Sequence

from accelet.kinds.move import Move
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.lasting import is_wanted
from accelet.scheduler.moves.mover import Arrivals, Mover
from accelet.scheduler.moves.proposer import Proposer
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.placement.reservation import Reservation
from accelet.scheduler.record import Record
from accelet.scheduler.state import SchedulerState


class Moves:
    """What is done about moves before and after a round of planning. Made anew for each leadership."""

    def __init__(self, state: SchedulerState, book: MoveBook, mover: Mover, proposer: Proposer) -> None:
        self._state, self._book, self._mover, self._proposer = state, book, mover, proposer

    async def arrive(self, gangs: Sequence[Gang], layout: Layout) -> Arrivals:
        """Who goes where a place is held, and who is planned first; what is held is charged from now on.

        Raises:
            KubeError: a plan that awaits room that is not made could not be given up.
        """
        return await self._mover.arrive(gangs, layout)

    def settle(self) -> None:
        """Charges what is held, after pods or plans have come or gone."""
        self._book.settle()

    async def go_on(self, waiting: Sequence[Plan], layout: Layout, kept: Reservation | None) -> float:
        """Holds, withdraws and proposes; returns after how long to look again.

        `waiting` are the gangs without a place, `kept` the nodes that are kept free for one of them.
        """
        self._book.settle()
        if self._book.live:
            await self._mover.judge(self._state.gangs(), layout, is_wanted=is_wanted(self._left(waiting)))
        return await self._proposer.look(self._left(waiting), layout, kept)

    def _left(self, waiting: Sequence[Plan]) -> Sequence[Plan]:
        """Those of which no plan has been written down meanwhile."""
        return [plan for plan in waiting if self._state.record_of(plan.gang.key) is None]

    def records_awaiting(self, move: Move) -> list[Record]:
        """The plans that are carried out once this Move and others are done."""
        return self._mover.awaiting([move])

    def are_done(self, record: Record) -> bool | None:
        """Whether the Moves that a plan awaits are; None where one of them comes to nothing."""
        return self._book.are_done(record.awaited)
