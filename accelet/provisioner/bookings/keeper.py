"""Has the slices of bookings made, and says on each what becomes of it."""

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from accelet.control.status import status_patch
from accelet.control.writer import FencedWriter
from accelet.kube.errors import ConflictError, MalformedObjectError, NotFoundError
from accelet.kube.pods import Pod
from accelet.provisioner.bookings.book import MOST_SERVED
from accelet.provisioner.bookings.booking import PROVISIONING_REQUESTS, Booking, parse_booking, status_of
from accelet.provisioner.bookings.demand import with_booked_pods
from accelet.provisioner.bookings.judging import (
    BookedSlices,
    BookingVerdict,
    judge_booking,
    judge_missing,
    refrain,
)
from accelet.provisioner.bookings.reading import BookingReader
from accelet.provisioner.deciding.view import SliceRecord
from accelet.provisioner.demand.owners import JobOwner
from accelet.provisioner.demand.requests import spec_of
from accelet.provisioner.demand.slices import WantedSlice, derive_slices, why_not_asked
from accelet.provisioner.planning import order_for
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.state import Key, ProvisionerState
from accelet.provisioner.writer import SliceWriter

_TOO_MANY: Final = (
    f"the namespace has more than {MOST_SERVED} ProvisioningRequests of this class, "
    "and the oldest are served first"
)

Wanted = tuple[WantedSlice, ...]


class BookingKeeper:
    """What one leader does for bookings."""

    def __init__(self, writer: FencedWriter, slices: SliceWriter, state: ProvisionerState) -> None:
        self._writer, self._slices, self._state = writer, slices, state
        self._reader = BookingReader(writer)
        self._wanted: dict[str, Wanted | Refusal] = {}

    async def look(self, key: Key) -> float | None:
        """Does one booking's next step; returns after how many seconds to look again.

        Raises:
            NotLeadingError: another replica leads.
            KubeError: the API server did not do it.
        """
        booking = self._state.bookings[key]
        if booking is None:
            return None
        if not self._state.bookings.is_served(booking):
            return await self._tell(booking, refrain(booking, "TooMany", _TOO_MANY))
        try:
            found = await self._find(booking)
        except NotFoundError:  # what it refers to is gone, and takes it with it, or comes a moment later
            found = None
        except MalformedObjectError as error:
            found = Refusal(str(error))
        if found is None:
            return await self._miss(booking)
        if isinstance(found, Refusal):
            return await self._say(booking, BookedSlices(refused=found.reason), "")
        return await self._look_at(booking, *found)

    async def _look_at(self, booking: Booking, owner: JobOwner, wanted: Wanted) -> float | None:
        bookings = self._state.bookings
        bookings.note_found(booking)
        bookings.note_owner(booking, owner.uid)
        newest = bookings.of_owner(owner.namespace, owner.uid)
        if newest is not None and newest.uid != booking.uid:
            why = f"a newer ProvisioningRequest {newest.name[:63]} is for the same {owner.kind}"
            return await self._tell(booking, refrain(booking, "Superseded", why))
        records = [record for one in wanted if (record := await self._ask(one, owner)) is not None]
        booked = BookedSlices(records, len(wanted), owner.is_suspended)
        return await self._say(booking, booked, wanted[0].set_name)

    async def _miss(self, booking: Booking) -> float | None:
        """Nothing can be done for it now. After a while it is taken for nobody's, and it is told so."""
        now_s, hold_s = time.monotonic(), self._state.settings.hold_s
        missing_s = now_s - self._state.bookings.note_missing(booking, now_s)
        if missing_s >= hold_s:
            self._state.bookings.note_owner(booking, None)
        return await self._tell(booking, judge_missing(booking, missing_s, hold_s))

    async def _find(self, booking: Booking) -> tuple[JobOwner, Wanted] | Refusal | None:
        owner = await self._find_owner(booking)
        if owner is None or isinstance(owner, Refusal):
            return owner
        wanted = await self._want(booking, owner)
        return wanted if isinstance(wanted, Refusal) else (owner, wanted)

    async def _find_owner(self, booking: Booking) -> JobOwner | Refusal | None:
        """The JobSet or Job it is for, None while it is not seen, or is over."""
        found = await self._reader.find_owner(booking)
        if found is None:
            return None
        if isinstance(found, Refusal):
            self._state.bookings.note_owner(booking, None)
            return found
        kind, name, uid = found
        if not self._state.bookings.is_missing(booking):  # or all of it is found first
            self._state.bookings.note_owner(booking, uid)
        owner = self._state.owners.get((kind, booking.namespace, name))
        if owner is None or owner.uid != uid or owner.is_deleted or owner.is_finished:
            return None
        why = why_not_asked(owner, self._state.settings.demand, is_booked=True)
        return owner if why is None else Refusal(why)

    async def _want(self, booking: Booking, owner: JobOwner) -> Wanted | Refusal:
        """The slices that are booked; a booking cannot be changed, so that they are derived once."""
        if booking.uid not in self._wanted:
            self._forget_others()
            self._wanted[booking.uid] = self._derive(owner, await self._reader.read_pods(booking))
        return self._wanted[booking.uid]

    def _derive(self, owner: JobOwner, booked: Sequence[tuple[int, Pod]]) -> Wanted | Refusal:
        settings = self._state.settings
        let_run = with_booked_pods(owner, booked)
        if isinstance(let_run, Refusal):
            return let_run
        derived = derive_slices(let_run, settings.node_labels, settings.pod_labels)
        for refused in derived.refused:
            job = f"{refused.replicated_job}: " if refused.replicated_job else ""
            return Refusal(job + refused.reason)
        for wanted in derived.slices:
            order = order_for(spec_of(wanted), wanted.owner.namespace, settings)
            if isinstance(order, Refusal):
                return order
        return derived.slices or Refusal("its pods ask for no TPUs, and no other machines are made")

    def _forget_others(self) -> None:
        known = {booking.uid for booking in self._state.bookings.all()}
        self._wanted = {uid: wanted for uid, wanted in self._wanted.items() if uid in known}

    async def _ask(self, wanted: WantedSlice, owner: JobOwner) -> SliceRecord | None:
        """The record of a wanted slice; None while it is only asked for.

        A former booking may have wanted other machines for the same Job: its SliceRequest goes first.
        """
        key = owner.namespace, wanted.name
        known = self._state.requests.get(key)
        if known is None:
            await self._slices.ask(wanted)
            known = self._state.requests.get(key)
        elif known.spec != spec_of(wanted) and not known.is_deleted and owner.is_suspended:
            await self._slices.discard(known)
            return None
        return None if known is None or known.is_deleted else known.record

    async def _say(self, booking: Booking, found: BookedSlices, slice_set: str) -> float | None:
        verdict = judge_booking(booking, found, time.time(), self._state.settings.hold_s)
        return await self._tell(booking, verdict, slice_set)

    async def _tell(self, booking: Booking, verdict: BookingVerdict, slice_set: str = "") -> float | None:
        if verdict.said:
            await self._write(booking, verdict, slice_set or booking.slice_set, time.time())
        return verdict.again_s

    async def _write(self, booking: Booking, verdict: BookingVerdict, slice_set: str, now_s: float) -> None:
        before = status_of(booking, {}, booking.slice_set, now_s)
        after = status_of(booking, verdict.said, slice_set, now_s)
        patch = status_patch(before, after, booking.resource_version)
        if patch is None:
            return
        try:
            raw = await self._writer.patch(
                PROVISIONING_REQUESTS, *booking.key, patch, "merge", subresource="status"
            )
        except ConflictError:
            raw = await self._writer.get(PROVISIONING_REQUESTS, *booking.key)
        except NotFoundError:
            self._state.bookings.remove(booking.key)
            return
        self._state.bookings.set(parse_booking(msgspec.Raw(raw)))
