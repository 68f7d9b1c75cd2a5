"""The driver's two sockets: served, and served anew when one of them goes."""

import asyncio
import secrets
from pathlib import Path

from accelet.dra.running.claims import Claims
from accelet.dra.running.messages import Health
from accelet.dra.running.places import Places
from accelet.dra.running.services import (
    DraV1,
    DraV1Beta1,
    HealthNews,
    HealthV1,
    HealthV1Alpha1,
    Registration,
)
from accelet.kubelet.paths import KubeletPaths
from accelet.node.callsunderway import CallsUnderWay
from accelet.node.kubeletsocket import explain_no_kubelet
from accelet.node.server import ServeError, SocketServer
from accelet.runtime.logs import Log

LOOK_S = 1.0
"""How often it is looked whether the sockets are still there, and whether the kubelet runs.

Kubelets remove no socket that is served, and nothing tells a driver that its kubelet ended.
"""

_OTHER_ROOT = "if its --root-dir is another, give that as --kubelet-root-dir (chart: agent.kubeletRootDir)"

_log = Log(__name__)


class Sockets:
    """Serves while `run` runs."""

    def __init__(
        self,
        paths: KubeletPaths,
        cdi: Path,
        driver: str,
        claims: Claims,
        calls: CallsUnderWay | None = None,
    ) -> None:
        """`calls` counts those of all services of the process."""
        self._calls = calls
        self._paths, self._cdi, self._driver, self._claims = paths, cdi, driver, claims
        self._told: tuple[Health, ...] = ()
        self._news = HealthNews()
        self._problem: str | None = "not registered yet"
        self._no_kubelet: str | None = None
        self.registered = asyncio.Event()
        """Set once the kubelet has taken the driver for the first time."""

    @property
    def problem(self) -> str | None:
        """Why the driver is not registered with a kubelet that runs; None where it is."""
        return self._problem or self._no_kubelet

    def tell_health(self, told: tuple[Health, ...]) -> None:
        self._told = told
        self._news.tell(told)

    async def run(self) -> None:
        """Serves for ever."""
        while True:
            places = Places(self._paths.root, self._cdi, self._driver, secrets.token_hex(6))
            try:
                await self._serve(places)
            except ServeError as error:
                if self._problem != str(error):
                    _log.error("cannot serve", resource=self._driver, reason=str(error))
                self._problem = str(error)
            await asyncio.sleep(LOOK_S)

    async def _serve(self, places: Places) -> None:
        """Serves the driver first, then its registration, until one of the sockets is gone."""
        if not await asyncio.to_thread(places.registration_folder.is_dir):
            raise ServeError(
                f"{places.registration_folder} is no folder: kubelets make it when they start; {_OTHER_ROOT}"
            )
        try:
            await asyncio.to_thread(_make_folder, places)
        except OSError as error:
            raise ServeError(f"the folder for its socket cannot be made: {error.strerror}") from error
        self._news = HealthNews()
        self._news.tell(self._told)
        claims, news = self._claims, self._news
        service = SocketServer(
            places.service_socket,
            [DraV1(claims), DraV1Beta1(claims), HealthV1(news), HealthV1Alpha1(news)],
            self._calls,
        )
        registration = SocketServer(
            places.registration_socket, [Registration(self._driver, str(places.service_socket), self._note)]
        )
        self._problem = (
            f"waiting for the kubelet to find its socket in {places.registration_folder}; {_OTHER_ROOT}"
        )
        try:
            await service.start()
            await registration.start()
            while await asyncio.to_thread(self._look, service, registration):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(LOOK_S)
            _log.warning("a socket was removed or replaced; serving anew", resource=self._driver)
        finally:
            self._problem = "not registered"
            await registration.stop()
            await service.stop()

    def _look(self, *servers: SocketServer) -> bool:
        """Looks whether the kubelet runs; whether the sockets are in their places."""
        self._no_kubelet = explain_no_kubelet(self._paths.registration_socket)
        return all(server.is_in_place for server in servers)

    def _note(self, problem: str | None) -> None:
        self._problem = problem
        if problem is None:
            self.registered.set()


def _make_folder(places: Places) -> None:
    """Of the driver alone: a kubelet with another --root-dir never looks into a plugins_registry of ours."""
    places.folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    for path in places.stale_sockets():
        path.unlink(missing_ok=True)
