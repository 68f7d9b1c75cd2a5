"""The bookings there are, and for which JobSet or Job each is."""

from accelet.provisioner.bookings.booking import Booking
from accelet.provisioner.demand.slices import BOOKING_CLASS

_NOBODY = ""


class BookingBook:
    """Bookings in force by their keys; plain and synchronous. `is_known`: all have been seen once."""

    def __init__(self) -> None:
        self.is_known = False
        self._bookings: dict[tuple[str, str], Booking] = {}
        self._owners: dict[str, str] = {}

    def __getitem__(self, key: tuple[str, str]) -> Booking | None:
        return self._bookings.get(key)

    def all(self) -> list[Booking]:
        return list(self._bookings.values())

    def set(self, booking: Booking) -> None:
        """Takes a booking over; one that is of another class, or not in force any more, is none."""
        known = self._bookings.get(booking.key)
        if known is not None and known.uid != booking.uid:
            self.remove(booking.key)
        if booking.class_name == BOOKING_CLASS and booking.is_in_force:
            self._bookings[booking.key] = booking
        else:
            self.remove(booking.key)

    def remove(self, key: tuple[str, str]) -> None:
        known = self._bookings.pop(key, None)
        if known is not None:
            self._owners.pop(known.uid, None)

    def note_owner(self, booking: Booking, uid: str | None) -> None:
        """Notes the UID of the JobSet or Job that a booking is for; None for nobody's."""
        if booking.key in self._bookings:
            self._owners[booking.uid] = uid or _NOBODY

    def of_owner(self, uid: str) -> Booking | None:
        """The booking for that JobSet or Job, as far as is known; the newest of several."""
        found = [one for one in self._bookings.values() if self._owners.get(one.uid) == uid]
        return max(found, key=lambda one: (one.created_s, one.name), default=None)

    def may_be_for(self, namespace: str, uid: str) -> bool:
        """Whether a JobSet or Job is booked for, or nobody knows yet that it is not."""
        if not self.is_known:
            return True
        inside = (one for one in self._bookings.values() if one.namespace == namespace)
        return any(self._owners.get(one.uid, uid) == uid for one in inside)
