"""Prepare and Unprepare: claims read from the API server, decided on, remembered, written."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from accelet.accelerators.device import UnitId
from accelet.accelerators.folders import prepare_folders
from accelet.dra.errors import ClaimError, DraError, NotYetError
from accelet.dra.metrics import DraMetrics
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, AllocatedClaim, parse_claim
from accelet.dra.preparing.consumers import ConsumerPod, parse_consumer
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
from accelet.dra.running.records import ClaimRecords
from accelet.kube.apiresources import PODS, ApiResource
from accelet.kube.errors import ApiError, KubeError, NotFoundError
from accelet.runtime.logs import Log

PATIENCE_S = 25.0
"""How long a call waits for what will pass; the kubelet gives it 45 s and repeats it after 60 to 90."""

LOOK_S = 0.25
"""How often it is looked again whether it has passed."""

HeldUnits = Callable[[Collection[UnitId]], Awaitable[frozenset[UnitId]]]
"""Which of these units containers hold by the device plugin; raises NotYetError where it cannot be told."""

_log = Log(__name__)
T = TypeVar("T")


class Api(Protocol):
    """What is asked of the API server."""

    async def get(self, resource: ApiResource, namespace: str | None, name: str, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str


Prepared = tuple[PreparedDevice, ...] | DraError
"""What the kubelet is told of a claim: its devices, or why there are none."""


@dataclass(frozen=True)
class _Read:
    """A claim with its pods, where they had to be read."""

    wanted: Wanted
    pods: tuple[ConsumerPod, ...] | None


class Claims:
    """Prepares claims of one driver. `offer` tells what there is, None before the first scan."""

    def __init__(
        self,
        records: ClaimRecords,
        api: Api,
        offer: Callable[[], DriverOffer | None],
        *,
        root: Path,
        boot: str,
        metrics: DraMetrics,
        driver: str,
        held_units: HeldUnits,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`held_units` is asked right before each grant."""
        self._records, self._api, self._offer = records, api, offer
        self._root, self._boot, self._patience_s = root, boot, patience_s
        self._held_units = held_units
        self._seconds = metrics.prepare_seconds.labels(driver)
        self._refused = metrics.refused.labels(driver)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def prepare(self, refs: Sequence[ClaimRef]) -> Mapping[str, Prepared]:
        """The outcome for each claim, by UID. Waits for what will pass, all claims side by side."""
        with self._seconds.time():
            outcomes = await self._prepare(refs, time.monotonic() + self._patience_s)
        for ref in refs:
            if isinstance(error := outcomes[ref.uid], DraError):
                self._refused.inc()
                _log.warning("claim refused", claim=f"{ref.namespace}/{ref.name}", reason=str(error))
        return outcomes

    async def _prepare(self, refs: Sequence[ClaimRef], deadline: float) -> Mapping[str, Prepared]:
        reads = await asyncio.gather(*(_outcome(self._read_patiently(ref, deadline)) for ref in refs))
        read = {ref.uid: one for ref, one in zip(refs, reads, strict=True) if isinstance(one, _Read)}
        failed = {ref.uid: one for ref, one in zip(refs, reads, strict=True) if isinstance(one, DraError)}
        done: dict[str, Prepared] = {**failed}
        while waiting := {uid: one for uid, one in read.items() if uid not in done}:
            outcomes = await self._grant(waiting)
            is_over = time.monotonic() > deadline
            done |= {uid: one for uid, one in outcomes.items() if is_over or not isinstance(one, NotYetError)}
            if len(done) < len(refs):
                await asyncio.sleep(LOOK_S)
        return done

    async def unprepare(self, refs: Sequence[ClaimRef]) -> Mapping[str, DraError | None]:
        """Undoes what is prepared of each claim, by UID; nothing prepared is nothing to undo."""
        try:
            await self._alone(lambda: self._forget({ref.uid for ref in refs}))
        except DraError as error:
            _log.error("cannot unprepare", claims=len(refs), reason=str(error))
            return {ref.uid: error for ref in refs}
        return {ref.uid: None for ref in refs}

    async def _read_patiently(self, ref: ClaimRef, deadline: float) -> _Read:
        while True:
            try:
                return await self._read(ref)
            except NotYetError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(LOOK_S)

    async def _read(self, ref: ClaimRef) -> _Read:
        offer = self._offer()
        if offer is None:
            raise NotYetError("this node's hardware was not looked at yet")
        raw = await self._get(RESOURCE_CLAIMS, ref.namespace, ref.name)
        if raw is None:
            raise ClaimError("the claim is gone")
        claim = parse_claim(raw, offer.pool.driver)
        if claim.uid != ref.uid:
            raise ClaimError("another claim has the name by now")
        wanted = understand(claim, offer)
        return _Read(wanted, await self._read_pods(claim))

    async def _read_pods(self, claim: AllocatedClaim) -> tuple[ConsumerPod, ...]:
        pods = []
        for consumer in claim.consumers:
            raw = await self._get(PODS, claim.namespace, consumer.name)
            pod = None if raw is None else parse_consumer(raw)
            if pod is not None and pod.uid == consumer.uid:
                pods.append(pod)
        if not pods:
            raise NotYetError("no pod that the claim is reserved for is known to the API server")
        return tuple(pods)

    async def _get(self, resource: ApiResource, namespace: str, name: str) -> bytes | None:
        try:
            return await self._api.get(resource, namespace, name)
        except NotFoundError:
            return None
        except ApiError as error:
            raise NotYetError(f"the API server refused to show a {resource.kind}: {error.reason}") from error
        except KubeError as error:
            raise NotYetError("the API server cannot be reached") from error

    async def _grant(self, reads: Mapping[str, _Read]) -> Mapping[str, Prepared]:
        try:
            units = {unit for read in reads.values() for unit in read.wanted.units}
            held = await self._held_units(units)
            return await self._alone(lambda: self._grant_locked(reads, held))
        except DraError as error:
            return dict.fromkeys(reads, error)

    async def _alone(self, work: Callable[[], T]) -> T:
        """Does `work` under the lock and to its end, even where nobody waits for it any more.

        The kubelet gives up calls; a thread cannot be stopped, and must not outlive the lock.
        """
        task = asyncio.create_task(self._records.do(work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    def _grant_locked(self, reads: Mapping[str, _Read], held: Collection[UnitId]) -> Mapping[str, Prepared]:
        """Folders; then started, on disk; then CDI files; then completed, on disk: each may be repeated."""
        offer = self._offer()
        if offer is None:
            raise NotYetError("this node's hardware was not looked at yet")
        entries = dict(self._records.read())
        outcomes: dict[str, Prepared] = {}
        decided: list[Decision] = []
        for uid, read in reads.items():
            try:
                decision = self._decide(read, offer, entries.values(), reads, held)
            except (ClaimError, NotYetError) as error:
                outcomes[uid] = error
                continue
            entries[decision.entry.key] = decision.entry
            decided.append(decision)
        if not decided:
            return outcomes
        decided = [self._make_folders(decision) for decision in decided]
        entries |= {decision.entry.key: decision.entry for decision in decided}
        self._records.write(entries)
        self._records.write_cdi([decision.entry for decision in decided])
        entries |= {decision.entry.key: decision.entry.completed() for decision in decided}
        self._records.write(entries)
        return {**outcomes, **{decision.entry.uid: decision.entry.answers for decision in decided}}

    def _decide(
        self,
        read: _Read,
        offer: DriverOffer,
        entries: Collection[Entry],
        reads: Mapping[str, _Read],
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

    def _forget(self, uids: Collection[str]) -> None:
        entries = self._records.read()
        gone = [entry for entry in entries.values() if entry.uid in uids]
        if not gone:
            return
        self._records.remove_cdi(gone)
        self._records.write({key: entry for key, entry in entries.items() if entry.uid not in uids})


async def _outcome(work: Awaitable[T]) -> T | DraError:
    try:
        return await work
    except DraError as error:
        return error
