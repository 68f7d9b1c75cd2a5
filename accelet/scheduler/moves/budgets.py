"""Which tasks may be moved now: how often, and how soon again."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from accelet.kinds.move import ENDED, GainKind, MovePhase
from accelet.scheduler.moves.movable import MovableTask, Relocation

_HOUR_S = 3600.0

IMPROVEMENTS: Final[frozenset[GainKind]] = frozenset(("Nearer", "Packs"))
"""Nobody waits for these, and nobody has asked."""


@dataclass(frozen=True, slots=True)
class MoveBounds:
    """`most_an_hour` moves of the cluster are begun in an hour to let gangs in, and others for improvements.

    A task that was moved to let a gang in is not moved back to a node that it left within `no_way_back_s`;
    what a person had moved is not moved for an improvement for as long. Of a task one improvement an hour is
    proposed at most, whatever becomes of it.
    """

    most_an_hour: int = 3
    most_improvements_an_hour: int = 3
    no_way_back_s: float = 86_400.0
    drain_again_s: float = 600.0


@dataclass(frozen=True, slots=True)
class FormerMove:
    """A Move that there is or was: of which task, what for, how far it came, and which nodes the task left.

    `begun_s` is when it was proposed, `ended_s` when it ended, in seconds since the epoch, 0 if it has not.
    `was_held`: its new places were held; `was_in_vain`: for a gang that went away meanwhile. `of_gone`: the
    namespace of one that was deleted with its task.
    """

    task_uid: str
    kind: GainKind
    phase: MovePhase
    begun_s: float
    lets_in: str = ""
    left: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    was_held: bool = False
    was_in_vain: bool = False
    ended_s: float = 0.0
    of_gone: str = ""

    @property
    def rests_until_s(self) -> float:
        """Until when nobody has two places again who had them by this one: it lasts as long again."""
        had_both = self.kind == "Person" and self.was_held and self.ended_s
        return 2 * self.ended_s - self.begun_s if had_both else 0.0

    @property
    def is_live(self) -> bool:
        return self.phase not in ENDED


@dataclass(frozen=True, slots=True)
class MoveHistory:
    """What there was of moves until now, and what may still be."""

    now_s: float
    former: Sequence[FormerMove] = ()
    bounds: MoveBounds = MoveBounds()

    def why_not(self, task: MovableTask, kind: GainKind, lets_in: str = "") -> str:
        """Why a task is not proposed to be moved, a sentence; empty if it may be.

        What a person asks for, and the draining of a node, is bound by one Move at a time. A drain is tried
        again `drain_again_s` after it was withdrawn. Who asks again and again has two places for a task at
        most half of the time, whatever the task says by then, and though it was deleted and made anew.
        """
        own = [move for move in self.former if move.task_uid == task.uid]
        if any(move.is_live for move in own):
            return "another Move of it is under way"
        if kind == "Drain" and any(self._is_recent_drain(move) for move in own):
            return "it was to be moved away a moment ago, which came to nothing"
        if kind == "Person" and (wait_s := self._rest_s(own)) > 0:
            return f"it had two places by a person's wish a moment ago: ask again in {math.ceil(wait_s)} s"
        if kind == "Person" and (wait_s := self._rest_s(self._gone_of(task))) > 0:
            return (
                "a task of its namespace that was deleted had two places by a person's wish: "
                f"ask again in {math.ceil(wait_s)} s"
            )
        if kind in IMPROVEMENTS and (why := self._why_no_improvement(own)):
            return why
        return self._why_not_again(task, own, lets_in) if kind == "LetsIn" or kind in IMPROVEMENTS else ""

    def _why_no_improvement(self, own: Iterable[FormerMove]) -> str:
        for move in own:
            age_s = self.now_s - move.begun_s
            if move.kind in IMPROVEMENTS and age_s < _HOUR_S:
                return "a better place was proposed for it less than an hour ago"
            if move.kind == "Person" and move.phase == "Done" and age_s < self.bounds.no_way_back_s:
                return "a person had it moved to where it is"
        return ""

    def _rest_s(self, moves: Iterable[FormerMove]) -> float:
        return max((move.rests_until_s for move in moves), default=0.0) - self.now_s

    def _gone_of(self, task: MovableTask) -> Iterable[FormerMove]:
        return (move for move in self.former if move.of_gone == task.terms.namespace)

    def _why_not_again(self, task: MovableTask, own: Sequence[FormerMove], lets_in: str) -> str:
        if self.now_s - task.since_s < task.terms.moves.min_run_seconds:
            return f"it has run in this place for less than {task.terms.moves.min_run_seconds} s"
        if self._asked(own) >= task.terms.moves.max_moves:
            return f"it may be moved {task.terms.moves.max_moves} times an hour"
        if lets_in and any(m.lets_in == lets_in and self.now_s - m.begun_s < _HOUR_S for m in own):
            return "it was asked to move for this gang less than an hour ago"
        return ""

    def is_within_bounds(self, tasks: Collection[MovableTask]) -> bool:
        """Whether all of these may be moved at once to let a gang in.

        A Move that is proposed and no more is not counted: who has to approve it may never do so.
        """
        return self._begun(frozenset(("LetsIn",))) + len(tasks) <= self.bounds.most_an_hour

    @property
    def has_room_to_improve(self) -> bool:
        """Whether one more task may be moved to a better place; counted as those that let gangs in are."""
        return self._begun(IMPROVEMENTS) < self.bounds.most_improvements_an_hour

    def _begun(self, kinds: Collection[GainKind]) -> int:
        """How many moves for these gains were begun within an hour, and not withdrawn."""
        return self._recent(one for one in self.former if one.kind in kinds and one.phase != "Proposed")

    def _is_recent_drain(self, move: FormerMove) -> bool:
        return move.kind == "Drain" and self.now_s - move.begun_s < self.bounds.drain_again_s

    def left_by(self, task: MovableTask) -> frozenset[str]:
        """The nodes that a task left to let a gang in, not long ago, and to which it does not return."""
        return frozenset(
            node
            for one in self.former
            if one.task_uid == task.uid and one.kind == "LetsIn" and one.phase == "Done"
            if self.now_s - one.begun_s < self.bounds.no_way_back_s
            for node in one.left
        )

    @property
    def touched(self) -> frozenset[str]:
        """The nodes that Moves touch which have not ended; no other Move does."""
        return frozenset(node for one in self.former if one.is_live for node in one.nodes | one.left)

    def is_apart(self, moves: Collection[Relocation]) -> bool:
        """Whether no node that these moves touch is touched by another Move that has not ended."""
        return self.touched.isdisjoint(node for move in moves for node in (*move.nodes, *move.task.nodes))

    def _asked(self, own: Iterable[FormerMove]) -> int:
        """How often a task was moved within an hour, or may have been asked to save for nothing."""
        return sum(
            self.now_s - one.begun_s < _HOUR_S for one in own if one.phase != "Withdrawn" or one.was_held
        )

    def in_vain(self) -> Counter[str]:
        """How often within an hour places were held for a gang that then went away, by the gang's digest.

        What was proposed for it within one minute was so at once.
        """
        recent = (one for one in self.former if one.was_in_vain and self.now_s - one.begun_s < _HOUR_S)
        return Counter(lets_in for lets_in, _ in {(one.lets_in, one.begun_s // 60) for one in recent})

    def _recent(self, moves: Iterable[FormerMove]) -> int:
        return sum(one.phase != "Withdrawn" and self.now_s - one.begun_s < _HOUR_S for one in moves)
