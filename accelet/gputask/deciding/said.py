"""What the Events of a Job say: why its pods are refused, and why they wait."""

from collections.abc import Iterable
from datetime import UTC, datetime

from accelet.gputask.deciding.view import JobReport
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, Wire, read_object

_REFUSED = frozenset(("FailedCreate",))
_WAITING = frozenset(("Waiting", "Refused", "Stranded", "Unbound"))
"""The scheduler's words."""

_MOST = 900
_NEVER = datetime.fromtimestamp(0, UTC)


class _WireSeries(Wire, frozen=True):
    last_observed_time: datetime | None = None


class _WireEvent(Wire, frozen=True):
    reason: str | None = None
    message: str | None = None
    event_time: datetime | None = None
    last_timestamp: datetime | None = None
    series: _WireSeries | None = None


def read_events(raws: Iterable[RawObject], job_uid: str, now_s: float, again_s: float) -> JobReport:
    """The newest of each sort. An Event that cannot be read says nothing."""
    newest: dict[bool, tuple[datetime, str]] = {}
    for raw in raws:
        try:
            event = read_object(raw, "Event", _WireEvent)
        except MalformedObjectError:
            continue
        if event.reason not in _REFUSED | _WAITING:
            continue
        series = event.series.last_observed_time if event.series is not None else None
        at = series or event.last_timestamp or event.event_time or _NEVER
        said = (at if at.tzinfo else at.replace(tzinfo=UTC), " ".join((event.message or "").split())[:_MOST])
        is_refused = event.reason in _REFUSED
        newest[is_refused] = max(newest.get(is_refused, said), said)
    refused, waiting = (newest.get(is_refused, (_NEVER, ""))[1] for is_refused in (True, False))
    return JobReport(job_uid, now_s, again_s, refused, waiting)
