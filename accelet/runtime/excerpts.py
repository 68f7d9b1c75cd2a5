"""What somebody else wrote, fit to stand in a sentence of ours: short, printable, in quotes."""


def excerpt(text: str, limit: int = 40) -> str:
    """What a user wrote, in quotes, fit to stand in a sentence."""
    return '"' + printable(text, limit).replace('"', "'") + '"'


def printable(text: str, limit: int = 40) -> str:
    """`text` in printable ASCII and at most `limit` characters of it."""
    shown = text[: limit + 1].encode("unicode_escape").decode("ascii")
    return shown[:limit] + "..." if len(shown) > limit else shown
