"""Whose nodes were kept free for how long: no namespace has any kept all the time while others wait."""

from collections.abc import Collection
from dataclasses import dataclass, field

from accelet.scheduler.placement.reservation import Reservation


@dataclass(slots=True)
class Shares:
    """Namespaces rest after their reservations, as long as these lasted; plain, and told the time.

    However a reservation ended: whoever deletes a gang shortly before its time is over, to have the next one
    take its nodes over, gains nothing by that.
    """

    _current: Reservation | None = None
    _since_s: float = 0.0
    _rests_until_s: dict[str, float] = field(default_factory=dict)

    def note(self, reservation: Reservation | None, now_s: float) -> None:
        """What is kept from now on, for whichever gang."""
        before = self._current
        if (before and before.gang) != (reservation and reservation.gang):
            if before is not None:
                self._rests_until_s[before.gang.namespace] = now_s + (now_s - self._since_s)
            self._since_s = now_s
        self._current = reservation
        self._rests_until_s = {
            namespace: until_s for namespace, until_s in self._rests_until_s.items() if until_s > now_s
        }

    def rests_until_s(self, namespace: str, waiting: Collection[str]) -> float:
        """Until when gangs of a namespace get no nodes kept; 0 if none of another namespace is `waiting`."""
        is_alone = all(other == namespace for other in waiting)
        is_keeping = self._current is not None and self._current.gang.namespace == namespace
        return 0.0 if is_alone or is_keeping else self._rests_until_s.get(namespace, 0.0)
