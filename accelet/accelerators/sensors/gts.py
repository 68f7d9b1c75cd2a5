"""Frequency, throttling and rest of a card's graphics technology blocks (GTs), in which its engines are."""

import re
from collections.abc import Iterator
from pathlib import Path

from accelet.accelerators.hostfiles import read_names, read_text
from accelet.accelerators.sensors import sample
from accelet.accelerators.sensors.sensorfile import SensorFile, as_label

_GT = re.compile(r"gt[0-9]{1,2}")
_TILE = re.compile(r"tile[0-9]{1,2}")
_MOST_HERTZ = 1e10


def find_gts(device: Path, card: str | None) -> Iterator[SensorFile]:
    """i915 has them below the DRM card, xe below the tiles of the PCI function."""
    if card is not None:
        yield from _find_i915_gts(device, f"drm/{card}/gt")
    for tile in _numbered(device, "", _TILE):
        yield from _find_xe_gts(device, tile)


def _find_i915_gts(device: Path, folder: str) -> Iterator[SensorFile]:
    for gt in _numbered(device, folder, _GT):
        place = f"{folder}/{gt}"
        names, where = set(read_names(device / place)), ("0", gt[2:])
        if "rps_act_freq_mhz" in names:
            yield SensorFile(f"{place}/rps_act_freq_mhz", sample.FREQUENCY, where, 1e6, 0.0, _MOST_HERTZ)
        yield from _frequency_limits(names, place, "rps_{}_freq_mhz", where)
        for name in sorted(names):
            reason = name.removeprefix("throttle_reason_")
            if reason not in (name, "status"):
                yield _throttle(f"{place}/{name}", where, reason)
        if "rc6_residency_ms" in names and read_text(device / place / "rc6_enable") != "0":
            yield SensorFile(f"{place}/rc6_residency_ms", sample.AWAKE, where, 1e-3)


def _find_xe_gts(device: Path, tile: str) -> Iterator[SensorFile]:
    """`cur_freq` is left out: to read it keeps the engines from resting."""
    for gt in _numbered(device, tile, _GT):
        place, where = f"{tile}/{gt}", (tile[4:], gt[2:])
        names = set(read_names(device / place / "freq0"))
        if "act_freq" in names:
            yield SensorFile(f"{place}/freq0/act_freq", sample.FREQUENCY, where, 1e6, 0.0, _MOST_HERTZ)
        yield from _frequency_limits(names, f"{place}/freq0", "{}_freq", where)
        yield from _xe_throttles(device, f"{place}/freq0/throttle", where)
        if "idle_residency_ms" in read_names(device / place / "gtidle"):
            yield SensorFile(f"{place}/gtidle/idle_residency_ms", sample.AWAKE, where, 1e-3)


def _xe_throttles(device: Path, folder: str, where: tuple[str, str]) -> Iterator[SensorFile]:
    """All in one file since 6.19, where the single ones may contradict each other."""
    names = read_names(device / folder)
    reasons = [name for name in names if name.startswith("reason_")]
    if "reasons" in names:
        known = tuple(as_label(name.removeprefix("reason_"), "other") for name in reasons)
        yield SensorFile(f"{folder}/reasons", sample.IS_THROTTLED, where, form="reasons", reasons=known)
        return
    for name in reasons:
        yield _throttle(f"{folder}/{name}", where, name.removeprefix("reason_"))


def _throttle(path: str, where: tuple[str, str], reason: str) -> SensorFile:
    return SensorFile(path, sample.IS_THROTTLED, (*where, as_label(reason, "other")), form="flag")


def _frequency_limits(names: set[str], place: str, form: str, where: tuple[str, str]) -> Iterator[SensorFile]:
    for limit in ("min", "max"):
        if (name := form.format(limit)) in names:
            yield SensorFile(
                f"{place}/{name}", sample.FREQUENCY_LIMIT, (*where, limit), 1e6, 1.0, _MOST_HERTZ
            )


def _numbered(device: Path, folder: str, pattern: re.Pattern[str]) -> list[str]:
    return [name for name in read_names(device / folder) if pattern.fullmatch(name)]
