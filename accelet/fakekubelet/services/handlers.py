"""What the kubelet does with plugins it finds in plugins_registry/, by their type."""

from pathlib import Path

from accelet.fakekubelet.claims.drivers import DriverRefusedError, Drivers
from accelet.fakekubelet.services.plugin import DialError
from accelet.fakekubelet.services.registration import VERSION, Plugins
from accelet.fakekubelet.services.watcher import NotRegisteredError
from accelet.kubelet.api import pluginregistration_pb2 as api
from accelet.kubelet.resourcename import explain_bad_resource_name


class DevicePluginHandler:
    """Device plugins that are found instead of registering. Implements `Handler`."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def validate(self, info: api.PluginInfo, endpoint: Path) -> None:
        if VERSION not in info.supported_versions:
            versions = " ".join(info.supported_versions)
            raise NotRegisteredError(
                f"manager version, {VERSION}, is not among plugin supported versions [{versions}]"
            )
        if explain_bad_resource_name(info.name) is not None:
            raise NotRegisteredError(
                f'invalid name of device plugin socket: the ResourceName "{info.name}" is invalid'
            )

    async def register(self, info: api.PluginInfo, endpoint: Path) -> None:
        try:
            # Here the kubelet names no authority, so the plugin sees the socket's path in its place.
            await self._plugins.connect(info.name, endpoint, authority=None)
        except DialError as error:
            raise NotRegisteredError(str(error)) from error

    async def deregister(self, name: str, endpoint: Path) -> None:
        await self._plugins.deregister(name, endpoint)


class DriverHandler:
    """DRA drivers. Implements `Handler`."""

    def __init__(self, drivers: Drivers) -> None:
        self._drivers = drivers

    def validate(self, info: api.PluginInfo, endpoint: Path) -> None:
        try:
            self._drivers.choose(info.name, endpoint, info.supported_versions)
        except DriverRefusedError as error:
            raise NotRegisteredError(str(error)) from error

    async def register(self, info: api.PluginInfo, endpoint: Path) -> None:
        try:
            self._drivers.register(info.name, endpoint, info.supported_versions)
        except DriverRefusedError as error:
            raise NotRegisteredError(str(error)) from error

    async def deregister(self, name: str, endpoint: Path) -> None:
        await self._drivers.deregister(name, endpoint)
