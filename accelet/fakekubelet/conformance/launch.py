"""Starts and stops the plugin under test, and takes its devices away."""

import asyncio
import os
import shlex
import signal
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, Protocol

KUBELET_DIR: Final = Path("/var/lib/kubelet")
"""Where plugins look that know no other place."""

NODE: Final = "node"
"""What the node of a DRA driver under test is called."""

_END_BYTES: Final = 4000

_UNSHARE: Final = ("unshare", "--mount", "--propagation", "private")
_BIND: Final = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


class Plugin(Protocol):
    """A plugin that has been started."""

    @property
    def pid(self) -> int | None:
        """Its process; None if it has none of its own."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        ...

    async def terminate(self) -> None:
        """SIGTERM; does not wait."""
        ...

    async def kill(self) -> None:
        """SIGKILL to it and to all it has started, if they run still; waits for its end and lets go of it."""
        ...

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        ...

    def output(self) -> str:
        """The end of what it wrote, from the beginning of a line where there is one."""
        ...


class Launcher(Protocol):
    """Knows how to start the plugin for a kubelet whose /var/lib/kubelet is `root`."""

    async def launch(self, root: Path) -> Plugin: ...


class Hardware(Protocol):
    """Takes devices away from the plugin and gives them back."""

    async def unplug(self, root: Path, device: str) -> None: ...

    async def replug(self, root: Path, device: str) -> None: ...


def words_of(command: str, places: dict[str, str]) -> list[str]:
    """`command` as a shell would split it, with each `{name}` in a word replaced."""
    words = shlex.split(command)
    for name, value in places.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return words


def places(root: Path) -> dict[str, str]:
    """What a command may name: `{dir}`, `{root}`, `{pod-resources}`, `{registry}`; for DRA drivers also
    `{kubeconfig}`, `{cdi}`, `{node}`.
    """
    return {
        "dir": str(root / "device-plugins"),
        "root": str(root),
        "pod-resources": str(root / "pod-resources"),
        "registry": str(root / "plugins_registry"),
        "kubeconfig": str(root / "kubeconfig"),
        "cdi": str(root / "cdi"),
        "node": NODE,
    }


@dataclass(slots=True)
class _Process:
    process: asyncio.subprocess.Process
    written: IO[bytes]

    @property
    def pid(self) -> int | None:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        return self.process.returncode

    async def terminate(self) -> None:
        with suppress(ProcessLookupError):
            self.process.terminate()

    async def kill(self) -> None:
        # A group of its own: whatever a shell in the command has started goes with it.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        self.written.close()

    async def wait(self) -> int:
        return await self.process.wait()

    def output(self) -> str:
        if self.written.closed:
            return ""
        size = self.written.seek(0, os.SEEK_END)
        self.written.seek(max(0, size - _END_BYTES))
        end = self.written.read()
        if size > _END_BYTES:
            end = end.partition(b"\n")[2] or end
        return end.decode(errors="replace").strip()


@dataclass(frozen=True, slots=True)
class CommandLauncher:
    """Runs a command line, split into words as a shell does, without a shell.

    With `mount_namespace` (root only) the plugin sees the fake's folder as /var/lib/kubelet, which has
    to exist on this machine; nobody else sees it so.
    """

    command: str
    mount_namespace: bool = False

    async def launch(self, root: Path) -> Plugin:
        words = words_of(self.command, places(KUBELET_DIR if self.mount_namespace else root))
        if self.mount_namespace:
            words = [*_UNSHARE, "sh", "-c", _BIND, "sh", str(root), str(KUBELET_DIR), *words]
        with ExitStack() as stack:
            written = stack.enter_context(TemporaryFile())
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
            stack.pop_all()  # it lives as long as the process
        return _Process(process, written)


class HardwareError(Exception):
    """The command that takes a device away or gives it back failed."""


@dataclass(frozen=True, slots=True)
class CommandHardware:
    """Runs one command to unplug `{device}`, another to plug it in again."""

    unplug_command: str
    replug_command: str
    _timeout_s: float = field(default=10.0)

    async def unplug(self, root: Path, device: str) -> None:
        await self._run(self.unplug_command, root, device)

    async def replug(self, root: Path, device: str) -> None:
        await self._run(self.replug_command, root, device)

    async def _run(self, command: str, root: Path, device: str) -> None:
        words = words_of(command, {**places(root), "device": device})
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            _, error = await asyncio.wait_for(process.communicate(), self._timeout_s)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise HardwareError(f"{shlex.join(words)} took longer than {self._timeout_s:g} s") from None
        if process.returncode != 0:
            said = error.decode(errors="replace").strip()
            raise HardwareError(f"{shlex.join(words)} ended with {process.returncode}: {said}")
