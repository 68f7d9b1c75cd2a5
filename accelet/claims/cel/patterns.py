"""Regular expressions as RE2 has them (google/re2, doc/syntax; Go's regexp/syntax), in linear time.

A pattern becomes a program of instructions. All ways through it are followed side by side, character after
character (Russ Cox, "Regular Expression Matching: the Virtual Machine Approach"). So no pattern makes
matching more work than the length of the text times that of the program.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from accelet.claims.cel.failures import EvaluationError, UnknownError

MOST_INSTRUCTIONS: Final = 1000
"""Of one program; a counted repeat writes its part so many times."""

_MOST_REPEATS: Final = 1000  # by RE2
_DEEPEST: Final = 50

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step. `then` are the next ones, the preferred first; none at the end of the program."""

    then: tuple[int, ...] = ()
    ranges: Ranges | None = None
    is_folded: bool = False
    holds: Callable[[str, int], bool] | None = None


@dataclass(frozen=True, slots=True)
class _Flags:
    is_folded: bool = False
    is_dot_all: bool = False
    is_multiline: bool = False


_DIGITS: Final[Ranges] = ((48, 57),)
_WORDS: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Final[Ranges] = ((9, 10), (12, 13), (32, 32))
_LAST: Final = 0x10FFFF
_CLASSES: Final = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_NAMED_CLASSES: Final[dict[str, Ranges]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGITS,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _WORDS,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_FOLDED: Final = "other letters than ASCII without regard to case are not served"
_ALMOST_ASCII: Final = frozenset("\u212a\u017f")
"""Letters whose other case is an ASCII one: the Kelvin sign, the long s."""

_CONTROL: Final = dict(zip("aftnrv", "\a\f\t\n\r\v", strict=True))


def _complement(ranges: Ranges) -> Ranges:
    found, first = [], 0
    for low, high in sorted(ranges):
        if low > first:
            found.append((first, low - 1))
        first = max(first, high + 1)
    if first <= _LAST:
        found.append((first, _LAST))
    return tuple(found)


def _is_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and any(low <= ord(text[at]) <= high for low, high in _WORDS)


_ASSERTIONS: Final[dict[str, Callable[[str, int], bool]]] = {
    "A": lambda _, at: at == 0,
    "z": lambda text, at: at == len(text),
    "b": lambda text, at: _is_word(text, at - 1) != _is_word(text, at),
    "B": lambda text, at: _is_word(text, at - 1) == _is_word(text, at),
    "^m": lambda text, at: at == 0 or text[at - 1] == "\n",
    "$m": lambda text, at: at == len(text) or text[at] == "\n",
}

_TEXTS: Final = {"^": "A", "$": "z"}
_LINES: Final = {"^": "^m", "$": "$m"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A program; it begins with its first instruction."""

    program: tuple[Instruction, ...]

    def work(self, text: str) -> int:
        """How much one search is, at most, in units of about a microsecond."""
        return 1 + len(self.program) * (len(text) + 1) // 4

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The first match from `start` on, and of those that begin there the one that RE2 prefers."""
        if _ALMOST_ASCII & set(text) and any(step.is_folded for step in self.program):
            raise UnknownError(_FOLDED)
        found: tuple[int, int] | None = None
        ways: list[tuple[int, int]] = []
        for at in range(start, len(text) + 1):
            starts = ways if found is not None else [*ways, (0, at)]
            ways = []
            for pc, began in self._followed(text, at, starts):
                step = self.program[pc]
                if step.ranges is None:
                    found = (began, at)
                    break
                if at < len(text) and _takes(step, text[at]):
                    ways.append((step.then[0], began))
            if not ways and found is not None:
                return found
        return found

    def _followed(self, text: str, at: int, starts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The instructions that take a character or end, as reached from `starts` without one, in order."""
        seen: set[int] = set()
        for start, began in starts:
            stack = [start]
            while stack:
                pc = stack.pop()
                if pc in seen:
                    continue
                seen.add(pc)
                step = self.program[pc]
                if step.ranges is not None or not step.then:
                    yield pc, began
                elif step.holds is None or step.holds(text, at):
                    stack.extend(reversed(step.then))

    def find_all(self, text: str, most: int) -> Iterator[tuple[int, int]]:
        """Up to `most` matches that do not overlap (all where it is negative), as Go's FindAllString."""
        at, ended, count = 0, -1, 0
        while at <= len(text) and (most < 0 or count < most):
            found = self.find(text, at)
            if found is None:
                return
            is_new = found[1] > at or found[0] != ended
            at = found[1] if found[1] > at else at + 1
            ended = found[1]
            if is_new:
                count += 1
                yield found


def _takes(step: Instruction, character: str) -> bool:
    codes = {ord(character)}
    if step.is_folded and character.isascii():
        codes |= {ord(character.lower()), ord(character.upper())}
    return any(low <= code <= high for low, high in step.ranges or () for code in codes)


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """The program of `text`.

    Raises:
        EvaluationError: it is no pattern.
        UnknownError: it uses what is not served here, or is too large.
    """
    reader = _Reader(text)
    tree = reader.alternatives(_Flags())
    if reader.rest:
        raise EvaluationError(f"unexpected {reader.rest[:10]!r} in a regular expression")
    program: list[Instruction] = []
    tree(program)
    program.append(Instruction())
    return Pattern(tuple(program))


Part = Callable[[list[Instruction]], None]
"""Writes its instructions at the end of a program; they go on with whatever comes after them."""


def _write(program: list[Instruction], step: Instruction) -> int:
    if len(program) >= MOST_INSTRUCTIONS:
        raise UnknownError(f"a regular expression with more than {MOST_INSTRUCTIONS} steps is not tried")
    program.append(step)
    return len(program) - 1


def _one_of(ranges: Ranges, flags: _Flags) -> Part:
    if flags.is_folded and len(ranges) == 1 and ranges[0][0] == ranges[0][1] > 127:
        raise UnknownError(_FOLDED)

    def write(program: list[Instruction]) -> None:
        _write(program, Instruction((len(program) + 1,), ranges, flags.is_folded))

    return write


def _holds(name: str) -> Part:
    def write(program: list[Instruction]) -> None:
        _write(program, Instruction((len(program) + 1,), holds=_ASSERTIONS[name]))

    return write


def _sequence(parts: list[Part]) -> Part:
    def write(program: list[Instruction]) -> None:
        for part in parts:
            part(program)

    return write


def _either(parts: list[Part]) -> Part:
    def write(program: list[Instruction]) -> None:
        ends = []
        for part in parts[:-1]:
            split = _write(program, Instruction())
            part(program)
            ends.append(_write(program, Instruction()))
            program[split] = Instruction((split + 1, len(program)))
        parts[-1](program)
        for end in ends:
            program[end] = Instruction((len(program),))

    return write if len(parts) > 1 else parts[0]


def _repeated(part: Part, least: int, most: int | None, *, is_lazy: bool) -> Part:
    def ways(inner: int, after: int) -> tuple[int, int]:
        return (after, inner) if is_lazy else (inner, after)

    def write(program: list[Instruction]) -> None:
        for _ in range(least):
            part(program)
        if most is None:
            split = _write(program, Instruction())
            part(program)
            _write(program, Instruction((split,)))
            program[split] = Instruction(ways(split + 1, len(program)))
            return
        splits = []
        for _ in range(most - least):
            splits.append(_write(program, Instruction()))
            part(program)
        for split in splits:
            program[split] = Instruction(ways(split + 1, len(program)))

    return write


class _Reader:
    """Reads one pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    @property
    def rest(self) -> str:
        return self._text[self._at :]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        found = self._peek()
        if not found:
            raise EvaluationError("a regular expression ends too early")
        self._at += 1
        return found

    def _skips(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def alternatives(self, flags: _Flags) -> Part:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnknownError(f"a regular expression that nests deeper than {_DEEPEST} groups is not tried")
        parts: list[Part] = []
        pieces: list[Part] = []
        while self._peek() not in {"", ")"}:
            if self._skips("|"):
                parts.append(_sequence(pieces))
                pieces = []
                continue
            if changed := self._flags_from_here(flags):
                flags = changed
                continue
            pieces.append(self._repeats(self._atom(flags)))
        self._depth -= 1
        return _either([*parts, _sequence(pieces)])

    def _flags_from_here(self, flags: _Flags) -> _Flags | None:
        """What `(?i)` changes for the rest of its group."""
        end = self._text.find(")", self._at)
        if not self._text.startswith("(?", self._at) or end < 0:
            return None
        letters = self._text[self._at + 2 : end]
        if not letters or not set(letters) <= set("imsU-"):
            return None
        self._at = end + 1
        return _changed(flags, letters)

    def _repeats(self, part: Part) -> Part:
        bounds = self._bounds()
        if bounds is None:
            return part
        found = _repeated(part, *bounds, is_lazy=self._skips("?"))
        if self._bounds() is not None:
            raise EvaluationError("a regular expression repeats a repeat")
        return found

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self._skips(sign):
                return bounds
        if self._peek() != "{":
            return None
        body, closing, _ = self._text[self._at + 1 :].partition("}")
        least, comma, most = body.partition(",")
        if not closing or not _is_count(least) or (most and not _is_count(most)):
            return None
        self._at += len(body) + 2
        first = int(least)
        last = first if not comma else int(most) if most else None
        if first > _MOST_REPEATS or (last is not None and not first <= last <= _MOST_REPEATS):
            raise EvaluationError("a regular expression repeats a part too often")
        return first, last

    def _atom(self, flags: _Flags) -> Part:
        sign = self._next()
        if sign == "(":
            return self._group(flags)
        if sign in {"*", "+", "?"}:
            raise EvaluationError("a regular expression repeats nothing")
        if sign in {"^", "$"}:
            return _holds(_LINES[sign] if flags.is_multiline else _TEXTS[sign])
        if sign == "\\" and self._peek() in {"A", "z", "b", "B"}:
            return _holds(self._next())
        return _one_of(self._ranges(sign, flags), flags)

    def _ranges(self, sign: str, flags: _Flags) -> Ranges:
        if sign == "[":
            return self._class(flags)
        if sign == ".":
            return ((0, _LAST),) if flags.is_dot_all else _complement(((10, 10),))
        return self._escape() if sign == "\\" else ((ord(sign), ord(sign)),)

    def _group(self, flags: _Flags) -> Part:
        if self._skips("?"):
            if self._skips("P<") or (self._skips("<") and self._peek() not in {"=", "!"}):
                name, closing, _ = self.rest.partition(">")
                if not closing or not name.isidentifier():
                    raise EvaluationError("a regular expression has a group without a name")
                self._at += len(name) + 1
            elif not self._skips(":"):
                letters, closing, _ = self.rest.partition(":")
                if not closing or not letters or not set(letters) <= set("imsU-"):
                    raise EvaluationError("a regular expression has a group that RE2 does not know")
                self._at += len(letters) + 1
                flags = _changed(flags, letters)
        found = self.alternatives(flags)
        if not self._skips(")"):
            raise EvaluationError("a regular expression has a group without an end")
        return found

    def _escape(self) -> Ranges:
        sign = self._next()
        if sign.lower() in _CLASSES:
            found = _CLASSES[sign.lower()]
            return found if sign.islower() else _complement(found)
        if sign in _CONTROL:
            return ((ord(_CONTROL[sign]),) * 2,)
        if sign == "x":
            return self._by_code()
        if sign.isascii() and not sign.isalnum():
            return ((ord(sign), ord(sign)),)
        raise UnknownError(f"\\{sign} in a regular expression is not served")

    def _by_code(self) -> Ranges:
        if self._skips("{"):
            digits, closing, _ = self.rest.partition("}")
            self._at += len(digits) + 1
        else:
            digits, closing = self._text[self._at : self._at + 2], "}"
            self._at += 2
        is_hex = digits and len(digits) <= 6 and set(digits) <= set("0123456789abcdefABCDEF")
        if not closing or not is_hex or int(digits, 16) > _LAST:
            raise EvaluationError("a regular expression names a character that there is not")
        return ((int(digits, 16),) * 2,)

    def _class(self, flags: _Flags) -> Ranges:
        is_negated = self._skips("^")
        found: list[tuple[int, int]] = []
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            if self._skips("[:"):
                found += self._named_class()
                continue
            low = self._class_item()
            if (
                len(low) == 1
                and low[0][0] == low[0][1]
                and self._peek() == "-"
                and self.rest[1:2] not in {"]", ""}
            ):
                self._at += 1
                high = self._class_item()
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                    raise EvaluationError("a regular expression has a range without an order")
                low = ((low[0][0], high[0][0]),)
            found += low
        self._at += 1
        if flags.is_folded and any(127 < high < _LAST for _, high in found):
            raise UnknownError(_FOLDED)
        ranges = _folded(tuple(found)) if flags.is_folded else tuple(found)
        return _complement(ranges) if is_negated else ranges

    def _class_item(self) -> Ranges:
        sign = self._next()
        return self._escape() if sign == "\\" else ((ord(sign), ord(sign)),)

    def _named_class(self) -> Ranges:
        name, closing, _ = self.rest.partition(":]")
        bare = name.removeprefix("^")
        if not closing or bare not in _NAMED_CLASSES:
            raise EvaluationError("a regular expression has a class that RE2 does not know")
        self._at += len(name) + 2
        found = _NAMED_CLASSES[bare]
        return _complement(found) if name.startswith("^") else found


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5


def _folded(ranges: Ranges) -> Ranges:
    """`ranges` and the other case of their ASCII letters."""
    letters = [
        ord(chr(code).swapcase())
        for low, high in ranges
        for code in range(max(low, 65), min(high, 122) + 1)
        if chr(code).isalpha()
    ]
    return ranges + tuple((code, code) for code in letters)


def _changed(flags: _Flags, letters: str) -> _Flags:
    on, _, off = letters.partition("-")
    if "U" in letters:
        raise UnknownError("(?U) in a regular expression is not served")
    for letter in on + off:
        name = {"i": "is_folded", "s": "is_dot_all", "m": "is_multiline"}[letter]
        flags = replace(flags, **{name: letter in on})
    return flags
