"""The bookings there are, and for which JobSet or Job each is."""

from bisect import bisect_left, insort
from collections import defaultdict
from typing import Final

from accelet.provisioner.bookings.booking import Booking
from accelet.provisioner.demand.slices import BOOKING_CLASS

MOST_SERVED: Final = 300
"""Bookings in force of one namespace for which something is done at a time: the oldest."""

_NOBODY: Final = ""
_Key = tuple[str, str]


class BookingBook:
    """Bookings in force by their keys; plain and synchronous. `is_known`: all have been seen once.

    Owners are known by the UID of a booking: another one of its name is another booking.
    """

    def __init__(self) -> None:
        self.is_known = False
        self._bookings: dict[_Key, Booking] = {}
        self._ages: dict[str, list[tuple[float, str]]] = defaultdict(list)
        self._owners: dict[str, str] = {}
        self._of_owner: dict[tuple[str, str], set[_Key]] = defaultdict(set)
        self._missing_s: dict[str, float] = {}

    def __getitem__(self, key: _Key) -> Booking | None:
        return self._bookings.get(key)

    def all(self) -> list[Booking]:
        return list(self._bookings.values())

    def set(self, booking: Booking) -> None:
        """Takes a booking over; one that is of another class, or not in force any more, is none."""
        known = self._bookings.get(booking.key)
        is_one = is_booking(booking)
        if known is not None and (known.uid != booking.uid or not is_one):
            self.remove(booking.key)
        if is_one:
            if booking.key not in self._bookings:
                insort(self._ages[booking.namespace], _age(booking))
            self._bookings[booking.key] = booking

    def remove(self, key: _Key) -> None:
        known = self._bookings.pop(key, None)
        if known is None:
            return
        ages = self._ages[known.namespace]
        del ages[bisect_left(ages, _age(known))]
        if not ages:
            del self._ages[known.namespace]
        self._forget_owner(known)
        self._missing_s.pop(known.uid, None)

    def note_owner(self, booking: Booking, uid: str | None) -> None:
        """Notes the UID of the JobSet or Job that a booking is for; None for nobody's."""
        if not self._has(booking):
            return
        self._forget_owner(booking)
        self._owners[booking.uid] = uid or _NOBODY
        if uid:
            self._of_owner[booking.namespace, uid].add(booking.key)

    def note_missing(self, booking: Booking, now_s: float) -> float:
        """Notes that something it refers to is not there; returns since when that is so."""
        return self._missing_s.setdefault(booking.uid, now_s) if self._has(booking) else now_s

    def note_found(self, booking: Booking) -> None:
        self._missing_s.pop(booking.uid, None)

    def is_missing(self, booking: Booking) -> bool:
        """Whether something it refers to was not there when it was looked for last."""
        return booking.uid in self._missing_s

    def is_served(self, booking: Booking) -> bool:
        """Whether it is one of the oldest of its namespace; the others wait for their turn."""
        return bisect_left(self._ages.get(booking.namespace, ()), _age(booking)) < MOST_SERVED

    def of_owner(self, namespace: str, uid: str) -> Booking | None:
        """The booking for that JobSet or Job, as far as is known; the newest of several.

        Those of another namespace are none of its own, whatever they say.
        """
        found = [self._bookings[key] for key in self._of_owner.get((namespace, uid), ())]
        return max(found, key=_age, default=None)

    def may_be_for(self, namespace: str, uid: str) -> bool:
        """Whether a JobSet or Job is booked for, or nobody knows yet that it is not."""
        if not self.is_known:
            return True
        served = self._ages.get(namespace, ())[:MOST_SERVED]
        inside = (self._bookings[namespace, name] for _, name in served)
        return any(self._owners.get(one.uid, uid) == uid for one in inside)

    def _has(self, booking: Booking) -> bool:
        known = self._bookings.get(booking.key)
        return known is not None and known.uid == booking.uid

    def _forget_owner(self, booking: Booking) -> None:
        owner = booking.namespace, self._owners.pop(booking.uid, _NOBODY)
        if owner in self._of_owner:
            self._of_owner[owner].discard(booking.key)
            if not self._of_owner[owner]:
                del self._of_owner[owner]


def is_booking(booking: Booking) -> bool:
    """Whether it is of our class, and in force."""
    return booking.class_name == BOOKING_CLASS and booking.is_in_force


def _age(booking: Booking) -> tuple[float, str]:
    return booking.created_s, booking.name
