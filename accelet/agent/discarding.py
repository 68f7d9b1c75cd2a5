"""Removes, beside everything else, what containers left in folders that were set aside for good."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from accelet.accelerators.discarded import remove_discarded
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.threads import Workers

REST_S = 10.0
GO_S = 5.0
"""A go takes no longer: who filled a folder with millions of files must not keep a disk busy for ever."""

_log = Log(__name__)


class Discarding:
    """Removes while `run` runs, on one thread of its own, also what a former agent left."""

    def __init__(self, root: Path, *, rest_s: float = REST_S) -> None:
        """`root` is the folder where the host's files are seen."""
        self._root, self._rest_s = root, rest_s
        self._parents: frozenset[str] = frozenset()
        self._workers = Workers("discarding")
        self._failing = Failing(_log, "folder not removed", named="reason")

    def look_in(self, parents: Iterable[str]) -> None:
        """Looks for discarded folders in these folders of the host, beside those named before."""
        self._parents |= frozenset(parents)

    async def run(self) -> None:
        """Removes for ever, with a rest after each go."""
        try:
            while True:
                faults = await self._workers.run(remove_discarded, self._parents, self._root, GO_S)
                if faults:
                    self._failing.failed(faults[0])
                else:
                    self._failing.worked()
                await asyncio.sleep(self._rest_s)
        finally:
            self._workers.close()
