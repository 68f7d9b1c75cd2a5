"""A node of the cluster: containerd and a real kubelet in namespaces of their own."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.e2e.cluster import cgroups
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.claims import CgroupClaim
from tests.e2e.cluster.containerd import Containerd
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import RefusedError
from tests.e2e.cluster.kubelet import Kubelet
from tests.e2e.cluster.kubelet_config import KubeletSettings
from tests.e2e.cluster.network import Bridge
from tests.e2e.cluster.node_namespace import KUBELET_ROOT, NodeNamespace, NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import PREFIX

READY_TIMEOUT_S = 120


class Node:
    """One node. A test may kill and start again its `containerd` and its `kubelet`.

    Several nodes can live beside each other: each has its own name, bridge, address, cgroup and folder.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        binaries: Binaries,
        *,
        name: str = "node-1",
        feature_gates: Mapping[str, bool] | None = None,
        kubelet_config: Mapping[str, Any] | None = None,
        kubelet_root: Path = KUBELET_ROOT,
    ) -> None:
        """`kubelet_config` replaces or adds fields of the KubeletConfiguration, at any depth.

        `kubelet_root` is its --root-dir, below a folder that is the node's own.
        """
        self.name = name
        self._control_plane = control_plane
        self._workspace = control_plane.workspace.part(name)
        self.cgroup = f"{PREFIX}{self._workspace.run_id}-{name}"
        self._workspace.claim(CgroupClaim(self.cgroup))
        cgroups.create(self.cgroup)
        self.bridge = Bridge.create(self._workspace, prefix=f"e2e{self._workspace.run_id}")
        self.address = self.bridge.address
        self._namespace = NodeNamespace(self._workspace, name)
        self.containerd = Containerd(self._namespace, binaries, self.bridge)
        self.kubelet = Kubelet(
            self._namespace,
            control_plane,
            binaries.path("kubelet"),
            KubeletSettings(
                node_name=name,
                address=self.address,
                cgroup=self.cgroup,
                feature_gates=feature_gates or {},
                overrides=kubelet_config or {},
                root_dir=kubelet_root,
            ),
        )

    def start(self, images: Sequence[Path] = ()) -> None:
        """Starts everything and returns when the node is Ready; the pause image must be among the images."""
        self.boot(images)
        self.wait_until_ready()

    def boot(self, images: Sequence[Path] = ()) -> None:
        """Starts everything and returns when the kubelet answers."""
        self.containerd.start()
        for archive in images:
            self.containerd.import_image(archive)
        self.kubelet.start()

    def stop(self) -> None:
        """Kills everything on the node, containers too, and gives back what it took, its object included."""
        self.kill()
        # Otherwise the scheduler would go on placing pods here until it is missed, 40 s later.
        with contextlib.suppress(OSError, RefusedError):
            self._control_plane.client.send("DELETE", f"/api/v1/nodes/{self.name}")
        self._workspace.close()

    def kill(self) -> None:
        """As if its power were cut: everything on the node ends at once, and nobody is told."""
        self._namespace.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_until_ready(self) -> None:
        """Returns when the scheduler would place pods here."""
        wait_until(
            f"{self.name} is ready",
            self.is_ready,
            timeout_s=READY_TIMEOUT_S,
            depends_on=[self.kubelet.process, self.containerd.process],
            evidence=lambda: json.dumps(self.object().get("status", {}).get("conditions"), indent=1),
        )

    def is_ready(self) -> bool:
        node = self.object()
        conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", [])}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    def object(self) -> dict[str, Any]:
        """The node as the API server has it; empty before the kubelet has made it known."""
        text = self._control_plane.client.try_get(f"/api/v1/nodes/{self.name}")
        node: dict[str, Any] = json.loads(text) if text else {}
        return node

    def run(self, argv: Sequence[str | Path], *, timeout_s: float = 60) -> str:
        """Runs a command on the node to its end; returns its output, or raises CommandFailedError."""
        return self._namespace.run(argv, timeout_s=timeout_s)

    def command(self, argv: Sequence[str | Path]) -> list[str]:
        """What to start outside so that `argv` runs on the node."""
        return self._namespace.command(argv)

    def process(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> NodeProcess:
        """A long-running command on the node, not started yet; it sees the kubelet's own folders."""
        return self._namespace.process(name, argv, env)

    def path(self, path: Path | str) -> Path:
        """A file of the node as seen from here: `node.path("/var/lib/kubelet/device-plugins")`."""
        return self._namespace.path(path)

    def metrics(self) -> str:
        """The kubelet's own metrics, in Prometheus text format."""
        return self.kubelet.get("/metrics")

    def pods(self) -> list[dict[str, Any]]:
        """The pods the kubelet knows, whatever the API server thinks."""
        items: list[dict[str, Any]] = json.loads(self.kubelet.get("/pods"))["items"]
        return items

    def container_log(self, pod: Mapping[str, Any], container: str) -> str:
        """What a container wrote in all its runs, each line with time and stream, from the node's files."""
        meta = pod["metadata"]
        folder = self._namespace.pod_logs / f"{meta['namespace']}_{meta['name']}_{meta['uid']}" / container
        runs = sorted(folder.glob("*.log"), key=lambda path: int(path.stem))
        return "".join(path.read_text(errors="replace") for path in runs)
