"""Owners one of whose pods directs the others: Ray clusters, Spark applications, jobs of the MPI operator.

The rules are those of KubeRay v1, the Spark operator v1beta2 and the MPI operator v2beta1.
"""

from collections.abc import Iterable, Mapping

from accelet.kube.objects import Wire


class WireWorkerGroup(Wire, frozen=True):
    group_name: str
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int | None = None
    suspend: bool | None = None


class WireExecutor(Wire, frozen=True):
    instances: int | None = None


class WireDynamicAllocation(Wire, frozen=True):
    enabled: bool | None = None
    initial_executors: int | None = None
    min_executors: int | None = None


class WireReplicaState(Wire, frozen=True):
    active: int | None = None


def ray_pods(groups: Iterable[WireWorkerGroup]) -> int:
    """The head, and all workers that the cluster has now; an autoscaler may want others later."""
    return 1 + sum(_workers(group) for group in groups)


def _workers(group: WireWorkerGroup) -> int:
    if group.suspend:
        return 0
    least, most = group.min_replicas or 0, group.max_replicas
    replicas = max(least, group.replicas or 0)
    if most is not None:
        replicas = min(replicas, max(least, most))
    return max(0, replicas) * (1 if group.num_of_hosts is None else group.num_of_hosts)


def spark_pods(executor: WireExecutor, dynamic: WireDynamicAllocation | None) -> int:
    """The driver, and the executors that it makes at first; later ones are placed next to these."""
    if dynamic is not None and dynamic.enabled:
        return 1 + max(0, dynamic.initial_executors or 0, dynamic.min_executors or 0)
    return 1 + max(0, 1 if executor.instances is None else executor.instances)


def mpi_pods_now(replicas: Mapping[str, int], states: Mapping[str, WireReplicaState]) -> Mapping[str, int]:
    """What an MPIJob has made of its pods that makes its launcher when all workers run."""
    workers = {group: count for group, count in replicas.items() if group.lower() != "launcher"}
    state = next((state for group, state in states.items() if group.lower() == "worker"), None)
    is_ready = ((state.active if state else None) or 0) >= sum(workers.values())
    return replicas if is_ready else workers
