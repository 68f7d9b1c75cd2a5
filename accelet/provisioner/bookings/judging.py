"""What is said of a booking: pure, from its slices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from accelet.control.walltime import left_s
from accelet.provisioner.bookings.booking import Booking, ConditionType, Words
from accelet.provisioner.deciding.view import SliceRecord

_MOST_MESSAGE: Final = 1000
_AGAIN_S: Final = 60.0
_SOON_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class BookedSlices:
    """What there is for a booking.

    `refused` is why nothing can be made for it, None if something can. `size` is how many slices are asked
    for. `is_suspended`: the queue has not let the JobSet or Job run yet, or no more.
    """

    records: Sequence[SliceRecord] = ()
    size: int = 0
    is_suspended: bool = True
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class BookingVerdict:
    """What is to be said by condition; `again_s`: by then it may be another, without any event."""

    said: Mapping[ConditionType, Words]
    again_s: float | None = None


def judge_booking(booking: Booking, found: BookedSlices, now_s: float, hold_s: float) -> BookingVerdict:
    """What is said of a booking that is in force.

    Failed has Kueue ask anew after a while, CapacityRevoked ends the workload, and BookingExpired has
    it ask anew unless it runs: slices that wait for a workload longer than `hold_s` are given back.
    """
    refused = found.refused or next((one.why for one in found.records if one.phase == "Refused"), None)
    if refused is not None:
        return _failed("Refused", refused)
    was_had = booking.holds("Provisioned")
    resting = [one.why for one in found.records if one.phase == "BackingOff" and _is_news(one, booking)]
    if resting and was_had and not found.is_suspended:
        return BookingVerdict({"CapacityRevoked": (True, "SliceLost", _cut(resting[0]))})
    if resting:
        return _failed("NoCapacity", resting[0])
    return _judge_hold(booking, found, now_s, hold_s) if was_had else _judge_coming(found, hold_s)


def judge_missing(booking: Booking, missing_s: float, hold_s: float) -> BookingVerdict:
    """What is said of a booking of which something was not found for so long: no slices are kept for it."""
    if missing_s < hold_s:
        return BookingVerdict({}, min(hold_s - missing_s, _SOON_S))
    why = (
        f"its Workload, a PodTemplate of it, or a JobSet or Job that is not over has not been found for "
        f"{hold_s / 60:.0f} min; until all are there no slices are kept for it"
    )
    return refrain(booking, "WorkloadMissing", why)


def refrain(booking: Booking, reason: str, why: str) -> BookingVerdict:
    """Says why nothing is done for a booking; what was said of one that had its slices is not taken back."""
    if booking.holds("Provisioned"):
        return BookingVerdict({}, _AGAIN_S)
    return BookingVerdict({"Provisioned": (False, reason, _cut(why))}, _AGAIN_S)


def _judge_coming(found: BookedSlices, hold_s: float) -> BookingVerdict:
    ready = sum(one.phase == "Ready" for one in found.records)
    accepted: Words = (True, "SlicesRequested", f"{found.size} slices are asked for")
    if found.records and ready == len(found.records) == found.size:
        words: Words = (True, "SlicesReady", f"{ready} slices are ready")
        return BookingVerdict({"Accepted": accepted, "Provisioned": words}, hold_s)
    late = next((one for one in found.records if one.phase != "Ready" and one.why), None)
    why = f"{ready} of {found.size} slices are ready" + (f"; {late.why}" if late else "")
    return BookingVerdict({"Accepted": accepted, "Provisioned": (False, "SlicesComing", _cut(why))}, _AGAIN_S)


def _judge_hold(booking: Booking, found: BookedSlices, now_s: float, hold_s: float) -> BookingVerdict:
    if not found.is_suspended:
        return BookingVerdict({})
    wait_s = left_s(booking.since_s("Provisioned") + hold_s, now_s, hold_s)
    if wait_s > 0:
        return BookingVerdict({}, wait_s)
    why = f"the workload did not run within {hold_s / 60:.0f} min; its slices are given back"
    return BookingVerdict({"BookingExpired": (True, "NotUsed", why)})


def _is_news(record: SliceRecord, booking: Booking) -> bool:
    """Whether it rests since an attempt for this very booking; the API server's times are whole seconds."""
    return record.since_s >= booking.created_s


def _failed(reason: str, why: str) -> BookingVerdict:
    return BookingVerdict({"Provisioned": (False, reason, _cut(why)), "Failed": (True, reason, _cut(why))})


def _cut(text: str) -> str:
    return text[:_MOST_MESSAGE]
