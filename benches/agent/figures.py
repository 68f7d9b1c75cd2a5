"""What was measured, as values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["met", "missed"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity of the agent and, where it has one, of the bare plugin.

    `aim` is an upper bound in the same unit, None where none is set.
    """

    name: str
    value: float
    unit: str
    bare: float | None = None
    aim: float | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """None where there is no aim: the figure is recorded only."""
        if self.aim is None:
            return None
        return "met" if self.value <= self.aim else "missed"


@dataclass(frozen=True, slots=True)
class Section:
    """Figures of one measurement."""

    title: str
    figures: tuple[Figure, ...]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)
