"""The domain of the cluster's Services, as the pod of the controller is told it."""

from pathlib import Path
from typing import Final

from accelet.gputask.objects.launchers import DEFAULT_CLUSTER_DOMAIN

_RESOLVER: Final = Path("/etc/resolv.conf")
_MOST_BYTES: Final = 65_536
_SERVICES: Final = "svc."


def read_cluster_domain(file: Path = _RESOLVER) -> str:
    """The domain that kubelets give to the pods of this cluster; `cluster.local` where that is not said."""
    try:
        with file.open("rb") as content:
            text = content.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return DEFAULT_CLUSTER_DOMAIN
    return find_cluster_domain(text) or DEFAULT_CLUSTER_DOMAIN


def find_cluster_domain(text: str) -> str:
    """The domain behind `svc.` in the search list of a resolv.conf(5), empty where there is none.

    A kubelet writes `search NAMESPACE.svc.DOMAIN svc.DOMAIN DOMAIN` for a pod with `dnsPolicy: ClusterFirst`
    (kubernetes/pkg/kubelet/network/dns). The last search list counts.
    """
    found = ""
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "search":
            domains = [word.removesuffix(".") for word in words[1:]]
            found = next((one.removeprefix(_SERVICES) for one in domains if one.startswith(_SERVICES)), "")
    return found
