"""Keeps one file for Node Feature Discovery as it is to be, and removes it at the end."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from accelet.assignments.gaslabels import render_features
from accelet.assignments.nodecards import NodeCard
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.waiting import left_s, wait_for_hint

LOOK_S = 60.0
"""How often the file is looked at without any change of ours."""

_log = Log(__name__)


class FeatureFile:
    """Writes the labels of the cards into the file at `place`, while `run` runs and one is set."""

    def __init__(
        self,
        root: Path,
        list_cards: Callable[[], Sequence[NodeCard] | None],
        *,
        failed: Callable[[], None],
        look_s: float = LOOK_S,
    ) -> None:
        """`list_cards` gives None while not all of them are known; `failed` is called for each failure."""
        self._root = root
        self._list_cards = list_cards
        self._count_failure = failed
        self._look_s = look_s
        self._place: Path | None = None
        self._written: tuple[Path, str] | None = None
        self._wake = asyncio.Event()
        self._failing = Failing(
            _log,
            "cannot keep the feature file",
            "keeps the feature file again",
            level="error",
            named="reason",
        )

    def set_place(self, path: str | None) -> None:
        """Where the file is from here on, as a path on the host; None for no file."""
        self._place = None if path is None else self._root / path.lstrip("/")
        self._wake.set()

    def refresh(self) -> None:
        """The cards may have changed."""
        if self._place is not None:
            self._wake.set()

    async def run(self) -> None:
        """Keeps the file for ever; when it is cancelled the file goes."""
        due_s, loop = 0.0, asyncio.get_running_loop()
        try:
            while True:
                self._wake.clear()
                cards = () if self._place is None else self._list_cards()
                if cards is not None:
                    wanted = None if self._place is None else (self._place, render_features(cards))
                    if wanted != self._written or loop.time() >= due_s:
                        await self._keep(wanted)
                        due_s = loop.time() + self._look_s
                is_kept = self._place is not None and cards is not None
                await wait_for_hint(self._wake, left_s(due_s if is_kept else None, loop.time()))
        finally:
            if self._written is not None:
                with suppress(OSError):
                    self._written[0].unlink(missing_ok=True)

    async def _keep(self, wanted: tuple[Path, str] | None) -> None:
        """Has the file say what it is to say; one that we wrote elsewhere goes."""
        before = self._written
        try:
            if before is not None and (wanted is None or wanted[0] != before[0]):
                await asyncio.to_thread(_write, before[0], "")
            if wanted is not None:
                await asyncio.to_thread(_write, *wanted)
        except OSError as error:
            self._count_failure()
            self._failing.failed(error.strerror, path=str(error.filename))
        else:
            self._failing.worked()
            self._written = wanted


def _write(path: Path, text: str) -> None:
    """Puts `text` in the file's place in one step, an empty one by removing it; nothing where it is there.

    Raises:
        OSError: the folder is missing or cannot be written to.
    """
    if not text:
        path.unlink(missing_ok=True)
    elif _read(path) != text.encode():
        fresh = path.with_name(f".{path.name}.new")  # of no interest to who reads the folder
        fresh.write_text(text)
        fresh.rename(path)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
