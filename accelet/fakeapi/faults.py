"""What can be done to a request instead of answering it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Answer:
    """Answer with this status (and Status object) instead."""

    status: int
    reason: str = ""
    message: str = "injected"
    retry_after_s: int | None = None
    causes: tuple[Mapping[str, str], ...] = ()
    raw: bytes | None = None


@dataclass(frozen=True)
class Drop:
    """Close the connection without an answer; `after` the write was done if so."""

    after: bool = False


@dataclass(frozen=True)
class Hang:
    """Never answer, keep the connection open (until the server is closed)."""


@dataclass(frozen=True)
class HoldBack:
    """Make up the answer at once, send it when released."""

    is_made: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


Action = Answer | Drop | Hang | HoldBack


@dataclass
class Fault:
    """Happens to the next `times` requests whose method and path have these parts."""

    action: Action
    method: str = ""
    path: str = ""
    times: int = 1
    watch: bool | None = None
    hits: int = field(default=0, init=False)

    def strikes(self, method: str, path: str, *, is_watch: bool) -> bool:
        if self.hits >= self.times or self.method not in ("", method) or self.path not in path:
            return False
        if self.watch is not None and self.watch != is_watch:
            return False
        self.hits += 1
        return True
