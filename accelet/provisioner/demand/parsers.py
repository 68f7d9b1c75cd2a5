"""How each kind of owner is read."""

from collections.abc import Callable, Mapping
from typing import Final

from accelet.kube.objects import RawObject
from accelet.provisioner.demand.groups import parse_leader_worker_set
from accelet.provisioner.demand.owners import JobOwner, parse_job, parse_job_set
from accelet.provisioner.demand.rayclusters import parse_ray_cluster, parse_ray_job, parse_ray_service

PARSERS: Final[Mapping[str, Callable[[RawObject], JobOwner]]] = {
    "Job": parse_job,
    "JobSet": parse_job_set,
    "LeaderWorkerSet": parse_leader_worker_set,
    "RayCluster": parse_ray_cluster,
}
"""The owners of slices."""

MAKERS: Final[Mapping[str, Callable[[RawObject], JobOwner]]] = {
    "RayJob": parse_ray_job,
    "RayService": parse_ray_service,
}
"""What makes an owner: each reads the one that will be made, under the name of its maker."""
