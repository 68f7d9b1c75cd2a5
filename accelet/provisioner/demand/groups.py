"""LeaderWorkerSets as owners of slices: each group of a leader and its workers runs on a slice of its own.

As LeaderWorkerSet has it (kubernetes-sigs/lws, api/leaderworkerset/v1 and pkg/webhooks/pod_webhook.go).
"""

from collections.abc import Mapping
from typing import Final

from accelet.kube.objects import RawObject, Wire, WireObject, read_labels, read_object
from accelet.kube.pods import Pod
from accelet.kube.requests import pod_requests
from accelet.provisioner.demand.owners import (
    JobOwner,
    JobTemplate,
    WireTemplate,
    read_owner,
    read_template_pod,
)
from accelet.provisioner.demand.selectors import NODE_POOL, SLICE_LABELS

KIND: Final = "LeaderWorkerSet"
EXCLUSIVE_TOPOLOGY: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_TPU: Final = "google.com/tpu"
_ON_A_SLICE: Final = (NODE_POOL, SLICE_LABELS[0])


class _WireUpdate(Wire, frozen=True):
    max_surge: int | str | None = None


class _WireRollout(Wire, frozen=True):
    rolling_update_configuration: _WireUpdate | None = None


class _WireGroup(Wire, frozen=True):
    worker_template: WireTemplate
    leader_template: WireTemplate | None = None
    size: int | None = None
    sub_group_policy: dict[str, object] | None = None


class _WireSpec(Wire, frozen=True):
    leader_worker_template: _WireGroup
    replicas: int | None = None
    rollout_strategy: _WireRollout | None = None


class _WireSet(WireObject, frozen=True):
    spec: _WireSpec


def parse_leader_worker_set(raw: RawObject) -> JobOwner:
    """The LeaderWorkerSet that `raw` describes: `replicas` slices, each for one group.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, KIND, _WireSet)
    spec, group = wire.spec, wire.spec.leader_worker_template
    place = "spec.leaderWorkerTemplate"
    worker = read_template_pod(group.worker_template, KIND, wire, f"{place}.workerTemplate")
    leader = worker
    if group.leader_template is not None:
        leader = read_template_pod(group.leader_template, KIND, wire, f"{place}.leaderTemplate")
    size = 1 if group.size is None else group.size
    replicas = 1 if spec.replicas is None else spec.replicas
    leads = _asks(leader) or size == 1
    hosts = size if leads else size - 1
    objection = None
    if _asks(leader) or _asks(worker):
        objection = _object(spec, read_labels(wire.metadata.annotations), hosts, replicas, leads=leads)
    template = JobTemplate(
        replicated_job=None,
        replicas=replicas,
        parallelism=hosts,
        completions=hosts,
        is_indexed=True,
        pod=leader if size == 1 else worker,
        annotations={},
        others=(leader,) if leads and size > 1 else (),
        objection=objection,
        asker="the group",
    )
    return read_owner(KIND, wire, None, (template,), is_suspended=False, is_of_groups=True)


def _asks(pod: Pod) -> bool:
    return bool(pod_requests(pod).get(_TPU, 0))


def _object(
    spec: _WireSpec, annotations: Mapping[str, str], hosts: int, replicas: int, *, leads: bool
) -> str | None:
    """Why its groups cannot each be served by one slice, None if they can."""
    update = spec.rollout_strategy.rolling_update_configuration if spec.rollout_strategy else None
    if spec.leader_worker_template.sub_group_policy is not None:
        return "subgroups are not served, a slice is for a whole group: leave subGroupPolicy out"
    if update is not None and update.max_surge not in (None, 0, "0", "0%"):
        return (
            "the groups that an update adds for a while would get no slices: "
            "leave rollingUpdateConfiguration.maxSurge out"
        )
    return _object_to_topology(annotations.get(EXCLUSIVE_TOPOLOGY), hosts, replicas, leads=leads)


def _object_to_topology(topology: str | None, hosts: int, replicas: int, *, leads: bool) -> str | None:
    """Why nothing would hold each group to one slice, None if something does or it needs no holding."""
    if topology is None:
        if replicas > 1 and hosts > 1:
            return (
                f"nothing would keep each group on one slice: annotate {EXCLUSIVE_TOPOLOGY}: {NODE_POOL}, "
                f"or {SLICE_LABELS[0]} where nodes have no such label"
            )
        return None
    if topology not in _ON_A_SLICE:
        return f"{EXCLUSIVE_TOPOLOGY} must be {' or '.join(_ON_A_SLICE)}, not {topology[:80]!r}"
    if not leads:
        return (
            f"{EXCLUSIVE_TOPOLOGY} keeps the workers where their leader is, and the leader asks for no TPUs: "
            "let it ask for them as the workers do"
        )
    return None
