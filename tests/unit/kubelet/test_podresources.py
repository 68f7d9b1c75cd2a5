import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from accelet.kubelet.api import podresources_pb2 as pb
from accelet.kubelet.api.podresources_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from accelet.kubelet.errors import (
    KubeletError,
    MethodDisabledError,
    PodResourcesError,
    PodResourcesUnavailableError,
    RateLimitedError,
)
from accelet.kubelet.podresources import PodRecord, PodResources

Context = grpc.aio.ServicerContext[Any, Any]
RATE_LIMIT = (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")


def pod(name: str, *ids: str, resource: str = "gpu.intel.com/i915") -> pb.PodResources:
    devices = [pb.ContainerDevices(resource_name=resource, device_ids=[one]) for one in ids]
    return pb.PodResources(
        name=name, namespace="default", containers=[pb.ContainerResources(name="main", devices=devices)]
    )


class Kubelet(PodResourcesListerServicer):
    """A podresources server over a real socket that shows `pods` and refuses as the kubelet does."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.pods: list[pb.PodResources] = []
        self.refusals: list[tuple[grpc.StatusCode, str]] = []
        self.get_is_disabled = False
        self.calls = 0
        self.authority = ""
        self.hangs = False
        self._server = grpc.aio.server()

    async def start(self) -> None:
        add_PodResourcesListerServicer_to_server(self, self._server)
        # The kubelet renames its socket into place.
        beside = self.socket.with_name("new.sock")
        self._server.add_insecure_port(f"unix:{beside}")
        await self._server.start()
        beside.rename(self.socket)

    async def stop(self) -> None:
        await self._server.stop(None)

    async def _receive(self, context: Context) -> None:
        self.calls += 1
        if self.refusals:
            await context.abort(*self.refusals.pop(0))
        if self.hangs:
            await asyncio.Event().wait()

    async def Get(  # noqa: N802
        self, request: pb.GetPodResourcesRequest, context: Context
    ) -> pb.GetPodResourcesResponse:
        await self._receive(context)
        if self.get_is_disabled:
            await context.abort(grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled")
        found = [pod for pod in self.pods if pod.name == request.pod_name]
        if not found:
            text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            await context.abort(grpc.StatusCode.UNKNOWN, text)
        return pb.GetPodResourcesResponse(pod_resources=found[0])

    async def List(  # noqa: N802
        self, request: pb.ListPodResourcesRequest, context: Context
    ) -> pb.ListPodResourcesResponse:
        await self._receive(context)
        return pb.ListPodResourcesResponse(pod_resources=self.pods)

    async def GetAllocatableResources(  # noqa: N802
        self, request: pb.AllocatableResourcesRequest, context: Context
    ) -> pb.AllocatableResourcesResponse:
        await self._receive(context)
        return pb.AllocatableResourcesResponse(
            devices=[pb.ContainerDevices(resource_name="gpu.intel.com/i915", device_ids=["a"])]
        )


@pytest.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[Kubelet]:
    server = Kubelet(tmp_path / "kubelet.sock")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[PodResources]:
    async with PodResources(tmp_path / "kubelet.sock") as made:
        yield made


async def test_devices_of_one_container_are_one_set_for_each_resource(
    kubelet: Kubelet, client: PodResources
) -> None:
    shown = pod("p", "a", "b")
    shown.containers[0].devices.append(pb.ContainerDevices(resource_name="x/y", device_ids=["z"]))
    kubelet.pods = [shown]
    record = await client.get("default", "p")
    assert record is not None
    assert dict(record.containers[0].devices) == {"gpu.intel.com/i915": {"a", "b"}, "x/y": {"z"}}


async def test_pod_the_kubelet_does_not_show_is_none(kubelet: Kubelet, client: PodResources) -> None:
    assert await client.get("default", "absent") is None


async def test_disabled_get_is_told_apart_from_an_absent_pod(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.get_is_disabled = True
    with pytest.raises(MethodDisabledError, match="Get"):
        await client.get("default", "p")


async def test_get_that_the_kubelet_does_not_have_is_told_apart(tmp_path: Path) -> None:
    server = grpc.aio.server()
    server.add_insecure_port(f"unix:{tmp_path}/kubelet.sock")
    await server.start()
    async with PodResources(tmp_path / "kubelet.sock") as client:
        with pytest.raises(MethodDisabledError, match="Get"):
            await client.get("default", "p")
    await server.stop(None)


async def test_all_pods_are_listed(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.pods = [pod("p"), pod("q", "a")]
    listed = await client.list_all()
    assert [(one.namespace, one.name) for one in listed] == [("default", "p"), ("default", "q")]


async def test_allocatable_devices_are_sets_by_resource(kubelet: Kubelet, client: PodResources) -> None:
    assert dict(await client.allocatable()) == {"gpu.intel.com/i915": {"a"}}


async def test_refusals_by_the_rate_limit_are_tried_again(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.pods = [pod("p")]
    kubelet.refusals = [RATE_LIMIT, RATE_LIMIT]
    assert await client.get("default", "p") is not None
    assert kubelet.calls == 3


async def test_rate_limit_that_never_ends_is_given_up_within_the_budget(
    kubelet: Kubelet, client: PodResources
) -> None:
    kubelet.refusals = [RATE_LIMIT] * 1000
    with pytest.raises(RateLimitedError):
        await client.get("default", "p", timeout_s=1)
    assert kubelet.calls <= 50


async def test_last_try_that_is_cut_short_hides_no_refusal(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.refusals = [RATE_LIMIT]
    kubelet.hangs = True
    with pytest.raises(RateLimitedError):
        await client.get("default", "p", timeout_s=1)
    assert kubelet.calls == 2


async def test_answer_larger_than_the_limit_is_not_taken_for_the_rate_limit(
    kubelet: Kubelet, client: PodResources
) -> None:
    kubelet.refusals = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max")] * 10
    with pytest.raises(PodResourcesError) as caught:
        await client.list_all()
    assert not isinstance(caught.value, RateLimitedError)
    assert kubelet.calls == 1


async def test_answer_beyond_grpcs_own_limit_of_4_mib_is_read(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.pods = [pod("p", *(f"{number:063}" for number in range(80_000)))]
    record = await client.get("default", "p", timeout_s=20)
    assert record is not None
    assert len(record.containers[0].devices["gpu.intel.com/i915"]) == 80_000


async def test_absent_socket_is_given_up_within_the_budget(client: PodResources) -> None:
    with pytest.raises(PodResourcesUnavailableError, match="running"):
        await client.get("default", "p", timeout_s=0.1)


async def test_kubelet_that_hangs_is_given_up_within_the_budget(
    kubelet: Kubelet, client: PodResources
) -> None:
    kubelet.hangs = True
    with pytest.raises(PodResourcesUnavailableError, match="in time"):
        await client.get("default", "p", timeout_s=0.1)


async def test_any_other_failure_is_not_taken_for_an_absent_pod(
    kubelet: Kubelet, client: PodResources
) -> None:
    kubelet.refusals = [(grpc.StatusCode.UNKNOWN, "out of cheese")]
    with pytest.raises(PodResourcesError, match="out of cheese"):
        await client.get("default", "p")


async def test_replaced_kubelet_is_found_again(
    kubelet: Kubelet, client: PodResources, tmp_path: Path
) -> None:
    kubelet.pods = [pod("p")]
    assert await client.get("default", "p") is not None
    await kubelet.stop()
    with pytest.raises(PodResourcesUnavailableError):
        await client.get("default", "p", timeout_s=0.1)

    replacement = Kubelet(tmp_path / "kubelet.sock")
    replacement.pods = [pod("p", "a")]
    await replacement.start()
    record = await client.get("default", "p", timeout_s=5)
    assert record is not None
    assert record.containers[0].devices
    await replacement.stop()


async def test_kubelet_that_comes_late_is_waited_for_within_the_budget(
    client: PodResources, tmp_path: Path
) -> None:
    asking = asyncio.create_task(client.get("default", "p", timeout_s=5))
    late = Kubelet(tmp_path / "kubelet.sock")
    late.pods = [pod("p")]
    await late.start()
    assert isinstance(await asking, PodRecord)
    await late.stop()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.get("default", "p"),
        lambda client: client.list_all(),
        lambda client: client.allocatable(),
    ],
)
async def test_every_failure_is_of_the_one_tree(
    kubelet: Kubelet, client: PodResources, call: Callable[[PodResources], Any]
) -> None:
    kubelet.refusals = [(grpc.StatusCode.INTERNAL, "")]
    with pytest.raises(KubeletError):
        await call(client)
