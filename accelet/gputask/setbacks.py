"""Why nothing was made of originals lately, so that who was refused takes no turns from the others."""

from dataclasses import dataclass
from typing import Final

from accelet.gputask.original import OriginalTask
from accelet.kinds.originaltask import OriginalTaskSpec
from accelet.kube.objects import ObjectKey
from accelet.runtime.backoff import Backoff

AGAIN_S: Final = 30.0
"""For so long what was seen of a namespace holds, and at first an original is left alone."""

MOST_S: Final = 480.0


@dataclass(frozen=True, slots=True)
class _Setback:
    uid: str
    spec: OriginalTaskSpec
    until_s: float
    backoff: Backoff


class Setbacks:
    """Of each original that the API server has refused: until when it is left alone. Told the time."""

    def __init__(self) -> None:
        self._of: dict[ObjectKey, _Setback] = {}

    def left_s(self, one: OriginalTask, now_s: float) -> float:
        """For how long it is left alone; 0 for another one of its name, and for one that was changed."""
        found = self._of.get(one.key)
        if found is None or (found.uid, found.spec) != (one.uid, one.spec):
            return 0.0
        return max(0.0, found.until_s - now_s)

    def note(self, one: OriginalTask, now_s: float) -> float:
        """It was refused; returns for how long it is left alone, each time twice as long."""
        found = self._of.get(one.key)
        is_same = found is not None and (found.uid, found.spec) == (one.uid, one.spec)
        backoff = found.backoff if found is not None and is_same else Backoff(AGAIN_S, MOST_S)
        self._of[one.key] = _Setback(one.uid, one.spec, now_s + backoff.wait_s, backoff.failed())
        return backoff.wait_s

    def forget(self, key: ObjectKey) -> None:
        self._of.pop(key, None)


class StrayLooks:
    """What was seen of stray pods in each namespace, for `AGAIN_S`. Told the time."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, str]] = {}

    def known(self, namespace: str, now_s: float) -> str | None:
        """What was seen, empty for none; None if that is too long ago."""
        until_s, stray = self._seen.get(namespace, (now_s, ""))
        return stray if until_s > now_s else None

    def note(self, namespace: str, stray: str, now_s: float) -> None:
        self._seen = {name: seen for name, seen in self._seen.items() if seen[0] > now_s}
        self._seen[namespace] = now_s + AGAIN_S, stray
