"""What a kubelet can do wrong on purpose."""

import asyncio
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
import grpc.aio

from accelet.fakekubelet.clock import Clock

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answers with an error."""

    message: str = "refused by the fake kubelet"
    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answers, until the fault is lifted."""


@dataclass(frozen=True, slots=True)
class Late:
    """Answers after so many seconds on the kubelet's clock."""

    seconds: float


Fault = Refuse | Hang | Late


@dataclass(slots=True)
class Answering:
    """How one of the kubelet's services answers. Without a fault it just does."""

    fault: Fault | None = None
    times: int | None = None
    _lifted: asyncio.Event = field(default_factory=asyncio.Event)

    def inject(self, fault: Fault, *, times: int | None = None) -> None:
        """From now on, for the next `times` calls or until it is lifted."""
        self.lift()
        self.fault = fault
        self.times = times

    def lift(self) -> None:
        """Back to normal; calls that hang are answered."""
        self.fault = None
        self.times = None
        self._lifted.set()
        self._lifted = asyncio.Event()

    def next(self) -> Fault | None:
        """The fault of the next call, which counts it."""
        fault = self.fault
        if fault is not None and self.times is not None:
            self.times -= 1
            if self.times == 0:
                self.fault = self.times = None
        return fault

    async def suffer(self, clock: Clock, context: grpc.aio.ServicerContext[_Request, _Response]) -> None:
        """Lets a call go through its fault; returns if it is to be answered after all."""
        match self.next():
            case None:
                return
            case Refuse(message, code):
                await context.abort(code, message)
            case Late(seconds):
                await clock.sleep(seconds)
            case Hang():
                await self._lifted.wait()


@dataclass(frozen=True, slots=True)
class Twice:
    """Calls two times, one after the other or both at once, as for two pods of one claim; the last counts."""

    at_once: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Cancels the call after so many seconds on the kubelet's clock, as at its deadline."""

    after_s: float


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The call is answered, and the answer never comes through."""


CallFault = Twice | GiveUp | LoseAnswer


@dataclass(slots=True)
class Calling:
    """How the kubelet makes one kind of call to a DRA driver. Without a fault it just does."""

    fault: CallFault | None = None
    times: int | None = None

    def inject(self, fault: CallFault, *, times: int | None = None) -> None:
        """From now on, for the next `times` calls or until it is lifted."""
        self.fault, self.times = fault, times

    def lift(self) -> None:
        """Back to normal."""
        self.fault = self.times = None

    def next(self) -> CallFault | None:
        """The fault of the next call, which counts it."""
        fault = self.fault
        if fault is not None and self.times is not None:
            self.times -= 1
            if self.times == 0:
                self.lift()
        return fault


@dataclass(slots=True)
class Faults:
    """Every fault that can be switched on.

    `disk_full` fails each write of the checkpoint. `unknown_fields` makes every request carry a field
    that no plugin of today knows, as a newer kubelet may. `prepare` and `unprepare` are for DRA drivers.
    """

    register: Answering = field(default_factory=Answering)
    pod_resources: Answering = field(default_factory=Answering)
    prepare: Calling = field(default_factory=Calling)
    unprepare: Calling = field(default_factory=Calling)
    disk_full: bool = False
    unknown_fields: bool = False
