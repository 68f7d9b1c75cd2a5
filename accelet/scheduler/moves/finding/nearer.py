"""Nearer: places at which the ranks of a running task are nearer to each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.moves.finding.relocating import relocate
from accelet.scheduler.moves.movable import MovableTask, Relocation, distance_of
from accelet.scheduler.placement.plan import find_places
from accelet.scheduler.placement.unlike import Effort

_EFFORT = Effort(units=60_000, restarts=4, tries=2_000)
"""For each question to the planner."""

_NO_PLACE = "no place is so much nearer"


@dataclass(frozen=True, slots=True)
class NearerTerms:
    """The distance afterwards times `factor` is at most that of now; `most_questions` are for the planner."""

    factor: float = 2.0
    most_questions: int = 16
    effort: Effort = _EFFORT


@dataclass(frozen=True, slots=True)
class Nearer:
    """The move and both distances; or `move` is None and `reason` says why.

    `is_settled` says of none that there is none: that the planner has proven it.
    """

    move: Relocation | None = None
    before: int = 0
    after: int = 0
    reason: str = ""
    is_settled: bool = True


def find_nearer(task: MovableTask, supposed: Supposition, terms: NearerTerms) -> Nearer:
    """The nearest places that were found for a task, if they are worth it; of several those that move fewest.

    Each new place is free now, beside the old ones; ranks that are in one domain already may keep theirs.
    """
    before = task.distance(supposed.layout)
    if before is None:
        return Nearer(reason="one of its nodes is not known")
    most = min(before - 1, int(before / terms.factor))
    if most < 0:
        return Nearer(reason="its ranks are as near as can be")
    budget = Budget(terms.effort.units)
    # Whichever ranks move and whichever stay: all of it is a placement where the task is thought to be gone.
    best = find_places(task.gang, supposed.layout, supposed.room(task.pods), terms.effort, budget)
    if best.nodes is None or best.lower_bound > most:
        return Nearer(before=before, reason=_NO_PLACE, is_settled=best.nodes is not None or best.is_settled)
    found = [
        move
        for kept in _kept(task, supposed)[: terms.most_questions]
        if (move := _move(task, kept, supposed, terms.effort)) is not None
    ]
    nearest = min(found, key=lambda move: (_distance(move, supposed), -len(move.kept)), default=None)
    if nearest is None or (after := _distance(nearest, supposed)) > most:
        return Nearer(before=before, reason=_NO_PLACE, is_settled=False)
    return Nearer(nearest, before, after)


def _kept(task: MovableTask, supposed: Supposition) -> Sequence[frozenset[int]]:
    """Which ranks may stay: none; or those that are in one domain now, or all the others; the most first."""
    leaves = [supposed.layout.leaf_of[node] for node in task.nodes]
    sets = {
        frozenset(rank for rank, leaf in enumerate(leaves) if codes[leaf] == domain)
        for codes in supposed.layout.tree.codes
        for domain in codes[leaves].tolist()
    }
    everybody, nobody = frozenset(range(len(leaves))), frozenset[int]()
    some = (sets | {everybody - one for one in sets}) - {everybody, nobody}
    return [nobody, *sorted(some, key=lambda one: (-len(one), sorted(one)))]


def _move(
    task: MovableTask, kept: frozenset[int], supposed: Supposition, effort: Effort
) -> Relocation | None:
    moving = frozenset(range(len(task.nodes))) - kept
    return relocate(task, moving, supposed, supposed.room(), effort).move


def _distance(move: Relocation, supposed: Supposition) -> int:
    return distance_of(move.nodes, supposed.layout)
