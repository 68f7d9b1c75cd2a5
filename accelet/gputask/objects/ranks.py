"""Sets of ranks as people and Jobs write them: `0-3,7`."""

from collections.abc import Iterable

from accelet.kinds.gputask import MOST_RANKS


def read_ranks(text: str) -> frozenset[int]:
    """The ranks of a Job's `completedIndexes`. What is no rank is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if _is_rank(first) and _is_rank(last or first):
            found.update(range(int(first), min(int(last or first), MOST_RANKS) + 1))
    return frozenset(found)


def write_ranks(ranks: Iterable[int], longest: int = 253) -> str:
    """The ranks as text, cut where it would be longer."""
    runs: list[tuple[int, int]] = []
    for rank in sorted(set(ranks)):
        if runs and runs[-1][1] == rank - 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_RANKS))
