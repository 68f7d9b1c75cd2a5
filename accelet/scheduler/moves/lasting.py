"""Whether what a Move was proposed for is still to be gained: pure."""

from collections.abc import Collection, Iterable

from accelet.assignments.assignment import AssignmentError
from accelet.assignments.ownform import parse_own
from accelet.kinds.move import Move
from accelet.kube.objects import ObjectKey
from accelet.scheduler.cards.account import CardAccount
from accelet.scheduler.moves.book import CONTAINER
from accelet.scheduler.moves.finding.relocating import Drained
from accelet.scheduler.moves.holding import stays
from accelet.scheduler.moves.movable import MovableTask, Relocation
from accelet.scheduler.placement.plan import Plan


def is_wanted(waiting: Iterable[Plan]) -> bool:
    """Whether a gang waits for room; one that misses pods or cannot be planned as it is does not."""
    return any(not (plan.gang.objection or plan.gang.lacking) for plan in waiting)


def still_drains(move: Move, leaving: Collection[ObjectKey], drained: Drained, account: CardAccount) -> bool:
    """Whether a node or card that a task is to leave is still to be drained; of other Moves it is not asked.

    `leaving` are its pods that are still where they were.
    """
    if move.spec.gain.kind != "Drain":
        return True
    nodes = {place.from_node for place in move.spec.places if not stays(place)}
    is_ill = bool(nodes & drained.cards_of) and not all(map(account.still_fits, leaving))
    return is_ill or not drained.nodes.isdisjoint(nodes)


def as_written(move: Move, task: MovableTask) -> Relocation | None:
    """What a Move comes to for the task as it runs; None where it is not of these ranks."""
    places = {place.rank: place for place in move.spec.places}
    if set(places) != set(task.ranks):
        return None
    ordered = [places[rank] for rank in task.ranks]
    try:
        given = tuple(
            parse_own(one.to_cards, (CONTAINER,)) if one.to_cards and not stays(one) else None
            for one in ordered
        )
    except AssignmentError:
        return None
    kept = frozenset(at for at, one in enumerate(ordered) if stays(one))
    return Relocation(task, tuple(one.to_node for one in ordered), given, kept)
