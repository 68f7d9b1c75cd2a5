"""A device plugin that writes down every call it gets, and answers as it is told."""

import asyncio
from contextlib import suppress
from pathlib import Path

import grpc.aio

from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as rpc
from tests.e2e.scenarios.answers import WAIT_S, Answers
from tests.e2e.scenarios.script import Serve
from tests.e2e.scenarios.transcript import Transcript


class RecordingPlugin:
    """One plugin of a scenario: it serves its `answers` on a socket of its name, registers, and closes."""

    def __init__(self, folder: Path, wanted: Serve, transcript: Transcript) -> None:
        self.folder = folder
        self.wanted = wanted
        self.transcript = transcript
        self.answers = Answers(wanted, transcript)
        self.registrations = 0
        self._registered = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def socket(self) -> str:
        return f"{self.wanted.plugin}.sock"

    async def serve(self) -> None:
        """Serves and registers; returns when the kubelet has answered, and opened the stream if it should."""
        await self._serve()
        if self.wanted.follow:
            self._following = asyncio.create_task(self._follow(self._kubelet()))

    async def _serve(self) -> None:
        self.answers.opened.clear()
        self.answers.ended.clear()
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        rpc.add_DevicePluginServicer_to_server(self.answers, self._server)
        self._server.add_insecure_port(f"unix:{self.folder / self.socket}")
        await self._server.start()
        answer = await register(
            self.folder, self.wanted.resource, self.socket, pre_start=self.wanted.claims_pre_start
        )
        self.transcript.add(self.wanted.plugin, f"Register was answered: {answer}")
        if answer == "OK":
            await asyncio.wait_for(self.answers.opened.wait(), WAIT_S)
            async with self._registered:
                self.registrations += 1
                self._registered.notify_all()

    async def _follow(self, seen: tuple[int, int] | None) -> None:
        while True:
            await asyncio.sleep(0.02)
            now = self._kubelet()
            if now is None or now == seen:
                continue
            seen = now
            await self._stop()
            await self._serve()

    async def is_back(self, registrations: int) -> None:
        """Returns when a plugin that follows the kubelet has registered more often than so many times."""
        if self._following is None or self._following.done():
            return
        async with asyncio.timeout(WAIT_S):
            async with self._registered:
                await self._registered.wait_for(lambda: self.registrations > registrations)

    def _kubelet(self) -> tuple[int, int] | None:
        try:
            stat = (self.folder / "kubelet.sock").stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_ctime_ns

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        await self._stop()

    async def _stop(self) -> None:
        self.answers.released.set()
        if self._server is not None:
            await self._server.stop(0)
        await self.answers.until_ended()


async def register(
    folder: Path, resource: str, endpoint: str, *, version: str = "v1beta1", pre_start: bool = False
) -> str:
    """What the kubelet answers to a registration: OK, or the error as a plugin sees it."""
    request = api.RegisterRequest(
        version=version,
        endpoint=endpoint,
        resource_name=resource,
        options=api.DevicePluginOptions(pre_start_required=pre_start),
    )
    async with grpc.aio.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
        try:
            # A socket that was just bound may not take connections yet.
            await rpc.RegistrationStub(channel).Register(request, timeout=WAIT_S, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
    return "OK"
