"""Which Events are to be sent, and when: plain and synchronous, told the time."""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Literal

from accelet.kube.pods import Pod


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"

    @classmethod
    def of_pod(cls, pod: Pod) -> "Subject":
        return cls("Pod", pod.name, pod.namespace, pod.uid)


@dataclass(frozen=True, slots=True)
class Message:
    """What is said of a subject: `reason` and `action` are words in UpperCamelCase, `note` a sentence."""

    subject: Subject
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class Series:
    """One message and how often it was said. `name` is the Event's, once the API server has it."""

    message: Message
    first: str
    last: str
    said_s: float
    count: int = 1
    name: str = ""
    sent: int = 0


@dataclass(slots=True)
class Bucket:
    """Tokens that come back at `per_s` up to `most`."""

    most: float
    per_s: float
    tokens: float
    at_s: float

    def refill(self, now_s: float) -> None:
        self.tokens = min(self.most, self.tokens + (now_s - self.at_s) * self.per_s)
        self.at_s = now_s

    def wait_s(self) -> float:
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / self.per_s


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How much is sent: of each subject, and in all; how much is remembered, and for how long."""

    burst_each: float = 5.0
    per_s_each: float = 1 / 30
    burst: float = 50.0
    per_s: float = 5.0
    remembered: int = 1000
    quiet_s: float = 360.0


@dataclass(slots=True)
class EventLog:
    """Messages that were said, as series.

    The same message again raises its series' count, which is sent when its turn comes; a message not said
    for `quiet_s` begins a new series. When more than `remembered` series are open, the one that was said
    longest ago goes, of the namespace that has most, and what was not sent of it counts as dropped.
    Namespaces take turns: whoever has much to be told of keeps nobody else waiting.
    """

    limits: EventLimits
    now_s: float
    dropped: int = 0
    _open: OrderedDict[Message, Series] = field(default_factory=OrderedDict)
    _unsent: dict[Message, Series] = field(default_factory=dict)
    _each: dict[Subject, Bucket] = field(default_factory=dict)
    _open_of: Counter[str] = field(default_factory=Counter)
    _served: dict[str, int] = field(default_factory=dict)
    _turn: int = 0
    _all: Bucket = field(init=False)

    def __post_init__(self) -> None:
        self._all = Bucket(self.limits.burst, self.limits.per_s, self.limits.burst, self.now_s)

    def say(self, message: Message, now_s: float, time: str) -> None:
        series = self._open.get(message)
        if series is None:
            series = self._open[message] = Series(message, time, time, now_s)
            self._open_of[message.subject.namespace] += 1
        else:
            series.count, series.last, series.said_s = series.count + 1, time, now_s
            self._open.move_to_end(message)
        self._unsent.setdefault(message, series)
        while len(self._open) > self.limits.remembered:
            oldest = self._oldest_of_most()
            self._close(oldest.message)
            self.dropped += oldest.count - oldest.sent

    def take(self, now_s: float) -> Series | float | None:
        """A series to be sent now, or the seconds until there may be one, or None if there is none."""
        self._forget(now_s)
        self._all.refill(now_s)
        for message in [message for message, series in self._unsent.items() if series.sent >= series.count]:
            del self._unsent[message]
        if (wait_s := self._all.wait_s()) > 0:
            return wait_s if self._unsent else None
        soonest_s: float | None = None
        chosen: Series | None = None
        before = self._turn + 1
        for series in self._unsent.values():
            # When something of its namespace was sent last; never is before all others.
            turn = self._served.get(series.message.subject.namespace, 0)
            if turn >= before:
                continue
            if (wait_s := self._bucket(series.message.subject, now_s).wait_s()) == 0:
                chosen, before = series, turn
            elif chosen is None:
                soonest_s = wait_s if soonest_s is None else min(soonest_s, wait_s)
        if chosen is None:
            return soonest_s
        self._bucket(chosen.message.subject, now_s).tokens -= 1
        self._all.tokens -= 1
        self._turn += 1
        self._served[chosen.message.subject.namespace] = self._turn
        return chosen

    def drop(self, series: Series) -> None:
        """Gives a series up: the API server will not have it."""
        if self._open.get(series.message) is series:
            self._close(series.message)
        self.dropped += series.count - series.sent

    def _oldest_of_most(self) -> Series:
        most = max(self._open_of.values())
        return next(
            series
            for message, series in self._open.items()
            if self._open_of[message.subject.namespace] == most
        )

    def _close(self, message: Message) -> None:
        del self._open[message]
        self._unsent.pop(message, None)
        namespace = message.subject.namespace
        self._open_of[namespace] -= 1
        if not self._open_of[namespace]:
            del self._open_of[namespace]
            self._served.pop(namespace, None)

    def _bucket(self, subject: Subject, now_s: float) -> Bucket:
        limits = self.limits
        bucket = self._each.get(subject)
        if bucket is None:
            bucket = Bucket(limits.burst_each, limits.per_s_each, limits.burst_each, now_s)
            self._each[subject] = bucket
        bucket.refill(now_s)
        return bucket

    def _forget(self, now_s: float) -> None:
        while self._open:
            series = next(iter(self._open.values()))
            if series.sent < series.count or now_s - series.said_s < self.limits.quiet_s:
                break
            self._close(series.message)
        if len(self._each) > 2 * self.limits.remembered:
            # A full bucket says no more than none at all.
            for bucket in self._each.values():
                bucket.refill(now_s)
            self._each = {s: b for s, b in self._each.items() if b.tokens < b.most}
