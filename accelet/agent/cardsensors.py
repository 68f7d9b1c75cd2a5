"""Looks at what the node's cards do, every so often."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accelet.accelerators.ailments import Ailments
from accelet.accelerators.device import UnitId
from accelet.accelerators.intel.card import Card
from accelet.accelerators.intel.scan import CardFinder
from accelet.accelerators.scancache import ScanCache
from accelet.accelerators.sensors.account import Account
from accelet.accelerators.sensors.cardlook import CardLook, CardReader
from accelet.accelerators.sensors.heat import Heat
from accelet.accelerators.sensors.podmemory import CardMemory, read_card_memory
from accelet.accelerators.sensors.sample import MEMORY_SIZE, Sample
from accelet.accelerators.sensors.settings import SensorSettings
from accelet.agent.cardmetrics import CardMetrics
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.threads import Workers
from accelet.runtime.waiting import wait_for_hint

MOST_CARDS = 64
READ_S = 5.0
"""The longest that a look waits for one card: the firmware of one that is being reset does not answer."""

_BUS = "sys/bus/pci/devices"
_log = Log(__name__)


def _until_next(every_s: float) -> float:
    """To the next multiple of it, as scans are made, so that the cards need not be found again for a look."""
    return every_s - asyncio.get_running_loop().time() % every_s


@dataclass(slots=True)
class _Looked:
    """One card and what is known of it; `hanging` is a look at it that has not come back."""

    card: Card
    reader: CardReader
    account: Account = field(default_factory=Account)
    heat: Heat = field(default_factory=Heat)
    hanging: "asyncio.Task[CardLook] | None" = None


class CardSensors:
    """Looks while `run` runs, and only where the configuration has it look."""

    def __init__(
        self,
        root: Path,
        scan_cache: ScanCache,
        metrics: CardMetrics,
        ailments: Ailments,
        changed: Callable[[], None],
    ) -> None:
        """`ailments` are kept to which cards are too hot; `changed` is called when these are others."""
        self._root, self._metrics, self._ailments, self._changed = root, metrics, ailments, changed
        self._find = scan_cache(CardFinder)
        self._settings: SensorSettings | None = None
        self._has_settings = asyncio.Event()
        self._cards: dict[UnitId, _Looked] = {}
        self._workers = Workers("sensors", MOST_CARDS)
        self._failing = Failing(_log, "cannot look for cards", "looks for cards again")
        self.memory = CardMemory()

    def apply(self, settings: SensorSettings | None) -> None:
        """Looks as these say from here on; None: not at all."""
        if settings != self._settings:
            self._settings = settings
            self._has_settings.set()

    async def run(self) -> None:
        """Looks for ever."""
        try:
            while True:
                self._has_settings.clear()
                settings = self._settings
                if settings is None:
                    self._forget()
                    await self._has_settings.wait()
                else:
                    with self._metrics.look_seconds.time():
                        await self._look(settings)
                    await wait_for_hint(self._has_settings, _until_next(settings.every_s))
        finally:
            self._forget()
            self._workers.close()

    async def _look(self, settings: SensorSettings) -> None:
        await self._find_cards()
        for looked in list(self._cards.values()):
            reading = await self._read(looked)
            if reading is not None:
                looked.account = looked.account.followed_by(reading)
                looked.heat = looked.heat.followed_by(looked.account.samples, settings.heat_limits)
        self.memory = await self._workers.run(lambda: read_card_memory(self._root, of_pods=settings.holders))
        self._metrics.show({str(one.card.pci): self._samples(one) for one in self._cards.values()})
        hot = {unit: reason for unit, one in self._cards.items() if (reason := one.heat.reason) is not None}
        self._tell(hot)

    async def _find_cards(self) -> None:
        """Cards that are gone are forgotten; one that comes again in another place begins anew."""
        try:
            scan = await self._workers.run(self._find, self._root)
        except OSError as error:
            self._failing.failed(error.strerror or "it cannot be listed")
            return
        self._failing.worked()
        found = {card.unit: card for card in scan.cards[:MOST_CARDS] if card.pci is not None}
        for unit in self._cards.keys() - found.keys():
            del self._cards[unit]
        for unit, card in found.items():
            known = self._cards.get(unit)
            if known is None or known.card.name != card.name:
                self._cards[unit] = _Looked(card, CardReader(self._root / _BUS / str(card.pci), card.name))

    async def _read(self, looked: _Looked) -> CardLook | None:
        """None where the card did not answer in time; its thread waits on, and nobody asks it meanwhile."""
        errors = self._metrics.read_errors.labels(str(looked.card.pci))
        if looked.hanging is not None and not looked.hanging.done():
            errors.inc()
            return None
        looked.hanging = asyncio.create_task(self._workers.run(looked.reader.read))
        await asyncio.wait([looked.hanging], timeout=READ_S)
        if not looked.hanging.done():
            errors.inc()
            return None
        reading = looked.hanging.result()
        looked.hanging = None
        errors.inc(reading.errors)
        return reading

    def _samples(self, looked: _Looked) -> tuple[Sample, ...]:
        sizes = (
            Sample(MEMORY_SIZE, float(size), (region,))
            for (pci, region), size in self.memory.sizes.items()
            if pci == looked.card.pci
        )
        return (*looked.account.samples, *sizes)

    def _forget(self) -> None:
        self._cards.clear()
        self.memory = CardMemory()
        self._metrics.show({})
        self._tell({})

    def _tell(self, hot: Mapping[UnitId, str]) -> None:
        if self._ailments.replace(hot):
            self._changed()
