"""A mount and process namespace for one node: a kubelet's fixed folders are its own there."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.cluster import node_init
from tests.e2e.cluster.claims import MountPointClaim
from tests.e2e.cluster.processes import Process
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import Workspace

POD_LOGS = Path("/var/log/pods")
KUBELET_ROOT = Path("/var/lib/kubelet")
# The machine's own ones stay as they are: the node sees empty ones in memory.
HIDDEN_FOLDERS = (Path("/run"), KUBELET_ROOT, Path("/var/log/containers"), Path("/var/lib/cni"))


class CommandFailedError(Exception):
    """A command inside a node failed; its output is in the message."""


class NodeNamespace:
    """The namespaces live as long as their process 1; its end kills all in them, containers included."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        """Container logs are kept in the workspace and outlive the namespaces."""
        self.workspace = workspace
        self.pod_logs = workspace.folder / "pod-logs"
        self.pod_logs.mkdir()
        for path in (*HIDDEN_FOLDERS, POD_LOGS):
            _make_mount_point(workspace, path)
        self._processes: list[NodeProcess] = []
        self._holder = Process(
            workspace,
            f"{name} namespaces",
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
                *(sys.executable, "-I", node_init.__file__),
                *(f"-t,tmpfs,-o,mode=0755,tmpfs,{path}" for path in HIDDEN_FOLDERS),
                f"--bind,{self.pod_logs},{POD_LOGS}",
            ],
            log=workspace.folder / "namespaces.log",
        )
        self._holder.start()
        wait_until(
            f"the mounts of {name} are made",
            lambda: "mounted\n" in self._holder.log_text(),
            timeout_s=30,
            depends_on=[self._holder],
        )
        self._init_pid = self._holder.child_pid()

    def path(self, path: Path | str) -> Path:
        """The same file as processes in the namespaces see it, reachable from here while they live."""
        return Path(f"/proc/{self._init_pid}/root") / Path(path).relative_to("/")

    def command(self, argv: Sequence[str | Path]) -> list[str]:
        """What to start outside so that `argv` runs inside."""
        return ["nsenter", f"--target={self._init_pid}", "--mount", "--pid", "--", *map(str, argv)]

    def run(self, argv: Sequence[str | Path], *, timeout_s: float = 60) -> str:
        """Runs a command inside to its end; returns its output, raises CommandFailedError when it fails."""
        done = subprocess.run(
            self.command(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise CommandFailedError(f"{' '.join(map(str, argv))} gave {done.returncode}:\n{done.stdout}")
        return done.stdout

    def process(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> "NodeProcess":
        log = self.workspace.folder / f"{name}.log"
        process = NodeProcess(self.workspace, name, self.command(argv), log=log, env=env)
        self._processes.append(process)
        return process

    def end(self) -> None:
        """Kills process 1; the kernel kills the rest, and only then is its parent told."""
        if self._holder.is_running:
            os.kill(self._init_pid, signal.SIGKILL)
            self._holder.wait(timeout_s=60)
        for process in self._processes:
            if process.is_running:
                process.wait(timeout_s=30)


class NodeProcess(Process):
    """A process inside: what was started outside is nsenter, and its one child is the command."""

    @property
    def pid(self) -> int:
        return self.child_pid()


def _make_mount_point(workspace: Workspace, path: Path) -> None:
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        workspace.claim(MountPointClaim(str(folder)))
        folder.mkdir()
