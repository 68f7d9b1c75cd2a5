"""Metrics of cards that are told only where there are cards: each of them once."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from accelet.accelerators.sensors.sample import METRICS, Sample
from accelet.agent.cardmetrics import CardMetrics, HeldCard, PodMemory


def labels_of_cards() -> Mapping[str, tuple[str, ...]]:
    """The labels of each, by the name that Prometheus shows."""
    cards = CardMetrics(CollectorRegistry())
    cards.show({"0000:03:00.0": tuple(Sample(one, 1.0, one.labels) for one in METRICS)})
    cards.show_holders(
        [HeldCard("0000:03:00.0", "resource", "namespace", "pod", "main")],
        [PodMemory("0000:03:00.0", "vram0", "namespace", "pod", 1)],
    )
    samples = [sample for family in cards.collect() for sample in family.samples]
    return {sample.name: tuple(sample.labels) for sample in samples}
