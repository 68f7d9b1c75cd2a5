"""Runs a scenario against a kubelet, fake or real, and says what the plugin did wrong."""

from dataclasses import dataclass, replace
from typing import Protocol

from accelet.fakekubelet.scenario.format import Scenario, Step
from accelet.fakekubelet.trace import Event, Trace


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a step. `detail` is the same with a fake and a real kubelet: no ids, uids, times.

    `problem` is what the plugin did wrong, if it did.
    """

    detail: str
    resource: str | None = None
    pod: str | None = None
    container: str | None = None
    problem: str | None = None


class Target(Protocol):
    """A kubelet that scenarios can be played on. What it cannot do it refuses with UnsupportedStepError."""

    async def perform(self, step: Step) -> Outcome: ...


class UnsupportedStepError(Exception):
    """The kubelet cannot be made to do that."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What the plugin did wrong, in which step (from 1)."""

    step: int
    action: str
    text: str

    def __str__(self) -> str:
        return f"step {self.step} ({self.action}): {self.text}"


async def play(scenario: Scenario, target: Target, trace: Trace) -> list[Problem]:
    """Performs every step in order, whatever comes of it, and records each outcome in `trace`.

    Raises:
        UnsupportedStepError: `target` cannot do a step.
    """
    problems = []
    for number, step in enumerate(scenario.steps, 1):
        outcome = await target.perform(step)
        trace.record(
            STEP_PREFIX + step.name,
            resource=outcome.resource,
            pod=outcome.pod,
            container=outcome.container,
            detail=outcome.detail,
        )
        if outcome.problem is not None:
            problems.append(Problem(number, step.name, outcome.problem))
    return problems


def standing_problems(trace: Trace) -> list[str]:
    """What is wrong in every scenario: two streams of one resource at once."""
    live: dict[str, int] = {}
    doubled: dict[str, float] = {}
    for event in trace:
        if event.event == "kubelet-stopped":
            live.clear()
        elif event.resource is not None and event.event in ("watch", "stream-ended"):
            live[event.resource] = live.get(event.resource, 0) + (1 if event.event == "watch" else -1)
            if live[event.resource] > 1:
                doubled.setdefault(event.resource, event.t)
    return [
        f"{resource} had two streams at {at:.3f} s: up to 1.36 the end of the old one kills the new one"
        for resource, at in doubled.items()
    ]


STEP_PREFIX = "step:"
"""What the events of steps begin with; all others are the fake kubelet's own."""


def comparable(trace: Trace) -> list[Event]:
    """The outcomes of the steps without their times: equal for a fake and a real kubelet alike."""
    return [replace(event, t=0.0, devices=()) for event in trace if event.event.startswith(STEP_PREFIX)]
