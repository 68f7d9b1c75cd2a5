"""Which units containers hold by the device plugin, asked of the kubelet."""

import time
from collections.abc import Collection

from accelet.accelerators.device import UnitId
from accelet.dra.errors import NotYetError
from accelet.dra.publishing.holders import UNSHOWN_S, HolderLooks, look
from accelet.dra.publishing.keeping import units_of_ids
from accelet.kubelet.checkpoint import CheckpointEntry
from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.podresources import PodResources
from accelet.node.kubeletrecords import KubeletRecords

LIST_S = 20.0
"""How often podresources is asked for its list at most.

Kubelets up to 1.37 free the devices of dead pods for that, which can harm an Allocate that is under way.
"""

_ANSWER_S = 1.0


class PluginHolders:
    """Remembers which pods have ended, of which the kubelet's checkpoint does not tell."""

    def __init__(
        self,
        records: KubeletRecords,
        pod_resources: PodResources,
        *,
        list_s: float = LIST_S,
        unshown_s: float = UNSHOWN_S,
    ) -> None:
        self._records, self._pod_resources = records, pod_resources
        self._list_s, self._unshown_s = list_s, unshown_s
        self._looks = HolderLooks()
        self._listed_at = float("-inf")

    async def held_units(self, units: Collection[UnitId]) -> frozenset[UnitId]:
        """Those of `units` that containers hold, or may hold.

        Raises:
            NotYetError: it cannot be told.
        """
        entries = await self._read(units)
        if entries and time.monotonic() - self._listed_at >= self._list_s:
            self._listed_at = time.monotonic()
            await self._look()
            entries = await self._read(units)
        return units_of_ids((one for entry in entries for one in entry.device_ids), units)

    async def _read(self, units: Collection[UnitId]) -> tuple[CheckpointEntry, ...]:
        entries = self._looks.holding(await self._entries())
        return tuple(entry for entry in entries if units_of_ids(entry.device_ids, units))

    async def _entries(self) -> tuple[CheckpointEntry, ...]:
        checkpoint = await self._records.checkpoint()
        if checkpoint is None:
            raise NotYetError("the kubelet's record of its devices cannot be read: see the agent's log")
        return checkpoint.entries

    async def _look(self) -> None:
        try:
            shown = await self._pod_resources.list_all(timeout_s=_ANSWER_S)
        except PodResourcesError:
            # Who is not shown is not gone for that; what was seen before counts no more.
            self._looks = HolderLooks(ended=self._looks.ended)
            return
        entries = await self._entries()
        self._looks = look(self._looks, entries, shown, time.monotonic(), self._unshown_s)
