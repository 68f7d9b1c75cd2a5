"""What a command prints on a terminal, as a page for a browser."""

import os
import pty
import subprocess
import termios
from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

_LOOK = "margin: 0; padding: 16px 20px; background: {background}; color: {foreground};"
PAGE = (
    "<!DOCTYPE html><html><head><meta charset='utf-8'></head>"
    f"<body style='{_LOOK}'><pre id='said' style='margin: 0; display: inline-block;"
    ' font: 14px/1.4 "DejaVu Sans Mono", monospace\'>{code}</pre></body></html>'
)
"""What rich puts the text into."""


def on_a_terminal(words: Sequence[str], columns: int, within_s: float = 60.0) -> str:
    """What a command that succeeds prints on a terminal of so many columns, with its colours' escapes.

    Raises CalledProcessError, TimeoutExpired.
    """
    ours, its = pty.openpty()
    try:
        termios.tcsetwinsize(its, (50, columns))
        env = {**os.environ, "TERM": "xterm-256color"} | {"COLUMNS": str(columns)}
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.PIPE, env=env
        ) as process:
            os.close(its)
            said = b"".join(iter(lambda: _read(ours), b""))
            _, told = process.communicate(timeout=within_s)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, words, said, told)
    finally:
        os.close(ours)
    return said.decode().replace("\r\n", "\n")


def as_page(said: str, columns: int) -> str:
    """HTML in which it looks as it does on a terminal."""
    console = Console(record=True, width=columns, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(said), soft_wrap=True)
    return console.export_html(theme=SVG_EXPORT_THEME, code_format=PAGE, inline_styles=True)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says EIO where the other end was closed
        return b""
