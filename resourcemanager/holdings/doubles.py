"""Devices that the kubelet gave twice."""

from collections import defaultdict
from collections.abc import Mapping

from accelet.accelerators.device import DeviceId
from accelet.kube.poduid import PodUid
from resourcemanager.holdings.ledger import Ledger


def find_doubles(ledger: Ledger) -> Mapping[DeviceId, frozenset[PodUid]]:
    """The devices that the kubelet's records give to more than one pod, and to which.

    Before it gives a device again the kubelet takes it from its records, so this is never merely a pod that
    has ended. Up to 1.37 it happens when a pod's devices are freed during an Allocate. Within a pod,
    containers take over devices, which is as it should be.
    """
    pods: defaultdict[DeviceId, set[PodUid]] = defaultdict(set)
    for holding in ledger.holdings.values():
        if holding.is_recorded and not holding.is_released:
            for device in holding.device_ids:
                pods[device].add(holding.owner.pod_uid)
    return {device: frozenset(uids) for device, uids in pods.items() if len(uids) > 1}
