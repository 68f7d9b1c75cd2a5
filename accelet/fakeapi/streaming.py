"""One watch: what it sends, and when it ends."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from accelet.fakeapi.lifecycle import Json
from accelet.fakeapi.paths import Place

if TYPE_CHECKING:
    from accelet.fakeapi.server import FakeApi

_TOO_OLD: Json = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


def stream(
    api: "FakeApi", place: Place, query: dict[str, str], position: int, send: Callable[[Json], None]
) -> bool:
    """Sends events from a version on; returns whether the watch ends in order or breaks."""
    state = api.state
    generation = api.generation
    ends_s = time.monotonic() + float(query.get("timeoutSeconds", 300))
    while True:
        with state.changed:
            events = _events(api, place.resource, position, query)
            if not events and generation == api.generation:
                nap_s = min(api.bookmark_s or 1.0, max(0.0, ends_s - time.monotonic()))
                state.changed.wait(min(nap_s, api.lag_s / 4) if api.lag_s else nap_s)
                events = _events(api, place.resource, position, query)
            latest = state.newest(place.resource, time.monotonic() - api.lag_s)
            is_ended = generation != api.generation
            is_forgotten = position < state.collection(place.resource).floor
        if is_forgotten:
            send({"type": "ERROR", "object": _TOO_OLD})
            return True
        for kind, obj, version in events:
            position = version
            if place.namespace in (None, obj["metadata"].get("namespace")):
                send({"type": kind, "object": obj})
        if is_ended or time.monotonic() >= ends_s:
            return not (is_ended and api.breaks)
        if not events and api.bookmark_s is not None and not api.is_stalled:
            position = max(position, latest)
            if query.get("allowWatchBookmarks") == "true":
                send({"type": "BOOKMARK", "object": _bookmark(position)})


def _bookmark(position: int) -> Json:
    """Bookmarks carry an object of the kind that is empty but for its version."""
    return {"kind": "Any", "metadata": {"resourceVersion": str(position)}, "spec": {}}


def _events(
    api: "FakeApi", resource: str, position: int, query: dict[str, str]
) -> list[tuple[str, Json, int]]:
    if api.is_stalled:
        return []
    return list(api.state.events(resource, position, query, time.monotonic() - api.lag_s))
