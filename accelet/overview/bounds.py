"""How much of what others write is shown: every text, list and map of a picture has an end."""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, TypeVar

MOST_NODES: Final = 5_000
MOST_ROWS: Final = 1_000
"""Of waiting gangs, of plans, of slices, of tasks and of moves each."""

MOST_CARDS: Final = 64
"""Of one node."""

MOST_HOLDERS: Final = 64
"""Of one card; and so many pods, places and notes of one thing."""

MOST_NAME: Final = 253
MOST_SENTENCE: Final = 500

_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Control and format characters, among them those that turn the direction of what follows."""

_T = TypeVar("_T")


def cut(text: str, most: int = MOST_NAME) -> str:
    """What somebody wrote, as far as it is shown; what nobody would see of it becomes a sign that is seen."""
    begun = text[: most + 1]
    if not begun.isascii() or not begun.isprintable():
        begun = "".join("\ufffd" if unicodedata.category(sign) in _UNSEEN else sign for sign in begun)
    return begun if len(begun) <= most else f"{begun[:most]}…"


def first(items: Iterable[_T], most: int) -> tuple[tuple[_T, ...], int]:
    """The first of many, and how many there are besides."""
    every: Sequence[_T] = items if isinstance(items, Sequence) else tuple(items)
    return tuple(islice(every, most)), max(0, len(every) - most)
