"""One file of sysfs that tells something of a card, and how its text becomes samples."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from accelet.accelerators.sensors.sample import Metric, Sample

Form = Literal["number", "flag", "speed", "reasons", "errors"]
"""`number`: a whole number. `flag`: 0 or 1. `speed`: `16.0 GT/s PCIe`. `reasons`: the names of those that
hold, or `none`. `errors`: lines of a name and a number, of which the last is their sum."""

MOST_REASONS = 16
LONGEST_LABEL = 64
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) GT/s(?: PCIe)?")
_TOTAL = re.compile(r"TOTAL_ERR_[A-Z]+ ([0-9]{1,19})")
_NO_LABEL = re.compile(r"[^a-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class SensorFile:
    """`path` is that of the file below the folder of its card. A number counts in units of `scale`.

    What is not from `least` to `most`, in the metric's units, is nonsense, and no sample. `reasons` are those
    that the driver knows, for the form of that name.
    """

    path: str
    metric: Metric
    labels: tuple[str, ...] = ()
    scale: float = 1.0
    least: float = 0.0
    most: float = float("inf")
    form: Form = "number"
    reasons: tuple[str, ...] = ()


def read_number(text: str) -> int | None:
    """A whole number of at most 64 bits; None for anything else."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is None or -(2**63) <= number < 2**63 else None


def read_samples(source: SensorFile, text: str) -> Iterator[Sample]:
    """What the text of a source says; nothing where it says nonsense."""
    if source.form == "reasons":
        held = {as_label(reason, "other") for reason in text.split()[:MOST_REASONS]} - {"none"}
        for reason in sorted(held.union(source.reasons)):
            yield Sample(source.metric, float(reason in held), (*source.labels, reason))
        return
    value = _read_value(source, text)
    if value is not None and source.least <= value <= source.most:
        yield Sample(source.metric, value, source.labels)


def as_label(text: str, otherwise: str) -> str:
    """Text of the kernel as the value of a label: short, and of few characters."""
    return _NO_LABEL.sub("-", text.strip().lower())[:LONGEST_LABEL].strip("-") or otherwise


def _read_value(source: SensorFile, text: str) -> float | None:
    if source.form == "speed":
        speed = _SPEED.fullmatch(text)
        return float(speed[1]) * source.scale if speed else None
    if source.form == "errors":
        total = _TOTAL.fullmatch(text.rpartition("\n")[2])
        return float(total[1]) if total else None
    number = read_number(text)
    if number is None or (source.form == "flag" and number not in (0, 1)):
        return None
    return number * source.scale
