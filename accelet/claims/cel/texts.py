"""Functions of texts: CEL's strings 2, and regular expressions. Positions count characters."""

from collections.abc import Mapping, Sequence
from typing import Final

from accelet.claims.cel.failures import EvaluationError
from accelet.claims.cel.operators import equals_surely, size_of
from accelet.claims.cel.patterns import Pattern, compile_pattern
from accelet.claims.cel.signatures import Function, is_of, no_overload, out_of_range, position, shaped
from accelet.claims.cel.values import Value
from accelet.claims.cel.work import Work

_SPACE: Final = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_UPPER: Final = {code: code + 32 for code in range(65, 91)}
_LOWER: Final = {code: code - 32 for code in range(97, 123)}


@shaped("contains", (str, str))
def _contains(work: Work, values: Sequence[str]) -> Value:
    work.spend(len(values[0]) // 16)
    return values[1] in values[0]


@shaped("startsWith", (str, str))
def _starts(_: Work, values: Sequence[str]) -> Value:
    return values[0].startswith(values[1])


@shaped("endsWith", (str, str))
def _ends(_: Work, values: Sequence[str]) -> Value:
    return values[0].endswith(values[1])


def _pattern(work: Work, text: str, pattern: str) -> Pattern:
    work.spend(len(pattern))
    found = compile_pattern(pattern)
    work.spend(found.work(text))
    return found


@shaped("matches", (str, str))
def _matches(work: Work, values: Sequence[str]) -> Value:
    return _pattern(work, *values).find(values[0]) is not None


@shaped("find", (str, str))
def _find(work: Work, values: Sequence[str]) -> Value:
    first, last = _pattern(work, *values).find(values[0]) or (0, 0)
    return values[0][first:last]


@shaped("findAll", (str, str), (str, str, int))
def _find_all(work: Work, values: Sequence[str]) -> Value:
    text, pattern = values[:2]
    compiled = _pattern(work, text, pattern)
    work.spend(compiled.work(text) * len(text))
    most = int(values[2]) if len(values) == 3 else -1
    return tuple(text[first:last] for first, last in compiled.find_all(text, most))


@shaped("charAt", (str, int))
def _char_at(_: Work, values: Sequence[Value]) -> Value:
    text, at = str(values[0]), position(values[1])
    if not 0 <= at <= len(text):
        raise out_of_range(at)
    return text[at : at + 1]


def _index(work: Work, values: Sequence[Value]) -> Value:
    return _indexed(work, values, "indexOf", is_last=False)


def _last_index(work: Work, values: Sequence[Value]) -> Value:
    return _indexed(work, values, "lastIndexOf", is_last=True)


def _indexed(work: Work, values: Sequence[Value], name: str, *, is_last: bool) -> int:
    work.spend(size_of(values[0]) // 4)
    if len(values) == 2 and isinstance(values[0], tuple):
        same = [at for at, one in enumerate(values[0]) if equals_surely(one, values[1])]
        return (same[-1] if is_last else same[0]) if same else -1
    if not (is_of(values, (str, str)) or is_of(values, (str, str, int))):
        raise no_overload(name, values)
    text, part = str(values[0]), str(values[1])
    if len(values) == 2:
        return text.rfind(part) if is_last else text.find(part)
    at = position(values[2])
    if not part:
        return at
    if at < 0:
        raise out_of_range(at)
    if at >= len(text):
        return -1
    return text.rfind(part, 0, at + len(part)) if is_last else text.find(part, at)


@shaped("lowerAscii", (str,))
def _lower(_: Work, values: Sequence[str]) -> Value:
    return values[0].translate(_UPPER)


@shaped("upperAscii", (str,))
def _upper(_: Work, values: Sequence[str]) -> Value:
    return values[0].translate(_LOWER)


@shaped("trim", (str,))
def _trim(_: Work, values: Sequence[str]) -> Value:
    return values[0].strip(_SPACE)


@shaped("replace", (str, str, str), (str, str, str, int))
def _replace(work: Work, values: Sequence[str]) -> Value:
    text, old, new = values[:3]
    most = int(values[3]) if len(values) == 4 else -1
    count = text.count(old)
    count = count if most < 0 else min(count, most)
    work.make(len(text) + count * len(new))
    return text.replace(old, new, most if most >= 0 else -1)


@shaped("split", (str, str), (str, str, int))
def _split(work: Work, values: Sequence[str]) -> Value:
    text, separator = values[:2]
    most = int(values[2]) if len(values) == 3 else -1
    work.make(len(text))
    if most == 0:
        return ()
    if separator:
        return tuple(text.split(separator, most - 1 if most > 0 else -1))
    if 0 < most < len(text):
        return (*text[: most - 1], text[most - 1 :])
    return tuple(text)


@shaped("substring", (str, int), (str, int, int))
def _substring(_: Work, values: Sequence[Value]) -> Value:
    text, first = str(values[0]), position(values[1])
    last = position(values[2]) if len(values) == 3 else len(text)
    if len(values) == 3 and first > last:
        raise EvaluationError(f"invalid substring range. start: {first}, end: {last}")
    for at in (first, last):
        if not 0 <= at <= len(text):
            raise out_of_range(at)
    return text[first:last]


@shaped("join", (tuple,), (tuple, str))
def _join(work: Work, values: Sequence[Value]) -> Value:
    parts, separator = values[0], values[1] if len(values) == 2 else ""
    if not all(isinstance(part, str) for part in parts):
        raise EvaluationError("join: invalid input")
    work.make(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


METHODS: Final[Mapping[str, Function]] = {
    "contains": _contains,
    "startsWith": _starts,
    "endsWith": _ends,
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "charAt": _char_at,
    "indexOf": _index,
    "lastIndexOf": _last_index,
    "lowerAscii": _lower,
    "upperAscii": _upper,
    "trim": _trim,
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "join": _join,
}

FUNCTIONS: Final[Mapping[str, Function]] = {
    "matches": _matches,
}
