"""Where a watch was, and what it showed to be deleted lately, in a file for the next process."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.statefile import read_whole

WRITE_S: Final = 10.0
"""How often it is written at most: the API server keeps what has changed for at least 75 s."""

_MOST_BYTES: Final = 8 * 1024 * 1024

_log = Log(__name__)


class GoneObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`object`, in the API's form, had been deleted `age_s` seconds before the record was made."""

    age_s: Annotated[float, Meta(ge=0, le=1e6)]
    object: msgspec.Raw


class WatchRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The watch had shown everything up to `version`; `gone` are in the order of their deletion.

    `there` are the UIDs of those that were not deleted.
    """

    version: Annotated[str, Meta(pattern="^[0-9]{1,20}$")]
    gone: Annotated[tuple[GoneObject, ...], Meta(max_length=20_000)] = ()
    there: Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=20_000)] = ()


# Made before there are threads: see docs/decisions/0003.
_decoder = msgspec.json.Decoder(WatchRecord)


class WatchRecordFile:
    """Keeps a record while `run` runs; nothing is kept where the file does not work.

    Not more than one process may keep the record of one watch in one file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed = asyncio.Event()
        self._failing = Failing(_log, "what was watched of pods is not kept", named="reason")

    async def recall(self) -> WatchRecord | None:
        """What was kept last; None where nothing was, or nothing that can be read."""
        return await asyncio.to_thread(self._read)

    def note_change(self) -> None:
        """The watch has gone on."""
        self._changed.set()

    async def run(self, make: Callable[[], WatchRecord | None]) -> None:
        """Writes what `make` makes every now and then when the watch has gone on, and at the end.

        What was written stays where `make` returns None.
        """
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if (record := make()) is not None:
                    await asyncio.to_thread(self._write, record)
                    await asyncio.sleep(WRITE_S)
        finally:
            if (record := make()) is not None:
                self._write(record)

    def _read(self) -> WatchRecord | None:
        try:
            content = read_whole(self._file, _MOST_BYTES)
            return None if content is None else _decoder.decode(content)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # as if there were none; it is written anew

    def _write(self, record: WatchRecord) -> None:
        fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            fresh.write_bytes(msgspec.json.encode(record))
            fresh.replace(self._file)
        except OSError as error:
            self._failing.failed(error.strerror or str(error))
        else:
            self._failing.worked()
