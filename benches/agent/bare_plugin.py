"""The least a device plugin can be in Python: lists made-up devices and gives nothing for them."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc

from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as api_grpc


class BarePlugin(api_grpc.DevicePluginServicer):
    """No logic, no log, no metric: what is left is the cost of gRPC itself."""

    def __init__(self, devices: int) -> None:
        self._list = api.ListAndWatchResponse(
            devices=[api.Device(ID=f"bare-{number}", health="Healthy") for number in range(devices)]
        )

    async def GetDevicePluginOptions(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: grpc.aio.ServicerContext[api.Empty, api.DevicePluginOptions]
    ) -> api.DevicePluginOptions:
        return api.DevicePluginOptions()

    async def ListAndWatch(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: grpc.aio.ServicerContext[api.Empty, api.ListAndWatchResponse]
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        yield self._list
        await asyncio.Event().wait()

    async def Allocate(  # noqa: N802 - the wire's name
        self,
        request: api.AllocateRequest,
        context: grpc.aio.ServicerContext[api.AllocateRequest, api.AllocateResponse],
    ) -> api.AllocateResponse:
        return api.AllocateResponse(container_responses=[api.ContainerAllocateResponse()])

    async def GetPreferredAllocation(  # noqa: N802 - the wire's name
        self,
        request: api.PreferredAllocationRequest,
        context: grpc.aio.ServicerContext[api.PreferredAllocationRequest, api.PreferredAllocationResponse],
    ) -> api.PreferredAllocationResponse:
        return api.PreferredAllocationResponse()

    async def PreStartContainer(  # noqa: N802 - the wire's name
        self,
        request: api.PreStartContainerRequest,
        context: grpc.aio.ServicerContext[api.PreStartContainerRequest, api.PreStartContainerResponse],
    ) -> api.PreStartContainerResponse:
        return api.PreStartContainerResponse()


async def serve(directory: Path, resource: str, devices: int) -> None:
    """Registers once with the kubelet whose sockets are in `directory`, and serves until killed."""
    socket = directory / "bare.sock"
    server = grpc.aio.server()
    api_grpc.add_DevicePluginServicer_to_server(BarePlugin(devices), server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{directory}/kubelet.sock") as channel:
        await api_grpc.RegistrationStub(channel).Register(
            api.RegisterRequest(version="v1beta1", endpoint=socket.name, resource_name=resource)
        )
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
