"""What cards do and who holds them, as Prometheus reads it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from accelet.accelerators.sensors.sample import METRICS, Metric, Sample

Family = GaugeMetricFamily | CounterMetricFamily


@dataclass(frozen=True, slots=True, order=True)
class HeldCard:
    """A container that has a card, or a part of it, as a resource."""

    pci: str
    resource: str
    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class PodMemory:
    """A pod's memory in one region of a card, in bytes."""

    pci: str
    region: str
    namespace: str
    pod: str
    used: int


class CardMetrics(Collector):
    """The cards as they were last shown. Collected on the thread of whoever asks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cards: Mapping[str, tuple[Sample, ...]] = {}
        self._held: tuple[HeldCard, ...] = ()
        self._memory: tuple[PodMemory, ...] = ()
        self.read_errors = Counter(
            "accelet_card_read_errors_total",
            "Files of a card that could not be read, and looks that took too long.",
            ["pci"],
            registry=registry,
        )
        self.look_seconds = Histogram(
            "accelet_card_look_duration_seconds",
            "Time of one look at all cards.",
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0),
            registry=registry,
        )
        self._failures = Counter(
            "accelet_card_look_failures_total",
            "Looks at the cards that ended by a fault of the agent.",
            registry=registry,
        )
        registry.register(self)

    def count_failure(self) -> None:
        self._failures.inc()

    def forget(self, pci: str) -> None:
        """The card is gone, or nobody looks at it any more."""
        with suppress(KeyError):  # it was never looked at
            self.read_errors.remove(pci)

    def show(self, cards: Mapping[str, tuple[Sample, ...]]) -> None:
        """What is told of each card, by its PCI address, from here on."""
        self._cards = cards

    def show_holders(self, held: Iterable[HeldCard], memory: Iterable[PodMemory]) -> None:
        self._held, self._memory = tuple(held), tuple(memory)

    def describe(self) -> list[Family]:
        """All there may be, without samples."""
        return [*(_family(metric) for metric in METRICS), _holders(()), _pod_memory(())]

    def collect(self) -> Iterator[Family]:
        cards, held, memory = self._cards, self._held, self._memory
        families = {metric: _family(metric) for metric in METRICS}
        for pci, samples in cards.items():
            for sample in samples:
                families[sample.metric].add_metric([pci, *sample.labels], sample.value)
        yield from families.values()
        yield _holders(held)
        yield _pod_memory(memory)


def _family(metric: Metric) -> Family:
    labels = ["pci", *metric.labels]
    if metric.family == "counter":
        return CounterMetricFamily(metric.name, metric.help, labels=labels)
    return GaugeMetricFamily(metric.name, metric.help, labels=labels)


def _holders(held: tuple[HeldCard, ...]) -> Family:
    family = GaugeMetricFamily(
        "accelet_card_allocated",
        "The containers that have a card, or a part of it.",
        labels=["pci", "resource", "namespace", "pod", "container"],
    )
    for one in held:
        family.add_metric([one.pci, one.resource, one.namespace, one.pod, one.container], 1.0)
    return family


def _pod_memory(memory: tuple[PodMemory, ...]) -> Family:
    family = GaugeMetricFamily(
        "accelet_card_pod_memory_bytes",
        "Memory of a card that a pod has, by the dmem cgroup.",
        labels=["pci", "region", "namespace", "pod"],
    )
    for one in memory:
        family.add_metric([one.pci, one.region, one.namespace, one.pod], float(one.used))
    return family
