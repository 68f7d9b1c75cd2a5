"""RayClusters as owners of slices: each replica of a worker group runs on a slice of its own.

As KubeRay has it (ray-project/kuberay, ray-operator/apis/ray/v1/raycluster_types.go and controllers/ray). Its
feature RayMultiHostIndexing, on by default since KubeRay 1.6, names the replica of each pod in a label.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from accelet.kube.objects import RawObject, Wire, WireObject, read_labels, read_object
from accelet.kube.pods import Pod
from accelet.kube.requests import pod_requests
from accelet.kube.selection import WirePodAffinity, read_apart, read_together
from accelet.provisioner.demand.owners import (
    JobOwner,
    JobTemplate,
    WireTemplate,
    read_owner,
    read_template_pod,
)
from accelet.provisioner.demand.selectors import (
    ACCELERATOR,
    NODE_POOL,
    SLICE_LABELS,
    TOPOLOGY,
    node_selector,
)

KIND: Final = "RayCluster"
REPLICA_NAME: Final = "ray.io/worker-group-replica-name"
"""The label of pods by which KubeRay tells the replicas of a group with several hosts apart."""

_HEAD_GROUP: Final = "headgroup"
_TPU: Final = "google.com/tpu"
_ON_A_SLICE: Final = (NODE_POOL, SLICE_LABELS[0])
_MOST_REPLICAS: Final = 2**31 - 1
_MOST_GROUPS: Final = 100


class _WireGroup(Wire, frozen=True):
    template: WireTemplate
    group_name: str = _HEAD_GROUP
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int | None = None
    suspend: bool | None = None
    labels: dict[str, str] | None = None


class _WireSpec(Wire, frozen=True):
    head_group_spec: _WireGroup | None = None
    worker_group_specs: list[_WireGroup] | None = None
    suspend: bool | None = None


class _WireCluster(WireObject, frozen=True):
    spec: _WireSpec


class _WireJobSpec(Wire, frozen=True):
    ray_cluster_spec: _WireSpec | None = None
    suspend: bool | None = None


class _WireJob(WireObject, frozen=True):
    spec: _WireJobSpec


class _WireServiceSpec(Wire, frozen=True):
    ray_cluster_config: _WireSpec


class _WireService(WireObject, frozen=True):
    spec: _WireServiceSpec


class _WireAffinity(Wire, frozen=True):
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class _WireRules(Wire, frozen=True):
    affinity: _WireAffinity | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    """One worker group: what is made of it, and what its pods say about each other."""

    template: JobTemplate
    labels: Mapping[str, str]
    affinity: _WireAffinity

    @property
    def machines(self) -> tuple[str | None, str | None]:
        """The label values by which its pods choose among all slices."""
        selector = node_selector(self.template.pod)
        return selector.get(ACCELERATOR), selector.get(TOPOLOGY)


def parse_ray_cluster(raw: RawObject) -> JobOwner:
    """The RayCluster that `raw` describes: a slice for each replica of each worker group, and of its head.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, KIND, _WireCluster)
    return _read_cluster(wire, wire.spec, KIND, "spec", is_suspended=bool(wire.spec.suspend))


def parse_ray_job(raw: RawObject) -> JobOwner:
    """The RayCluster that KubeRay makes for a RayJob, which hands its annotations on to it.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "RayJob", _WireJob)
    spec = wire.spec.ray_cluster_spec or _WireSpec()
    is_suspended = bool(wire.spec.suspend)
    return _read_cluster(wire, spec, "RayJob", "spec.rayClusterSpec", is_suspended=is_suspended)


def parse_ray_service(raw: RawObject) -> JobOwner:
    """The RayCluster that KubeRay makes for a RayService, which hands its annotations on to it.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "RayService", _WireService)
    return _read_cluster(
        wire, wire.spec.ray_cluster_config, "RayService", "spec.rayClusterConfig", is_suspended=False
    )


def count_replicas(*, replicas: int | None, least: int | None, most: int | None, is_suspended: bool) -> int:
    """How many replicas of a worker group KubeRay makes, by its `GetWorkerGroupDesiredReplicas`."""
    if is_suspended:
        return 0
    least = 0 if least is None else least
    if replicas is None or replicas < least:
        return least
    return min(replicas, _MOST_REPLICAS if most is None else most)


def _read_cluster(
    wire: WireObject, spec: _WireSpec, kind: str, place: str, *, is_suspended: bool
) -> JobOwner:
    written = spec.worker_group_specs or []
    groups = [
        _read_group(one, wire, kind, f"{place}.workerGroupSpecs[{index}]")
        for index, one in enumerate(written[:_MOST_GROUPS])
    ]
    too_many = None
    if len(written) > _MOST_GROUPS:
        too_many = f"it has {len(written)} worker groups; slices are made for at most {_MOST_GROUPS}"
    asking = [one for one in groups if _asks(one.template.pod)]
    judged = [replace(one.template, objection=too_many or _object(one, asking)) for one in asking]
    if spec.head_group_spec is not None:
        head = _read_template(spec.head_group_spec, 1, wire, kind, f"{place}.headGroupSpec")
        if _asks(head.pod):
            judged.append(head)
    return read_owner(KIND, wire, None, tuple(judged), is_suspended=is_suspended, is_of_groups=True)


def _read_group(wire: _WireGroup, owner: WireObject, kind: str, place: str) -> _Group:
    replicas = count_replicas(
        replicas=wire.replicas,
        least=wire.min_replicas,
        most=wire.max_replicas,
        is_suspended=bool(wire.suspend),
    )
    template = _read_template(wire, replicas, owner, kind, place)
    said = wire.template.metadata
    labels = {  # as its `labelPod` and `mergeLabels` do
        "ray.io/is-ray-node": "yes",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
        **read_labels(said.labels if said else None),
        **read_labels(wire.labels),
        "ray.io/cluster": owner.metadata.name,
        "ray.io/node-type": "worker",
        "ray.io/group": wire.group_name,
    }
    rules = msgspec.convert(wire.template.spec, _WireRules)  # parse_pod has read the same before
    return _Group(template, labels, rules.affinity or _WireAffinity())


def _read_template(wire: _WireGroup, replicas: int, owner: WireObject, kind: str, place: str) -> JobTemplate:
    hosts = 1 if wire.num_of_hosts is None else wire.num_of_hosts
    pod = read_template_pod(wire.template, kind, owner, f"{place}.template")
    return JobTemplate(
        replicated_job=wire.group_name,
        replicas=replicas,
        parallelism=hosts,
        completions=hosts,
        is_indexed=True,
        pod=pod,
        annotations={},
        asker="each replica of the group",
    )


def _asks(pod: Pod) -> bool:
    return bool(pod_requests(pod).get(_TPU, 0))


def _object(group: _Group, groups: Sequence[_Group]) -> str | None:
    """Why a worker group cannot be served by one slice for each replica, None if it can.

    `groups` are those that ask for TPUs, itself among them.
    """
    template = group.template
    names = Counter(one.template.replicated_job for one in groups)
    if template.replicated_job == _HEAD_GROUP or names[template.replicated_job] > 1:
        return "another group of the RayCluster has the same name: give each a groupName of its own"
    if template.parallelism < 2 or not template.replicas:
        return None
    rivals = [one for one in groups if one.template.parallelism > 1 and one.machines == group.machines]
    if sum(one.template.replicas for one in rivals) < 2 or _stays_apart(group, rivals):
        return None
    return (
        "nothing would keep each replica on one slice: require podAffinity with matchLabelKeys and "
        f"podAntiAffinity with mismatchLabelKeys: [{REPLICA_NAME}], both with topologyKey {NODE_POOL}, "
        f"or {SLICE_LABELS[0]} where nodes have no such label"
    )


def _stays_apart(group: _Group, rivals: Sequence[_Group]) -> bool:
    """Whether the pods of one replica are required to be on one slice, and no other replica's there.

    Judged of pods as KubeRay makes them: of two replicas of this group, and of one of each rival.
    """
    namespace = group.template.pod.namespace
    own = {**group.labels, REPLICA_NAME: "this"}
    others = [{**one.labels, REPLICA_NAME: "other"} for one in rivals]
    together = read_together(group.affinity.pod_affinity, namespace, own) or frozenset()
    return any(
        any(
            one.label == label
            and one.pods.selects(namespace, own)
            and not any(one.pods.selects(namespace, other) for other in others)
            for one in together
        )
        and any(
            all(pods.selects(namespace, other) for other in others) and not pods.selects(namespace, own)
            for pods in read_apart(group.affinity.pod_anti_affinity, namespace, own, label=label)
        )
        for label in _ON_A_SLICE
    )
