"""What Events say of one pod, as the page shows them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from accelet.kube.apiresources import ApiResource
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, Wire, read_object
from accelet.overview.bounds import MOST_SENTENCE, cut, first

EVENTS_OF_PODS: Final = ApiResource("Event", "events")
MOST_EVENTS: Final = 40
MOST_READ: Final = 200
"""So many Events of a pod are asked for: the API server returns them in no order of time."""

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""DNS subdomains, as names of pods and namespaces are."""


class EventBox(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One Event of a pod; `at_s` is when it was last seen, in seconds since the epoch."""

    reason: str
    message: str
    at_s: float = 0.0
    is_warning: bool = False
    count: int = 1


class EventsBox(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest Events of a pod, the newest first; or why they are not known."""

    events: tuple[EventBox, ...] = ()
    more: int = 0
    problem: str = ""


class _Series(Wire, frozen=True):
    count: int | None = None
    last_observed_time: datetime | None = None


class _Event(Wire, frozen=True):
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    event_time: datetime | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    series: _Series | None = None


def is_object_name(text: str) -> bool:
    """Whether a pod or a namespace may be called so, and a field selector may therefore have it."""
    return _NAME.fullmatch(text) is not None


def select_events(pod: str) -> dict[str, str]:
    """The query for the Events of a pod; `pod` is an object name."""
    return {
        "fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod}",
        "limit": str(MOST_READ),
    }


def box_events(raws: Iterable[RawObject]) -> EventsBox:
    """The newest first. An Event that cannot be read is left out."""
    boxes = sorted(_read(raws), key=lambda one: -one.at_s)
    shown, more = first(boxes, MOST_EVENTS)
    return EventsBox(events=shown, more=more)


def _read(raws: Iterable[RawObject]) -> Iterable[EventBox]:
    for raw in raws:
        try:
            event = read_object(raw, "Event", _Event)
        except MalformedObjectError:
            continue
        series = event.series or _Series()
        at = series.last_observed_time or event.last_timestamp or event.event_time or event.first_timestamp
        yield EventBox(
            reason=cut(event.reason or ""),
            message=cut(" ".join((event.message or "").split()), MOST_SENTENCE),
            at_s=(at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() if at else 0.0,
            is_warning=event.type == "Warning",
            count=max(1, series.count or event.count or 1),
        )
