"""The kubelet's own record of who holds which devices, read when it is another one."""

import asyncio
from pathlib import Path

from accelet.kubelet.checkpoint import Checkpoint, Known, read_checkpoint
from accelet.kubelet.errors import CheckpointError
from accelet.kubelet.paths import KubeletPaths, SocketIdentity, identify_socket
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log

_log = Log(__name__)


class KubeletRecords:
    """The kubelet's checkpoint, read again whenever it is another file, and which life of it this is."""

    def __init__(self, paths: KubeletPaths) -> None:
        self._paths = paths
        self._read: tuple[SocketIdentity | None, Checkpoint] | None = None
        self._known: Known = {}
        self._failing = Failing(
            _log,
            "cannot tell which devices are held; none will be unlisted",
            tells_each=True,
            named="reason",
        )

    def kubelet(self) -> SocketIdentity | None:
        """Tells one life of the kubelet from the next; None while there is none."""
        return identify_socket(self._paths.registration_socket)

    async def knows(self, resource: str) -> bool:
        """Whether this life of the kubelet has written that it knows the resource."""
        checkpoint = await self.checkpoint()
        return checkpoint is not None and self.is_current and resource in checkpoint.registered

    @property
    def is_current(self) -> bool:
        """Whether the checkpoint that was read last was written by this life of the kubelet."""
        kubelet, written = self.kubelet(), self._read[0] if self._read is not None else None
        return kubelet is not None and written is not None and written.changed_ns > kubelet.changed_ns

    async def checkpoint(self) -> Checkpoint | None:
        """The checkpoint as it stands; None when it cannot be read, which is logged once."""
        identity = identify_socket(self._paths.checkpoint)
        if self._read is not None and self._read[0] == identity:
            return self._read[1]
        try:
            # Several resources may ask at once, each on a thread of its own: so none shares what it changes.
            known = dict(self._known)
            checkpoint = await asyncio.to_thread(_read, self._paths.device_plugins, known)
            self._known = known
        except CheckpointError as error:
            self._failing.failed(error)
            return None
        self._failing.worked()
        self._read = (identity, checkpoint)
        return checkpoint


def _read(directory: Path, known: Known) -> Checkpoint:
    return read_checkpoint(directory, known)
