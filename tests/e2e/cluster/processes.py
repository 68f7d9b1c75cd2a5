"""Start, watch and end one long-running process that never outlives the test run."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.cluster import proc
from tests.e2e.cluster.claims import ProcessClaim
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import Workspace

# The parent-death signal is sent when the *thread* that started the process ends: this one never does.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")

LOG_TAIL_LINES = 25


class Process:
    """A command that can be started, ended and started again; its output is appended to one log file."""

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        inherits: Sequence[int] = (),
    ) -> None:
        """`inherits` are file descriptors the command keeps open."""
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = log
        self._workspace = workspace
        self._env = {**os.environ, **(env or {})}
        self._inherits = inherits
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def pid(self) -> int:
        """The pid of the command itself."""
        return self._started().pid

    def child_pid(self) -> int:
        """The pid of the one process the command has started."""
        found = wait_until(
            f"{self.name} has a child",
            lambda: proc.children(self._started().pid),
            timeout_s=10,
            depends_on=[self],
        )
        return found[0]

    def start(self) -> None:
        if self.is_running:
            raise RuntimeError(f"{self.name} is already running")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._popen = _starter.submit(self._spawn).result()
        self._workspace.claim(ProcessClaim.of(self._popen.pid))

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal is for the test run alone: it ends its processes in order.
                start_new_session=True,
                pass_fds=self._inherits,
                env=self._env,
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Started, and ended with the block whatever happens in it: what one test leaves spoils the next."""
        self.start()
        try:
            yield
        finally:
            if self.is_running:
                self.terminate()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the command itself."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and the end is waited for. Nothing happens when it has ended before."""
        if self.is_running:
            self.signal(signal.SIGKILL)
            self.wait(timeout_s=30)

    def terminate(self, timeout_s: float = 30) -> int:
        """SIGTERM, and the end is waited for; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s=timeout_s)

    def wait(self, timeout_s: float) -> int:
        """Waits for the end; returns the exit code, negative for a signal."""
        wait_until(
            f"{self.name} ends", lambda: not self.is_running, timeout_s=timeout_s, evidence=self.log_tail
        )
        return self._started().wait()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self) -> str:
        return "\n".join(self.log_text().splitlines()[-LOG_TAIL_LINES:])

    def _started(self) -> subprocess.Popen[bytes]:
        if self._popen is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._popen
