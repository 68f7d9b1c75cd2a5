"""Whose devices in the kubelet's checkpoint are still held, by what podresources has shown since.

The kubelet writes its device checkpoint when it gives devices away, and not when their pods end (kubelet
1.36, cm/devicemanager: UpdateAllocatedDevices): on a node without device plugins their entries stay for good.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from accelet.kubelet.checkpoint import CheckpointEntry
from accelet.kubelet.podresources import PodRecord

UNSHOWN_S: Final = 60.0
"""For how long a pod must not be shown to have ended.

A kubelet shows nobody just after its start, and no pod that was deleted by force, whose containers may go on
for their grace period: 30 s unless they say otherwise.
"""


@dataclass(frozen=True, slots=True)
class HolderLooks:
    """What the looks so far have shown, by the UIDs of pods, which never come back.

    `unshown_since`: since when podresources shows none of the devices of a pod. `ended`: those of which that
    was so for long enough.
    """

    unshown_since: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    ended: frozenset[str] = frozenset()

    def holding(self, entries: Iterable[CheckpointEntry]) -> tuple[CheckpointEntry, ...]:
        """The entries whose pods have not ended, as far as the looks tell."""
        return tuple(entry for entry in entries if entry.pod_uid not in self.ended)


def look(
    looks: HolderLooks,
    entries: Collection[CheckpointEntry],
    shown: Collection[PodRecord],
    now: float,
    unshown_s: float = UNSHOWN_S,
) -> HolderLooks:
    """What is known after podresources showed these pods beside these entries of the checkpoint, at `now`."""
    known = {entry.pod_uid for entry in entries}
    ids = _ids_by_resource(shown)
    alive = {entry.pod_uid for entry in entries if entry.device_ids & ids.get(entry.resource, set())}
    unshown = {uid: looks.unshown_since.get(uid, now) for uid in known - alive - looks.ended}
    ended = {uid for uid, since in unshown.items() if now - since >= unshown_s}
    return HolderLooks(
        MappingProxyType({uid: since for uid, since in unshown.items() if uid not in ended}),
        (looks.ended & known) | ended,
    )


def _ids_by_resource(shown: Iterable[PodRecord]) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pod in shown:
        for container in pod.containers:
            for resource, ids in container.devices.items():
                found.setdefault(resource, set()).update(ids)
    return found
