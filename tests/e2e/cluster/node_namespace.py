"""A mount and process namespace for one node, so that a kubelet's fixed folders are its own and nothing survives it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import node_init
from tests.e2e.cluster.claims import MountPointClaim
from tests.e2e.cluster.processes import Process
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import Workspace

POD_LOGS_KEPT = "pod-logs"
POD_LOGS = Path("/var/log/pods")
KUBELET_ROOT = Path("/var/lib/kubelet")
# The machine's own ones stay as they are: the node sees empty ones in memory.
HIDDEN_FOLDERS = (Path("/run"), KUBELET_ROOT, Path("/var/log/containers"), Path("/var/lib/cni"))


class CommandFailedError(Exception):
    """A command inside a node failed; its output is in the message."""


@dataclass(frozen=True, slots=True)
class NodeNamespace:
    """The namespaces live as long as `init` does; its end kills every process in them, containers included."""

    workspace: Workspace
    holder: Process
    init_pid: int

    @classmethod
    def create(cls, workspace: Workspace, name: str) -> "NodeNamespace":
        """Container logs are kept in the workspace and outlive the namespaces."""
        logs = workspace.folder / POD_LOGS_KEPT
        logs.mkdir()
        for path in (*HIDDEN_FOLDERS, POD_LOGS):
            _make_mount_point(workspace, path)
        holder = Process(
            workspace,
            f"{name} namespaces",
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
                *(sys.executable, "-I", node_init.__file__),
                *(f"-t,tmpfs,-o,mode=0755,tmpfs,{path}" for path in HIDDEN_FOLDERS),
                f"--bind,{logs},{POD_LOGS}",
            ],
            log=workspace.folder / "namespaces.log",
        )
        holder.start()
        wait_until(
            f"the mounts of {name} are made",
            lambda: "mounted\n" in holder.log_text(),
            timeout_s=30,
            depends_on=[holder],
        )
        return cls(workspace, holder, holder.child_pid())

    @property
    def pod_logs(self) -> Path:
        """The node's /var/log/pods, readable from here also after the end of the namespaces."""
        return self.workspace.folder / POD_LOGS_KEPT

    def path(self, path: Path | str) -> Path:
        """The same file as processes in the namespaces see it, reachable from here while they live."""
        return Path(f"/proc/{self.init_pid}/root") / Path(path).relative_to("/")

    def command(self, argv: Sequence[str | Path]) -> list[str]:
        """What to start outside so that `argv` runs inside."""
        return ["nsenter", f"--target={self.init_pid}", "--mount", "--pid", "--", *map(str, argv)]

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
        return NodeProcess(self.workspace, name, self.command(argv), log=log, env=env)

    def end(self) -> None:
        """Kills process 1; the kernel kills the rest, and only then is its parent told."""
        if self.holder.is_running:
            os.kill(self.init_pid, signal.SIGKILL)
            self.holder.wait(timeout_s=60)


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
