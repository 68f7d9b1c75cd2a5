"""Shell patterns over the host's files, as Go's filepath.Glob reads them.

`*`, `?` and `[...]` stay within one part of a path and match names that begin with a dot too; a
backslash takes the meaning from the character after it.
"""

import re
from pathlib import Path

from accelet.accelerators.hostfiles import read_names

_TOKEN = re.compile(
    r"\[(?P<negation>\^?)(?P<members>(?:\\.|[^\]\\])+)\]|\\(?P<escaped>.)|(?P<wild>[*?])|(?P<plain>[^\[\\*?]+)",
    re.DOTALL,
)
_MEMBER = re.compile(r"\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)
_WILD = {"*": ".*", "?": "."}


def find_fault(glob: str) -> str | None:
    """What is wrong with a pattern, as a sentence; None if it can be used."""
    parts = glob.split("/")
    if ".." in parts or "." in parts:
        return f"{glob} has . or .. among its parts; write the path out"
    if "\0" in glob:
        return "a path has no NUL character"
    for part in parts:
        if _compile(part) is None:
            return f"{glob} is not a pattern: look at its brackets and backslashes"
    return None


def expand_glob(root: Path, glob: str) -> tuple[str, ...]:
    """The host paths that match, in order of text. Raises nothing: what cannot be listed has no matches."""
    found = [""]
    for part in filter(None, glob.split("/")):
        found = [f"{folder}/{name}" for folder in found for name in _matching_names(root, folder, part)]
    return tuple(sorted(path for path in found if path))


def has_wildcards(glob: str) -> bool:
    return any(character in glob for character in "*?[\\")


def globs_meet(one: str, other: str) -> bool:
    """Whether both match some path; two unlike patterns with wildcards in both are left open: no."""
    if one == other:
        return True
    if not has_wildcards(one):
        return _matches(one, other)
    return not has_wildcards(other) and _matches(other, one)


def _matching_names(root: Path, folder: str, part: str) -> list[str]:
    if not has_wildcards(part):
        return [part] if _is_there(root / folder[1:] / part) else []
    pattern = _compile(part)
    if pattern is None:
        return []
    return [name for name in read_names(root / folder[1:]) if pattern.fullmatch(name)]


def _is_there(path: Path) -> bool:
    """Also if it is a link that leads nowhere."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _compile(part: str) -> re.Pattern[str] | None:
    """One part of a pattern as a regular expression; None if it is malformed."""
    words: list[str] = []
    position = 0
    while position < len(part):
        match = _TOKEN.match(part, position)
        if match is None:
            return None
        position = match.end()
        if match["members"]:
            words.append(f"[{match['negation']}{_translate_members(match['members'])}]")
        else:
            words.append(_WILD.get(match["wild"]) or re.escape(match["escaped"] or match["plain"]))
    try:
        return re.compile("".join(words), re.DOTALL)
    except re.error:
        return None


def _translate_members(members: str) -> str:
    """What stands between brackets: characters and ranges of them."""
    return "".join(
        f"{re.escape(member['low'])}-{re.escape(member['high'])}"
        if member["high"]
        else re.escape(member["low"])
        for member in _MEMBER.finditer(members)
    )


def _matches(path: str, glob: str) -> bool:
    parts = path.strip("/").split("/")
    patterns = [_compile(pattern) for pattern in glob.strip("/").split("/")]
    return len(parts) == len(patterns) and all(
        pattern is not None and pattern.fullmatch(part) for part, pattern in zip(parts, patterns, strict=True)
    )
