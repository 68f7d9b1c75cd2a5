"""The kubelet's podresources service: which containers it shows, and the devices they hold."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import grpc

from accelet.kubelet.api import podresources_pb2 as pb
from accelet.kubelet.api.podresources_pb2_grpc import PodResourcesListerStub
from accelet.kubelet.errors import (
    MethodDisabledError,
    PodResourcesError,
    PodResourcesUnavailableError,
    RateLimitedError,
)

if TYPE_CHECKING:  # a name of the type stubs alone
    from accelet.kubelet.api.podresources_pb2_grpc import PodResourcesListerAsyncStub

T = TypeVar("T")

_RETRY_AFTER_S = 0.025
"""The kubelet's limiter refills one call each 10 ms; several clients share it."""

_CHANNEL_OPTIONS = (
    # The kubelet's answer has no limit of its own; 10,000 ids take about 0.5 MiB.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # What a Go client sends; ours would be the %-encoded socket path.
    ("grpc.default_authority", "localhost"),
    # A kubelet that was replaced is found again at once; gRPC's own backoff starts at 1 s and grows to 2 min.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    # No keepalive: the kubelet answers pings more frequent than one in 5 min by closing the connection.
)


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A resource claim that a container uses, and the CDI devices it was given by it."""

    namespace: str
    name: str
    cdi_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container the kubelet shows, with its device ids by resource name, and its claims."""

    name: str
    devices: Mapping[str, frozenset[str]]
    claims: tuple[ClaimRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod the kubelet shows: sidecars and app containers, never plain init containers. It has no UID."""

    namespace: str
    name: str
    containers: tuple[ContainerRecord, ...]


class PodResources:
    """A client of one podresources socket; made inside a running event loop.

    `get` reads only. `list_all` makes kubelets up to 1.37 free the devices of dead pods at once, which can
    drop the reservation of an Allocate in flight: where `get` exists, use `get`. A replaced kubelet is
    connected to again.

    Every method takes at most `timeout_s` in all, tries again within that time where the rate limit refused
    or nobody answered, and raises:
        RateLimitedError: the rate limit refused until the time was over.
        PodResourcesUnavailableError: nobody answered until the time was over.
        MethodDisabledError: this kubelet does not offer the method.
        PodResourcesError: any other answer.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS)
        self._stub: PodResourcesListerAsyncStub = PodResourcesListerStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()

    async def get(self, namespace: str, name: str, *, timeout_s: float = 1.0) -> PodRecord | None:
        """One pod; None if the kubelet does not show it."""
        request = pb.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        try:
            response = await self._call(
                "Get", lambda stub, left_s: stub.Get(request, timeout=left_s), timeout_s
            )
        except _PodNotFoundError:
            return None
        return _pod(response.pod_resources)

    async def list_all(self, *, timeout_s: float = 5.0) -> tuple[PodRecord, ...]:
        """All pods the kubelet shows: active ones from 1.34, before also rejected and finished ones.

        Empty or short for a while after the kubelet starts: that a pod is absent proves nothing.
        """
        response = await self._call(
            "List", lambda stub, left_s: stub.List(pb.ListPodResourcesRequest(), timeout=left_s), timeout_s
        )
        return tuple(_pod(one) for one in response.pod_resources)

    async def allocatable(self, *, timeout_s: float = 5.0) -> Mapping[str, frozenset[str]]:
        """The healthy devices the kubelet knows, in use or not, by resource name."""
        response = await self._call(
            "GetAllocatableResources",
            lambda stub, left_s: stub.GetAllocatableResources(
                pb.AllocatableResourcesRequest(), timeout=left_s
            ),
            timeout_s,
        )
        return _devices(response.devices)

    async def _call(
        self,
        method: str,
        send: "Callable[[PodResourcesListerAsyncStub, float], Awaitable[T]]",
        timeout_s: float,
    ) -> T:
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        failure: PodResourcesError | None = None
        while True:
            try:
                return await send(self._stub, max(0.001, deadline - clock()))
            except grpc.aio.AioRpcError as error:
                # The last try has only the rest of the time: what an earlier one was answered says more.
                if failure is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    failure = _translate(error, method, self._socket)
            if not _may_pass(failure) or clock() + _RETRY_AFTER_S >= deadline:
                raise failure
            await asyncio.sleep(_RETRY_AFTER_S)


class _PodNotFoundError(PodResourcesError):
    """The kubelet does not show the pod."""


def _may_pass(failure: PodResourcesError) -> bool:
    return isinstance(failure, RateLimitedError | PodResourcesUnavailableError)


def _translate(error: grpc.aio.AioRpcError, method: str, socket: Path) -> PodResourcesError:
    """Tells the kubelet's answers apart: all its own are code UNKNOWN (pkg/kubelet/apis/podresources)."""
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNIMPLEMENTED or (
        code is grpc.StatusCode.UNKNOWN and details.endswith("disabled")
    ):
        return MethodDisabledError(f"This kubelet does not offer {method} of its podresources service.")
    if code is grpc.StatusCode.UNKNOWN and details.startswith("pod ") and details.endswith(" not found"):
        return _PodNotFoundError(details)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "rate limit" in details:
        # The same code also says that a message is too large.
        return RateLimitedError(f"The rate limit of the kubelet's podresources service refuses {method}.")
    if code is grpc.StatusCode.UNAVAILABLE:
        return PodResourcesUnavailableError(
            f"Nobody answers at {socket}: is the kubelet running, and its pod-resources directory mounted?"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return PodResourcesUnavailableError(f"The kubelet did not answer {method} at {socket} in time.")
    return PodResourcesError(f"The kubelet's podresources service failed {method}: {code.name}, {details}")


def _pod(pod: pb.PodResources) -> PodRecord:
    return PodRecord(
        namespace=pod.namespace,
        name=pod.name,
        containers=tuple(
            ContainerRecord(
                container.name, _devices(container.devices), tuple(map(_claim, container.dynamic_resources))
            )
            for container in pod.containers
        ),
    )


def _claim(claim: pb.DynamicResource) -> ClaimRecord:
    ids = (device.name for one in claim.claim_resources for device in one.cdi_devices)
    return ClaimRecord(claim.claim_namespace, claim.claim_name, frozenset(ids))


def _devices(devices: Iterable[pb.ContainerDevices]) -> Mapping[str, frozenset[str]]:
    # One entry per device and NUMA node, each with one id.
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for entry in devices:
        ids[entry.resource_name].update(entry.device_ids)
    return MappingProxyType({resource: frozenset(held) for resource, held in ids.items()})
