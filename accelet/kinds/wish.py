"""A person's wish to have a task moved: one annotation on its GPUTask, answered with a Move."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

MOVE_TO: Final = "accelet.dev/move-to"
"""On a GPUTask: `NODE TIME`, or `* TIME` for any nodes but its own.

TIME, in RFC 3339, is when that was asked.
"""

WISHED_FOR_S: Final = 600.0
"""An older wish is none: it stays on its task, and must not move it again."""

_ANYWHERE = "*"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MOST_TEXT = 253 + 1 + 64


@dataclass(frozen=True, slots=True)
class MoveWish:
    """`to` is a node's name, None for any but the task's own; `asked_s` in seconds since the epoch."""

    to: str | None
    asked_s: float

    def is_present(self, now_s: float) -> bool:
        """Whether it was asked for lately, by clocks that may differ."""
        return abs(now_s - self.asked_s) <= WISHED_FOR_S


def render_wish(to: str | None, now: datetime) -> str:
    """The annotation's text. `now` has a time zone."""
    return f"{to or _ANYWHERE} {now.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def parse_wish(text: str) -> MoveWish | None:
    """What the annotation says; None for none, and for one that cannot be read."""
    to, _, time = text.partition(" ")
    if len(text) > _MOST_TEXT or not (to == _ANYWHERE or _NAME.fullmatch(to)):
        return None
    try:
        asked = datetime.fromisoformat(time)
        return MoveWish(None if to == _ANYWHERE else to, asked.timestamp()) if asked.tzinfo else None
    except (ValueError, OverflowError):
        return None
