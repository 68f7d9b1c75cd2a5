"""Objects whose status the API server refuses for what it says: each is tried again ever later."""

from dataclasses import dataclass
from typing import Final

from accelet.kube.objects import ObjectKey
from accelet.runtime.backoff import Backoff

FIRST_S: Final = 60.0
MOST_S: Final = 3600.0
CHANGED_S: Final = 10.0
"""An object that was changed may be taken by now. Its owner may change it as often as she likes."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    version: str
    at_s: float
    backoff: Backoff


class RefusedStatuses:
    """Plain and synchronous, told the time. Versions are the objects' resource versions."""

    def __init__(self) -> None:
        self._of: dict[ObjectKey, _Refusal] = {}

    def left_s(self, key: ObjectKey, version: str, now_s: float) -> float:
        """For how long nothing is sent; 0 where nothing was refused."""
        found = self._of.get(key)
        if found is None:
            return 0.0
        wait_s = found.backoff.wait_s if found.version == version else CHANGED_S
        return max(0.0, found.at_s + wait_s - now_s)

    def note(self, key: ObjectKey, version: str, now_s: float) -> bool:
        """It was refused; returns whether it was not so the last time, too."""
        found = self._of.get(key)
        backoff = Backoff(FIRST_S, MOST_S) if found is None else found.backoff.failed()
        self._of[key] = _Refusal(version, now_s, backoff)
        return found is None

    def forget(self, key: ObjectKey) -> None:
        """It was taken, or is gone."""
        self._of.pop(key, None)
