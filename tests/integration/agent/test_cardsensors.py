"""Cards that do not answer, and looks that fail."""

import asyncio
import threading
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from accelet.accelerators.ailments import Ailments
from accelet.accelerators.intel.scan import CardFinder, CardScan
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.accelerators.sensors.cardlook import CardLook, CardReader
from accelet.accelerators.sensors.settings import SensorSettings
from accelet.agent.cardmetrics import CardMetrics
from accelet.agent.cardsensors import CardSensors
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.sensors import device, write_files, write_i915
from tests.integration.agent.running import until

CARD, OTHER = Gpu(3, "0000:03:00.0"), Gpu(4, "0000:04:00.0")
SETTINGS = [SensorSettings(every_s=every_s, temperature_limit=90) for every_s in range(200, 220)]


class HangingReader:
    """The reader of a card whose firmware answers only while `answers` is set."""

    answers = threading.Event()
    asked = 0

    def __init__(self, folder: Path, card: str | None) -> None:
        self._reader, self._hangs = CardReader(folder, card), folder.name == CARD.pci

    def read(self) -> CardLook:
        if self._hangs:
            type(self).asked += 1
            assert self.answers.wait(60)
        return self._reader.read()


class Looking:
    """CardSensors beside what they show and tell."""

    def __init__(self, root: Path, cache: ScanCache = uncached, **how: object) -> None:
        self.registry, self.ailments, self.changes = CollectorRegistry(), Ailments(), 0
        self.sensors = CardSensors(
            root,
            cache,
            CardMetrics(self.registry),
            self.ailments,
            self._note,
            **how,  # type: ignore[arg-type]  # as the test says
        )
        self._settings = iter(SETTINGS)

    def _note(self) -> None:
        self.changes += 1

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def apply_next(self) -> None:
        self.sensors.apply(next(self._settings))

    async def look(self) -> None:
        """A change of the settings has them look at once."""
        name = "accelet_card_look_duration_seconds_count"
        before = self.registry.get_sample_value(name) or 0
        self.apply_next()
        await until(lambda: (self.registry.get_sample_value(name) or 0) > before)


@pytest.fixture
def root(folder: Path) -> Path:
    write_gpus(folder, [CARD, OTHER])
    for card in (CARD, OTHER):
        write_i915(folder, card)
        write_files(device(folder, card) / "hwmon/hwmon3", {"temp1_input": 95_000})
    return folder


async def test_a_card_that_hangs_is_not_asked_again_and_harms_no_other(root: Path) -> None:
    HangingReader.answers.set()
    looking = Looking(root, make_reader=HangingReader, read_s=1.0)
    running = asyncio.create_task(looking.sensors.run())
    try:
        await looking.look()
        assert looking.value("accelet_card_temperature_celsius", pci=CARD.pci, sensor="pkg") == 95
        HangingReader.answers.clear()
        asked = HangingReader.asked
        for _ in range(2):
            await looking.look()
        assert HangingReader.asked == asked + 1
        assert looking.value("accelet_card_temperature_celsius", pci=CARD.pci, sensor="pkg") is None
        assert looking.value("accelet_card_active", pci=CARD.pci) is None
        assert looking.value("accelet_card_energy_joules_total", pci=CARD.pci, sensor="card") == 0
        assert looking.value("accelet_card_temperature_celsius", pci=OTHER.pci, sensor="pkg") == 95
        assert looking.value("accelet_card_read_errors_total", pci=CARD.pci) == 2
        looking.sensors.apply(None)
        await until(lambda: looking.value("accelet_card_active", pci=OTHER.pci) is None)
        await looking.look()
        assert HangingReader.asked == asked + 1, "also after it was switched off and on"
        HangingReader.answers.set()
        await looking.look()
        assert looking.value("accelet_card_active", pci=CARD.pci) == 1
    finally:
        HangingReader.answers.set()
        running.cancel()


class BreakingFinder(CardFinder):
    """Finds cards, unless it `breaks`."""

    breaks = False

    def __call__(self, root: Path) -> CardScan:
        if self.breaks:
            raise RuntimeError("can't start new thread")
        return super().__call__(root)


async def test_a_look_that_fails_by_a_fault_makes_no_hot_card_well_and_the_next_run_looks_again(
    root: Path,
) -> None:
    finder = BreakingFinder()
    looking = Looking(root, lambda _: finder)  # type: ignore[arg-type]  # the only scan that is asked for
    running = asyncio.create_task(looking.sensors.run())
    for _ in range(3):
        await looking.look()
    assert looking.changes == 1, "two cards were found too hot"
    finder.breaks = True
    looking.apply_next()
    with pytest.raises(RuntimeError):
        await running
    assert looking.changes == 1
    finder.breaks = False
    for card in (CARD, OTHER):
        write_files(device(root, card) / "hwmon/hwmon3", {"temp1_input": 60_000})
    running = asyncio.create_task(looking.sensors.run())
    await until(lambda: looking.changes == 2)
    running.cancel()
