"""Tells the kubelet that a resource exists."""

from pathlib import Path

import grpc

from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as api_grpc

API_VERSION = "v1beta1"

REGISTER_TIMEOUT_S = 15.0
"""Longer than the 10 s within which the kubelet dials us back before it answers."""


class RegistrationError(Exception):
    """The kubelet did not take the registration; the text says why.

    `is_absent`: nobody answered at the socket; the kubelet is not (yet) there.
    """

    def __init__(self, reason: str, *, is_absent: bool) -> None:
        super().__init__(reason)
        self.is_absent = is_absent


async def register(kubelet_socket: Path, endpoint: str, resource: str) -> None:
    """Announces `resource`, served at the socket file `endpoint` in the kubelet's directory.

    The kubelet calls GetDevicePluginOptions on that socket before it answers, so it must be served already.

    Raises:
        RegistrationError: the kubelet is not there, refuses, or does not answer.
    """
    request = api.RegisterRequest(
        version=API_VERSION,
        endpoint=endpoint,
        resource_name=resource,
        options=api.DevicePluginOptions(get_preferred_allocation_available=True),
    )
    channel = grpc.aio.insecure_channel(
        f"unix:{kubelet_socket}",
        options=[
            ("grpc.default_authority", "localhost"),
            # Another try shall not wait, up to two minutes, because the last one found nobody there.
            ("grpc.use_local_subchannel_pool", 1),
        ],
    )
    try:
        async with channel:
            await api_grpc.RegistrationStub(channel).Register(request, timeout=REGISTER_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            raise RegistrationError("the kubelet does not answer at its socket", is_absent=True) from error
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            text = f"the kubelet did not answer within {REGISTER_TIMEOUT_S:.0f} s"
            raise RegistrationError(text, is_absent=False) from error
        text = f"the kubelet refused: {error.details()} ({error.code().name})"
        raise RegistrationError(text, is_absent=False) from error
