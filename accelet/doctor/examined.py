"""What was examined, as `--json` shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from accelet.doctor.findings import Verdict


@dataclass(frozen=True, slots=True)
class Examined:
    """All verdicts on one node, or on one cluster."""

    kind: Literal["node", "cluster"]
    name: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything, and how much of it is `wrong` or was `unseen`."""

    wrong: int
    unseen: int
    examined: tuple[Examined, ...]


def sum_up(examined: Sequence[Examined]) -> Examination:
    levels = [finding.level for one in examined for verdict in one.verdicts for finding in verdict.findings]
    return Examination(levels.count("wrong"), levels.count("unseen"), tuple(examined))
