"""Which moves the scheduler proposes: pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from accelet.assignments.ownform import render_own
from accelet.kinds.move import MOST_MOVED, GainKind, MoveGain, MovePlace, MoveSpec, MoveTask
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.moves.budgets import MoveHistory
from accelet.scheduler.moves.finding.letsin import LetsIn, LetsInTerms, find_lets_in
from accelet.scheduler.moves.finding.nearer import NearerTerms, find_nearer
from accelet.scheduler.moves.finding.packs import PacksTerms, find_packs
from accelet.scheduler.moves.finding.relocating import Drained, Relocated, drain, move_by_wish, nodes_mask
from accelet.scheduler.moves.movable import MovableTask, Relocation

_MOST_ENDING_S = 3600
"""A task has two places while its old pods end, which others wait for."""

_MOST_LEAVING_S = 900
"""What nobody waits for is not to keep two places from those who come meanwhile, for longer than that."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moves that are good for something together."""

    moves: tuple[Relocation, ...]
    gain: MoveGain


@dataclass(frozen=True, slots=True)
class Improvement:
    """A better place for a task; or `proposal` is None and `reason` says why."""

    proposal: Proposal | None = None
    reason: str = ""


def lets_in_key(gang: GangKey) -> str:
    """What stands for a waiting gang where people of other namespaces read it."""
    return hashlib.sha256(f"{gang.namespace}/{gang.kind}/{gang.name}".encode()).hexdigest()[:16]


def propose_lets_in(
    waiting: Sequence[Gang],
    tasks: Sequence[MovableTask],
    supposed: Supposition,
    history: MoveHistory,
    terms: LetsInTerms,
) -> Proposal | None:
    """Moves that let the first of the waiting gangs in for which there are any.

    `waiting` are those that have waited long enough, in order. What the planner leaves undecided is none.
    Tasks of which a person has to approve each move are asked for only where the others are not enough.
    """
    touched, supposed = history.touched, _untouched(supposed, history)
    for gang in waiting:
        key = lets_in_key(gang.key)
        may = [
            _without_way_back(task, history)
            for task in tasks
            if touched.isdisjoint(task.nodes) and not _why_not(task, "LetsIn", history, key)
        ]
        answer = _find_unasked_first(gang, may, supposed, terms)
        if not answer.moves:
            continue
        moved = [move.task for move in answer.moves]
        if history.is_within_bounds(moved) and history.is_apart(answer.moves):
            ranks = _count(sum(len(task.nodes) for task in moved), "rank")
            gets_in = f"a gang of {_count(len(gang.pods), 'pod')} that waits"
            text = f"would let in {gets_in}, by moving {ranks} of {_count(len(moved), 'task')}"
            return Proposal(answer.moves, MoveGain(kind="LetsIn", text=text, lets_in=key))
    return None


def _find_unasked_first(
    gang: Gang, may: Sequence[MovableTask], supposed: Supposition, terms: LetsInTerms
) -> LetsIn:
    unasked = [task for task in may if task.terms.moves.policy != "Ask"]
    answer = find_lets_in(gang, unasked, supposed, terms) if unasked else LetsIn()
    if answer.moves or len(unasked) == len(may):
        return answer
    return find_lets_in(gang, may, supposed, terms)


def propose_drain(
    task: MovableTask, drained: Drained, supposed: Supposition, history: MoveHistory
) -> Relocated:
    """A task's way from nodes and cards that are to be drained, or why there is none."""
    if why := _why_not(task, "Drain", history):
        return Relocated(reason=why)
    return _apart(drain(task, drained, supposed), history)


def propose_wish(task: MovableTask, to: str | None, supposed: Supposition, history: MoveHistory) -> Relocated:
    """A task's way to where a person wants it, or why there is none."""
    if why := _why_not(task, "Person", history):
        return Relocated(reason=why)
    return _apart(move_by_wish(task, to, supposed), history)


def propose_nearer(
    task: MovableTask, supposed: Supposition, history: MoveHistory, terms: NearerTerms
) -> Improvement:
    """A task's way to where its ranks are nearer to each other, or why there is none."""
    if why := _why_no_improvement(task, "Nearer", history):
        return Improvement(reason=why)
    found = find_nearer(_without_way_back(task, history), _untouched(supposed, history), terms)
    if found.move is None:
        return Improvement(reason=found.reason)
    ranks = _count(len(found.move.nodes), "rank")
    text = f"would bring {ranks} nearer to each other: distance {found.after:,} and not {found.before:,}"
    return Improvement(Proposal((found.move,), MoveGain(kind="Nearer", text=text)))


def propose_packs(
    task: MovableTask, supposed: Supposition, history: MoveHistory, terms: PacksTerms
) -> Improvement:
    """A task's way to where it leaves more nodes or cards to nobody, or why there is none."""
    if why := _why_no_improvement(task, "Packs", history):
        return Improvement(reason=why)
    found = find_packs(_without_way_back(task, history), _untouched(supposed, history), terms)
    if found.move is None:
        return Improvement(reason=found.reason)
    whole = " and ".join(
        _count(number, what) for number, what in ((found.nodes, "node"), (found.cards, "card")) if number
    )
    text = f"would leave {whole} wholly free, by moving {_count(len(found.move.nodes), 'rank')}"
    return Improvement(Proposal((found.move,), MoveGain(kind="Packs", text=text)))


def _why_no_improvement(task: MovableTask, kind: GainKind, history: MoveHistory) -> str:
    """Why no better place is looked for, a sentence; empty if one is."""
    if task.gang.objection:
        return task.gang.objection
    if not history.has_room_to_improve:
        return "as many tasks as may be have been moved to better places within an hour"
    if not history.touched.isdisjoint(task.nodes):
        return "another Move touches one of its nodes, and goes first"
    if (leaving_s := task.terms.moves.save_seconds + task.ending_s) > _MOST_LEAVING_S:
        return f"it takes {leaving_s} s to save and to end: with more than {_MOST_LEAVING_S} s it stays"
    return _why_not(task, kind, history)


def _untouched(supposed: Supposition, history: MoveHistory) -> Supposition:
    """The nodes that no Move touches which has not ended."""
    touched = history.touched
    return supposed.without(nodes_mask(supposed, touched), "touched by another Move") if touched else supposed


def move_spec(move: Relocation, gain: MoveGain, valid_until: datetime) -> MoveSpec:
    """The move as it is written down."""
    task = move.task
    places = []
    for place, (pod, node) in enumerate(zip(task.gang.pods, move.nodes, strict=True)):
        before, given = task.cards[place], move.assignments[place]
        after = before if place in move.kept else render_own(given) if given is not None else ""
        places.append(
            MovePlace(
                rank=task.ranks[place],
                pod_uid=pod.uid,
                from_node=task.nodes[place],
                to_node=node,
                from_cards=before,
                to_cards=after,
            )
        )
    return MoveSpec(
        task=MoveTask(name=task.terms.name, uid=task.uid, attempt=task.terms.attempt),
        takes=dict(sorted(task.gang.shapes[0].units)),
        places=tuple(places),
        gain=gain,
        valid_until=valid_until,
    )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _why_not(task: MovableTask, kind: GainKind, history: MoveHistory, lets_in: str = "") -> str:
    if len(task.nodes) > MOST_MOVED:
        return f"tasks of more than {MOST_MOVED} ranks are not moved"
    if task.ending_s > _MOST_ENDING_S:
        return f"its pods are given {task.ending_s} s to end: with more than {_MOST_ENDING_S} s none is moved"
    if len(set(task.gang.shapes)) > 1:
        return "its pods are not alike, as pods of one task are"
    return history.why_not(task, kind, lets_in)


def _without_way_back(task: MovableTask, history: MoveHistory) -> MovableTask:
    left = history.left_by(task)
    return replace(task, gang=replace(task.gang, excluded=task.gang.excluded | left)) if left else task


def _apart(found: Relocated, history: MoveHistory) -> Relocated:
    if found.move is not None and not history.is_apart([found.move]):
        return Relocated(reason="another Move touches one of these nodes, and goes first")
    return found
