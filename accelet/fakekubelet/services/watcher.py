"""The other way in: sockets that plugins put into plugins_registry/, found and asked by the kubelet."""

import os
import stat
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from accelet.fakekubelet.clock import within
from accelet.fakekubelet.node import Node
from accelet.fakekubelet.services.plugin import DIAL_TIMEOUT_S, CallError, go_errors
from accelet.kubelet.api import pluginregistration_pb2 as api
from accelet.kubelet.api import pluginregistration_pb2_grpc as rpc

LOOP_S: Final = 1.0
GET_INFO_TIMEOUT_S: Final = 1.0
NOTIFY_TIMEOUT_S: Final = 5.0
FIRST_BACKOFF_S: Final = 0.5
LONGEST_BACKOFF_S: Final = 122.0

Identity = tuple[int, int]
"""Inode and change time: a socket that was made anew is another plugin."""


class WatcherError(Exception):
    """A plugin found here cannot be registered. The text is the kubelet's."""


class NotRegisteredError(Exception):
    """A handler does not take a plugin. The text is the kubelet's."""


class Handler(Protocol):
    """What the kubelet does with plugins of one type."""

    def validate(self, info: api.PluginInfo, endpoint: Path) -> None:
        """Raises NotRegisteredError if nothing is to be done with the plugin."""

    async def register(self, info: api.PluginInfo, endpoint: Path) -> None:
        """Raises NotRegisteredError if it cannot be."""

    async def deregister(self, name: str, endpoint: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class _Known:
    identity: Identity
    type: str
    name: str
    endpoint: Path


@dataclass(frozen=True, slots=True)
class _Waiting:
    until: float
    backoff_s: float


class PluginWatcher:
    """Compares the folder with what is registered, once a second (Kubernetes 1.36, kubelet/pluginmanager).

    `handlers` are by the type that plugins say they are of. A device plugin whose stream ends while its
    socket stays is not tried again.
    """

    def __init__(
        self,
        node: Node,
        handlers: Mapping[str, Handler],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._node = node
        self._handlers = handlers
        self._spawn = spawn
        self._known: dict[Path, _Known] = {}
        self._busy: set[Path] = set()
        self._waiting: dict[Path, _Waiting] = {}

    async def run(self) -> None:
        while True:
            found = dict(self._sockets())
            for path, known in list(self._known.items()):
                if found.get(path) != known.identity:
                    del self._known[path]
                    await self._deregister(known)
                    found.pop(path, None)  # the next round finds it
            for path in self._waiting.keys() - found.keys():
                del self._waiting[path]
            for path in found.keys() - self._known.keys() - self._busy:
                if self._is_due(path):
                    self._busy.add(path)
                    self._spawn(self._register(path, found[path]))
            await self._node.clock.sleep(LOOP_S)

    def _sockets(self) -> Iterator[tuple[Path, Identity]]:
        for folder, folders, names in os.walk(self._node.registry_dir):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = Path(folder, name)
                try:
                    seen = path.stat()
                except OSError:
                    continue  # it went away while we looked
                if not name.startswith(".") and stat.S_ISSOCK(seen.st_mode):
                    yield path, (seen.st_ino, seen.st_ctime_ns)

    def _is_due(self, path: Path) -> bool:
        waiting = self._waiting.get(path)
        return waiting is None or self._node.clock.now() >= waiting.until

    async def _register(self, path: Path, identity: Identity) -> None:
        try:
            await self._ask(path, identity)
            self._waiting.pop(path, None)
        except (WatcherError, CallError, TimeoutError) as error:
            before = self._waiting.get(path)
            backoff_s = FIRST_BACKOFF_S if before is None else min(LONGEST_BACKOFF_S, before.backoff_s * 2)
            self._waiting[path] = _Waiting(self._node.clock.now() + backoff_s, backoff_s)
            self._node.trace.record(
                "watcher-failed",
                detail=f"{path.name}: {error or 'no answer in time'}; next in {backoff_s:g} s",
            )
        finally:
            self._busy.discard(path)

    async def _ask(self, path: Path, identity: Identity) -> None:
        channel = grpc.aio.insecure_channel(f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)])
        async with channel:
            await within(self._node.clock, DIAL_TIMEOUT_S, channel.channel_ready())
            plugin = rpc.RegistrationStub(channel)
            info = await self._info(plugin)
            self._node.trace.record("plugin-found", resource=info.name, detail=path.name)
            known = _Known(identity, info.type, info.name, Path(info.endpoint) if info.endpoint else path)
            try:
                await self._hand_over(info, known, path)
            except WatcherError as error:
                await self._notify(plugin, error=f"RegisterPlugin error -- {error}")
                raise
            try:
                await self._notify(plugin)
            except (CallError, TimeoutError):
                self._known.pop(path, None)
                await self._deregister(known)
                raise

    async def _hand_over(self, info: api.PluginInfo, known: _Known, path: Path) -> None:
        handler = self._handlers.get(info.type)
        if handler is None:
            raise WatcherError(f"no handler registered for plugin type: {info.type} at socket {path}")
        try:
            handler.validate(info, known.endpoint)
        except NotRegisteredError as error:
            raise WatcherError(f"plugin validation failed with err: {error}") from error
        self._known[path] = known
        try:
            await handler.register(info, known.endpoint)
        except NotRegisteredError as error:
            self._known.pop(path, None)
            raise WatcherError(str(error)) from error

    async def _deregister(self, known: _Known) -> None:
        await self._handlers[known.type].deregister(known.name, known.endpoint)

    async def _info(self, plugin: "rpc.RegistrationAsyncStub") -> api.PluginInfo:
        with go_errors():
            return await plugin.GetInfo(api.InfoRequest(), timeout=GET_INFO_TIMEOUT_S)

    @staticmethod
    async def _notify(plugin: "rpc.RegistrationAsyncStub", error: str = "") -> None:
        with go_errors():
            await plugin.NotifyRegistrationStatus(
                api.RegistrationStatus(plugin_registered=not error, error=error), timeout=NOTIFY_TIMEOUT_S
            )
