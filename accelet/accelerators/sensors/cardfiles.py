"""Which files of sysfs tell something of one card, as its driver and its kernel have them.

Listing folders and reading labels wakes no card.
"""

from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.sensors.gts import find_gts
from accelet.accelerators.sensors.hwmon import find_hwmon
from accelet.accelerators.sensors.link import find_link
from accelet.accelerators.sensors.sample import FREQUENCY_LIMIT, POWER_LIMIT, TEMPERATURE_LIMIT
from accelet.accelerators.sensors.sensorfile import SensorFile

MOST_SOURCES = 256
"""More than any card has: 20 to 40 are usual."""

_LIMITS = {POWER_LIMIT, TEMPERATURE_LIMIT, FREQUENCY_LIMIT}


@dataclass(frozen=True, slots=True)
class CardFiles:
    """`limits` hardly ever change, and some cost a card's firmware milliseconds; `sources` are the rest."""

    sources: tuple[SensorFile, ...] = ()
    limits: tuple[SensorFile, ...] = ()

    @property
    def has_sensors(self) -> bool:
        """Whether the driver's own sensors are among them, which it makes after the card."""
        return any(source.path.startswith("hwmon/") for source in (*self.sources, *self.limits))


def find_files(device: Path, card: str | None) -> CardFiles:
    """What there is below `device`, the real folder of a PCI function, whose DRM name is `card`."""
    found = [*find_hwmon(device), *find_link(device), *find_gts(device, card)][:MOST_SOURCES]
    return CardFiles(
        tuple(source for source in found if source.metric not in _LIMITS),
        tuple(source for source in found if source.metric in _LIMITS),
    )
