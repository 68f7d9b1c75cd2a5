"""What a test sees of one DRA driver, always as it is now."""

from collections.abc import Callable, Mapping
from pathlib import Path

from accelet.fakekubelet.claims.driverclient import DriverClient
from accelet.fakekubelet.claims.service import ClaimService
from accelet.fakekubelet.node import Node


class DriverView:
    """One driver as the kubelet knows it. A kubelet that is down knows none."""

    def __init__(self, driver: str, node: Node, claims: Callable[[], ClaimService | None]) -> None:
        self.driver = driver
        self._node = node
        self._claims = claims

    @property
    def registrations(self) -> int:
        """How often an instance of it has been registered, over all restarts of the kubelet."""
        return self._node.driver_registrations.get(self.driver, 0)

    @property
    def instances(self) -> tuple[DriverClient, ...]:
        """Those that are registered, oldest first."""
        claims = self._claims()
        return tuple(claims.drivers.instances(self.driver)) if claims is not None else ()

    @property
    def endpoints(self) -> tuple[Path, ...]:
        """Where they serve."""
        return tuple(instance.endpoint for instance in self.instances)

    @property
    def is_connected(self) -> bool:
        """Whether one of them is registered and connected."""
        return any(instance.is_connected for instance in self.instances)

    @property
    def client(self) -> DriverClient:
        """The connection that the kubelet would use, for calls that no kubelet makes.

        Raises:
            ClaimError: no instance is registered.
            AssertionError: no kubelet with DRA is running.
        """
        claims = self._claims()
        assert claims is not None, "no kubelet with DRA is running"
        return claims.drivers.find(self.driver)

    @property
    def health(self) -> Mapping[tuple[str, str], tuple[str, str]]:
        """Word (`Healthy`, `Unhealthy`, `Unknown`) and message of each device, by pool and name."""
        claims = self._claims()
        now = self._node.clock.now()
        return claims.drivers.health.words(self.driver, now) if claims is not None else {}

    @property
    def health_lasts_s(self) -> Mapping[tuple[str, str], float]:
        """For how many seconds what was said last of each device holds, by pool and name."""
        claims = self._claims()
        return claims.drivers.health.timeouts(self.driver) if claims is not None else {}

    async def connected(self, *, times: int = 1, timeout_s: float = 10.0) -> None:
        """Returns once it is connected and has been registered `times` times in all.

        Raises:
            StillWaitingError: it is not in `timeout_s` seconds of real time.
        """
        await self._node.trace.until(
            lambda: self.is_connected and self.registrations >= times,
            f"{self.driver} to be connected" + (f", registered {times} times" if times > 1 else ""),
            timeout_s=timeout_s,
            seen=self._seen,
        )

    async def disconnected(self, *, timeout_s: float = 10.0) -> None:
        """Returns once no instance of it is connected any more.

        Raises:
            StillWaitingError: one is after `timeout_s` seconds of real time.
        """
        await self._node.trace.until(
            lambda: not self.is_connected,
            f"{self.driver} to be disconnected",
            timeout_s=timeout_s,
            seen=self._seen,
        )

    async def said(self, device: str, word: str, *, timeout_s: float = 10.0) -> None:
        """Returns once the driver says `word` of a device's health, whichever pool it is in.

        Raises:
            StillWaitingError: it does not in `timeout_s` seconds of real time.
        """
        await self._node.trace.until(
            lambda: any(name == device and said == word for (_, name), (said, _) in self.health.items()),
            f"{self.driver} to say that {device} is {word}",
            timeout_s=timeout_s,
            seen=lambda: f"it says {dict(self.health)}",
        )

    def _seen(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"it is {state}, registered {self.registrations} times"
