"""A real kubelet on one node: its process, and what it tells about itself."""

import dataclasses
import json
from pathlib import Path

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubeconfig import write_kubeconfig
from tests.e2e.cluster.kubelet_config import PORT, KubeletSettings, kubelet_config
from tests.e2e.cluster.node_namespace import NodeNamespace
from tests.e2e.cluster.waiting import wait_until

START_TIMEOUT_S = 60


class Kubelet:
    """Listens on the node's own address, trusts the cluster's authority and is trusted by it."""

    def __init__(
        self, namespace: NodeNamespace, control_plane: ControlPlane, binary: Path, settings: KubeletSettings
    ) -> None:
        name, address = settings.node_name, settings.address
        authority = control_plane.authority
        folder = namespace.workspace.folder / "kubelet"
        folder.mkdir()
        serving = authority.issue(f"{name}-serving", common_name=name, addresses=(f"IP:{address}",))
        config = kubelet_config(settings, folder=folder, ca=authority.keys.certificate, serving=serving)
        config_file = folder / "config.json"
        config_file.write_text(json.dumps(config, indent=1))
        kubeconfig = write_kubeconfig(
            folder / "kubeconfig",
            server=control_plane.url,
            ca=authority.keys.certificate,
            credentials=authority.issue(
                f"{name}-client", common_name=f"system:node:{name}", organization="system:nodes"
            ),
        )
        self.client = dataclasses.replace(control_plane.client, url=f"https://{address}:{PORT}")
        self.process = namespace.process(
            "kubelet",
            [
                binary,
                f"--config={config_file}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={name}",
                f"--node-ip={address}",
                f"--root-dir={settings.root_dir}",
                "--v=2",
            ],
        )

    def start(self) -> None:
        """Starts it and returns when it answers; the node may become Ready some seconds later."""
        self.process.start()
        self.get("/healthz")

    def get(self, path: str) -> str:
        """The text at a path of the kubelet's own server, "/metrics" or "/pods"."""
        return wait_until(
            f"the kubelet gives {path}",
            lambda: self.client.try_get(path),
            timeout_s=START_TIMEOUT_S,
            depends_on=[self.process],
        )
