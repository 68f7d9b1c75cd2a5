"""What is prepared, compared with the claims there are and the files there must be."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from accelet.accelerators.device import UnitId
from accelet.dra.errors import ClaimError, DraError
from accelet.dra.preparing.abandoned import (
    Verdict,
    count_looks,
    find_abandoned,
    find_used,
)
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, parse_claim
from accelet.dra.preparing.entry import Entry, EntryKey
from accelet.dra.running.claimreader import Api
from accelet.dra.running.claims import Claims
from accelet.dra.running.records import ClaimRecords
from accelet.kube.errors import KubeError, NotFoundError
from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.podresources import PodRecord
from accelet.runtime.logs import Log

CLAIMS_S = 600.0
FILES_S = 60.0

ShownPods = Callable[[], Awaitable[Collection[PodRecord]]]
"""All pods that the kubelet shows; raises PodResourcesError."""

_log = Log(__name__)


async def show_nothing() -> Collection[PodRecord]:
    """Where the kubelet is not asked: whether anybody has an allocation cannot be told."""
    return ()


async def ask_verdict(api: Api, driver: str, entry: Entry) -> Verdict:
    """What the API server has of an entry's allocation."""
    try:
        raw = await api.get(RESOURCE_CLAIMS, entry.namespace, entry.name)
    except NotFoundError:
        return "gone"
    except KubeError:
        return "unknown"
    try:
        claim = parse_claim(raw, driver)
    except ClaimError:
        return "outdated"
    if claim.uid != entry.uid:
        return "gone"
    return "current" if claim.digest == entry.digest else "outdated"


class ClaimReconciler:
    """Keeps one driver's record true while `run` runs."""

    def __init__(
        self, driver: str, records: ClaimRecords, claims: Claims, api: Api, shown_pods: ShownPods
    ) -> None:
        self._driver, self._records, self._claims, self._api = driver, records, claims, api
        self._shown_pods = shown_pods
        self._looks: Mapping[EntryKey, int] = {}
        self._outdated: frozenset[EntryKey] = frozenset()

    async def run(self) -> None:
        """Looks at files each minute and at claims every ten, at once to begin with, for ever."""
        looks = 0
        while True:
            try:
                if looks % round(CLAIMS_S / FILES_S) == 0:
                    await self.compare()
                await self.mend_files()
            except DraError as error:
                _log.error("cannot look after prepared claims", driver=self._driver, reason=str(error))
            looks += 1
            await asyncio.sleep(FILES_S)

    async def mend_files(self) -> None:
        """Writes CDI files that went missing or were changed, and removes those of nobody.

        A container that starts again reads its file again, without any call to the driver.
        """
        written, swept = await self._records.do(self._mend)
        if written or swept:
            _log.warning("CDI files mended", driver=self._driver, written=written, removed=len(swept))

    async def compare(self) -> None:
        """Undoes what was prepared of allocations that nobody has any more."""
        self._claims.begin_look()
        entries = await self._records.do(self._records.read)
        verdicts: dict[EntryKey, Verdict] = {
            key: await ask_verdict(self._api, self._driver, one) for key, one in entries.items()
        }
        self._outdated = frozenset(key for key, one in verdicts.items() if one in ("outdated", "gone"))
        used = await self._find_used([entries[key] for key in self._outdated])
        self._looks = count_looks(self._looks, verdicts, used)
        if abandoned := find_abandoned(self._looks):
            await self._give_up([entries[key] for key in sorted(abandoned)])

    def outdated(self, entries: Iterable[Entry]) -> frozenset[UnitId]:
        """Units of these entries that are prepared for allocations that are none any more."""
        return frozenset(unit for entry in entries if entry.key in self._outdated for unit in _units(entry))

    async def _find_used(self, suspects: Collection[Entry]) -> frozenset[EntryKey] | None:
        if not suspects:
            return frozenset()
        try:
            return find_used(suspects, await self._shown_pods())
        except PodResourcesError as error:
            _log.warning("cannot tell who uses claims", driver=self._driver, reason=str(error))
            return None

    async def _give_up(self, abandoned: Sequence[Entry]) -> None:
        for entry in abandoned:
            _log.warning(
                "a claim's allocation is gone and was never unprepared; undone",
                driver=self._driver,
                claim=f"{entry.namespace}/{entry.name}",
                uid=entry.uid,
            )
        await self._claims.give_up([entry.key for entry in abandoned])

    def _mend(self) -> tuple[int, list[str]]:
        entries = self._records.read()
        return self._records.write_cdi(list(entries.values())), self._records.sweep(entries)


def _units(entry: Entry) -> set[UnitId]:
    return {unit for hold in entry.holds for unit, _ in hold.atoms}
