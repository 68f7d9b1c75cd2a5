"""What is kept of a pod that is gone: who it was, how far it came, what it was to get."""

from dataclasses import replace

from accelet.assignments.annotations import ASSIGNED_BY
from accelet.kube.objects import EMPTY
from accelet.kube.pods import Container, Pod

LONGEST_ANNOTATIONS = 4096
"""Of a pod with a longer assignment, in characters, only what it is a mirror of is kept."""

_MIRROR = "kubernetes.io/config.mirror"
_LONGEST_MIRROR = 256


def without_start(pod: Pod) -> Pod:
    """A pod of which is not known what devices it had: only its name can be mistaken.

    As one that has begun without devices it would stand in the way of all calls.
    """
    return pod if pod.is_terminal else replace(pod, phase="Pending", statuses={})


def has_begun(pod: Pod) -> bool:
    """Whether the kubelet has written anything of its containers: then it has admitted it."""
    return pod.has_started or bool(pod.statuses)


def count_parts(pod: Pod) -> int:
    """How much is to be remembered of the pod; the same before and after `strip_pod`."""
    containers = pod.all_containers
    resources = sum(len(one.requests) + len(one.limits) for one in containers)
    return 1 + len(containers) + resources + len(pod.statuses) + len(pod.claimed_resources) + len(pod.owners)


def strip_pod(pod: Pod) -> Pod:
    """The pod with what says who it is, how far it came, and what it was to get; without all else."""
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        created_s=pod.created_s,
        deleted_s=pod.deleted_s,
        grace_s=pod.grace_s,
        annotations=_strip_annotations(pod),
        owners=pod.owners,
        node_name=pod.node_name,
        phase=pod.phase,
        restart_policy=pod.restart_policy,
        init_containers=tuple(_strip_container(one) for one in pod.init_containers),
        containers=tuple(_strip_container(one) for one in pod.containers),
        statuses={
            name: replace(status, allocated=None, actuated=None) for name, status in pod.statuses.items()
        },
        has_resource_claims=pod.has_resource_claims,
        claimed_resources=pod.claimed_resources,
        mounts_token=pod.mounts_token,
    )


def _strip_container(container: Container) -> Container:
    return replace(container, environment=EMPTY, referred_environment=frozenset())


def _strip_annotations(pod: Pod) -> dict[str, str]:
    """One annotation of an assignment without the others would say another assignment: all or none."""
    assigned = {name: pod.annotations[name] for name in ASSIGNED_BY if name in pod.annotations}
    kept = assigned if sum(map(len, assigned.values())) <= LONGEST_ANNOTATIONS else {}
    mirror = {_MIRROR: pod.annotations[_MIRROR][:_LONGEST_MIRROR]} if pod.is_mirror else {}
    return kept | mirror
