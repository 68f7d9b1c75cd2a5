"""What resources want to know of their earlier inventories, kept in a file through restarts of the agent."""

import os
from pathlib import Path
from typing import Final

import msgspec

from accelet.runtime.logs import Log

MEMORY_FILE: Final = ".accelet-seen.json"
"""A dot-file in the kubelet's directory of device plugins, which keeps it through restarts and reboots."""

_MOST_BYTES: Final = 64 * 1024

_log = Log(__name__)

# Made before there are threads: see docs/decisions/0003.
_decoder = msgspec.json.Decoder(dict[str, str])


class InventoryMemory:
    """A short text for each resource. Without a file that works it lasts as long as this object.

    Not safe for use by two threads at once with one resource.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, str] = {}

    def recall(self, resource: str) -> str | None:
        """The resource's text; None if there is none. Blocks on the file."""
        return self._known.get(resource) or self._read().get(resource)

    def keep(self, resource: str, text: str) -> None:
        """Keeps the resource's text in place of what was kept. Blocks on the file where it is another."""
        if self._known.get(resource) == text:
            return
        self._known[resource] = text
        kept = self._read()
        if kept.get(resource) == text:
            return
        fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            fresh.write_bytes(msgspec.json.encode({**kept, resource: text}))
            fresh.replace(self._file)
        except OSError as error:
            self._warn(error.strerror or str(error))

    def _read(self) -> dict[str, str]:
        try:
            with self._file.open("rb") as file:
                return _decoder.decode(file.read(_MOST_BYTES))
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._warn(error.strerror or str(error))
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._warn("it is no JSON of ours")
        return {}

    def _warn(self, reason: str) -> None:
        _log.warning("what was seen of the hardware is not kept", file=str(self._file), reason=reason)
