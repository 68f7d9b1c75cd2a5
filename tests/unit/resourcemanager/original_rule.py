"""The rule of Intel's GPU resource manager (v0.24 to v0.32), plainly, as something to compare with.

Of the pending pods that still lack devices take the one with the oldest `gas-ts`, compared as text, and of
it the app container whose number is how many of its containers have devices already.
"""

from collections.abc import Mapping, Sequence

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import kubelet_uid
from accelet.kubelet.podresources import PodRecord
from resourcemanager.holdings.evidence import ContainerKey
from tests.unit.resourcemanager.kubelet_model import R


def guess_owner(pods: Sequence[Pod], shown: Mapping[ObjectKey, PodRecord]) -> ContainerKey | None:
    candidates: list[tuple[str, Pod, int]] = []
    for pod in pods:
        wanting = [container for container in pod.containers if container.limits.get(R)]
        record = shown.get(pod.key)
        if pod.phase != "Pending" or not wanting or record is None:
            continue
        allocated = sum(bool(container.devices.get(R)) for container in record.containers)
        if allocated < len(wanting):
            candidates.append((pod.annotations.get("gas-ts", ""), pod, allocated))
    if not candidates:
        return None
    _, pod, index = min(candidates, key=lambda candidate: candidate[0])
    wanting = [container for container in pod.containers if container.limits.get(R)]
    return ContainerKey(kubelet_uid(pod), wanting[index].name)
