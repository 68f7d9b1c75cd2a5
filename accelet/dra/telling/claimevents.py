"""Events on claims whose devices fall ill while they are held, and on what is well again."""

from collections.abc import Iterable, Mapping

from accelet.dra.lateapi import Connect
from accelet.dra.pool import Atom
from accelet.dra.preparing.claim import RESOURCE_CLAIMS
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.notices import HealthNotice, ToldDevices, find_notices
from accelet.kube.recording.eventlog import Message, Subject
from accelet.kube.recording.events import EventRecorder

REPORTER = "accelet.dev/agent"
_ACTION = "WatchHealth"


class ClaimEvents:
    """Says what it is told once there is a way to the API server, while `run` runs."""

    def __init__(self, connect: Connect, node: str) -> None:
        self._connect, self._node = connect, node
        self._recorder: EventRecorder | None = None
        self._told: ToldDevices = frozenset()

    async def run(self) -> None:
        """Sends Events for ever."""
        self._recorder = EventRecorder(await self._connect(), REPORTER, self._node)
        try:
            await self._recorder.run()
        finally:
            self._recorder = None

    def tell(self, entries: Iterable[Entry], sick: Mapping[Atom, str]) -> None:
        """Compares what claims hold with what is ill; before there is a way, it is not yet said."""
        if self._recorder is None:
            return
        notices, self._told = find_notices(entries, sick, self._told)
        for notice in notices:
            self._recorder.record(_message(notice))


def _message(notice: HealthNotice) -> Message:
    subject = Subject(
        RESOURCE_CLAIMS.kind, notice.claim, notice.namespace, notice.uid, RESOURCE_CLAIMS.api_version
    )
    if notice.is_well:
        return Message(subject, "Normal", "DeviceHealthy", _ACTION, notice.note)
    return Message(subject, "Warning", "DeviceUnhealthy", _ACTION, notice.note)
