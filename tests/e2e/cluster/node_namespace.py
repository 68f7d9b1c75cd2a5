"""A mount and process namespace for one node: a kubelet's fixed folders are its own there."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.cluster import mount_points, node_init, proc
from tests.e2e.cluster.mount_points import MountPointClaim
from tests.e2e.cluster.processes import Process
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import Workspace

POD_LOGS = Path("/var/log/pods")
KUBELET_ROOT = Path("/var/lib/kubelet")
# The machine's own ones stay as they are: the node sees empty ones in memory.
HIDDEN_FOLDERS = (Path("/run"), KUBELET_ROOT, Path("/var/log/containers"), Path("/var/lib/cni"))

# A kubelet sets these for the whole machine; on the node they are files without any effect.
KERNEL_SETTINGS = tuple(
    Path("/proc/sys", name)
    for name in (
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    )
)


class CommandFailedError(Exception):
    """A command inside a node failed; its output is in the message."""


class NodeNamespace:
    """The namespaces live as long as their process 1; its end kills all in them, containers included."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        """Container logs are kept in the workspace and outlive the namespaces."""
        self.workspace = workspace
        self.pod_logs = workspace.folder / "pod-logs"
        self.pod_logs.mkdir()
        reservations = [mount_points.reserve(path) for path in (*HIDDEN_FOLDERS, POD_LOGS)]
        for path in (*HIDDEN_FOLDERS, POD_LOGS):
            workspace.claim(MountPointClaim(str(path)))
        self._processes: list[NodeProcess] = []
        self._holder = Process(
            workspace,
            f"{name} namespaces",
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
                *(sys.executable, "-I", node_init.__file__),
                *(f"-t,tmpfs,-o,mode=0755,tmpfs,{path}" for path in HIDDEN_FOLDERS),
                f"--bind,{self.pod_logs},{POD_LOGS}",
                *(f"--bind,{copy},{setting}" for setting, copy in self._kernel_settings().items()),
            ],
            log=workspace.folder / "namespaces.log",
            inherits=reservations,
        )
        self._holder.start()
        for reservation in reservations:
            os.close(reservation)
        wait_until(
            f"the mounts of {name} are made",
            lambda: "mounted\n" in self._holder.log_text(),
            timeout_s=30,
            depends_on=[self._holder],
        )
        self._init_pid = self._holder.child_pid()

    def _kernel_settings(self) -> dict[Path, Path]:
        """Files with the values of now, by the setting each stands for on the node."""
        folder = self.workspace.folder / "kernel-settings"
        folder.mkdir()
        copies = {setting: folder / setting.name for setting in KERNEL_SETTINGS}
        for setting, copy in copies.items():
            copy.write_text(setting.read_text())
        return copies

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

    def pause(self) -> None:
        """Stops it where it is; nsenter stops itself when it sees that (util-linux, continue_as_child)."""
        self.signal(signal.SIGSTOP)
        nsenter = super().pid
        wait_until(f"{self.name} stands still", lambda: proc.is_stopped(nsenter), timeout_s=30)

    def go_on(self) -> None:
        """Lets it go on. A nsenter that stood still would never take note of its end."""
        self.signal(signal.SIGCONT)
        os.kill(super().pid, signal.SIGCONT)
