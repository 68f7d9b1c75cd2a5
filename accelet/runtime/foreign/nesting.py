"""JSON that is nested deeper than a parser goes: read without what nobody here looks at.

The API server takes objects nested up to 10,000 deep (in `metadata.managedFields`, for instance), and
whoever may write an object chooses how deep it is. Parsers go 1,000 deep (Python 3.11) or some 9,990 (3.12
and later).
"""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

MOST_DEPTH = 100
"""Deeper than anything that is read here."""

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_T = TypeVar("_T")


def decode_nested(decode: Callable[[bytes | msgspec.Raw], _T], text: bytes | msgspec.Raw) -> _T:
    """What `decode` makes of `text`, or, where that is nested too deeply, of `text` made shallow.

    Raises:
        ValueError: whatever `decode` raises so: msgspec's errors, and UnicodeDecodeError, are of that kind.
    """
    try:
        return decode(text)
    except RecursionError:
        return decode(make_shallow(bytes(text)))


def make_shallow(text: bytes) -> bytes:
    """`text` with null in place of each object and list that is nested deeper than MOST_DEPTH."""
    parts: list[bytes] = []
    depth = start = kept = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in b"{[":
            depth += 1
            if depth == MOST_DEPTH + 1:
                start = match.start()
        elif token in b"}]":
            if depth == MOST_DEPTH + 1:
                parts += [text[kept:start], b"null"]
                kept = match.end()
            depth -= 1
    return b"".join((*parts, text[kept:]))
