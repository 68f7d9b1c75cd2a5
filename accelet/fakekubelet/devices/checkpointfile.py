"""The kubelet's device checkpoint on disk."""

import errno
import os
import tempfile
from pathlib import Path

from accelet.fakekubelet.devices.devicemanager import AllocationError, DeviceManager
from accelet.fakekubelet.devices.holdings import CorruptCheckpointError, read_checkpoint
from accelet.fakekubelet.node import Node


class CheckpointFile:
    """Written anew after each change, under a name of its own, then renamed into place.

    It is written on the event loop: that it is on disk before the kubelet goes on to the next container
    is part of what plugins may rely on. It is not synced, since no fake survives a power cut.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    def save(self, manager: DeviceManager) -> None:
        """Writes what `manager` knows.

        Raises:
            AllocationError: it could not be written.
        """
        path = self._node.checkpoint
        try:
            self._write(path, manager.checkpoint())
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            text = f'failed to write checkpoint file "{path.name}": could not write {path}: {why}'
            self._node.trace.record("checkpoint-failed", detail=text)
            raise AllocationError(text) from error

    def _write(self, path: Path, text: str) -> None:
        if self._node.faults.disk_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).rename(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise

    def load(self, manager: DeviceManager, now: float) -> None:
        """Gives `manager` what a former kubelet wrote; nothing if there is none or it is of no use."""
        try:
            text = self._node.checkpoint.read_text(encoding="utf-8")
            holdings, registered = read_checkpoint(text)
        except FileNotFoundError:
            return
        except (CorruptCheckpointError, UnicodeDecodeError) as error:
            self._node.trace.record("checkpoint-corrupt", detail=str(error))
            return
        manager.restore(holdings, registered, now)
