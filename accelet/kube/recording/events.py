"""Kubernetes Events about pods and nodes, for those who read `kubectl describe`."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from accelet.kube.apiresources import EVENTS, ObjectApi
from accelet.kube.errors import ExistsError, KubeError, NotFoundError, is_refusal
from accelet.kube.recording.eventlog import EventLimits, EventLog, Message, Series, Subject
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log
from accelet.runtime.waiting import wait_for_hint

_log = Log(__name__)
_LONGEST_NOTE = 1024
_LONGEST_WORD = 128
_LONGEST_NAME = 253
_TRIES = 5


class EventRecorder:
    """Sends what is recorded while `run` runs. Events are for reading only: none is worth a failure.

    `reporter` names the component (`accelet.dev/agent`), `instance` which one of it (its pod's name).
    """

    def __init__(
        self,
        api: ObjectApi,
        reporter: str,
        instance: str,
        *,
        limits: EventLimits | None = None,
        clock: Clock = SYSTEM_CLOCK,
        wall_time: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._reporter, self._instance = api, reporter, instance
        self._clock = clock
        self._wall_time = wall_time
        self._events = EventLog(limits or EventLimits(), self._clock.now_s())
        self._said = asyncio.Event()
        self._number = 0
        self.sent = 0

    @property
    def dropped(self) -> int:
        """How many messages never got to the API server, nor will."""
        return self._events.dropped

    def record(self, message: Message) -> None:
        """Says it, later. Never blocks, never raises; too long texts are cut."""
        cut = replace(
            message,
            reason=message.reason[:_LONGEST_WORD],
            action=message.action[:_LONGEST_WORD],
            note=_cut(message.note, _LONGEST_NOTE),
        )
        self._events.say(cut, self._clock.now_s(), _text(self._wall_time()))
        self._said.set()

    async def run(self) -> None:
        """Sends until it is cancelled."""
        backoff = Backoff(first_s=1.0, most_s=60.0)
        while True:
            self._said.clear()
            match self._events.take(self._clock.now_s()):
                case Series() as series:
                    if await self._send(series):
                        backoff = backoff.worked()
                    else:
                        await self._clock.sleep(backoff.wait_s)
                        backoff = backoff.failed()
                        if backoff.tries >= _TRIES:
                            self._events.drop(series)
                case wait_s:
                    await wait_for_hint(self._said, wait_s, self._clock)

    async def _send(self, series: Series) -> bool:
        """Whether to go on: a series is sent or given up, and False if it should be tried again."""
        count = series.count
        try:
            if series.name:
                await self._count(series, count)
            else:
                await self._begin(series)
        except NotFoundError:
            if not series.name:
                self._events.drop(series)  # the subject's namespace is gone
            series.name = ""  # the Event is older than the API server keeps them: begin anew
            return True
        except ExistsError:
            return True  # another name will do
        except KubeError as error:
            lasting = is_refusal(error)
            if lasting:
                self._events.drop(series)
            _log.warning("event is not sent", error=str(error), reason=series.message.reason)
            return lasting
        series.sent = count
        self.sent += 1
        return True

    async def _begin(self, series: Series) -> None:
        message, subject = series.message, series.message.subject
        namespace = subject.namespace or "default"
        name = self._name(subject)
        body: dict[str, object] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"namespace": namespace, "name": name},
            "eventTime": series.first,
            "type": message.type,
            "reason": message.reason,
            "action": message.action,
            "note": message.note,
            "reportingController": self._reporter[:_LONGEST_WORD],
            "reportingInstance": self._instance[:_LONGEST_WORD],
            "regarding": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "name": subject.name,
                "namespace": subject.namespace,
                "uid": subject.uid,
            },
        }
        if series.count > 1:
            body["series"] = {"count": series.count, "lastObservedTime": series.last}
        await self._api.create(EVENTS, namespace, body)
        series.name = name

    async def _count(self, series: Series, count: int) -> None:
        patch = {"series": {"count": count, "lastObservedTime": series.last}}
        namespace = series.message.subject.namespace or "default"
        await self._api.patch(EVENTS, namespace, series.name, patch, "merge")

    def _name(self, subject: Subject) -> str:
        self._number += 1
        suffix = f".{int(self._wall_time().timestamp() * 1e6):x}{self._number % 256:02x}"
        return subject.name[: _LONGEST_NAME - len(suffix)].rstrip(".-") + suffix


def _cut(text: str, most: int) -> str:
    """At most `most` bytes, as the API counts, cut between characters."""
    if len(text.encode()) <= most:
        return text
    return text.encode()[: most - 3].decode(errors="ignore") + "…"


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
