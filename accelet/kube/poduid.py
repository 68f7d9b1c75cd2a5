"""Which pod is meant: the UID by which a kubelet knows it, and whether its name may come again."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NewType

from accelet.kube.pods import Pod

PodUid = NewType("PodUid", str)
"""The UID by which the kubelet knows a pod; a static pod's is not that of its mirror in the API server."""

_MIRROR = "kubernetes.io/config.mirror"
_GENERATED_NAME = re.compile(r".+-[bcdfghjklmnpqrstvwxz2456789]{5}")
_GENERATING_KINDS = frozenset({"ReplicaSet", "ReplicationController", "DaemonSet", "Job"})


def kubelet_uid(pod: Pod) -> PodUid:
    """The UID the kubelet uses for `pod`.

    The mirror of a static pod carries the static pod's UID as an annotation (Kubernetes 1.36,
    pkg/kubelet/pod/mirror_client.go).
    """
    return PodUid(pod.annotations.get(_MIRROR) or pod.uid)


def index_pods(
    pods: Iterable[Pod], was_pod: Callable[[PodUid], bool] = lambda _: False
) -> Mapping[PodUid, Pod]:
    """The pods by the UID the kubelet uses. No mirror takes the place of the pod whose own UID it is, or was.

    `was_pod` says whether that is known as the UID of a pod that the API server has, or had.
    """
    known = tuple(pods)
    found = {uid: pod for pod in known if (uid := kubelet_uid(pod)) == pod.uid or not was_pod(uid)}
    return found | {PodUid(pod.uid): pod for pod in known if not pod.is_mirror}


def leave_out_forged(pods: Iterable[Pod], node_uid: str | None) -> Iterator[Pod]:
    """The pods without those that only say that they mirror a static pod; the kubelet admits none of them.

    Anybody who may write a pod can annotate it so. The kubelet makes the Node its controlling owner.
    `node_uid` is that of the Node, None where it is not known; then no mirror is believed.
    """
    return (pod for pod in pods if not pod.is_mirror or _is_owned_by_node(pod, node_uid))


def _is_owned_by_node(pod: Pod, node_uid: str | None) -> bool:
    return bool(node_uid) and any(
        owner.is_controller and owner.kind == "Node" and owner.uid == node_uid for owner in pod.owners
    )


def may_recur(pod: Pod) -> bool:
    """Whether another pod may come to have this name. A name with a generated suffix does not come again."""
    return not (
        _GENERATED_NAME.fullmatch(pod.name)
        and any(owner.is_controller and owner.kind in _GENERATING_KINDS for owner in pod.owners)
    )
