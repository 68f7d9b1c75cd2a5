"""Waits that are written down by the time of day, which may be set back."""

from typing import Final

_SKEW_S: Final = 60.0
"""The clocks of two leaders differ by less."""


def left_s(until_s: float, now_s: float, most_s: float) -> float:
    """What is left of a wait that is `most_s` long at most; 0 once it is over.

    Where more is left than the wait could be, twice over, a clock was set back: the wait is over then.
    """
    left = until_s - now_s
    return 0.0 if left > most_s + max(most_s, _SKEW_S) else max(0.0, min(left, most_s))


def believed_until_s(now_s: float, most_s: float) -> float:
    """The latest time at which a wait of `most_s` may have begun; by a later one a clock was set back."""
    return now_s + max(most_s, _SKEW_S)
