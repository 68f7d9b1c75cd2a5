"""From one look at a card to the next: counters that only grow, whatever the card's own do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from accelet.accelerators.sensors.cardlook import CardLook
from accelet.accelerators.sensors.sample import AWAKE, ENERGY, IS_ACTIVE, PCIE_ERRORS, Sample

MOST_WATTS = 5000.0
"""No card uses more: a counter that grew faster was set anew."""

DOUBTS = 3
"""So many looks in a row must contradict what was known before it is given up: single samples are nonsense
where a card's firmware did not answer (xe's Battlemage then says 0)."""

_SLACK_S = 1.0

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counter:
    """`total` grew since the first look; `last` is what the card's own counter said at `at_s`."""

    last: float
    at_s: float
    suspended_s: float = 0.0
    total: float = 0.0
    doubts: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of one card by all looks at it. `samples` are what is to be told of it now."""

    energy: Mapping[Labels, Counter] = field(default_factory=lambda: MappingProxyType({}))
    awake: Mapping[Labels, Counter] = field(default_factory=lambda: MappingProxyType({}))
    samples: tuple[Sample, ...] = ()

    def followed_by(self, reading: CardLook) -> "Account":
        """After one more look. Of a card that sleeps, the counters stand and nothing else is told."""
        energy, awake = dict(self.energy), dict(self.awake)
        for sample in reading.samples:
            if sample.metric is ENERGY:
                energy[sample.labels] = _add_energy(energy.get(sample.labels), sample.value, reading)
            elif sample.metric is AWAKE:
                awake[sample.labels] = _add_awake(awake.get(sample.labels), sample.value, reading)
        told = (
            Sample(IS_ACTIVE, float(reading.is_active)),
            *(Sample(ENERGY, counter.total, labels) for labels, counter in energy.items()),
            *(Sample(AWAKE, counter.total, labels) for labels, counter in awake.items()),
            *_sum_errors(reading.samples),
            *(one for one in reading.samples if one.metric not in (ENERGY, AWAKE, PCIE_ERRORS)),
        )
        return Account(MappingProxyType(energy), MappingProxyType(awake), told)

    def without_gauges(self) -> "Account":
        """As long as the card does not answer: what is true of a moment only is not known."""
        return replace(self, samples=tuple(one for one in self.samples if one.metric.family == "counter"))


def _add_energy(before: Counter | None, joules: float, reading: CardLook) -> Counter:
    if before is None:
        return Counter(joules, reading.at_s)
    more, passed_s = joules - before.last, reading.at_s - before.at_s
    if 0 <= more <= MOST_WATTS * (passed_s + _SLACK_S):
        return Counter(joules, reading.at_s, total=before.total + more)
    if before.doubts + 1 < DOUBTS:
        return replace(before, doubts=before.doubts + 1)
    return Counter(joules, reading.at_s, total=before.total)


def _add_awake(before: Counter | None, idle_s: float, reading: CardLook) -> Counter:
    """A card that sleeps rests too, though its own counter may not say so.

    After a reset the card's counter begins anew, which drivers take for its wrap of 91 minutes: time in which
    it rested longer than there was is not judged.
    """
    counter = Counter(idle_s, reading.at_s, reading.suspended_s, 0.0 if before is None else before.total)
    if before is None:
        return counter
    passed_s = reading.at_s - before.at_s
    rested_s, slept_s = idle_s - before.last, max(0.0, reading.suspended_s - before.suspended_s)
    if not 0 <= rested_s <= passed_s + _SLACK_S:
        return counter
    return replace(counter, total=before.total + min(passed_s, max(0.0, passed_s - rested_s - slept_s)))


def _sum_errors(samples: tuple[Sample, ...]) -> Iterator[Sample]:
    sums: dict[Labels, float] = {}
    for sample in samples:
        if sample.metric is PCIE_ERRORS:
            sums[sample.labels] = sums.get(sample.labels, 0.0) + sample.value
    for labels, total in sums.items():
        yield Sample(PCIE_ERRORS, total, labels)
