"""What an examination says: verdicts, each with its findings, each of these with its cure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from accelet.runtime.excerpts import printable

Level = Literal["wrong", "unseen", "note"]
"""Something is wrong; it could not be looked at; worth knowing, and nothing is wrong."""

NOTHING_WRONG, SOMETHING_WRONG, COULD_NOT_LOOK = 0, 1, 2

MOST_FINDINGS = 20
"""Of one check: a cluster has thousands of pods, and whoever reads has one screen."""

LONGEST_QUOTE = 400


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `about` names the object: `node-1`, `team-a/train-0`, a path.

    `reason` and `cure` are our own sentences, with names of objects in them. What others have written stands
    in `quote` alone: it is shown, shortened and in printable characters, and never put into a bundle.
    """

    level: Level
    about: str
    reason: str
    cure: str = ""
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check, by the name that stays the same from version to version.

    `fine` says what was found in order. Without it and without findings nothing was there to be judged.
    """

    check: str
    fine: str
    findings: tuple[Finding, ...] = ()

    @property
    def level(self) -> Level | None:
        """The gravest of its findings; None where there is none."""
        return gravest(self.findings)


def gravest(findings: Iterable[Finding]) -> Level | None:
    levels = {finding.level for finding in findings}
    order: tuple[Level, ...] = ("wrong", "unseen", "note")
    return next((level for level in order if level in levels), None)


def judge(check: str, fine: str, findings: Iterable[Finding]) -> Verdict:
    """A verdict with at most MOST_FINDINGS of each level, of which the last one counts the others."""
    return Verdict(check, fine, tuple(_bounded(list(findings))))


def _bounded(findings: Sequence[Finding]) -> Iterator[Finding]:
    levels: tuple[Level, ...] = ("wrong", "unseen", "note")
    for level in levels:
        same = [finding for finding in findings if finding.level == level]
        yield from same[:MOST_FINDINGS]
        if more := same[MOST_FINDINGS:]:
            yield Finding(level, f"{len(more):,} more", "likewise", more[0].cure)


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """0 nothing is wrong, 1 something is, 2 something could not be looked at, and nothing seen is wrong."""
    level = gravest(finding for verdict in verdicts for finding in verdict.findings)
    return {"wrong": SOMETHING_WRONG, "unseen": COULD_NOT_LOOK}.get(level or "", NOTHING_WRONG)


def quoted(text: str) -> str:
    """What others have written, fit to be shown: on one line, printable, and no longer than LONGEST_QUOTE."""
    return printable(" ".join(text[: 4 * LONGEST_QUOTE].split()), LONGEST_QUOTE)


def several(count: int, one: str, many: str = "") -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
