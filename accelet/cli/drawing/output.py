"""The one way in which commands print for people."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from accelet.cli.drawing.records import Line, Records, lay_out, styled

_NO_LIMIT = 100_000
"""Columns of a console that is no terminal: nothing is folded there."""


class Progress(Protocol):
    """A line that says how far something is."""

    def say(self, text: str) -> None: ...


class Output:
    """Prints to a terminal, or to a file or pipe, where each record is one line and nothing is folded.

    What is printed is text, never markup: a `[red]` in a plugin's message or a pod's name is shown as it is.
    """

    def __init__(self, file: TextIO | None = None, width: int | None = None) -> None:
        """Prints to `file`, or to the standard output; with `width` as on a terminal that wide."""
        terminal = (file or sys.stdout).isatty() or width is not None
        self.width = width if terminal else _NO_LIMIT
        self._console = Console(
            file=file, width=self.width, markup=False, emoji=False, highlight=False, soft_wrap=True
        )
        self.is_terminal = terminal

    @property
    def is_ascii(self) -> bool:
        """Whether nothing but ASCII can be shown."""
        return self._console.options.ascii_only

    def line(self, *parts: Line) -> None:
        """One line of plain and styled parts."""
        self._console.print(Text().join(styled(part) if isinstance(part, str) else part for part in parts))

    def table(self, records: Records, indent: str = "") -> None:
        """A table that fits the terminal by moving whole cells to further lines."""
        width = self._console.width - len(indent) if self.is_terminal else None
        for line in lay_out(records, width):
            self._console.print(Text(indent) + line)

    def drawing(self, drawing: RenderableType) -> None:
        """A drawing made of `styled` texts."""
        self._console.print(drawing, soft_wrap=False)

    @contextmanager
    def progress(self, text: str) -> Iterator[Progress]:
        """Shows how far something is, on a terminal; silent elsewhere."""
        with self._console.status(styled(text), spinner="dots") as status:

            class _Said:
                def say(self, text: str) -> None:
                    status.update(styled(text))

            yield _Said()
