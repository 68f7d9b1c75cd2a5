"""How much work evaluating may take."""

from typing import Final

from accelet.claims.cel.failures import SpentError

LONGEST_TEXT: Final = 64 * 1024
"""Characters of a text, elements of a list, that an expression may make."""


class Work:
    """A budget, spent by what is evaluated with it; a unit is about a microsecond."""

    __slots__ = ("left",)

    def __init__(self, units: int) -> None:
        self.left = units

    def spend(self, units: int = 1) -> None:
        """Raises:
        SpentError: the budget is used up.
        """
        self.left -= units
        if self.left < 0:
            raise SpentError("evaluating it takes more work than a selector is given")

    def make(self, size: int) -> None:
        """Spend what a text or list of so many characters or elements costs, before it is made.

        Raises:
            SpentError: it is longer than LONGEST_TEXT, or the budget is used up.
        """
        if size > LONGEST_TEXT:
            raise SpentError(f"it makes a text or list of more than {LONGEST_TEXT} parts")
        self.spend(1 + size // 16)
