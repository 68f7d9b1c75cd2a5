"""Looks at what the node's cards do, every so often."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from accelet.accelerators.ailments import Ailments
from accelet.accelerators.device import UnitId
from accelet.accelerators.intel.card import Card
from accelet.accelerators.intel.scan import CardFinder, CardScan
from accelet.accelerators.pci import PciAddress
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
"""The longest that a look waits for cards: the firmware of one that is being reset does not answer."""

_USUAL_S = 0.25
"""So long a card is waited for before the next one is asked beside it."""

_BUS = "sys/bus/pci/devices"
_log = Log(__name__)


class ReadsCard(Protocol):
    """Reads one card again and again."""

    def read(self) -> CardLook:
        """Blocks, for seconds where the card is being reset."""
        ...


MakeReader = Callable[[Path, str | None], ReadsCard]


def _until_next(every_s: float) -> float:
    """To the next multiple of it, as scans are made, so that the cards need not be found again for a look."""
    return every_s - asyncio.get_running_loop().time() % every_s


@dataclass(slots=True)
class _KnownCard:
    """One card and what is known of it."""

    card: Card
    reader: ReadsCard
    account: Account = field(default_factory=Account)
    heat: Heat = field(default_factory=Heat)


class CardSensors:
    """Looks while `run` runs, and only where the configuration has it look."""

    def __init__(
        self,
        root: Path,
        scan_cache: ScanCache,
        metrics: CardMetrics,
        ailments: Ailments,
        changed: Callable[[], None],
        *,
        make_reader: MakeReader = CardReader,
        read_s: float = READ_S,
    ) -> None:
        """`ailments` are kept to which cards are too hot; `changed` is called when these are others.

        `make_reader` makes what reads a card, from its folder and its DRM name.
        """
        self._make_reader, self._read_s = make_reader, read_s
        self._root, self._metrics, self._ailments, self._changed = root, metrics, ailments, changed
        self._find = scan_cache(CardFinder)
        self._settings: SensorSettings | None = None
        self._has_settings = asyncio.Event()
        self._cards: dict[UnitId, _KnownCard] = {}
        self._asked: dict[PciAddress, asyncio.Task[CardLook]] = {}
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
        files = Workers("sensors-files", 2)
        try:
            while True:
                self._has_settings.clear()
                settings = self._settings
                if settings is None:
                    self._forget()
                    await self._has_settings.wait()
                else:
                    with self._metrics.look_seconds.time():
                        await self._look(settings, files)
                    await wait_for_hint(self._has_settings, _until_next(settings.every_s))
        finally:
            files.close()

    async def _look(self, settings: SensorSettings, files: Workers) -> None:
        """A card that does not answer in time is told without what is true of a moment only."""
        try:
            async with asyncio.timeout(self._read_s):
                self._take_cards(await files.run(self._find, self._root))
                of_pods = settings.holders
                self.memory = await files.run(lambda: read_card_memory(self._root, of_pods=of_pods))
        except (OSError, TimeoutError) as error:
            self._failing.failed(getattr(error, "strerror", None) or "the files do not answer")
        else:
            self._failing.worked()
        looks = await self._ask_all()
        for unit, known in self._cards.items():
            look = looks.get(unit)
            if look is None:
                known.account = known.account.without_gauges()
            else:
                known.account = known.account.followed_by(look)
                known.heat = known.heat.followed_by(
                    known.account.samples, settings.heat_limits, is_active=look.is_active
                )
        self._metrics.show({str(one.card.pci): self._samples(one) for one in self._cards.values()})
        self._tell({unit: why for unit, one in self._cards.items() if (why := one.heat.reason) is not None})

    def _take_cards(self, scan: CardScan) -> None:
        """Cards that are gone are forgotten; one that comes again in another place begins anew."""
        found = {card.unit: card for card in scan.cards[:MOST_CARDS] if card.pci is not None}
        for unit in self._cards.keys() - found.keys():
            self._metrics.forget(str(self._cards.pop(unit).card.pci))
        for unit, card in found.items():
            known = self._cards.get(unit)
            if known is None or known.card.name != card.name:
                reader = self._make_reader(self._root / _BUS / str(card.pci), card.name)
                self._cards[unit] = _KnownCard(card, reader)

    async def _ask_all(self) -> Mapping[UnitId, CardLook]:
        """What those said that answered in time. Who has not answered yet is not asked again."""
        asked: dict[UnitId, asyncio.Task[CardLook]] = {}
        for unit, known in self._cards.items():
            pci = known.card.pci
            assert pci is not None, "only such cards are taken"
            if pci not in self._asked:
                self._asked[pci] = asyncio.create_task(self._workers.run(known.reader.read))
                await asyncio.wait([self._asked[pci]], timeout=min(_USUAL_S, self._read_s))
            asked[unit] = self._asked[pci]
        if asked:
            await asyncio.wait(asked.values(), timeout=self._read_s)
        looks = {}
        for unit, task in asked.items():
            pci = self._cards[unit].card.pci
            errors = self._metrics.read_errors.labels(str(pci))
            if task.done() and pci is not None:
                del self._asked[pci]
                looks[unit] = task.result()
                errors.inc(looks[unit].errors)
            else:
                errors.inc()
        return looks

    def _samples(self, known: _KnownCard) -> tuple[Sample, ...]:
        sizes = (
            Sample(MEMORY_SIZE, float(size), (region,))
            for (pci, region), size in self.memory.sizes.items()
            if pci == known.card.pci
        )
        return (*known.account.samples, *sizes)

    def _forget(self) -> None:
        """Nobody is to look any more."""
        for known in self._cards.values():
            self._metrics.forget(str(known.card.pci))
        self._cards.clear()
        self.memory = CardMemory()
        self._metrics.show({})
        self._tell({})

    def _tell(self, hot: Mapping[UnitId, str]) -> None:
        if self._ailments.replace(hot):
            self._changed()
