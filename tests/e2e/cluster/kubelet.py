"""A real kubelet on one node: its configuration, its process, what it tells about itself."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.cluster import containerd
from tests.e2e.cluster.certificates import Authority
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubeconfig import write_kubeconfig
from tests.e2e.cluster.node_namespace import NodeNamespace
from tests.e2e.cluster.waiting import wait_until

PORT = 10250
START_TIMEOUT_S = 60

# A kubelet sets these for the whole machine when they are not as it wants them.
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


class Kubelet:
    """Listens on the node's own address, trusts the cluster's authority and is trusted by it."""

    def __init__(
        self,
        namespace: NodeNamespace,
        control_plane: ControlPlane,
        binary: Path,
        *,
        node_name: str,
        address: str,
        cgroup: str,
        feature_gates: Mapping[str, bool],
        overrides: Mapping[str, Any],
    ) -> None:
        self.client = dataclasses.replace(control_plane.client, url=f"https://{address}:{PORT}")
        folder = namespace.workspace.folder / "kubelet"
        folder.mkdir()
        kubeconfig = write_kubeconfig(
            folder / "kubeconfig",
            server=control_plane.url,
            ca=control_plane.authority.keys.certificate,
            credentials=control_plane.authority.issue(
                f"{node_name}-client", common_name=f"system:node:{node_name}", organization="system:nodes"
            ),
        )
        config = folder / "config.json"
        config.write_text(
            json.dumps(
                _config(control_plane.authority, folder, node_name, address, cgroup, feature_gates, overrides)
            )
        )
        self.process = namespace.process(
            "kubelet",
            [
                binary,
                f"--config={config}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={node_name}",
                f"--node-ip={address}",
                "--v=2",
            ],
        )

    def start(self) -> None:
        """Starts it and returns when it answers; the node may become Ready some seconds later."""
        self.process.start()
        wait_until(
            "the kubelet answers",
            lambda: self.client.try_get("/healthz"),
            timeout_s=START_TIMEOUT_S,
            depends_on=[self.process],
        )

    def get(self, path: str) -> str:
        """The text at a path of the kubelet's own server, "/metrics" or "/pods"."""
        return wait_until(
            f"the kubelet gives {path}",
            lambda: self.client.try_get(path),
            timeout_s=START_TIMEOUT_S,
            depends_on=[self.process],
        )


def _config(
    authority: Authority,
    folder: Path,
    node_name: str,
    address: str,
    cgroup: str,
    feature_gates: Mapping[str, bool],
    overrides: Mapping[str, Any],
) -> dict[str, Any]:
    serving = authority.issue(
        f"{node_name}-serving", common_name=node_name, addresses=(f"IP:{address}", f"DNS:{node_name}")
    )
    no_name_servers = folder / "resolv.conf"
    no_name_servers.touch()
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": PORT,
        "healthzBindAddress": address,
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority.keys.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": str(no_name_servers),
        "volumePluginDir": str(folder / "volume-plugins"),
        # A test machine may be nearly full, and an image that was imported cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "1Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "featureGates": dict(feature_gates),
    }
    return _merged(config, overrides)


def _merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`overrides` replaces or adds fields at any depth."""
    result = dict(base)
    for key, value in overrides.items():
        both_are_mappings = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        result[key] = _merged(base[key], value) if both_are_mappings else value
    return result
