"""One resource's life with the kubelet: serve, register, watch; the first to end ends all, then again."""

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from pathlib import Path

from accelet.kubelet.paths import KubeletPaths, SocketIdentity, identify_socket
from accelet.node.callsunderway import FINISH_S, CallsUnderWay
from accelet.node.server import ServeError, SocketServer
from accelet.runtime.backoff import Backoff
from accelet.runtime.logs import Log
from accelet.runtime.waiting import wait_for_hint
from deviceplugin.allocator import Allocator
from deviceplugin.metrics import ResourceMetrics
from deviceplugin.registration import RegistrationError, register
from deviceplugin.service import DevicePluginService
from deviceplugin.sockets import make_socket_name
from resourcemanager.manager import ResourceManager

LOOK_S = 0.5
"""How often sockets are looked at without any hint that they changed.

There is none where the kubelet's directory was replaced as a whole, and yet a resource shall not be gone for
longer than a second; a look is two calls of stat.
"""

SETTLE_S = 0.1
"""From the end of our stream to the next Register, at a kubelet that stays.

Up to 1.36 the kubelet, when it notices the end of an old stream, disconnects whatever is registered by then.
"""

STREAM_S = 0.8
STREAM_MOST_S = 10.0
"""The kubelet opens ListAndWatch right after it took the registration; after that it is not coming.

A kubelet that is merely slow gets twice the time at each further try.
"""

ABSENT_MOST_S = 5.0
REFUSED_LEAST_S = 1.0
REFUSED_MOST_S = 60.0
"""The rest between tries: where nobody answers, and where the kubelet refused and mostly will again."""

STABLE_S = 60.0
"""A registration that lived so long was a good one: the next failure is a first failure."""

STOPPED = "stopped"

_log = Log(__name__)


class Ending(enum.StrEnum):
    """Why a registration ended."""

    STREAM_ENDED = "stream-ended"
    NO_STREAM = "no-stream"
    OWN_SOCKET_GONE = "own-socket-gone"
    KUBELET_REPLACED = "kubelet-replaced"
    AUDIT = "audit"
    NOT_SERVED = "not-served"
    NO_KUBELET = "no-kubelet"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RegistrationState:
    """What readiness tells of a resource; `since_s` is by time.monotonic."""

    is_registered: bool
    reason: str
    since_s: float


class Plugin:
    """Keeps one resource registered for as long as `run` runs."""

    def __init__(
        self,
        manager: ResourceManager,
        allocator: Allocator,
        root: Path,
        paths: KubeletPaths,
        metrics: ResourceMetrics,
        *,
        before_registration: Callable[[], Awaitable[None]] | None = None,
        calls: CallsUnderWay | None = None,
    ) -> None:
        """`before_registration` is awaited each time. `calls` counts those of all resources."""
        self._calls = calls
        self._manager = manager
        self._log = _log.bind(resource=manager.rules.resource)
        self._allocator = allocator
        self._before_registration = before_registration
        self._root = root
        self._paths = paths
        self._metrics = metrics
        self._service: DevicePluginService | None = None
        self._kubelet: SocketIdentity | None = None
        self._is_distrusted = False
        self.wake = asyncio.Event()
        self.state = RegistrationState(is_registered=False, reason="starting", since_s=time.monotonic())

    @property
    def resource(self) -> str:
        return self._manager.rules.resource

    def announce(self, *, is_urgent: bool) -> None:
        """The list has changed: tell the kubelet."""
        if self._service is not None:
            self._service.announce(is_urgent=is_urgent)

    def repeat_list(self) -> None:
        """Tell the kubelet the list once more: it writes its checkpoint then."""
        if self._service is not None:
            self._service.repeat_list()

    def told_healthy(self) -> Set[str] | None:
        """The ids of the healthy devices that the kubelet was told of; None while it is told nothing."""
        if not self.state.is_registered:
            return None
        entries = self._manager.listing.entries
        return {str(device) for device, entry in entries.items() if entry.health.is_healthy}

    def distrust(self) -> None:
        """The kubelet's own account differs from what it was told: register anew."""
        self._is_distrusted = True
        self.wake.set()

    async def run(self) -> None:
        """Serves, registers and watches, again and again."""
        backoff = Backoff(first_s=0.02, most_s=REFUSED_MOST_S)
        patience = Backoff(first_s=STREAM_S, most_s=STREAM_MOST_S)
        try:
            while True:
                started = time.monotonic()
                ending, had_stream = await self._live_once(patience.wait_s)
                patience = patience.failed() if ending is Ending.NO_STREAM else patience.worked()
                if time.monotonic() - started > STABLE_S:
                    backoff = backoff.worked()
                is_new = await self._rest(ending, backoff, had_stream=had_stream)
                backoff = backoff.worked() if is_new else backoff.failed()
        finally:
            self._set_state(is_registered=False, reason=STOPPED)

    async def _rest(self, ending: Ending, backoff: Backoff, *, had_stream: bool) -> bool:
        """Waits before the next try; a new kubelet.sock ends the wait. Says whether there is one."""
        wait_s = min(backoff.wait_s, ABSENT_MOST_S) if backoff.tries else 0.0
        if ending is Ending.REFUSED:
            wait_s = max(backoff.wait_s, REFUSED_LEAST_S)
        if had_stream:
            wait_s = max(wait_s, SETTLE_S)
        until = time.monotonic() + wait_s
        while not self._has_new_kubelet():
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            await self._woken(min(left_s, LOOK_S))
        return True

    def _has_new_kubelet(self) -> bool:
        return identify_socket(self._paths.registration_socket) not in (None, self._kubelet)

    async def _live_once(self, patience_s: float) -> tuple[Ending, bool]:
        """One registration from beginning to end; says why it ended and whether a stream was open."""
        self._is_distrusted = False
        self._kubelet = identify_socket(self._paths.registration_socket)
        if self._kubelet is None:
            return self._end(Ending.NO_KUBELET, "there is no kubelet.sock yet"), False
        if self._before_registration is not None:
            await self._before_registration()
        service = DevicePluginService(
            self._manager, self._allocator, self._root, self._metrics, self.wake.set
        )
        directory = self._paths.device_plugins
        server = SocketServer(directory / make_socket_name(directory, self.resource), [service], self._calls)
        finish_s = FINISH_S
        try:
            await server.start()
            self._service = service
            ending = await self._register(server)
            if ending is None:
                self._metrics.count_registration("ok")
                ending = await self._watch(service, server, patience_s)
            if ending in (Ending.STREAM_ENDED, Ending.KUBELET_REPLACED):
                finish_s = 0.0  # whoever called has gone, and the next kubelet waits
            return self._end(ending, _SENTENCES[ending]), service.had_stream
        except ServeError as error:
            return self._end(Ending.NOT_SERVED, str(error)), False
        except RegistrationError as error:
            ending = Ending.NO_KUBELET if error.is_absent else Ending.REFUSED
            self._metrics.count_registration(ending)
            return self._end(ending, str(error)), False
        finally:
            self._service = None
            await server.stop(finish_s=finish_s)

    async def _register(self, server: SocketServer) -> Ending | None:
        """Registers; says why it is of no use any more to wait for this kubelet's answer."""
        call = asyncio.create_task(register(self._paths.registration_socket, server.path.name, self.resource))
        call.add_done_callback(lambda _: self.wake.set())
        try:
            while not call.done():
                if (ending := self._is_unreachable(server)) is not None:
                    return ending
                await self._woken(LOOK_S)
            await call
        finally:
            call.cancel()
        return None

    def _is_unreachable(self, server: SocketServer) -> Ending | None:
        """Why the kubelet cannot, or will not, come to our socket; None as far as the files tell."""
        if self._has_new_kubelet():
            return Ending.KUBELET_REPLACED
        if not server.is_in_place:
            return Ending.OWN_SOCKET_GONE
        return None

    async def _watch(self, service: DevicePluginService, server: SocketServer, patience_s: float) -> Ending:
        """Looks at the registration at every hint, and now and then without one, until it has ended."""
        no_stream_after = time.monotonic() + patience_s
        while True:
            if service.stream_has_ended:
                return Ending.STREAM_ENDED
            if (ending := self._is_unreachable(server)) is not None:
                return ending
            if self._is_distrusted:
                return Ending.AUDIT
            if service.had_stream:
                self._set_state(is_registered=True, reason="registered")
            elif time.monotonic() > no_stream_after:
                return Ending.NO_STREAM
            await self._woken(LOOK_S if service.had_stream else min(LOOK_S, patience_s))

    async def _woken(self, within_s: float) -> None:
        """Returns at the next hint, or after `within_s` without one."""
        await wait_for_hint(self.wake, within_s)
        self.wake.clear()

    def _end(self, ending: Ending, reason: str) -> Ending:
        if ending in _SENTENCES:
            self._metrics.count_ending(ending)
        self._set_state(is_registered=False, reason=reason)
        return ending

    def _set_state(self, *, is_registered: bool, reason: str) -> None:
        self._metrics.set_registered(is_registered=is_registered)
        if (is_registered, reason) == (self.state.is_registered, self.state.reason):
            return
        self.state = RegistrationState(is_registered, reason, time.monotonic())
        if is_registered:
            self._log.info("registered")
        elif reason == STOPPED:
            self._log.info("stopped")
        else:
            self._log.warning("not registered", reason=reason)


_SENTENCES = {
    Ending.STREAM_ENDED: "the kubelet ended ListAndWatch",
    Ending.NO_STREAM: "the kubelet took the registration and opened no stream",
    Ending.OWN_SOCKET_GONE: "our socket file was removed or replaced",
    Ending.KUBELET_REPLACED: "the kubelet restarted",
    Ending.AUDIT: "the kubelet's list of devices is not what it was told",
}
