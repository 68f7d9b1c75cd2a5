"""What survives the end of a kubelet, and what a container start asks of a plugin."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from accelet.fakekubelet import ContainerState, FakeKubelet, ManualClock, Phase, a_container, a_pod
from accelet.fakekubelet.behaviour import kubelet_version
from accelet.fakekubelet.faults import Faults
from accelet.fakekubelet.node import Node
from accelet.fakekubelet.pods import Pod
from accelet.fakekubelet.process import Process
from accelet.fakekubelet.trace import Trace
from accelet.kubelet.api import deviceplugin_pb2 as api
from tests.integration.fakekubelet.scripted import THING, ScriptedPlugin, device, devices, one_response

NO_HEALTHY = (
    "Pod was rejected: Allocate failed due to no healthy devices present; "
    f"cannot allocate unhealthy devices {THING}, which is unexpected"
)


def wants(name: str = "a", count: int = 1) -> Pod:
    return a_pod(name, limits={THING: count})


async def ready(kubelet: FakeKubelet, *names: str, pre_start: bool = False) -> ScriptedPlugin:
    """A plugin that has registered and listed `names`, on a socket of its own."""
    plugin = ScriptedPlugin(kubelet)
    plugin.options = api.DevicePluginOptions(pre_start_required=pre_start)
    await plugin.serve(f"thing-{kubelet.resource(THING).registrations}.sock")
    await plugin.register()
    plugin.list(*devices(*names))
    await kubelet.resource(THING).devices(healthy=len(names))
    return plugin


async def test_after_a_restart_nothing_is_there_until_the_plugin_returns(kubelet: FakeKubelet) -> None:
    plugin = await ready(kubelet, "d1", "d2")
    pod = await kubelet.admit(wants())
    held = set(pod["main"].devices[THING])
    await kubelet.restart()
    await plugin.stop()
    thing = kubelet.resource(THING)
    assert (thing.capacity, thing.allocatable, thing.held) == (0, 0, frozenset(held))
    await kubelet.decided(pod)
    assert pod.phase is Phase.RUNNING
    again = await ready(kubelet, "d1", "d2")
    assert (thing.capacity, thing.allocatable) == (2, 2)
    other = await kubelet.admit(wants("b"))
    assert not held & set(other["main"].devices[THING])
    assert again.called("allocate")[1:] == []
    await again.stop()


async def test_a_kubelet_that_has_ended_begins_nothing(root: Path) -> None:
    """A Register that was under way at its end would otherwise have it watch the plugin for ever."""
    clock = ManualClock()
    node = Node(root, kubelet_version("1.36"), clock, Random(1), Trace(clock, 1), Faults())
    process = Process(node, lambda error: None)
    await process.start(pods_after_s=0.0, replacing=False)
    await process.stop()
    process.spawn(asyncio.sleep(3600))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_container_that_does_not_run_fails_its_pod_if_the_plugin_is_not_back(
    kubelet: FakeKubelet,
) -> None:
    plugin = await ready(kubelet, "d1")
    pod = await kubelet.admit(wants(), start=False)
    await kubelet.restart()
    await plugin.stop()
    await kubelet.decided(pod)
    assert pod.phase is Phase.FAILED
    assert pod.rejection is not None
    assert pod.rejection.message == NO_HEALTHY


async def test_a_completed_init_container_fails_its_running_pod_too(kubelet: FakeKubelet) -> None:
    plugin = await ready(kubelet, "d1")
    pod = await kubelet.admit(
        a_pod(init_containers=[a_container("init", {THING: 1})], containers=[a_container("main")])
    )
    assert pod["main"].state is ContainerState.RUNNING
    await kubelet.restart()
    await plugin.stop()
    await kubelet.decided(pod)
    assert pod.rejection is not None
    assert pod.rejection.message == NO_HEALTHY
    assert pod.containers["main"].state is ContainerState.EXITED


async def test_a_plugin_that_is_back_in_time_is_not_asked_again(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = await ready(kubelet, "d1", "d2")
        pod = await kubelet.admit(wants(), start=False)
        held = pod["main"].devices
        await kubelet.restart(pods_after_s=5)
        await plugin.stop()
        again = await ready(kubelet, "d1", "d2")
        await clock.advance(5)
        await kubelet.decided(pod)
        assert (pod.phase, pod["main"].devices) == (Phase.PENDING, held)
        assert again.called("allocate") == []
        await again.stop()


async def test_after_a_reboot_the_old_answer_is_used_again_if_the_plugin_is_early(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = await ready(kubelet, "d1")

        async def answer(_ids: Sequence[str]) -> api.AllocateResponse:
            return one_response(envs={"BEFORE": "reboot"})

        plugin.allocate = answer
        early = await kubelet.admit(wants())
        await kubelet.reboot(pods_after_s=5)
        await plugin.stop()
        again = await ready(kubelet, "d1", pre_start=True)
        await clock.advance(5)
        await kubelet.decided(early)
        assert early["main"].options.envs == {"BEFORE": "reboot"}
        assert (again.called("allocate"), len(again.called("pre-start"))) == ([], 1)
        await kubelet.reboot()
        await again.stop()
        await kubelet.decided(early)
        assert early.rejection is not None
        assert early.rejection.message == NO_HEALTHY


async def test_held_devices_that_became_unhealthy_fail_the_pod(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = await ready(kubelet, "d1")
        pod = await kubelet.admit(wants(), start=False)
        await kubelet.restart(pods_after_s=5)
        await plugin.stop()
        again = await ready(kubelet, "d2")
        again.list(device("d1", "Unhealthy"), device("d2"))
        await kubelet.resource(THING).devices(healthy=1, unhealthy=1)
        await clock.advance(5)
        await kubelet.decided(pod)
        assert pod.rejection is not None
        assert "previously allocated devices are no longer healthy" in pod.rejection.message
        await again.stop()


async def test_the_checkpoint_says_all_that_was_given(kubelet: FakeKubelet) -> None:
    plugin = await ready(kubelet)
    plugin.list(device("n", "Healthy", 0, 1), device("x"))
    await kubelet.resource(THING).devices(healthy=2)

    async def answer(_ids: Sequence[str]) -> api.AllocateResponse:
        return one_response(envs={"A": "ä"}, annotations={"token": "t-1"})

    plugin.allocate = answer
    pod = await kubelet.admit(
        a_pod(init_containers=[a_container("init", {THING: 1})], containers=[a_container("main", {THING: 2})])
    )
    entries = json.loads(kubelet.checkpoint.read_text())["Data"]["PodDeviceEntries"]
    by_container = {entry["ContainerName"]: entry for entry in entries}
    assert by_container.keys() == {"init", "main"}
    main = by_container["main"]
    assert (main["PodUID"], main["ResourceName"]) == (pod.pod.uid, THING)
    assert main["DeviceIDs"] == {"-1": ["x"], "0": ["n"], "1": ["n"]}
    await plugin.stop()


@pytest.mark.parametrize("damage", ["", "{", '{"Data":{}}', "checksum", "binary"])
async def test_a_damaged_checkpoint_is_as_good_as_none(kubelet: FakeKubelet, damage: str) -> None:
    plugin = await ready(kubelet, "d1")
    pod = await kubelet.admit(wants())
    await kubelet.stop()
    await plugin.stop()
    whole = kubelet.checkpoint.read_bytes()
    damaged = {"checksum": whole.replace(b'"d1"', b'"d2"'), "binary": b"\xff\xfe"}
    kubelet.checkpoint.write_bytes(damaged.get(damage, damage.encode()))
    await kubelet.start()
    assert kubelet.resource(THING).held == frozenset()
    assert any(event.event == "checkpoint-corrupt" for event in kubelet.trace)
    await kubelet.decided(pod)
    assert pod.phase is Phase.RUNNING


async def test_a_container_restarts_within_the_grace_period_and_not_after(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = await ready(kubelet, "d1")
        pod = await kubelet.admit(wants())
        await plugin.stop()
        await kubelet.resource(THING).disconnected()
        assert await kubelet.restart_container(pod)
        await clock.advance(311)
        assert not await kubelet.restart_container(pod)
        assert pod["main"].error == f"endpoint not found in cache for a registered resource: {THING}"
        assert pod["main"].state is ContainerState.WAITING


async def test_a_container_that_could_not_be_made_again_is_tried_until_its_plugin_is_back(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = await ready(kubelet, "d1", pre_start=True)
        pod = await kubelet.admit(wants())
        await plugin.stop()
        await kubelet.resource(THING).disconnected()
        assert not await kubelet.restart_container(pod)
        await clock.advance(10)
        assert pod["main"].error is not None
        assert pod["main"].error.startswith(
            f"device plugin PreStartContainer rpc failed with err: endpoint &{{{{{{}} {{0 0}}}} {THING} "
        )
        assert pod["main"].error.endswith(" has been stopped")
        plugin = await ready(kubelet, "d1", pre_start=True)
        await clock.advance(10)
        await kubelet.trace.until(
            lambda: pod["main"].state is ContainerState.RUNNING, "the container to run again"
        )
        await plugin.stop()


async def test_pre_start_comes_before_each_start_and_is_tried_again(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = await ready(kubelet, "d1", "d2", pre_start=True)

        async def fail(_ids: Sequence[str]) -> None:
            raise RuntimeError("not ready")

        plugin.pre_start = fail
        pod = await kubelet.admit(wants())
        assert pod["main"].state is ContainerState.WAITING
        assert pod["main"].error is not None
        assert pod["main"].error.startswith(
            "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc ="
        )

        async def succeed(_ids: Sequence[str]) -> None:
            return

        plugin.pre_start = succeed
        await clock.advance(10)
        await kubelet.trace.until(lambda: pod.phase is Phase.RUNNING, "the pod to run")
        await kubelet.restart_container(pod)
        calls = plugin.called("pre-start")
        assert [call.ids for call in calls] == [pod["main"].devices[THING]] * 3
        assert all(call.time_remaining is not None and 20 < call.time_remaining < 31 for call in calls)
        await plugin.stop()


async def test_pre_starts_of_different_pods_run_at_once_and_have_thirty_seconds(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = await ready(kubelet, "d1", "d2", pre_start=True)
        together, both_called = asyncio.Barrier(2), asyncio.Event()

        async def meet(_ids: Sequence[str]) -> None:
            await together.wait()
            both_called.set()
            await asyncio.Event().wait()

        plugin.pre_start = meet
        first, second = kubelet.bind(wants("a")), kubelet.bind(wants("b"))
        await asyncio.wait_for(both_called.wait(), 5)
        await clock.advance(30)
        for pod in (first, second):
            await kubelet.decided(pod)
            assert pod["main"].error is not None
            assert "DeadlineExceeded" in pod["main"].error
        await plugin.stop()


async def test_pre_start_of_a_stopped_plugin_fails(root: Path) -> None:
    async with FakeKubelet(root) as kubelet:
        plugin = await ready(kubelet, "d1", pre_start=True)
        pod = await kubelet.admit(wants(), start=False)
        await plugin.stop()
        await kubelet.resource(THING).disconnected()
        await kubelet.start_containers(pod)
        assert pod["main"].error is not None
        assert "has been stopped" in pod["main"].error


async def test_a_container_without_devices_gets_them_at_its_start_next_to_an_admission(
    kubelet: FakeKubelet,
) -> None:
    pod = await kubelet.admit(wants(), start=False)
    assert pod["main"].devices == {}
    plugin = await ready(kubelet, "d1", "d2")
    both = asyncio.Barrier(2)

    async def meet(_ids: Sequence[str]) -> api.AllocateResponse:
        await both.wait()
        return one_response()

    plugin.allocate = meet
    other = kubelet.bind(wants("other"))
    await kubelet.start_containers(pod)
    await kubelet.decided(other)
    assert set(pod["main"].devices[THING]) | set(other["main"].devices[THING]) == {"d1", "d2"}
    await plugin.stop()


async def test_the_first_pods_are_admitted_oldest_first(root: Path) -> None:
    async with FakeKubelet(root) as kubelet:
        await kubelet.stop()
        ages = {"young": 30, "old": 10, "twin-a": 20, "twin-b": 20}
        records = [kubelet.bind(a_pod(name, created_at=at)) for name, at in ages.items()]
        await kubelet.start()
        for record in records:
            await kubelet.decided(record)
        order = [event.pod for event in kubelet.trace if event.event == "admitted"]
        assert (order[0], order[-1]) == ("default/old", "default/young")
