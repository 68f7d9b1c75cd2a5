"""Which tasks may move at once, whatever it is for: what is never worth it, or has not places enough."""

from collections import Counter
from collections.abc import Sequence

from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.moves.finding.options import Some
from accelet.scheduler.moves.movable import MovableTask, is_worth


class Together:
    """Which of `tasks` may move together for a gang, in `room`, which is free beside them.

    What is refused is so for certain, and so is every set that it is part of.
    """

    def __init__(self, waiting: Gang, tasks: Sequence[MovableTask], room: CardRoom, factor: float) -> None:
        self._waiting, self._tasks, self._factor = waiting, tasks, factor
        self._room = room.metered(Budget())
        kinds = dict[tuple[PodShape, ...], int]()
        self._kinds = [kinds.setdefault(task.gang.shapes, len(kinds)) for task in tasks]
        self._known: dict[tuple[int, ...], bool] = {}
        self._places: dict[PodShape, int] = {}

    def allows(self, some: Some) -> bool:
        kinds = tuple(sorted(self._kinds[number] for number in some))
        if kinds not in self._known:
            moved = [self._tasks[number] for number in some]
            is_worthy = len(moved) == 1 or is_worth(self._waiting, moved, self._factor)
            self._known[kinds] = is_worthy and self._have_places(moved)
        return self._known[kinds]

    def _have_places(self, moved: Sequence[MovableTask]) -> bool:
        """Whether each shape has as many places as there are ranks of it."""
        ranks = Counter(shape for task in moved for shape in task.gang.shapes)
        return all(self._free(shape) >= count for shape, count in ranks.items())

    def _free(self, shape: PodShape) -> int:
        if shape not in self._places:
            self._places[shape] = int(self._room.slots_between(shape)[1].sum())
        return self._places[shape]
