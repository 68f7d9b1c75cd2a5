"""What drivers say of their devices' health, as long as they go on saying it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

DEFAULT_TIMEOUT_S: Final = 30.0
LONGEST_MESSAGE: Final = 1024
MOST_DEVICES: Final = 16384
"""So many devices of a driver are remembered (1.37)."""

WORDS: Final = {0: "Unknown", 1: "Healthy", 2: "Unhealthy"}
"""The protocol's numbers."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """One device's health: `Healthy`, `Unhealthy` or `Unknown`. It holds for `timeout_s`."""

    pool: str
    device: str
    word: str
    message: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    said_at: float = 0.0


@dataclass(slots=True)
class HealthCache:
    """By driver, pool and device. Nothing of it outlives the kubelet, unlike the real one's."""

    _by_driver: dict[str, dict[tuple[str, str], DeviceHealth]] = field(default_factory=dict)

    def update(self, driver: str, said: Iterable[DeviceHealth]) -> list[DeviceHealth]:
        """Takes a report in; those whose word or message changed."""
        known = self._by_driver.setdefault(driver, {})
        changed = []
        for each in said:
            key = each.pool, each.device
            if key not in known and len(known) >= MOST_DEVICES:
                continue
            before = known.get(key)
            if before is None or (before.word, before.message) != (each.word, each.message):
                changed.append(each)
            known[key] = each
        return changed

    def clear(self, driver: str) -> None:
        """The driver's stream has ended."""
        self._by_driver.pop(driver, None)

    def words(self, driver: str, now: float) -> dict[tuple[str, str], tuple[str, str]]:
        """Word and message by pool and device, of what was said recently enough."""
        return {
            key: (each.word, each.message)
            for key, each in self._by_driver.get(driver, {}).items()
            if now - each.said_at <= each.timeout_s
        }

    def timeouts(self, driver: str) -> dict[tuple[str, str], float]:
        """For how many seconds what was said last holds, by pool and device, whether it is over or not."""
        return {key: each.timeout_s for key, each in self._by_driver.get(driver, {}).items()}
