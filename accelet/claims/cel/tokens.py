"""The words of an expression, after the grammar of CEL (cel-spec, doc/langdef.md, "Syntax")."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from accelet.claims.cel.failures import UnreadableError
from accelet.claims.cel.values import Uint, Value
from accelet.runtime.excerpts import excerpt

MOST_CHARACTERS: Final = 10 * 1024
"""Of an expression, by the API server (resource/v1, CELSelectorExpressionMaxLength)."""


class Kind(Enum):
    NAME = auto()
    LITERAL = auto()
    SIGN = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """`value` is a literal's value, else None; `at` counts characters from 0."""

    kind: Kind
    text: str
    at: int
    value: Value = None


_TEXT: Final = (
    r"(?P<prefix>[rRbB]{0,2})"
    r"""(?P<quoted>\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}"""
    r"""|"(?:[^\\"\n]|\\.)*"|'(?:[^\\'\n]|\\.)*')"""
)
_RAW: Final = r"""(?P<raw>[rR](?:\"{3}(?:.|\n)*?\"{3}|'{3}(?:.|\n)*?'{3}|"[^"\n]*"|'[^'\n]*'))"""
_PATTERN: Final = re.compile(
    rf"""(?P<space>[ \t\n\f\r]+|//[^\n]*)
    |{_RAW}
    |{_TEXT}
    |(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<int>0x[0-9a-fA-F]+|\d+)(?P<unsigned>[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|\.\?|\[\?|[-+*/%!?:<>()\[\]{{}},.])""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
_NAMED: Final = {**dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)), **{sign: sign for sign in "\\?\"'`"}}
_LARGEST_CODE: Final = 0x10FFFF
_LARGEST_UINT: Final = 2**64 - 1
_LARGEST_INT: Final = 2**63
"""One more than the largest: a minus before it makes it the smallest."""


def split(text: str) -> tuple[Token, ...]:
    """The words of `text`, the last of them of the kind END.

    Raises:
        UnreadableError: it is too long, or has a word that CEL does not know.
    """
    if len(text) > MOST_CHARACTERS:
        raise UnreadableError(f"it has more than {MOST_CHARACTERS} characters")
    return tuple(_words(text))


def _words(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            raise UnreadableError(f"{excerpt(text[at : at + 10], 10)} at character {at} is no word of CEL")
        if not match["space"]:
            yield _token(match)
        at = match.end()
    yield Token(Kind.END, "", at)


def _token(match: re.Match[str]) -> Token:
    text, at = match[0], match.start()
    if match["raw"]:
        quoted = match["raw"][1:]
        width = 3 if quoted[:3] in {'"""', "'''"} else 1
        return Token(Kind.LITERAL, text, at, quoted[width:-width])
    if match["quoted"]:
        if match["prefix"]:
            raise UnreadableError(f"bytes (at character {at}) are not served")
        return Token(Kind.LITERAL, text, at, _unescaped(match["quoted"], at))
    if match["double"]:
        return Token(Kind.LITERAL, text, at, float(match["double"]))
    if match["int"]:
        return Token(Kind.LITERAL, text, at, _whole(match))
    if match["name"] in _CONSTANTS:
        return Token(Kind.LITERAL, text, at, _CONSTANTS[text])
    return Token(Kind.NAME if match["name"] else Kind.SIGN, text, at)


def _whole(match: re.Match[str]) -> int:
    digits = match["int"]
    if len(digits) > 24:
        raise UnreadableError(f"{excerpt(digits, 24)} is too large for an integer")
    number = int(digits, 16) if digits.startswith("0x") else int(digits)
    if number > (_LARGEST_UINT if match["unsigned"] else _LARGEST_INT):
        raise UnreadableError(f"{digits} is too large for an integer")
    return Uint(number) if match["unsigned"] else number


def _unescaped(quoted: str, at: int) -> str:
    width = 3 if quoted[:3] in {'"""', "'''"} else 1
    return _ESCAPE.sub(lambda found: _character(found, at), quoted[width:-width])


def _character(found: re.Match[str], at: int) -> str:
    code = next((digits for digits in found.groups()[:4] if digits), None)
    if code is not None:
        return _of_code(int(code, 16), at)
    if found[5]:
        return chr(int(found[5], 8))
    if found[6] not in _NAMED:
        raise UnreadableError(f"the text at character {at} has an escape that CEL does not know")
    return _NAMED[found[6]]


def _of_code(code: int, at: int) -> str:
    if code > _LARGEST_CODE or 0xD800 <= code <= 0xDFFF:
        raise UnreadableError(f"the text at character {at} names a character that there is not")
    return chr(code)
