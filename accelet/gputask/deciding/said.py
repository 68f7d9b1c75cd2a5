"""What the Events of a Job and of a pod say: why pods are refused, wait, or do not start."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from accelet.gputask.deciding.view import JobReport
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, Wire, read_object

_REFUSED = frozenset(("FailedCreate",))
_WAITING = frozenset(("Waiting", "Refused", "Stranded", "Unbound"))
"""The scheduler's words."""

_STARTING = {
    "FailedMount": "a volume cannot be mounted",
    "FailedAttachVolume": "a volume cannot be attached",
    "FailedMapVolume": "a volume cannot be mapped",
    "FailedCreatePodSandBox": "its pod cannot be set up",
    "FailedPrepareDynamicResources": "its claims cannot be prepared",
    "NetworkNotReady": "the network of its node is not ready",
    "Pulling": "its image is being pulled",
}
"""The kubelet's words, and what they mean."""

_STARTED = frozenset(("Pulled", "Created", "Started"))
"""After these, what was in the way before is so no more."""

_MOST = 900
_MOST_STARTING = 500
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
    for at, reason, message in _read(raws):
        if reason not in _REFUSED | _WAITING:
            continue
        said, is_refused = (at, message[:_MOST]), reason in _REFUSED
        newest[is_refused] = max(newest.get(is_refused, said), said)
    refused, waiting = (newest.get(is_refused, (_NEVER, ""))[1] for is_refused in (True, False))
    return JobReport(job_uid, now_s, again_s, refused, waiting)


def read_pod_events(raws: Iterable[RawObject]) -> str:
    """Why the container of a pod does not run, by the newest Event that tells; empty where none does."""
    told = [one for one in _read(raws) if one[1] in _STARTING or one[1] in _STARTED]
    if not told:
        return ""
    # Events have whole seconds: of one second, what is in the way counts.
    _, reason, message = max(told, key=lambda one: (one[0], one[1] in _STARTING, one[2]))
    if reason in _STARTED:
        return ""
    return _STARTING[reason] if reason == "Pulling" else f"{_STARTING[reason]}: {message[:_MOST_STARTING]}"


def _read(raws: Iterable[RawObject]) -> Iterator[tuple[datetime, str, str]]:
    """When each was last seen, its reason and its message on one line."""
    for raw in raws:
        try:
            event = read_object(raw, "Event", _WireEvent)
        except MalformedObjectError:
            continue
        series = event.series.last_observed_time if event.series is not None else None
        at = series or event.last_timestamp or event.event_time or _NEVER
        message = " ".join((event.message or "").split())
        yield at if at.tzinfo else at.replace(tzinfo=UTC), event.reason or "", message
