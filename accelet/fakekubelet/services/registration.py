"""The Registration service at kubelet.sock, and what becomes of a plugin that has registered."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from os.path import normpath
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from accelet.fakekubelet.devices.checkpointfile import CheckpointFile
from accelet.fakekubelet.devices.devicemanager import AllocationError, DeviceManager, Endpoint
from accelet.fakekubelet.node import Node, RegisterCall
from accelet.fakekubelet.services.plugin import CallError, DialError, PluginClient, plugin_options
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as rpc
from accelet.kubelet.resourcename import explain_bad_resource_name

VERSION: Final = "v1beta1"


class RegistrationRefusedError(Exception):
    """The kubelet does not take this plugin. The text is what it answers."""


class Plugins:
    """The plugins of one kubelet's life: connects them, watches them, notices when they go."""

    def __init__(
        self,
        node: Node,
        manager: DeviceManager,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        checkpoint: CheckpointFile,
    ) -> None:
        self._node = node
        self._manager = manager
        self._spawn = spawn
        self._checkpoint = checkpoint
        # What the kubelet looks a client up by: the resource alone, or with its socket (1.37).
        self._clients: dict[tuple[str, Path | None], PluginClient] = {}
        self._by_serial: dict[int, PluginClient] = {}
        # From 1.37 the kubelet also remembers every endpoint that is connected, by its socket.
        self._connected: dict[tuple[str, Path], Endpoint] = {}

    def client(self, serial: int) -> PluginClient | None:
        """The connection of the registration with this number."""
        return self._by_serial.get(serial)

    async def connect(self, resource: str, socket: Path, *, authority: str | None = "localhost") -> None:
        """Dials the plugin, asks for its options, and watches it from then on.

        Raises:
            DialError: it did not answer.
        """
        self._node.serial += 1
        client = PluginClient(resource, socket, self._node, authority=authority)
        key = self._key(resource, socket)
        self._clients[key] = client
        self._by_serial[client.serial] = client
        try:
            await client.dial()
            endpoint = Endpoint(client.serial, await client.options(), str(socket))
            self._remember(client, endpoint)
        except BaseException as error:
            # Also takes away an older client of the same key, whose end then goes unnoticed.
            self._clients.pop(key, None)
            self._by_serial.pop(client.serial, None)
            await client.close()
            if isinstance(error, DialError):
                self._node.trace.record("dial-failed", resource=resource, detail=str(error))
            raise
        self._manager.connect(resource, endpoint)
        self._node.registrations[resource] = self._node.registrations.get(resource, 0) + 1
        self._node.trace.record("registered", resource=resource, detail=f"at {socket.name}")
        self._spawn(self._watch(client))

    def _remember(self, client: PluginClient, endpoint: Endpoint) -> None:
        if self._node.version.old_stream_end_kills_new:
            return
        place = client.resource, client.socket
        if place in self._connected:
            raise DialError(f"device plugin already connected: {client.socket}")
        self._connected[place] = endpoint

    async def _watch(self, client: PluginClient) -> None:
        self._node.trace.record("watch", resource=client.resource)
        ending = "the plugin ended the stream"
        try:
            async for devices in client.lists():
                self._manager.update(client.resource, devices)
                healthy = sorted(self._manager.healthy[client.resource])
                unhealthy = len(self._manager.unhealthy[client.resource])
                self._node.trace.record(
                    "list",
                    resource=client.resource,
                    devices=healthy,
                    detail=f"{len(healthy)} healthy, {unhealthy} unhealthy",
                )
                self._save()
        except CallError as error:
            ending = str(error)
        self._node.trace.record("stream-ended", resource=client.resource, detail=ending)
        await self._ended(client)

    def _save(self) -> None:
        # A list counts even if it cannot be written down: the kubelet only logs that.
        with suppress(AllocationError):
            self._checkpoint.save(self._manager)

    async def _ended(self, client: PluginClient) -> None:
        # The kubelet looks up who is registered now, and up to 1.36 that need not be the one that ended.
        victim = self._clients.pop(self._key(client.resource, client.socket), None)
        if victim is not None:
            await self._disconnect(victim)
        if victim is not client:
            await self._forget(client)

    async def deregister(self, resource: str, socket: Path) -> None:
        """A plugin's socket has gone from the registry, or its connection is to be cut."""
        client = self._clients.pop(self._key(resource, socket), None)
        if client is not None:
            await self._disconnect(client)

    async def cut(self, resource: str) -> None:
        """Cuts the connection of whoever is registered for `resource`."""
        for name, socket in list(self._clients):
            if name == resource:
                await self.deregister(name, socket or Path())

    async def _disconnect(self, client: PluginClient) -> None:
        self._connected.pop((client.resource, client.socket), None)
        await self._forget(client)
        others = [each for (resource, _), each in self._connected.items() if resource == client.resource]
        if others:
            self._manager.connect(client.resource, self._node.rng.choice(others))
        else:
            self._manager.disconnect(client.resource, self._node.clock.now())
            self._node.trace.record("disconnected", resource=client.resource)

    async def _forget(self, client: PluginClient) -> None:
        self._by_serial.pop(client.serial, None)
        await client.close()

    async def close(self) -> None:
        """Drops every connection, as the end of the kubelet's process does."""
        clients = list(self._by_serial.values())
        self._clients.clear()
        self._by_serial.clear()
        self._connected.clear()
        await asyncio.gather(*(client.close() for client in clients))

    def _key(self, resource: str, socket: Path) -> tuple[str, Path | None]:
        by_resource_only = self._node.version.old_stream_end_kills_new
        return resource, None if by_resource_only else socket


class Registration(rpc.RegistrationServicer):
    """Answers Register once the plugin has been dialled back and has told its options."""

    def __init__(self, node: Node, plugins: Plugins) -> None:
        self._node = node
        self._plugins = plugins

    async def Register(  # noqa: N802 - the wire's name
        self, request: api.RegisterRequest, context: grpc.aio.ServicerContext[api.RegisterRequest, api.Empty]
    ) -> api.Empty:
        self._node.trace.record(
            "register",
            resource=request.resource_name,
            detail=f"version {request.version}, {request.endpoint}",
        )
        self._node.register_calls.append(
            RegisterCall(
                self._node.clock.now(),
                request.resource_name,
                request.version,
                request.endpoint,
                context.time_remaining(),
                plugin_options(request.options) if request.HasField("options") else None,
            )
        )
        await self._node.faults.register.suffer(self._node.clock, context)
        try:
            self._refuse_bad(request)
            await self._plugins.connect(request.resource_name, self._socket(request.endpoint))
        except (RegistrationRefusedError, DialError) as error:
            self._node.trace.record("register-refused", resource=request.resource_name, detail=str(error))
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return api.Empty()

    def _socket(self, endpoint: str) -> Path:
        """Joined as by Go's filepath.Join: an absolute endpoint stays below the folder, `..` leads out."""
        return Path(normpath(f"{self._node.plugins_dir}/{endpoint}"))

    def _refuse_bad(self, request: api.RegisterRequest) -> None:
        if request.version != VERSION:
            raise RegistrationRefusedError(
                f'requested API version "{request.version}" is not supported by kubelet. '
                f'Supported version is ["{VERSION}"]'
            )
        if explain_bad_resource_name(request.resource_name) is not None:
            raise RegistrationRefusedError(f'the ResourceName "{request.resource_name}" is invalid')
