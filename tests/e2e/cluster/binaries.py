"""Where the cluster's binaries are: a cache shared by all checkouts, or the folder ACCELET_KUBE_BIN names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.building import Module, Progress, build_into_cache
from tests.e2e.cluster.cache import cache_folder

MODULES_FOLDER = Path(__file__).parent.parent / "binaries"
NEWEST_KUBERNETES = "kubernetes-1.36"
OWN_BINARIES_VARIABLE = "ACCELET_KUBE_BIN"


class BinaryMissingError(Exception):
    """A binary is not where it was said to be."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The folder in which each binary was found, by the binary's name."""

    folders: Mapping[str, Path]

    def path(self, name: str) -> Path:
        try:
            return self.folders[name] / name
        except KeyError:
            raise BinaryMissingError(f"no binary {name} among {', '.join(sorted(self.folders))}") from None

    def __or__(self, other: "Binaries") -> "Binaries":
        return Binaries({**self.folders, **other.folders})


def cluster_binaries(progress: Progress) -> Binaries:
    """Everything a cluster of the newest Kubernetes needs; what is not in the cache yet is built."""
    binaries = kubernetes_binaries(NEWEST_KUBERNETES, progress)
    for name in ("etcd", "containerd", "cni-plugins"):
        binaries |= _module_binaries(Module(MODULES_FOLDER / name), _own_folder(), progress)
    return binaries


def kubernetes_binaries(name: str, progress: Progress) -> Binaries:
    """The binaries of one Kubernetes version, `name` being its folder: "kubernetes-1.33"."""
    own = _own_folder()
    if own and name != NEWEST_KUBERNETES:
        own /= name
    return _module_binaries(Module(MODULES_FOLDER / name), own, progress)


def helm_binaries(progress: Progress) -> Binaries:
    """helm alone; it is built also where the others are somebody's own."""
    return _module_binaries(Module(MODULES_FOLDER / "helm"), None, progress)


def jobset_binaries(progress: Progress) -> Binaries:
    """JobSet's own controller, with its webhooks where they are asked for."""
    return _module_binaries(Module(MODULES_FOLDER / "jobset"), None, progress)


def leader_worker_binaries(progress: Progress) -> Binaries:
    """LeaderWorkerSet's own controllers, with their webhooks."""
    return _module_binaries(Module(MODULES_FOLDER / "leaderworkerset"), None, progress)


def kueue_binaries(progress: Progress) -> Binaries:
    """Kueue's own manager."""
    return _module_binaries(Module(MODULES_FOLDER / "kueue"), None, progress)


def cluster_api_binaries(progress: Progress) -> Binaries:
    """Cluster API's own reconcilers and webhooks of machines."""
    return _module_binaries(Module(MODULES_FOLDER / "cluster-api"), None, progress)


def dra_binaries(progress: Progress) -> Binaries:
    """kube-scheduler's own engines for resource claims: its CEL and its allocator."""
    return _module_binaries(Module(MODULES_FOLDER / "dra"), None, progress)


def filter_binaries(progress: Progress) -> Binaries:
    """kube-scheduler's own filters of nodes, asked one pod at a time."""
    return _module_binaries(Module(MODULES_FOLDER / "filters"), None, progress)


def promql_binaries(progress: Progress) -> Binaries:
    """Prometheus' engine of expressions, which runs scripts of its own test language."""
    return _module_binaries(Module(MODULES_FOLDER / "promql"), None, progress)


def other_versions() -> list[str]:
    """The folders of the Kubernetes versions that are pinned besides the newest one."""
    return sorted(each.name for each in MODULES_FOLDER.glob("kubernetes-*") if each.name != NEWEST_KUBERNETES)


def own_binaries_are_given() -> bool:
    """Whether somebody brought ready-made binaries, so that none is built."""
    return _own_folder() is not None


def _module_binaries(module: Module, own: Path | None, progress: Progress) -> Binaries:
    folder = own or build_into_cache(module, cache_folder("kube"), progress)
    missing = [name for name in module.packages() if not os.access(folder / name, os.X_OK)]
    if missing:
        raise BinaryMissingError(
            f"{folder} ({OWN_BINARIES_VARIABLE}) lacks {', '.join(missing)}: put them there, "
            f"or unset {OWN_BINARIES_VARIABLE} to have them built"
        )
    return Binaries(dict.fromkeys(module.packages(), folder))


def _own_folder() -> Path | None:
    text = os.environ.get(OWN_BINARIES_VARIABLE)
    return Path(text).resolve() if text else None
