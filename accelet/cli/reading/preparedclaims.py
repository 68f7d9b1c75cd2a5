"""What a node has prepared of one claim, whether anybody has it, and undoing it by a person's word."""

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import Path

from accelet.dra.names import DRIVERS
from accelet.dra.preparing.abandoned import explain_kept, find_used
from accelet.dra.preparing.entry import Entry, EntryKey
from accelet.dra.running.changes import GiveUp, RecordChanges
from accelet.dra.running.places import Places, has_record
from accelet.dra.running.reconciler import ask_verdict
from accelet.dra.running.records import ClaimRecords
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kube.objects import ObjectKey
from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodRecord, PodResources

API_S = 5.0


@dataclass(frozen=True)
class Prepared:
    """An allocation that a driver has prepared; `kept` is why it should not be undone, None where it may."""

    driver: str
    entry: Entry
    kept: str | None

    @property
    def devices(self) -> str:
        return ", ".join(dict.fromkeys(hold.device for hold in self.entry.holds))


@dataclass(frozen=True)
class PreparedClaims:
    """The records of a node's drivers."""

    paths: KubeletPaths
    cdi: Path

    async def find(self, claim: ObjectKey, kubeconfig: Kubeconfig | None) -> tuple[Prepared, ...]:
        """All that is prepared of a claim, by namespace and name.

        Raises:
            DraError: a record cannot be read.
        """
        found = [(driver, entry) async for driver, entry in self._entries(claim)]
        used = await self._find_used([entry for _, entry in found]) if found else None
        return tuple([await _judge(driver, entry, used, kubeconfig) for driver, entry in found])

    async def undo(self, prepared: Collection[Prepared]) -> None:
        """Undoes these allocations, as Unprepare does.

        Raises:
            DraError: a record or a CDI file cannot be changed.
        """
        for driver in dict.fromkeys(one.driver for one in prepared):
            keys = frozenset(one.entry.key for one in prepared if one.driver == driver)
            changes = RecordChanges(self._records(driver), lambda: None, root=Path("/"), boot="")
            await changes.make(GiveUp(keys))

    async def _entries(self, claim: ObjectKey) -> AsyncIterator[tuple[str, Entry]]:
        for driver in DRIVERS:
            if has_record(self.paths.root, driver):
                records = self._records(driver)
                for entry in (await records.do(records.read)).values():
                    if (entry.namespace, entry.name) == claim:
                        yield driver, entry

    def _records(self, driver: str) -> ClaimRecords:
        return ClaimRecords(Places(self.paths.root, self.cdi, driver, ""))

    async def _find_used(self, entries: Collection[Entry]) -> Collection[EntryKey] | None:
        async with PodResources(self.paths.pod_resources_socket) as pod_resources:
            try:
                shown: Collection[PodRecord] = await pod_resources.list_all()
            except PodResourcesError:
                return None
        return find_used(entries, shown)


async def _judge(
    driver: str, entry: Entry, used: Collection[EntryKey] | None, kubeconfig: Kubeconfig | None
) -> Prepared:
    try:
        async with asyncio.timeout(API_S):
            client = await Client.connect(kubeconfig)
            try:
                verdict = await ask_verdict(client, driver, entry)
            finally:
                client.close()
    except (KubeError, TimeoutError):
        verdict = "unknown"
    is_used = None if used is None else entry.key in used
    return Prepared(driver, entry, explain_kept(verdict, is_used=is_used))
