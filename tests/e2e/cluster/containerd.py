"""containerd 2 on one node: its configuration, its process, its images."""

import json
import shutil
from pathlib import Path

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.network import Bridge
from tests.e2e.cluster.node_namespace import CommandFailedError, NodeNamespace
from tests.e2e.cluster.waiting import wait_until

SOCKET = Path("/run/containerd/containerd.sock")
PAUSE_IMAGE = "accelet.dev/e2e/pause:1"
START_TIMEOUT_S = 60


class Containerd:
    """Keeps its data in a folder of the node's workspace, its sockets in the node's own /run."""

    def __init__(self, namespace: NodeNamespace, binaries: Binaries, bridge: Bridge) -> None:
        self._namespace = namespace
        self._ctr = binaries.path("ctr")
        folder = namespace.workspace.folder / "containerd"
        cni_folder = folder / "cni"
        cni_folder.mkdir(parents=True)
        (cni_folder / "e2e.conflist").write_text(_cni_config(bridge, folder / "cni-state"))
        self.snapshotter = _snapshotter(namespace, folder)
        config = folder / "config.toml"
        config.write_text(
            _config(
                folder=folder,
                snapshotter=self.snapshotter,
                cni_binaries=binaries.path("bridge").parent,
                cni_config=cni_folder,
            )
        )
        # containerd finds its shim next to itself.
        self.process = namespace.process("containerd", [binaries.path("containerd"), "--config", config])

    def start(self) -> None:
        """Starts it and returns when it answers."""
        self.process.start()
        wait_until("containerd answers", self._answers, timeout_s=START_TIMEOUT_S, depends_on=[self.process])

    def import_image(self, archive: Path) -> None:
        """Takes in a docker archive; pods use it with `imagePullPolicy: Never`."""
        self._run_ctr("images", "import", "--local", f"--snapshotter={self.snapshotter}", str(archive))

    def running(self) -> list[str]:
        """The ids of the containers that run, the sandboxes of pods among them."""
        rows = [line.split() for line in self._run_ctr("tasks", "ls").splitlines()[1:]]
        return [name for name, _pid, status in rows if status == "RUNNING"]

    def kill(self, container: str) -> None:
        """SIGKILL to all processes of a container; its end is not waited for."""
        self._run_ctr("tasks", "kill", "--signal=SIGKILL", "--all", container)

    def _answers(self) -> bool:
        try:
            self._run_ctr("version")
        except CommandFailedError:
            return False
        return True

    def _run_ctr(self, *words: str) -> str:
        return self._namespace.run(
            [self._ctr, f"--address={SOCKET}", "--namespace=k8s.io", *words], timeout_s=300
        )


def _snapshotter(namespace: NodeNamespace, folder: Path) -> str:
    """Plain copies of the layers where the file system carries no overlay, as in some containers."""
    lower, upper, work, merged = (
        folder / "overlay-trial" / name for name in ("lower", "upper", "work", "merged")
    )
    for each in (lower, upper, work, merged):
        each.mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    try:
        namespace.run(["mount", "-t", "overlay", "overlay", "-o", options, merged])
    except CommandFailedError:
        return "native"
    namespace.run(["umount", merged])
    return "overlayfs"


def _config(*, folder: Path, snapshotter: str, cni_binaries: Path, cni_config: Path) -> str:
    return f"""\
version = 3
root = "{folder / "root"}"
state = "{SOCKET.parent}"
imports = []
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.image-verifier.v1.bindir"]

[plugins."io.containerd.internal.v1.opt"]
path = "{folder / "opt"}"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
enable_cdi = true
cdi_spec_dirs = ["/run/cdi"]
disable_apparmor = true
# Without the capability CAP_SYS_RESOURCE runc could not make a process less likely to be killed.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni_binaries}"]
conf_dir = "{cni_config}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{shutil.which("runc")}"
"""


def _cni_config(bridge: Bridge, state: Path) -> str:
    """Pods without the machine's network get an address on the bridge, and reach this machine alone."""
    ranges = [[{"subnet": str(bridge.subnet), "gateway": bridge.address}]]
    ipam = {"type": "host-local", "ranges": ranges, "dataDir": str(state)}
    plugin = {"type": "bridge", "bridge": bridge.name, "ipam": ipam}
    return json.dumps({"cniVersion": "1.0.0", "name": bridge.name, "plugins": [plugin]})
