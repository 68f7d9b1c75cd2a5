"""What people are told of a gang that waits, for as long as its reason changes."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.recording.eventlog import EventLimits, EventLog, Series
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import GATE_PREFIX, find_gangs
from accelet.scheduler.placement.plan import Plan
from tests.fakes.clocks import FakeClock
from tests.unit.scheduler.values import pod

_LATEST_S = 31.0
"""A reason that is new is read that late at most, when it is looked at each second."""


class Reader:
    """One gang that waits, and what was sent of it, looked at each second of an hour."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = EventLog(EventLimits(), self.clock.now_s())
        self.events = GangEvents(lambda one: self.log.say(one, self.clock.now_s(), "t"), self.clock)
        self.pod = replace(pod("p", labels={"job-name": "j"}), gates=(f"{GATE_PREFIX}j",))
        (self.gang,) = find_gangs([self.pod])

    async def wait_a_second(self, reason: str) -> list[str]:
        """Tells the reason if it may be told; the sentences that are sent now."""
        self.events.tell_waiting([Plan(self.gang, reason=reason)])
        sent = self.sent()
        await self.clock.advance(1.0)
        return sent

    def sent(self) -> list[str]:
        notes = []
        while isinstance(series := self.log.take(self.clock.now_s()), Series):
            series.sent, series.name = series.count, "an-event"
            notes.append(series.message.note)
        return notes


async def test_the_reason_that_is_read_is_never_old_however_long_it_changes() -> None:
    reader, read = Reader(), []
    for second in range(3600):
        sent = await reader.wait_a_second(f"the cluster has {second}")
        read += [second - int(note.rpartition(" ")[2]) for note in sent]
    assert len(read) > 100
    assert max(read) == 0, "what is told is sent at once"
    reader.events.tell(reader.pod, "Normal", "Placed", "1 pod on n0")
    assert "1 pod on n0" in reader.sent(), "and so is what follows"


@given(changes=st.lists(st.integers(0, 120), min_size=1, max_size=12))
async def test_the_last_reason_is_always_told_and_soon(changes: list[int]) -> None:
    """`changes` are for how many seconds each reason holds."""
    reader, read = Reader(), []
    for number, seconds in enumerate(changes):
        for _ in range(seconds):
            read += await reader.wait_a_second(f"reason {number % 3}")
    last = f"reason {len(changes) % 3} and no other"
    for _ in range(int(_LATEST_S)):
        read += await reader.wait_a_second(last)
    assert read[-1] == f"waiting: {last}"
