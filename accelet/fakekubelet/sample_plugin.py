"""A small device plugin that does everything right: an example, and what the checks are tried on.

    python -m accelet.fakekubelet.sample_plugin --dir DIR --devices FOLDER

Each file in FOLDER is a device: its name is the id, its text begins with `healthy` (or why it is not).
`numa=N` in the text names its NUMA node, `node=PATH` a device file of the host, `cdi=NAME` a CDI device:
containers are given both. Taking a file away unplugs the device.
"""

import argparse
import asyncio
import re
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import grpc
import grpc.aio

from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as rpc

POLL_S = 0.1
"""How often it looks at kubelet.sock, its own socket and its devices. A stat costs nothing worth saving."""

REGISTER_TIMEOUT_S = 15.0
"""The kubelet may take 10 s to dial back before it answers."""

_Context = grpc.aio.ServicerContext[object, object]


class GivenUpError(Exception):
    """It cannot go on. The text says why; `code` is what the process ends with."""

    def __init__(self, why: str, code: int = 1) -> None:
        super().__init__(why)
        self.code = code


class SamplePlugin(rpc.DevicePluginServicer):
    """One resource. `run` keeps it registered until it is cancelled."""

    resource = "example.com/sample"

    def __init__(self, folder: Path, devices: Path) -> None:
        self.folder = folder
        self.devices = devices
        self.held_back: dict[str, api.Device] = {}
        self.texts: dict[str, str] = {}
        self.listed = self.scan()
        self.changed = asyncio.Event()
        self.stream_ended = asyncio.Event()
        self.stopping = asyncio.Event()
        self.socket = folder / "unused"

    # Its devices.

    def scan(self) -> list[api.Device]:
        """All devices there are, and, as unhealthy, those that once were: a container may hold them."""
        found = {path.name: self.read(path) for path in sorted(self.devices.iterdir())}
        self.held_back = {device: self.gone(seen) for device, seen in self.held_back.items()} | found
        return [self.held_back[device] for device in sorted(self.held_back)]

    def read(self, path: Path) -> api.Device:
        text = self.texts[path.name] = path.read_text()
        node = re.search(r"\bnuma=(\d+)", text)
        # Without a known node there must be no topology at all; an empty one means something else.
        topology = api.TopologyInfo(nodes=[api.NUMANode(ID=int(node[1]))]) if node else None
        return api.Device(ID=path.name, health=self.health(text), topology=topology)

    def health(self, text: str) -> str:
        return "Healthy" if text.split()[:1] == ["healthy"] else "Unhealthy"

    def gone(self, device: api.Device) -> api.Device:
        return api.Device(ID=device.ID, health="Unhealthy", topology=device.topology)

    # What the kubelet asks.

    def options(self) -> api.DevicePluginOptions:
        return api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def GetDevicePluginOptions(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: _Context
    ) -> api.DevicePluginOptions:
        return self.options()

    async def ListAndWatch(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: _Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        try:
            while not self.stopping.is_set():
                changed = self.changed
                yield api.ListAndWatchResponse(devices=self.listed)
                await changed.wait()
        finally:
            self.stream_ended.set()

    async def GetPreferredAllocation(  # noqa: N802 - the wire's name
        self, request: api.PreferredAllocationRequest, context: _Context
    ) -> api.PreferredAllocationResponse:
        return api.PreferredAllocationResponse(
            container_responses=[
                api.ContainerPreferredAllocationResponse(
                    deviceIDs=self.prefer(
                        wanted.available_deviceIDs, wanted.must_include_deviceIDs, wanted.allocation_size
                    )
                )
                for wanted in request.container_requests
            ]
        )

    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        """The first in order, after those that have to be there."""
        rest = sorted(set(available) - set(must))
        return [*must, *rest][:size]

    async def Allocate(  # noqa: N802 - the wire's name
        self, request: api.AllocateRequest, context: _Context
    ) -> api.AllocateResponse:
        responses = []
        for wanted in request.container_requests:
            if unusable := self.unusable(wanted.devices_ids):
                await context.abort(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"cannot use {', '.join(unusable)}: unknown or unhealthy; delete the pod to try again",
                )
            responses.append(self.answer(sorted(wanted.devices_ids)))
        return api.AllocateResponse(container_responses=responses)

    def unusable(self, ids: Sequence[str]) -> list[str]:
        """Whether somebody holds them already is the kubelet's business: it may give one twice."""
        healthy = {device.ID for device in self.listed if device.health == "Healthy"}
        return sorted(set(ids) - healthy)

    def answer(self, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Every path is absolute and is there; no two devices share one in the container."""
        return api.ContainerAllocateResponse(
            envs={"SAMPLE_DEVICES": ",".join(ids)},
            mounts=[
                api.Mount(
                    container_path=f"/run/sample/{device}", host_path=str(self.file(device)), read_only=True
                )
                for device in ids
            ],
            devices=[
                api.DeviceSpec(container_path=f"/dev/sample/{device}", host_path=path, permissions="rw")
                for device in ids
                for path in self.said(device, "node")
            ],
            cdi_devices=[api.CDIDevice(name=name) for device in ids for name in self.said(device, "cdi")],
        )

    def file(self, device: str) -> Path:
        """The file that is this device."""
        return self.devices / device

    def said(self, device: str, word: str) -> list[str]:
        """What the device's text has after `word=`, as it was read last."""
        return re.findall(rf"\b{word}=(\S+)", self.texts.get(self.file(device).name, ""))

    async def PreStartContainer(  # noqa: N802 - the wire's name
        self, request: api.PreStartContainerRequest, context: _Context
    ) -> api.PreStartContainerResponse:
        return api.PreStartContainerResponse()

    # Its life.

    async def run(self) -> None:
        """Serves, registers and watches; whatever ends, it starts again under a fresh socket name."""
        self.clear_up()
        pause = POLL_S
        while True:
            seen = await self.kubelet_appears()
            try:
                await self.live(seen)
                pause = POLL_S
            except grpc.aio.AioRpcError as error:
                if self.is_final(error):
                    raise GivenUpError(f"the kubelet refuses {self.resource}: {error.details()}") from error
                pause = min(5.0, pause * 2)
            await asyncio.sleep(pause)

    def is_final(self, error: grpc.aio.AioRpcError) -> bool:
        """Whether trying again cannot help: the kubelet does not speak this version or take this name."""
        details = error.details() or ""
        return "is not supported" in details or "is invalid" in details

    def clear_up(self) -> None:
        """Removes what a former life of ours could not: sockets of our name that nobody listens on."""
        for path in self.folder.glob("sample-*.sock"):
            with socket.socket(socket.AF_UNIX) as client:
                try:
                    client.connect(str(path))
                except OSError:
                    path.unlink(missing_ok=True)

    async def kubelet_appears(self) -> tuple[int, int]:
        # There is no event to wait for: a folder that was replaced sends none.
        while (seen := self.kubelet()) is None:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        return seen

    def kubelet(self) -> tuple[int, int] | None:
        """Which kubelet.sock is there. A number of its own does not tell: the next file may get it again."""
        try:
            stat = (self.folder / "kubelet.sock").stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_ctime_ns

    async def live(self, seen: tuple[int, int]) -> None:
        """One generation: from a fresh socket to the end of its stream."""
        self.stopping.clear()
        self.stream_ended.clear()
        self.socket = self.folder / self.socket_name()
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        rpc.add_DevicePluginServicer_to_server(self, server)
        try:
            await self.announce(server)
            await self.watch(seen)
        finally:
            self.stopping.set()
            self.wake()
            await server.stop(0)

    async def announce(self, server: grpc.aio.Server) -> None:
        """Serves, and only then registers: the kubelet dials back before it answers."""
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()
        await self.register()

    def socket_name(self) -> str:
        return f"sample-{uuid.uuid4().hex[:8]}.sock"

    def registration(self) -> api.RegisterRequest:
        return api.RegisterRequest(
            version="v1beta1",
            endpoint=self.socket.name,
            resource_name=self.resource,
            options=self.options(),
        )

    async def register(self) -> None:
        async with grpc.aio.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}") as channel:
            await rpc.RegistrationStub(channel).Register(self.registration(), timeout=REGISTER_TIMEOUT_S)

    async def watch(self, seen: tuple[int, int]) -> None:
        """Returns when the stream has ended, the kubelet is another one, or our socket is gone."""
        while not self.is_over(seen):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stream_ended.wait(), POLL_S)
            self.look()

    def is_over(self, seen: tuple[int, int]) -> bool:
        return self.stream_ended.is_set() or self.kubelet() != seen or not self.socket.exists()

    def look(self) -> None:
        """Tells the kubelet what has changed, if anything has."""
        devices = self.scan()
        if devices != self.listed:
            self.listed = devices
            self.wake()

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


async def main(plugin: Callable[[Path, Path], SamplePlugin] = SamplePlugin) -> int:
    """Runs `plugin` with the command line's folders until SIGTERM. Returns what the process ends with."""
    parser = argparse.ArgumentParser(description="A sample device plugin.")
    parser.add_argument("--dir", type=Path, required=True, help="the kubelet's device plugin folder")
    parser.add_argument("--devices", type=Path, required=True, help="a folder with one file a device")
    arguments = parser.parse_args()
    running = asyncio.create_task(plugin(arguments.dir, arguments.devices).run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        return 0
    except GivenUpError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a program's last words
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
