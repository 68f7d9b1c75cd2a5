"""How much work one gang's plan may take: counted, not timed, so that a plan can be repeated anywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelet.scheduler.errors import SchedulerError

_NO_LIMIT = 10**15


class BudgetSpentError(SchedulerError):
    """A gang has taken all the work it may; what was found until then counts."""


@dataclass(slots=True)
class Budget:
    """What may still be spent, in units of about a microsecond of one processor core.

    `doubts` counts the questions that were answered "no" because they could not be decided.
    """

    left: int = _NO_LIMIT
    doubts: int = 0
    _total: int = 0

    def __post_init__(self) -> None:
        self._total = self.left

    def spend(self, units: int) -> None:
        """
        Raises:
            BudgetSpentError: nothing was left before.
        """
        if self.left <= 0:
            raise BudgetSpentError("too much work for one gang")
        self.left -= units

    @contextmanager
    def part(self, share: int) -> Iterator["Budget"]:
        """One part in `share` of what is left, so that one question does not take all of it."""
        part = Budget(self.left // share)
        try:
            yield part
        finally:
            self.left -= part.spent
            self.doubts += part.doubts

    @property
    def is_short(self) -> bool:
        """Whether so little is left that only quick answers are worth it."""
        return self.left * 3 < self._total

    @property
    def spent(self) -> int:
        return self._total - self.left
