"""What a test node's kubelet is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.cluster import containerd
from tests.e2e.cluster.certificates import KeyPair

PORT = 10250


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """`overrides` replaces or adds fields of the KubeletConfiguration, at any depth.

    `root_dir` is a folder of the node.
    """

    node_name: str
    address: str
    cgroup: str
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    root_dir: Path = Path("/var/lib/kubelet")


def kubelet_config(settings: KubeletSettings, *, folder: Path, ca: Path, serving: KeyPair) -> dict[str, Any]:
    """A KubeletConfiguration; what the kubelet would keep outside its root goes to `folder`."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": settings.address,
        "port": PORT,
        "healthzBindAddress": settings.address,
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(ca)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{settings.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        # There is no name server for pods.
        "resolvConf": "",
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
        "featureGates": dict(settings.feature_gates),
    }
    return _merged(config, settings.overrides)


def _merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`overrides` replaces or adds fields at any depth."""
    result = dict(base)
    for key, value in overrides.items():
        both_are_mappings = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        result[key] = _merged(base[key], value) if both_are_mappings else value
    return result
