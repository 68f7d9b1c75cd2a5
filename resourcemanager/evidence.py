"""What is known from outside when devices are handed out: the kubelet's records and the pods of this node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

from accelet.kube.pods import Pod

PodUid = NewType("PodUid", str)
"""The UID by which the kubelet knows a pod; a static pod's is not that of its mirror in the API server."""

PodName = tuple[str, str]
"""Namespace and name; may name another pod later."""

_MIRROR = "kubernetes.io/config.mirror"


def kubelet_uid(pod: Pod) -> PodUid:
    """The UID the kubelet uses for `pod`.

    The mirror of a static pod carries the static pod's UID as an annotation (Kubernetes 1.36,
    pkg/kubelet/pod/mirror_client.go).
    """
    return PodUid(pod.annotations.get(_MIRROR) or pod.uid)


@dataclass(frozen=True, slots=True, order=True)
class ContainerKey:
    """One container of one pod. Container names are unique in a pod, init containers included."""

    pod_uid: PodUid
    container: str


class CheckpointEntry(Protocol):
    """One resource of one container in the kubelet's checkpoint; the annotations are the plugin's answer."""

    @property
    def pod_uid(self) -> str: ...
    @property
    def container(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def device_ids(self) -> frozenset[str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def environment(self) -> Mapping[str, str]: ...


class ShownContainer(Protocol):
    """A container as podresources shows it; device ids by resource name."""

    @property
    def name(self) -> str: ...
    @property
    def devices(self) -> Mapping[str, frozenset[str]]: ...


class ShownPod(Protocol):
    """A pod as podresources shows it: without UID, without plain init containers."""

    @property
    def containers(self) -> Sequence[ShownContainer]: ...
