"""Changes of the record of prepared claims, made for all calls that wait at once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from accelet.accelerators.device import UnitId
from accelet.accelerators.folders import prepare_folders
from accelet.dra.errors import ClaimError, DraError, NotYetError
from accelet.dra.preparing.decide import (
    Decision,
    DriverOffer,
    Wanted,
    decide,
    may_set_environment,
    understand,
)
from accelet.dra.preparing.entry import Entry, PreparedDevice
from accelet.dra.preparing.hold import explain_held
from accelet.dra.preparing.views import OtherClaim
from accelet.dra.running.claimreader import ReadClaim
from accelet.dra.running.groups import Groups
from accelet.dra.running.records import ClaimRecords
from accelet.runtime.logs import Log

_log = Log(__name__)

Prepared = tuple[PreparedDevice, ...] | DraError
"""What the kubelet is told of a claim: its devices, or why there are none."""

Outcomes = Mapping[str, Prepared]
"""By the claim's UID."""

_NOTHING: Final[Outcomes] = MappingProxyType({})


@dataclass(frozen=True)
class Grant:
    """The claims of one call, by UID; `held` are units that containers hold by the device plugin."""

    reads: Mapping[str, ReadClaim]
    held: Collection[UnitId]


@dataclass(frozen=True)
class Forget:
    """The claims of one call that are given back, by UID."""

    uids: frozenset[str]


Change = Grant | Forget


class RecordChanges:
    """Makes changes in the order in which they come, each group of them with one lock and two writes.

    `offer` tells what there is, None before the first scan; `boot` is the kernel's boot id.
    """

    def __init__(
        self, records: ClaimRecords, offer: Callable[[], DriverOffer | None], *, root: Path, boot: str
    ) -> None:
        self._records, self._offer = records, offer
        self._root, self._boot = root, boot
        self._groups = Groups(self._make)

    async def make(self, change: Change) -> Outcomes:
        """What became of the change; nobody is told before it is on disk.

        Raises:
            NotYetError: another agent keeps the record, or the hardware was not looked at yet.
            StateError: the record or a CDI file cannot be read or written.
        """
        return await self._groups.do(change)

    async def _make(self, changes: Sequence[Change]) -> Sequence[Outcomes | Exception]:
        return await self._records.do(lambda: self._make_locked(changes))

    def _make_locked(self, changes: Sequence[Change]) -> Sequence[Outcomes | Exception]:
        """All together; where that fails, one by one, so that none fails for another's sake."""
        try:
            return self._make_together(changes)
        except Exception as error:  # whatever it is, it is for the one that asked
            if len(changes) == 1:
                return [error]
        return [outcome for change in changes for outcome in self._make_locked([change])]

    def _make_together(self, changes: Sequence[Change]) -> Sequence[Outcomes]:
        """The order of the steps is what makes an end after any of them harmless.

        CDI files of what is given back go; then the record tells what is left and what is started; then the
        files of that come; then the record tells that it is completed. Each step may be repeated.
        """
        before = self._records.read()
        back = {uid for change in changes if isinstance(change, Forget) for uid in change.uids}
        self._records.remove_cdi([entry for entry in before.values() if entry.uid in back])
        draft = _Draft(dict(before), {})
        outcomes = [self._apply(change, draft) for change in changes]
        if draft.entries != before:
            self._records.write(draft.entries)
        self._records.write_cdi(draft.decided.values())
        completed = {key: entry.completed() for key, entry in draft.entries.items() if key in draft.decided}
        after = {**draft.entries, **completed}
        if after != draft.entries:
            self._records.write(after)
        return outcomes

    def _apply(self, change: Change, draft: "_Draft") -> Outcomes:
        match change:
            case Forget(uids):
                draft.forget(uids)
                return _NOTHING
            case Grant(reads, held):
                return self._grant(reads, held, draft)

    def _grant(self, reads: Mapping[str, ReadClaim], held: Collection[UnitId], draft: "_Draft") -> Outcomes:
        offer = self._offer()
        if offer is None:
            return dict.fromkeys(reads, NotYetError("this node's hardware was not looked at yet"))
        outcomes: dict[str, Prepared] = {}
        for uid, read in reads.items():
            try:
                decision = self._decide(read, offer, draft.entries.values(), reads, held)
            except (ClaimError, NotYetError) as error:
                outcomes[uid] = error
                continue
            draft.add(self._make_folders(decision).entry)
            outcomes[uid] = decision.entry.answers
        return outcomes

    def _decide(
        self,
        read: ReadClaim,
        offer: DriverOffer,
        entries: Collection[Entry],
        reads: Mapping[str, ReadClaim],
        held: Collection[UnitId],
    ) -> Decision:
        wanted = understand(read.wanted.claim, offer)  # anew: the hardware may be another by now
        if reason := explain_held(wanted.holds, held):
            raise NotYetError(reason)
        beside = [
            OtherClaim(other.wanted.claim.name, may_set_environment(other.wanted, offer))
            for uid, other in reads.items()
            if uid != wanted.claim.uid and other.wanted.claim.namespace == wanted.claim.namespace
        ]
        decision = decide(wanted, offer, entries=entries, pods=read.pods, beside=beside, boot=self._boot)
        if missing := self._find_missing(wanted, offer):
            raise NotYetError(f"the device node {missing} is not there")
        return decision

    def _make_folders(self, decision: Decision) -> Decision:
        """Makes the host folders its devices mount; a container does without one that cannot be made."""
        devices = []
        for device in decision.devices:
            edits, faults = prepare_folders(device.edits, self._root)
            for fault in faults:
                _log.warning("folder not made", reason=fault)
            devices.append(replace(device, edits=edits))
        return decision.with_devices(devices)

    def _find_missing(self, wanted: Wanted, offer: DriverOffer) -> str | None:
        """A device file that a container could not be given, so that it would never start."""
        for hold in wanted.holds:
            for unit in sorted({unit for unit, _ in hold.atoms}):
                for node in offer.hardware.inventory.by_unit[unit][0].nodes:
                    if not (self._root / node.host_path.lstrip("/")).exists():
                        return node.host_path
        return None


@dataclass
class _Draft:
    """The record as it is to be; `decided` are those of its entries whose CDI files are to be there."""

    entries: dict[tuple[str, str], Entry]
    decided: dict[tuple[str, str], Entry]

    def forget(self, uids: Collection[str]) -> None:
        for key in [key for key, entry in self.entries.items() if entry.uid in uids]:
            del self.entries[key]
            self.decided.pop(key, None)

    def add(self, entry: Entry) -> None:
        """Takes up an entry; one that is prepared already stays as it is, with what another version wrote."""
        known = self.entries.get(entry.key)
        if known is not None:
            entry = replace(entry, rest=known.rest)
            entry = known if known == entry.completed() else entry
        self.entries[entry.key] = self.decided[entry.key] = entry
