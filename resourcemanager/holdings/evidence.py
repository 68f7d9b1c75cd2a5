"""What is known from outside when devices are handed out: the kubelet's records and the pods of this node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from accelet.kube.poduid import PodUid


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
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def containers(self) -> Sequence[ShownContainer]: ...
