"""Which cards are too hot to be given to anybody, by limits that an administrator sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from accelet.accelerators.sensors.sample import TEMPERATURE, TEMPERATURE_LIMIT, Sample

LOOKS_TO_BE_HOT = 3
COOLED_BY = 5.0
"""Celsius below its limit, at which a card is no longer too hot."""

_CHIP = "pkg"
_MEMORY = "vram"


@dataclass(frozen=True, slots=True)
class HeatLimits:
    """In celsius; None for none. `chip` is for the card's chip, `memory` for its memory and its channels."""

    chip: float | None = None
    memory: float | None = None

    def of(self, sensor: str) -> float | None:
        """Its limit; the second of two sensors of one name, as `vram-3`, has that of the first."""
        sensor = sensor.partition("-")[0]
        if sensor == _CHIP:
            return self.chip
        return self.memory if sensor == _MEMORY or sensor.startswith(f"{_MEMORY}_ch") else None


@dataclass(frozen=True, slots=True)
class Heat:
    """One card's. `looks` counts, by sensor, how often in a row it was at its limit; `hot` has the sensors
    that are too hot, each with its limit; `silent` how often in a row a sensor of these said nothing.
    """

    looks: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    hot: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    silent: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def reason(self) -> str | None:
        """Why the card is not well, as a sentence; None if it is."""
        if not self.hot:
            return None
        sensor, limit = min(self.hot.items())
        return (
            f"it is too hot: its sensor {sensor} reached {limit:g} °C, and has not cooled by {COOLED_BY:g} °C"
        )

    def followed_by(
        self, samples: tuple[Sample, ...], limits: HeatLimits, *, is_active: bool = True
    ) -> "Heat":
        """After one more look. A card that sleeps is not hot.

        Of a sensor that says nothing, the firmware may be busy with the heat: what was known of it stays for
        as many looks as make a card hot. Where the driver tells at which temperature the card protects itself
        (`crit`), a higher limit is lowered to that.
        """
        if not is_active:
            return Heat()
        critical = {
            one.labels[0]: one.value
            for one in samples
            if one.metric is TEMPERATURE_LIMIT and one.labels[1] == "crit"
        }
        looks, hot, silent = {}, {}, {}
        for sample in samples:
            if sample.metric is not TEMPERATURE or (limit := limits.of(sample.labels[0])) is None:
                continue
            sensor = sample.labels[0]
            limit = min(limit, critical.get(sensor, limit))
            looks[sensor] = self.looks.get(sensor, 0) + 1 if sample.value >= limit else 0
            stays = sensor in self.hot and sample.value > limit - COOLED_BY
            if stays or looks[sensor] >= LOOKS_TO_BE_HOT:
                hot[sensor] = limit
        for sensor in self.looks.keys() - looks.keys():
            times = self.silent.get(sensor, 0) + 1
            if times < LOOKS_TO_BE_HOT and limits.of(sensor) is not None:
                looks[sensor], silent[sensor] = self.looks[sensor], times
                if sensor in self.hot:
                    hot[sensor] = self.hot[sensor]
        return Heat(MappingProxyType(looks), MappingProxyType(hot), MappingProxyType(silent))
