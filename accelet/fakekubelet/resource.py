"""What a test sees of one resource, always as it is now."""

from collections.abc import Callable

from accelet.fakekubelet.devices.devicemanager import DeviceManager, PluginDevice, PluginOptions
from accelet.fakekubelet.node import Node


class ResourceView:
    """One resource as the kubelet knows it. A kubelet that is down knows nothing."""

    def __init__(self, resource: str, node: Node, manager: Callable[[], DeviceManager | None]) -> None:
        self.resource = resource
        self._node = node
        self._manager = manager

    @property
    def registrations(self) -> int:
        """How often the resource has been registered, over all restarts of the kubelet."""
        return self._node.registrations.get(self.resource, 0)

    @property
    def is_connected(self) -> bool:
        """Whether its plugin is registered with the running kubelet and has not been lost since."""
        manager = self._manager()
        endpoint = manager.endpoints.get(self.resource) if manager is not None else None
        return endpoint is not None and endpoint.stopped_at is None

    @property
    def options(self) -> PluginOptions:
        """What the plugin answered to GetDevicePluginOptions."""
        manager = self._manager()
        endpoint = manager.endpoints.get(self.resource) if manager is not None else None
        return endpoint.options if endpoint is not None else PluginOptions()

    @property
    def listed(self) -> dict[str, PluginDevice]:
        """The devices of the plugin's last list, by id."""
        manager = self._manager()
        return dict(manager.devices.get(self.resource, {})) if manager is not None else {}

    @property
    def last_list(self) -> tuple[PluginDevice, ...]:
        """The plugin's last list to the letter, with what is in it twice."""
        manager = self._manager()
        return manager.lists.get(self.resource, ()) if manager is not None else ()

    @property
    def healthy(self) -> frozenset[str]:
        manager = self._manager()
        return frozenset(manager.healthy.get(self.resource, ())) if manager is not None else frozenset()

    @property
    def unhealthy(self) -> frozenset[str]:
        manager = self._manager()
        return frozenset(manager.unhealthy.get(self.resource, ())) if manager is not None else frozenset()

    @property
    def held(self) -> frozenset[str]:
        """Ids that some container holds or that are reserved for one."""
        manager = self._manager()
        return frozenset(manager.allocated.get(self.resource, ())) if manager is not None else frozenset()

    @property
    def capacity(self) -> int:
        """What the next node status will say."""
        return self._status()[0]

    @property
    def allocatable(self) -> int:
        """What the next node status will say."""
        return self._status()[1]

    def _status(self) -> tuple[int, int]:
        manager = self._manager()
        if manager is None or not manager.has_listed(self.resource):
            # A kubelet says nothing of what it does not know, and so the API server keeps what it had.
            return self._node.status.get(self.resource, (0, 0))
        return manager.capacity(self._node.clock.now()).get(self.resource, (0, 0))

    async def devices(
        self, *, healthy: int | None = None, unhealthy: int | None = None, timeout_s: float = 10.0
    ) -> dict[str, PluginDevice]:
        """The plugin's list, once it has that many devices; without numbers, once there is a list.

        Raises:
            StillWaitingError: it did not come in `timeout_s` seconds of real time.
        """

        def wanted() -> bool:
            manager = self._manager()
            return (
                manager is not None
                and self.resource in manager.devices
                and (healthy is None or len(self.healthy) == healthy)
                and (unhealthy is None or len(self.unhealthy) == unhealthy)
            )

        counts = [
            f"{count} {word} devices"
            for count, word in ((healthy, "healthy"), (unhealthy, "unhealthy"))
            if count is not None
        ]
        what = f"{self.resource} to list {' and '.join(counts) or 'its devices'}"
        await self._node.trace.until(wanted, what, timeout_s=timeout_s, seen=self._seen)
        return self.listed

    async def registered(self, *, times: int = 1, timeout_s: float = 10.0) -> None:
        """Returns once the plugin is connected and has registered `times` times in all.

        Raises:
            StillWaitingError: it did not in `timeout_s` seconds of real time.
        """
        await self._node.trace.until(
            lambda: self.is_connected and self.registrations >= times,
            f"{self.resource} to be registered" + (f" {times} times" if times > 1 else ""),
            timeout_s=timeout_s,
            seen=self._seen,
        )

    async def disconnected(self, *, timeout_s: float = 10.0) -> None:
        """Returns once the kubelet has lost the plugin.

        Raises:
            StillWaitingError: it did not in `timeout_s` seconds of real time.
        """
        await self._node.trace.until(
            lambda: not self.is_connected,
            f"{self.resource} to be disconnected",
            timeout_s=timeout_s,
            seen=self._seen,
        )

    def _seen(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return (
            f"it is {state}, registered {self.registrations} times, "
            f"with {len(self.healthy)} healthy and {len(self.unhealthy)} unhealthy devices"
        )
