"""What is prepared, compared with the claims there are and the files there must be."""

import asyncio
from collections.abc import Collection, Mapping

from accelet.accelerators.device import UnitId
from accelet.dra.errors import ClaimError, DraError
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, parse_claim
from accelet.dra.preparing.entry import Entry
from accelet.dra.running.claimreader import Api, ClaimRef
from accelet.dra.running.claims import Claims
from accelet.dra.running.records import ClaimRecords, Entries
from accelet.kube.errors import KubeError, NotFoundError
from accelet.runtime.logs import Log

CLAIMS_S = 600.0
FILES_S = 60.0

LOOKS_TO_FORGET = 2
"""A claim must be gone at so many looks in a row: the kubelet may still end its containers."""

_log = Log(__name__)


class ClaimReconciler:
    """Keeps one driver's record true while `run` runs."""

    def __init__(self, driver: str, records: ClaimRecords, claims: Claims, api: Api) -> None:
        self._driver, self._records, self._claims, self._api = driver, records, claims, api
        self._gone: Mapping[tuple[str, str], int] = {}
        self.outdated: frozenset[UnitId] = frozenset()
        """Units prepared for allocations that are none any more, and not given back yet."""

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
        """Undoes what was prepared of claims that are gone for good."""
        entries = await self._records.do(self._records.read)
        outdated: set[UnitId] = set()
        gone: dict[tuple[str, str], int] = {}
        for key, entry in entries.items():
            match await self._judge(entry):
                case "gone":
                    gone[key] = self._gone.get(key, 0) + 1
                    outdated |= _units(entry)
                case "outdated":
                    outdated |= _units(entry)
        self._gone = gone
        self.outdated = frozenset(outdated)
        lost = [entries[key] for key, looks in gone.items() if looks >= LOOKS_TO_FORGET]
        if lost:
            await self._forget(lost)

    async def _judge(self, entry: Entry) -> str:
        try:
            raw = await self._api.get(RESOURCE_CLAIMS, entry.namespace, entry.name)
        except NotFoundError:
            return "gone"
        except KubeError:
            return "unknown"
        try:
            claim = parse_claim(raw, self._driver)
        except ClaimError:
            return "outdated"
        if claim.uid != entry.uid:
            return "gone"
        return "current" if claim.digest == entry.digest else "outdated"

    async def _forget(self, lost: Collection[Entry]) -> None:
        for entry in lost:
            _log.warning(
                "a claim is gone and was never unprepared; undone",
                driver=self._driver,
                claim=f"{entry.namespace}/{entry.name}",
                uid=entry.uid,
            )
        await self._claims.unprepare([ClaimRef(entry.namespace, entry.name, entry.uid) for entry in lost])

    def _mend(self) -> tuple[int, list[str]]:
        entries: Entries = self._records.read()
        return self._records.write_cdi(list(entries.values())), self._records.sweep(entries)


def _units(entry: Entry) -> set[UnitId]:
    return {unit for hold in entry.holds for unit, _ in hold.atoms}
