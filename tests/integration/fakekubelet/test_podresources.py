"""What the podresources API shows, and to whom."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import grpc
import grpc.aio
import pytest

from accelet.fakekubelet import FakeKubelet, Late, ManualClock, Refuse, a_container, a_pod
from accelet.kubelet.api import deviceplugin_pb2 as deviceplugin
from accelet.kubelet.api import podresources_pb2 as api
from accelet.kubelet.api import podresources_pb2_grpc as rpc
from tests.integration.fakekubelet.scripted import THING, ScriptedPlugin, device, devices, one_response


@asynccontextmanager
async def client(kubelet: FakeKubelet) -> "AsyncIterator[rpc.PodResourcesListerAsyncStub]":
    async with grpc.aio.insecure_channel(
        f"unix:{kubelet.pod_resources_dir / 'kubelet.sock'}", options=[("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        yield rpc.PodResourcesListerStub(channel)


@asynccontextmanager
async def with_plugin(root: Path, version: str = "1.36") -> AsyncIterator[FakeKubelet]:
    async with FakeKubelet(root, version=version, clock=ManualClock()) as kubelet:
        plugin = ScriptedPlugin(kubelet)
        await plugin.serve()
        await plugin.register()
        plugin.list(device("far", "Healthy", 0, 1), device("plain"), device("sick", "Unhealthy"))
        await kubelet.resource(THING).devices(healthy=2)
        yield kubelet
        await plugin.stop()


def entries(listed: object) -> list[tuple[str, list[str], list[int]]]:
    found = [
        (each.resource_name, list(each.device_ids), [node.ID for node in each.topology.nodes])
        for each in cast("list[api.ContainerDevices]", listed)
    ]
    return sorted(found)


async def test_each_entry_has_one_id_and_one_numa_node(root: Path) -> None:
    async with with_plugin(root) as kubelet, client(kubelet) as podresources:
        await kubelet.admit(a_pod("a", limits={THING: 2}))
        (pod,) = (await podresources.List(api.ListPodResourcesRequest())).pod_resources
        (container,) = pod.containers
        expected = [(THING, ["far"], [0]), (THING, ["far"], [1]), (THING, ["plain"], [])]
        assert (pod.name, pod.namespace, container.name) == ("a", "default", "main")
        assert entries(container.devices) == expected
        got = await podresources.Get(api.GetPodResourcesRequest(pod_name="a", pod_namespace="default"))
        assert entries(got.pod_resources.containers[0].devices) == expected


async def test_allocatable_is_what_is_healthy_whoever_holds_it(root: Path) -> None:
    async with with_plugin(root) as kubelet, client(kubelet) as podresources:
        await kubelet.admit(a_pod("a", limits={THING: 1}))
        answer = await podresources.GetAllocatableResources(api.AllocatableResourcesRequest())
        assert entries(answer.devices) == [
            (THING, ["far"], [0]),
            (THING, ["far"], [1]),
            (THING, ["plain"], []),
        ]


@pytest.mark.parametrize(("version", "sidecars"), [("1.28", []), ("1.29", ["sidecar"])])
async def test_sidecars_are_shown_and_plain_init_containers_never(
    root: Path, version: str, sidecars: list[str]
) -> None:
    async with with_plugin(root, version) as kubelet, client(kubelet) as podresources:
        await kubelet.admit(
            a_pod(
                init_containers=[a_container("init"), a_container("sidecar", restart_policy="Always")],
                containers=[a_container("main")],
            )
        )
        (pod,) = (await podresources.List(api.ListPodResourcesRequest())).pod_resources
        assert [container.name for container in pod.containers] == [*sidecars, "main"]


@pytest.mark.parametrize(("version", "shown"), [("1.33", {"ok", "no"}), ("1.34", {"ok"}), ("1.38", {"ok"})])
async def test_rejected_pods_are_shown_up_to_1_33(root: Path, version: str, shown: set[str]) -> None:
    async with with_plugin(root, version) as kubelet, client(kubelet) as podresources:
        await kubelet.admit(a_pod("ok", limits={THING: 2}))
        await kubelet.admit(a_pod("no", limits={THING: 1}))
        listed = await podresources.List(api.ListPodResourcesRequest())
        assert {pod.name for pod in listed.pod_resources} == shown


@pytest.mark.parametrize(("version", "shown"), [("1.33", {"dying", "next"}), ("1.36", {"next"})])
async def test_a_pod_removed_during_an_admission_is_shown_until_that_is_over_up_to_1_33(
    root: Path, version: str, shown: set[str]
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def allocate(_ids: Sequence[str]) -> deviceplugin.AllocateResponse:
        asked.set()
        await answer.wait()
        return one_response()

    async with FakeKubelet(root, version=version) as kubelet, client(kubelet) as podresources:

        async def names() -> set[str]:
            return {
                pod.name for pod in (await podresources.List(api.ListPodResourcesRequest())).pod_resources
            }

        plugin = ScriptedPlugin(kubelet)
        await plugin.serve()
        await plugin.register()
        plugin.list(device("d1"), device("d2"))
        await kubelet.resource(THING).devices(healthy=2)
        dying = await kubelet.admit(a_pod("dying", limits={THING: 1}))
        plugin.allocate = allocate
        following = kubelet.bind(a_pod("next", limits={THING: 1}))
        await asked.wait()
        await kubelet.remove(dying)
        assert await names() == shown
        answer.set()
        await kubelet.decided(following)
        assert await names() == {"next"}
        await plugin.stop()


@pytest.mark.parametrize(
    ("version", "text"),
    [("1.33", "PodResources API Get method disabled"), ("1.34", "pod no in namespace default not found")],
)
async def test_get_is_there_from_1_34_and_knows_no_rejected_pod(root: Path, version: str, text: str) -> None:
    async with with_plugin(root, version) as kubelet, client(kubelet) as podresources:
        await kubelet.admit(a_pod("no", limits={THING: 3}))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await podresources.Get(api.GetPodResourcesRequest(pod_name="no", pod_namespace="default"))
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNKNOWN, text)


async def test_ten_calls_pass_at_once_and_one_more_every_ten_milliseconds(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet, client(kubelet) as podresources:
        for _ in range(10):
            await podresources.List(api.ListPodResourcesRequest())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await podresources.GetAllocatableResources(api.AllocatableResourcesRequest())
        assert (caught.value.code(), caught.value.details()) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "rejected by rate limit",
        )
        await clock.advance(0.011)
        await podresources.List(api.ListPodResourcesRequest())


async def test_after_a_restart_no_pod_is_shown_until_the_pods_have_come(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        records = [await kubelet.admit(a_pod(name)) for name in ("a", "b")]
        await kubelet.restart(pods_after_s=3)
        async with client(kubelet) as podresources:
            assert not (await podresources.List(api.ListPodResourcesRequest())).pod_resources
            await clock.advance(3)
            for record in records:
                await kubelet.decided(record)
            assert len((await podresources.List(api.ListPodResourcesRequest())).pod_resources) == 2


async def test_podresources_can_fail_or_be_late(root: Path) -> None:
    async with FakeKubelet(root) as kubelet, client(kubelet) as podresources:
        kubelet.faults.pod_resources.inject(Refuse("down", grpc.StatusCode.UNAVAILABLE), times=2)
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError, match="down"):
                await podresources.List(api.ListPodResourcesRequest())
        kubelet.faults.pod_resources.inject(Late(0.05))
        await podresources.List(api.ListPodResourcesRequest())


async def test_a_device_with_an_empty_topology_falls_out_of_allocatable(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    await scripted.register()
    odd = device("odd")
    odd.topology.SetInParent()
    scripted.list(odd, *devices("even"))
    await kubelet.resource(THING).devices(healthy=2)
    async with client(kubelet) as podresources:
        answer = await podresources.GetAllocatableResources(api.AllocatableResourcesRequest())
    assert entries(answer.devices) == [(THING, ["even"], [])]
