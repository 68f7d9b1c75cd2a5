"""What the agent logged in its container, and when."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line the agent logged."""

    at: datetime
    message: str
    values: Mapping[str, Any]


def parse_log(text: str) -> list[LogLine]:
    """The agent's lines in a container's log, each of which the runtime put its own time before."""
    lines = []
    for line in text.splitlines():
        _, _, _, logged = line.split(" ", 3)  # time, stream, and whether the line is whole
        values = json.loads(logged)
        lines.append(LogLine(datetime.fromisoformat(values.pop("ts")), values.pop("msg"), values))
    return lines


def last(lines: Sequence[LogLine], message: str, resource: str) -> float:
    """When this was last said of a resource, as a Unix time."""
    return max(
        line.at.timestamp()
        for line in lines
        if line.message == message and line.values.get("resource") == resource
    )


def registered_at(lines: Sequence[LogLine], resource: str) -> float:
    return last(lines, "registered", resource)


def registrations_after(moment: float, lines: Sequence[LogLine]) -> list[float]:
    """The Unix times of all registrations since."""
    return [
        line.at.timestamp()
        for line in lines
        if line.message == "registered" and line.at >= datetime.fromtimestamp(moment, UTC)
    ]
