"""The UID by which a kubelet knows a pod."""

from typing import NewType

from accelet.kube.pods import Pod

PodUid = NewType("PodUid", str)
"""The UID by which the kubelet knows a pod; a static pod's is not that of its mirror in the API server."""

_MIRROR = "kubernetes.io/config.mirror"


def kubelet_uid(pod: Pod) -> PodUid:
    """The UID the kubelet uses for `pod`.

    The mirror of a static pod carries the static pod's UID as an annotation (Kubernetes 1.36,
    pkg/kubelet/pod/mirror_client.go).
    """
    return PodUid(pod.annotations.get(_MIRROR) or pod.uid)
