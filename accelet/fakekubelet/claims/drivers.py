"""The DRA drivers of one kubelet's life: registered, connected, watched, and cleaned up after."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc

from accelet.fakekubelet.behaviour import KubeletVersion
from accelet.fakekubelet.claims.cache import ClaimError
from accelet.fakekubelet.claims.claimapi import ClaimApi
from accelet.fakekubelet.claims.driverclient import DriverClient, DriverEndpoint
from accelet.fakekubelet.claims.health import HealthCache
from accelet.fakekubelet.node import Node
from accelet.fakekubelet.services.plugin import CallError
from accelet.kube.errors import KubeError

WIPE_AFTER_S: Final = 30.0
"""How long a driver may be gone before its ResourceSlices are removed."""

HEALTH_RETRY_S: Final = 5.0
FIRST_BACKOFF_S: Final = 1.0
LONGEST_BACKOFF_S: Final = 300.0


class DriverRefusedError(Exception):
    """The kubelet does not take this driver. The text is what it answers."""


Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None] | None"]


class Drivers:
    """Several instances of a driver may be registered; of those that are connected the newest is used."""

    def __init__(self, node: Node, api: ClaimApi, spawn: Spawn) -> None:
        self._node, self._api, self._spawn = node, api, spawn
        self._instances: dict[str, list[DriverClient]] = {}
        self._tasks: dict[DriverClient, list[asyncio.Task[None]]] = {}
        self._wipes: dict[str, object] = {}
        self.health = HealthCache()

    # Registration.

    def choose(self, driver: str, endpoint: Path, listed: Sequence[str]) -> str:
        """The service of a driver that is to be called: the first of its list that this kubelet knows.

        Raises:
            DriverRefusedError: there is none.
        """
        known = self._node.version.driver_services
        where = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}: "
        if not listed:
            raise DriverRefusedError(where + "empty list of supported gRPC services (aka supported versions)")
        for service in listed:
            if service in known:
                return service
        raise DriverRefusedError(
            f"{where}none of services supported by the plugin ({_printed(listed)}) are supported by the "
            f"kubelet ({_printed(known)})"
        )

    def register(self, driver: str, endpoint: Path, listed: Sequence[str]) -> None:
        """Takes an instance in, and connects to it.

        Raises:
            DriverRefusedError: it lists no service that is known, or its endpoint is taken.
        """
        service = self.choose(driver, endpoint, listed)
        instances = self._instances.setdefault(driver, [])
        if any(instance.endpoint == endpoint for instance in instances):
            raise DriverRefusedError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        at = DriverEndpoint(driver, endpoint, tuple(listed))
        client = DriverClient(at, service, self._node, self._noticed)
        instances.append(client)
        counts = self._node.driver_registrations
        counts[driver] = counts.get(driver, 0) + 1
        self._node.trace.record("driver-registered", resource=driver, detail=f"{service} at {endpoint.name}")
        work = [client.watch_connection()]
        if (health := pick_health(self._node.version, listed)) is not None:
            work.append(self._watch_health(client, health))
        self._tasks[client] = [task for task in map(self._spawn, work) if task is not None]
        self._settle(driver)

    async def deregister(self, driver: str, endpoint: Path) -> None:
        """The registration socket of an instance has gone."""
        instances = self._instances.get(driver, [])
        for client in [each for each in instances if each.endpoint == endpoint]:
            instances.remove(client)
            self._node.trace.record("driver-deregistered", resource=driver, detail=f"at {endpoint.name}")
            await self._close(client)
        self._settle(driver)

    async def close(self) -> None:
        """Drops every connection, as the end of the kubelet's process does."""
        clients = [client for instances in self._instances.values() for client in instances]
        self._instances.clear()
        self._wipes.clear()
        await asyncio.gather(*(self._close(client) for client in clients))

    async def _close(self, client: DriverClient) -> None:
        tasks = self._tasks.pop(client, [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    def instances(self, driver: str) -> Sequence[DriverClient]:
        """Those registered, oldest first."""
        return tuple(self._instances.get(driver, ()))

    def find(self, driver: str) -> DriverClient:
        """The instance that calls go to.

        Raises:
            ClaimError: none is registered.
        """
        instances = self._instances.get(driver)
        if not instances:
            raise ClaimError(f"DRA driver {driver} is not registered")
        return next((each for each in reversed(instances) if each.is_connected), instances[-1])

    # ResourceSlices.

    async def wipe(self, driver: str | None = None) -> None:
        """Removes the node's ResourceSlices, of one driver or of all, and tries again until it works."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                count = await self._api.delete_slices(self._node.name, driver)
            except KubeError as error:
                self._node.trace.record("wipe-failed", resource=driver, detail=str(error))
                await self._node.clock.sleep(backoff_s)
                backoff_s = min(LONGEST_BACKOFF_S, backoff_s * 2)
            else:
                self._node.trace.record(
                    "slices-wiped", resource=driver, detail=f"{count} of {self._node.name}"
                )
                return

    def _noticed(self, client: DriverClient) -> None:
        word = "driver-connected" if client.is_connected else "driver-disconnected"
        self._node.trace.record(word, resource=client.driver, detail=f"at {client.endpoint.name}")
        self._settle(client.driver)

    def _settle(self, driver: str) -> None:
        """Begins to wait with the driver's slices if it is gone, and leaves them alone if it is back."""
        instances = self._instances.get(driver, ())
        by_connection = self._node.version.watches_driver_connections
        if any(each.is_connected or not by_connection for each in instances):
            self._wipes.pop(driver, None)
        elif driver not in self._wipes:
            self._wipes[driver] = wipe = object()
            self._spawn(self._wipe_later(driver, wipe))

    async def _wipe_later(self, driver: str, wipe: object) -> None:
        await self._node.clock.sleep(WIPE_AFTER_S)
        if self._wipes.get(driver) is wipe:
            del self._wipes[driver]
            await self.wipe(driver)

    # Health.

    async def _watch_health(self, client: DriverClient, service: str) -> None:
        while True:
            with suppress(CallError):
                if not await self._follow_health(client, service):
                    return
            await self._node.clock.sleep(HEALTH_RETRY_S)

    async def _follow_health(self, client: DriverClient, service: str) -> bool:
        """Until the stream ends; whether it is to be opened again.

        Raises:
            CallError: it ended with an error.
        """
        try:
            async for said in client.health(service):
                changed = self.health.update(client.driver, said)
                if changed:
                    names = [f"{each.device} {each.word}" for each in changed]
                    self._node.trace.record("health", resource=client.driver, devices=names)
        except CallError as error:
            self._node.trace.record("health-ended", resource=client.driver, detail=str(error))
            if error.code is grpc.StatusCode.UNIMPLEMENTED and not self._node.version.watches_health_unasked:
                return False
            raise
        finally:
            self.health.clear(client.driver)
        self._node.trace.record("health-ended", resource=client.driver)
        return True


def pick_health(version: KubeletVersion, listed: Sequence[str]) -> str | None:
    """The health service to watch: the newest both know; 1.36 watches without asking."""
    if version.watches_health_unasked:
        return version.health_services[0]
    return next((service for service in version.health_services if service in listed), None)


def _printed(services: Sequence[str]) -> str:
    """As Go prints a list of strings with %q."""
    quoted = " ".join(f'"{service}"' for service in services)
    return f"[{quoted}]"
