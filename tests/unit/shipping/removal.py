"""The table of removals in docs/operating.md, for tests that judge it and for tests that do what it says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[3]
DEPLOY: Final = PROJECT / "deploy"
_COMMAND = re.compile(r"`kubectl (delete -[kf] (\S+))`")


@dataclass(frozen=True, slots=True)
class Removal:
    """One row: its part in words, and what is typed, without `kubectl`."""

    title: str
    commands: tuple[str, ...]
    parts: tuple[str, ...]
    """What the commands name: folders and files of the checkout."""


def removals() -> Sequence[Removal]:
    """The rows in their order; those whose part goes by a setting have no command."""
    text = (PROJECT / "docs" / "operating.md").read_text()
    section = text.split("\n## Remove\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [
        Removal(
            title.strip(),
            tuple(command for command, _ in _COMMAND.findall(then)),
            tuple(part for _, part in _COMMAND.findall(then)),
        )
        for title, _, then, _ in rows[1:]
    ]
