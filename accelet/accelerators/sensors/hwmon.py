"""Energy, temperatures, fans, voltages and limits of power: the sensors of a card's driver.

Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon and sysfs-driver-intel-xe-hwmon.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from accelet.accelerators.hostfiles import read_names, read_text
from accelet.accelerators.sensors import sample
from accelet.accelerators.sensors.sample import Metric
from accelet.accelerators.sensors.sensorfile import SensorFile, as_label

_DRIVERS = ("i915", "xe")
_CHANNEL = re.compile(r"(temp|energy|power|in|fan)([0-9]{1,2})_([a-z_]{1,16})")
_HOTTEST, _MOST_WATTS, _MOST_VOLTS, _MOST_RPM = 150.0, 5000.0, 100.0, 100_000.0


def find_hwmon(device: Path) -> Iterator[SensorFile]:
    """A card has one folder of its driver; sensors of its network or memory chips have other names."""
    for name in read_names(device / "hwmon"):
        folder = f"hwmon/{name}"
        if read_text(device / folder / "name") in _DRIVERS:
            yield from _find_channels(device, folder)
            return


def _find_channels(device: Path, folder: str) -> Iterator[SensorFile]:
    sensors: dict[tuple[str, str], str] = {}
    for name in read_names(device / folder):
        channel = _CHANNEL.fullmatch(name)
        if channel is None:
            continue
        kind, number, what = channel.groups()
        if (kind, number) not in sensors:
            label = _sensor(device, folder, kind, number)
            is_taken = label in {other for (its, _), other in sensors.items() if its == kind}
            sensors[kind, number] = f"{label}-{number}" if is_taken else label
        make = _CHANNELS.get((kind, what)) or _LIMITS.get(kind)
        source = None if make is None else make(f"{folder}/{name}", sensors[kind, number], what)
        if source is not None:
            yield source


def _sensor(device: Path, folder: str, kind: str, number: str) -> str:
    """Where a sensor sits. i915 names none: its first of each kind is the card's, that of heat the chip's."""
    if kind == "fan":
        return number
    label = read_text(device / folder / f"{kind}{number}_label")
    if label is not None:
        return as_label(label, f"{kind}{number}")
    if number == "1":
        return "pkg" if kind == "temp" else "card"
    return f"{kind}{number}"


_Make = Callable[[str, str, str], SensorFile | None]


def _value(metric: Metric, scale: float, least: float, most: float) -> _Make:
    return lambda path, sensor, _: SensorFile(path, metric, (sensor,), scale, least, most)


def _power_limit(path: str, sensor: str, what: str) -> SensorFile | None:
    """0 says that the limit is off."""
    if what not in ("max", "rated_max", "cap", "crit"):
        return None
    return SensorFile(path, sample.POWER_LIMIT, (sensor, what), 1e-6, 1e-6, _MOST_WATTS)


def _temperature_limit(path: str, sensor: str, what: str) -> SensorFile | None:
    if what not in ("max", "crit", "emergency"):
        return None
    return SensorFile(path, sample.TEMPERATURE_LIMIT, (sensor, what), 1e-3, 1.0, _HOTTEST)


_CHANNELS: dict[tuple[str, str], _Make] = {
    ("temp", "input"): _value(sample.TEMPERATURE, 1e-3, 1.0, _HOTTEST),
    ("energy", "input"): _value(sample.ENERGY, 1e-6, 1e-6, float("inf")),
    ("in", "input"): _value(sample.VOLTAGE, 1e-3, 1e-3, _MOST_VOLTS),
    ("fan", "input"): _value(sample.FAN_SPEED, 1.0, 0.0, _MOST_RPM),
}
_LIMITS: dict[str, _Make] = {"power": _power_limit, "temp": _temperature_limit}
