"""Changes of the record of prepared claims, made for all calls that wait at once."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from accelet.accelerators.device import UnitId
from accelet.accelerators.folders import prepare_folders, restore_folders
from accelet.dra.errors import ClaimError, DraError, NotYetError, StateError
from accelet.dra.preparing.cdi import mounts_in, nodes_in
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.decide import (
    Decision,
    DriverOffer,
    decide,
    explain_stale,
    folders_of,
    may_set_environment,
    refuse_together,
    understand,
    understand_again,
)
from accelet.dra.preparing.entry import Entry, EntryKey, PreparedDevice
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
    """The claims of one call, by UID.

    `held` are units that containers hold by the device plugin, or why that cannot be told.
    """

    reads: Mapping[str, ReadClaim]
    held: Collection[UnitId] | NotYetError


@dataclass(frozen=True)
class Forget:
    """The claims of one call that are given back, by UID."""

    uids: frozenset[str]


@dataclass(frozen=True)
class GiveUp:
    """Allocations that nobody has, as the look showed that began last."""

    keys: frozenset[EntryKey]


Change = Grant | Forget | GiveUp


class RecordChanges:
    """Makes changes in the order in which they come, each group with one lock and one wait for the disk.

    `offer` tells what there is, None before the first scan; `boot` is the kernel's boot id.
    """

    def __init__(
        self, records: ClaimRecords, offer: Callable[[], DriverOffer | None], *, root: Path, boot: str
    ) -> None:
        self._records, self._offer = records, offer
        self._root, self._boot = root, boot
        self._groups = Groups(self._make)
        self._given_since: set[EntryKey] = set()
        self._owed: frozenset[str] = frozenset()

    @property
    def units(self) -> frozenset[UnitId]:
        """All hardware that the driver has or that is a part of it, as far as it was looked at."""
        offer = self._offer()
        return frozenset() if offer is None else offer.hardware.units

    def begin_look(self) -> None:
        """From here on it is looked which allocations nobody has."""
        self._given_since.clear()

    async def make(self, change: Change) -> Outcomes:
        """What became of the change; nobody is told before it is on disk.

        Raises:
            NotYetError: another agent keeps the record, or the hardware was not looked at yet.
            StateError: the record or a CDI file cannot be read or written.
        """
        return await self._groups.do(change)

    async def forget_unread(self, uids: frozenset[str]) -> bool:
        """Gives claims back, by UID, while the record cannot be read; False, and nothing done, where it can.

        Their CDI files go. If the record can be read again later, what is in it of them goes then.

        Raises:
            NotYetError: another agent keeps the record.
            StateError: a CDI file cannot be removed.
        """
        return await self._records.do(lambda: self._forget_unread(uids))

    def _forget_unread(self, uids: frozenset[str]) -> bool:
        try:
            self._records.read()
        except StateError:
            self._records.remove_cdi_of(uids)
            self._owed |= uids
            return True
        return False

    async def _make(self, changes: Sequence[Change]) -> Sequence[Outcomes | Exception]:
        return await self._records.do(lambda: self._make_owed(changes))

    def _make_owed(self, changes: Sequence[Change]) -> Sequence[Outcomes | Exception]:
        """The changes, after those that could not be made while the record could not be read."""
        if self._owed:
            (outcome,) = self._make_locked([Forget(self._owed)])
            if isinstance(outcome, Exception):
                return [outcome] * len(changes)
            self._owed = frozenset()
        return self._make_locked(changes)

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
        back = {key for change in changes for key in self._given_back(change, before)}
        self._records.remove_cdi([before[key] for key in sorted(back)])
        draft = _Draft(before.copy())
        outcomes = [self._apply(change, draft) for change in changes]
        if draft.is_changed:
            self._records.write(draft.entries)
        self._records.write_cdi(draft.decided.values())
        if draft.complete():
            # After a loss of power everything is prepared anew, whatever the record says of files.
            self._records.write(draft.entries, is_synced=False)
        return outcomes

    def _apply(self, change: Change, draft: "_Draft") -> Outcomes:
        match change:
            case Forget() | GiveUp():
                draft.forget(self._given_back(change, draft.entries))
                return _NOTHING
            case Grant():
                return self._grant(change, draft)

    def _given_back(self, change: Change, entries: ClaimTable) -> list[EntryKey]:
        """Which entries go by a change. One that was given again since the look began is somebody's."""
        match change:
            case Forget(uids):
                return [entry.key for uid in sorted(uids) for entry in entries.of_claim(uid)]
            case GiveUp(keys):
                return sorted((keys & entries.keys()) - self._given_since)
            case Grant():
                return []

    def _grant(self, grant: Grant, draft: "_Draft") -> Outcomes:
        offer = self._offer()
        if offer is None:
            return dict.fromkeys(grant.reads, NotYetError("this node's hardware was not looked at yet"))
        outcomes: dict[str, Prepared] = {}
        for uid, read in grant.reads.items():
            try:
                known = draft.entries.get((read.claim.uid, read.claim.digest))
                outcomes[uid] = self._grant_one(read, known, grant, offer, draft)
                self._given_since.add((read.claim.uid, read.claim.digest))
            except (ClaimError, NotYetError) as error:
                outcomes[uid] = error
        return outcomes

    def _grant_one(
        self, read: ReadClaim, known: Entry | None, grant: Grant, offer: DriverOffer, draft: "_Draft"
    ) -> tuple[PreparedDevice, ...]:
        beside = list(_beside(read, grant.reads.values(), offer, draft))
        is_prepared = known is not None and known.phase == "completed"
        if known is not None and is_prepared and explain_stale(known, offer, self._boot) is None:
            self._give_again(read, known, offer, beside, draft)
            return known.answers
        wanted = (
            understand(read.claim, offer) if known is None else understand_again(read.claim, known, offer)
        )
        if isinstance(grant.held, NotYetError):
            raise grant.held
        if reason := explain_held(wanted.holds, wanted.parents, grant.held):
            raise NotYetError(reason)
        entries = draft.entries
        decision = decide(wanted, offer, entries=entries, pods=read.pods, beside=beside, boot=self._boot)
        self._refuse_missing(node.host_path for device in decision.devices for node in device.edits.nodes)
        draft.add(self._make_folders(decision).entry)
        return decision.entry.answers

    def _give_again(
        self,
        read: ReadClaim,
        known: Entry,
        offer: DriverOffer,
        beside: Collection[OtherClaim],
        draft: "_Draft",
    ) -> None:
        """What is in the record stands, whatever the hardware or the settings are by now."""
        entries, driver = draft.entries, offer.pool.driver
        refuse_together(known, driver, entries=entries, pods=read.pods, beside=beside)
        self._refuse_missing(host_path for host_path, _ in nodes_in(known.cdi))
        mounted = mounts_in(known.cdi)
        folders = folders_of(understand_again(read.claim, known, offer), offer)
        for fault in restore_folders([one for one in folders if one.host_path in mounted], self._root):
            _log.warning("folder not made", reason=fault)
        draft.keep(known)

    def _refuse_missing(self, paths: Iterable[str]) -> None:
        """A container would never start that is given a device file which is not there.

        Raises:
            NotYetError: one of them is not there.
        """
        for path in sorted(set(paths)):
            if not (self._root / path.lstrip("/")).exists():
                raise NotYetError(f"the device node {path} is not there")

    def _make_folders(self, decision: Decision) -> Decision:
        """Makes the host folders its devices mount; a container does without one that cannot be made."""
        devices = []
        for device in decision.devices:
            edits, faults = prepare_folders(device.edits, self._root)
            for fault in faults:
                _log.warning("folder not made", reason=fault)
            devices.append(replace(device, edits=edits))
        return decision.with_devices(devices)


def _beside(
    read: ReadClaim, reads: Iterable[ReadClaim], offer: DriverOffer, draft: "_Draft"
) -> Iterator[OtherClaim]:
    """The other claims of a call in the same namespace that are not in the record yet."""
    for other in reads:
        claim = other.claim
        if claim.uid == read.claim.uid or claim.namespace != read.claim.namespace:
            continue
        if (claim.uid, claim.digest) in draft.entries:
            continue
        with suppress(ClaimError):  # which is its own answer
            yield OtherClaim(claim.name, may_set_environment(understand(claim, offer), offer))


@dataclass
class _Draft:
    """The record as it is to be; `decided` are those of its entries whose CDI files are to be there."""

    entries: ClaimTable
    decided: dict[EntryKey, Entry] = field(default_factory=dict)
    is_changed: bool = False

    def forget(self, keys: Collection[EntryKey]) -> None:
        for key in keys:
            del self.entries[key]
            self.decided.pop(key, None)
            self.is_changed = True

    def keep(self, entry: Entry) -> None:
        """Has the CDI file of an entry that stays as it is."""
        self.decided[entry.key] = entry

    def add(self, entry: Entry) -> None:
        """Takes up an entry; one that is prepared already stays as it is, with what another version wrote."""
        known = self.entries.get(entry.key)
        if known is not None:
            entry = replace(entry, rest=known.rest)
            entry = known if known == entry.completed() else entry
        self.is_changed |= entry != known
        self.entries[entry.key] = self.decided[entry.key] = entry

    def complete(self) -> bool:
        """Notes that the files are there; whether that is news."""
        news = [entry for entry in self.decided.values() if entry.phase != "completed"]
        if news:
            self.entries = self.entries.copy()
        for entry in news:
            self.entries[entry.key] = entry.completed()
        return bool(news)
