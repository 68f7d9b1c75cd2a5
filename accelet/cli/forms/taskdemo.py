"""What `accelet demo tasks` prints with --json."""

import msgspec

from accelet.scheduler.cards.view import ClusterView


class ShownStep(msgspec.Struct, frozen=True):
    """A phase that the Move came to, and what that says."""

    phase: str
    text: str


class TasksReport(msgspec.Struct, frozen=True):
    """Everything `accelet demo tasks` shows.

    `why` is what `big` waits for, and `gain` what the Move of `moved` is good for, in the scheduler's words.
    `waited_s` is from when it was submitted until it ran.
    """

    big: str
    why: str
    before: ClusterView
    moved: str
    to: str
    gain: str
    steps: tuple[ShownStep, ...]
    after: ClusterView
    waited_s: float
