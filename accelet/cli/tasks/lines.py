"""Lines out of what programs write, bounded: values in, values out."""

from typing import Final

LONGEST: Final = 16_384
"""Bytes of a line; what is longer is shown as several."""


class LineCutter:
    """Cuts what one program writes into lines. It keeps no more than one line of LONGEST bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that are whole by now."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        lines = [part for line in whole for part in _parts(line)]
        if len(self._rest) >= LONGEST:
            *more, self._rest = _parts(self._rest)
            lines += more
        return [_text(line) for line in lines]

    def end(self) -> list[str]:
        """What was written after the last line's end."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []


def _parts(line: bytes) -> list[bytes]:
    return [line[at : at + LONGEST] for at in range(0, len(line), LONGEST)] or [b""]


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="backslashreplace").expandtabs(8)
