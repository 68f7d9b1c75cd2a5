"""The kubelet's own record of who holds which devices, read when it is another one."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from accelet.kubelet.checkpoint import Checkpoint, Known, read_checkpoint
from accelet.kubelet.errors import CheckpointError, MalformedCheckpointError
from accelet.kubelet.paths import KubeletPaths, SocketIdentity, identify_socket
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log

_log = Log(__name__)


class KubeletRecords:
    """The kubelet's checkpoint, read again whenever it is another file, and which life of it this is."""

    def __init__(
        self,
        paths: KubeletPaths,
        read: Callable[[Path, Known], Checkpoint] = read_checkpoint,
        identify: Callable[[Path], SocketIdentity | None] = identify_socket,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`read` reads the checkpoint of a directory, as `read_checkpoint` does.

        `identify` tells a file from the next at its path, as `identify_socket` does, by the clock `wall_ns`.
        """
        self._paths = paths
        self._read_file = read
        self._identify, self._wall_ns = identify, wall_ns
        self._met: SocketIdentity | None = None
        self._before: frozenset[SocketIdentity | None] = frozenset()
        self._reading: SocketIdentity | None = None
        self._malformed: SocketIdentity | None = None
        self._read: tuple[SocketIdentity | None, Checkpoint] | None = None
        self._known: Known = {}
        self._lock = asyncio.Lock()
        self._failing = Failing(
            _log,
            "cannot tell which devices are held; none will be unlisted",
            tells_each=True,
            named="reason",
        )

    def kubelet(self) -> SocketIdentity | None:
        """Tells one life of the kubelet from the next; None while there is none."""
        kubelet = self._identify(self._paths.registration_socket)
        if kubelet is not None and kubelet != self._met:
            self._met = kubelet
            last_read = None if self._read is None else self._read[0]
            self._before = frozenset({self._identify(self._paths.checkpoint), last_read, self._reading})
        return kubelet

    async def knows(self, resource: str) -> bool:
        """Whether this life of the kubelet has written that it knows the resource."""
        checkpoint = await self.checkpoint()
        return checkpoint is not None and self.is_current and resource in checkpoint.registered

    @property
    def is_current(self) -> bool:
        """Whether the checkpoint that was read last was written by this life of the kubelet.

        It was if it was not there yet when this life was first met: a former one has ended by then. What was
        there may be of either, and the times of the files tell, unless the clock was set back between them.
        """
        kubelet, written = self.kubelet(), self._read[0] if self._read is not None else None
        if kubelet is None or written is None:
            return False
        return written not in self._before or self._is_later(written, kubelet)

    def _is_later(self, written: SocketIdentity, kubelet: SocketIdentity) -> bool:
        """A checkpoint from the future beside a socket that is not is older than the clock's setting back."""
        now_ns = self._wall_ns()
        is_in_doubt = written.changed_ns > now_ns >= kubelet.changed_ns
        return written.changed_ns > kubelet.changed_ns and not is_in_doubt

    async def checkpoint(self) -> Checkpoint | None:
        """The checkpoint as it stands; None when it cannot be read, which is logged once.

        Whoever asks while it is being read waits for that, and reads it anew only if it is another by then.
        """
        async with self._lock:
            return await self._read_changed()

    async def _read_changed(self) -> Checkpoint | None:
        identity = self._identify(self._paths.checkpoint)
        if self._read is not None and self._read[0] == identity:
            return self._read[1]
        if identity is not None and identity == self._malformed:
            return None
        try:
            # Who waited may have given up, and the thread still be reading: so none shares what it changes.
            known, self._reading = dict(self._known), identity
            checkpoint = await asyncio.to_thread(self._read_file, self._paths.device_plugins, known)
            self._known = known
        except CheckpointError as error:
            # A disk that failed may work the next time; a file that was read and makes no sense stays so.
            if isinstance(error, MalformedCheckpointError):
                self._malformed = identity
            self._failing.failed(error)
            return None
        self._failing.worked()
        self._read = (identity, checkpoint)
        return checkpoint
