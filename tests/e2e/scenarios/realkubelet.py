"""The kubelet of a real node: how it ends and starts, and what it tells of its node."""

import json
import shutil
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until

PATIENCE_S = 60.0
"""Node status and pods take their time on a busy machine; how long is not what is compared."""


class RealKubelet:
    """Every method blocks until what it says has happened."""

    def __init__(self, node: Node, cluster: ControlPlane) -> None:
        self.node = node
        self._cluster = cluster
        self.ended: set[str] = set()
        """Ids of the containers that a reboot has ended."""

    @property
    def root(self) -> Path:
        return self.node.path("/var/lib/kubelet")

    @property
    def plugins_dir(self) -> Path:
        return self.root / "device-plugins"

    @property
    def is_running(self) -> bool:
        return self.node.kubelet.process.is_running

    # Its life.

    def begin_anew(self) -> None:
        """Starts a kubelet that remembers nothing, on a node that nobody knows: no pod, no device."""
        path = f"/api/v1/pods?fieldSelector=spec.nodeName={self.node.name}"
        left = json.loads(self._cluster.client.send("GET", path))["items"]
        names = ", ".join(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in left)
        assert not left, f"{self.node.name} is not empty, these pods were left on it: {names}"
        self.stop()
        for entry in self.plugins_dir.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        # The API server never forgets a resource of a node by itself.
        self._cluster.client.send("DELETE", f"/api/v1/nodes/{self.node.name}")
        self.start()

    def stop(self) -> None:
        self.node.kubelet.process.kill()

    def start(self) -> None:
        self.node.kubelet.start()
        self.node.wait_until_ready()

    @contextmanager
    def starting_without_pods(self) -> Iterator[None]:
        """Starts it while the API server stands still: until the end of this it hears of no pod."""
        self._cluster.api_server.signal(signal.SIGSTOP)
        try:
            self.node.kubelet.process.start()
            wait_until(
                "kubelet.sock takes connections",
                self._takes_connections,
                timeout_s=PATIENCE_S,
                depends_on=[self.node.kubelet.process],
            )
            yield
        finally:
            self._cluster.api_server.signal(signal.SIGCONT)
        self.node.kubelet.get("/healthz")
        self.node.wait_until_ready()

    def _takes_connections(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.plugins_dir / "kubelet.sock")) == 0

    def end_containers(self) -> None:
        """Kills everything in pods, the pods' own sandboxes included, as the end of a machine does."""
        running = self.node.containerd.running()
        for container in running:
            self.node.containerd.kill(container)
        wait_until(
            "no container runs",
            lambda: not self.node.containerd.running(),
            timeout_s=PATIENCE_S,
            evidence=lambda: " ".join(self.node.containerd.running()),
        )
        self.ended.update(running)

    # What it tells of its node.

    def status(self) -> Mapping[str, tuple[int, int]]:
        """Capacity and allocatable by resource, as told from now on; as told last if it does not run."""
        if self.is_running:
            # The first one may have been on its way.
            self._await_heartbeat()
            self._await_heartbeat()
        return self._status()

    def _await_heartbeat(self) -> None:
        before = self._heartbeat()
        wait_until(
            "the kubelet tells its node's status",
            lambda: self._heartbeat() != before,
            timeout_s=PATIENCE_S,
            depends_on=[self.node.kubelet.process],
        )

    def _status(self) -> dict[str, tuple[int, int]]:
        status = self.node.object().get("status", {})
        return {
            resource: (int(amount), int(status.get("allocatable", {}).get(resource, 0)))
            for resource, amount in status.get("capacity", {}).items()
            if "/" in resource
        }

    def _heartbeat(self) -> str | None:
        conditions = self.node.object().get("status", {}).get("conditions", [])
        return next((each["lastHeartbeatTime"] for each in conditions if each["type"] == "Ready"), None)

    def known(self, resource: str) -> tuple[int, int]:
        """Capacity and allocatable of one resource, as told last."""
        return self._status().get(resource, (0, 0))

    def counts_held(self) -> dict[tuple[str, str, str], int]:
        """How many devices each container holds by its checkpoint: pod uid, container, resource."""
        text = (self.plugins_dir / "kubelet_internal_checkpoint").read_text()
        counts = {}
        for entry in json.loads(text)["Data"]["PodDeviceEntries"] or ():
            ids = {each for group in entry["DeviceIDs"].values() for each in group}
            counts[entry["PodUID"], entry["ContainerName"], entry["ResourceName"]] = len(ids)
        return counts
