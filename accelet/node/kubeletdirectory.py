"""The kubelet's directory for device plugins: waited for, locked and watched for the end of a kubelet."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from accelet.kubelet.paths import KubeletPaths, SocketIdentity, identify_socket, is_dead_mount
from accelet.node.directorylock import lock_directory
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.run import FatalError
from accelet.runtime.waiting import wait_for_hint
from accelet.runtime.watch import DirectoryWatcher

LOOK_S = 2.0
"""How often the directory is looked at without any hint."""

_log = Log(__name__)


class KubeletDirectory:
    """Holds the directory for this process; `blocked` is why it does not yet, empty once it does."""

    def __init__(self, paths: KubeletPaths) -> None:
        self._path = paths.device_plugins
        self._awaited = f"waiting for the kubelet's directory {self._path}"
        self.blocked = self._awaited
        self._kubelet_socket = paths.registration_socket
        self._hint = asyncio.Event()

    async def enter(self, watcher: DirectoryWatcher, stack: AsyncExitStack) -> None:
        """Waits for the directory and for its lock, which is held until the end of `stack`; watches it.

        A directory that goes meanwhile, since the node's is just being replaced, is waited for anew.

        Raises:
            FatalError: the directory was removed on the host, and a new one would not be seen.
        """
        while self.blocked:
            self.blocked = self._awaited
            await self._wait_for()
            self.blocked = "another agent serves this node"
            async with AsyncExitStack() as held:
                with suppress(FileNotFoundError):
                    await held.enter_async_context(lock_directory(self._path))
                    watcher.watch(self._path, self._hint)
                    stack.push_async_exit(held.pop_all())
                    self.blocked = ""
            _refuse_dead(self._path)

    async def follow(self, *, hinted: Callable[[], None], restarted: Callable[[], None]) -> None:
        """Calls `hinted` when the directory may have changed, `restarted` first where the kubelet is new.

        Raises:
            FatalError: as above; otherwise it never ends.
        """
        kubelet: SocketIdentity | None = identify_socket(self._kubelet_socket)
        while True:
            self._hint.clear()
            _refuse_dead(self._path)
            now = identify_socket(self._kubelet_socket)
            if now is not None and now != kubelet:
                if kubelet is not None:
                    restarted()
                kubelet = now
            hinted()
            await wait_for_hint(self._hint, LOOK_S)

    async def _wait_for(self) -> None:
        missing = Failing(_log, "the kubelet's directory is not there; waiting for it", named="directory")
        while not await asyncio.to_thread(self._path.is_dir):
            missing.failed(self._path)
            await asyncio.sleep(LOOK_S / 4)


def _refuse_dead(directory: Path) -> None:
    if is_dead_mount(directory):
        raise FatalError(
            f"{directory} was removed on the host and is dead here; "
            "the pod must start again to see the new one"
        )
