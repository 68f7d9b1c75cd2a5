"""What a Dockerfile says about the image it makes, as far as that is configuration and not content."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CONTINUATION = re.compile(r"\\\n")


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """How containers of an image are started, where nothing else is said."""

    entrypoint: Sequence[str]
    command: Sequence[str]
    env: Mapping[str, str]
    user: str
    labels: Mapping[str, str]


def read_dockerfile(path: Path) -> ImageSettings:
    """The settings of the last stage. Of each instruction only the form in use here is understood.

    Raises:
        ValueError: ENTRYPOINT or CMD would start a shell.
    """
    said = list(_last_stage(path.read_text()))
    return ImageSettings(
        entrypoint=_words(_only(said, "ENTRYPOINT")),
        command=_words(_only(said, "CMD")),
        env=_pairs(said, "ENV"),
        user=_only(said, "USER"),
        labels=_pairs(said, "LABEL"),
    )


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction and the rest of its line, continued lines joined, comments left out."""
    without_comments = "".join(
        line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#")
    )
    for line in CONTINUATION.sub(" ", without_comments).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), rest.strip()


def _last_stage(text: str) -> Iterator[tuple[str, str]]:
    every = list(instructions(text))
    last = max(index for index, (name, _) in enumerate(every) if name == "FROM")
    return iter(every[last:])


def _only(said: Sequence[tuple[str, str]], wanted: str) -> str:
    (found,) = (rest for name, rest in said if name == wanted)
    return found


def _words(text: str) -> list[str]:
    if not text.startswith("["):
        raise ValueError(f"{text!r} would be run by a shell; write a JSON list")
    words: list[str] = json.loads(text)
    return words


def _pairs(said: Sequence[tuple[str, str]], wanted: str) -> dict[str, str]:
    pairs = [word.partition("=") for name, rest in said if name == wanted for word in shlex.split(rest)]
    return {key: value for key, _, value in pairs}
