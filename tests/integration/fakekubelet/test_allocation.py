"""How pods get their devices, and what happens when a plugin does not answer as it should."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc
import grpc.aio
import pytest

from accelet.fakekubelet import FakeKubelet, KubeletCrash, Phase, Rejection, a_container, a_pod
from accelet.fakekubelet.pods import Pod
from accelet.fakekubelet.resource import ResourceView
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import podresources_pb2, podresources_pb2_grpc
from tests.integration.fakekubelet.scripted import THING, Call, ScriptedPlugin, device, devices, one_response

PREFERS = api.DevicePluginOptions(get_preferred_allocation_available=True)


def wants(name: str, count: int = 1) -> Pod:
    return a_pod(name, limits={THING: count})


@pytest.fixture
async def thing(kubelet: FakeKubelet, scripted: ScriptedPlugin) -> ResourceView:
    """Five healthy devices, d1 to d5, of a plugin that states preferences."""
    scripted.options = PREFERS
    await scripted.register()
    scripted.list(*devices("d1", "d2", "d3", "d4", "d5"))
    view = await kubelet.registered(THING)
    await view.devices(healthy=5)
    return view


async def listing(kubelet: FakeKubelet) -> podresources_pb2.ListPodResourcesResponse:
    async with grpc.aio.insecure_channel(f"unix:{kubelet.pod_resources_dir / 'kubelet.sock'}") as channel:
        stub = podresources_pb2_grpc.PodResourcesListerStub(channel)
        return await stub.List(podresources_pb2.ListPodResourcesRequest())


async def names(kubelet: FakeKubelet) -> set[str]:
    return {pod.name for pod in (await listing(kubelet)).pod_resources}


async def test_allocate_has_one_request_no_deadline_and_no_metadata(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    await kubelet.admit(wants("a", 3))
    (call,) = scripted.called("allocate")
    assert len(call.ids) == 3
    assert call.time_remaining is None
    assert call.metadata.keys() <= {"user-agent", "grpc-accept-encoding"}


async def test_pods_are_admitted_one_by_one_in_the_order_of_their_arrival(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    under_way = most = 0
    seen: list[set[str]] = []

    async def allocate(_ids: Sequence[str]) -> api.AllocateResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        seen.append(await names(kubelet))
        under_way -= 1
        return one_response()

    scripted.allocate = allocate
    await kubelet.admit_all([wants("c"), wants("a"), wants("b")])
    assert most == 1
    assert seen == [{"c"}, {"c", "a"}, {"c", "a", "b"}]


async def test_a_hanging_allocate_stops_the_whole_node(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    release = asyncio.Event()

    async def hang(_ids: Sequence[str]) -> api.AllocateResponse:
        await release.wait()
        return one_response()

    scripted.allocate = hang
    first = kubelet.bind(wants("first"))
    second = kubelet.bind(a_pod("wants-nothing"))
    await kubelet.trace.until(
        lambda: any(event.event == "allocate" for event in kubelet.trace), "the first Allocate"
    )
    assert (first.admitted, second.admitted) == (None, None)
    release.set()
    await kubelet.decided(second)
    assert (first.phase, second.phase) == (Phase.RUNNING, Phase.RUNNING)


async def test_init_containers_lend_and_sidecars_keep(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    scripted.prefer = lambda call: sorted(call.ids, key=lambda name: (name not in call.must, name))[
        : call.size
    ]
    pod = await kubelet.admit(
        a_pod(
            init_containers=[
                a_container("init2", {THING: 2}),
                a_container("sidecar1", {THING: 1}, restart_policy="Always"),
                a_container("init3", {THING: 3}),
            ],
            containers=[a_container("main1", {THING: 1}), a_container("main3", {THING: 3})],
        )
    )
    init2, sidecar, init3, main1, main3 = (
        set(pod[name].devices[THING]) for name in ("init2", "sidecar1", "init3", "main1", "main3")
    )
    assert init2 == {"d1", "d2"}
    assert sidecar < init2
    lent = init2 - sidecar
    assert init3 == lent | {"d3", "d4"}
    assert main1 < init3
    assert main3 == (init3 - main1) | {"d5"}
    asked = [(call.size, set(call.must)) for call in scripted.called("preferred")]
    assert asked == [(2, set()), (3, lent), (3, init3 - main1)]
    assert len(scripted.called("allocate")) == 5


async def test_two_resources_come_in_an_order_only_the_seed_knows(root: Path) -> None:
    orders = set()
    for seed in range(8):
        async with FakeKubelet(root, seed=seed) as kubelet:
            first, second = ScriptedPlugin(kubelet, "example.com/x"), ScriptedPlugin(kubelet, "example.com/y")
            await first.serve("x.sock")
            await second.serve("y.sock")
            for plugin in (first, second):
                await plugin.register()
                plugin.list(*devices(f"{plugin.resource[-1]}1"))
                await kubelet.resource(plugin.resource).devices(healthy=1)
                plugin.allocate = _with_env(plugin.resource)
            pod = await kubelet.admit(a_pod(limits={"example.com/x": 1, "example.com/y": 1}))
            orders.add(tuple(event.resource for event in kubelet.trace if event.event == "allocate"))
            assert pod["main"].options.envs["WHO"] in ("example.com/x", "example.com/y")
            assert pod["main"].options.conflicts == ("env WHO",)
            await kubelet.remove(pod)
            await first.stop()
            await second.stop()
    assert len(orders) == 2


def _with_env(resource: str):  # type: ignore[no-untyped-def] # a plugin's answer
    async def allocate(_ids: Sequence[str]) -> api.AllocateResponse:
        return one_response(envs={"WHO": resource})

    return allocate


async def test_the_plugin_is_asked_even_when_all_free_devices_are_needed(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    await kubelet.admit(wants("all", 5))
    (call,) = scripted.called("preferred")
    assert (set(call.ids), call.must, call.size) == ({"d1", "d2", "d3", "d4", "d5"}, (), 5)


@pytest.mark.parametrize(
    ("answer", "certain"),
    [(["d4", "d2"], {"d4", "d2"}), (["d4", "x", "d4"], {"d4"}), ([], set()), (["d1", "d2", "d3"], set())],
)
async def test_a_useless_preference_is_made_up_for(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView, answer: list[str], certain: set[str]
) -> None:
    scripted.prefer = lambda _call: answer
    pod = await kubelet.admit(wants("a", 2))
    got = set(pod["main"].devices[THING])
    assert len(got) == 2
    assert certain <= got
    if len(set(answer) & thing.healthy) > 2:
        assert got < set(answer)


async def test_a_failing_preference_rejects_the_pod(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    def fail(_call: Call) -> Sequence[str]:
        raise RuntimeError("boom")

    scripted.prefer = fail
    pod = await kubelet.admit(wants("a"))
    assert pod.rejection is not None
    assert pod.rejection.message.startswith(
        "Pod was rejected: Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: "
        "rpc error: code = Unknown desc = "
    )
    assert thing.held == frozenset()


async def test_a_numa_mask_narrows_the_choice(kubelet: FakeKubelet, scripted: ScriptedPlugin) -> None:
    scripted.options = PREFERS
    await scripted.register()
    scripted.list(
        *(device(f"n0-{i}", "Healthy", 0) for i in range(3)),
        *(device(f"n1-{i}", "Healthy", 1) for i in range(2)),
        device("none"),
    )
    await (await kubelet.registered(THING)).devices(healthy=6)
    near = await kubelet.admit(a_pod("near", containers=[a_container("main", {THING: 2}, numa_affinity=[0])]))
    assert all(name.startswith("n0-") for name in near["main"].devices[THING])
    assert set(scripted.called("preferred")[0].ids) == {"n0-0", "n0-1", "n0-2"}
    far = await kubelet.admit(a_pod("far", containers=[a_container("main", {THING: 2}, numa_affinity=[0])]))
    free = {"n0-0", "n0-1", "n0-2"} - set(near["main"].devices[THING])
    assert free < set(far["main"].devices[THING])
    assert set(scripted.called("preferred")[1].must) == free
    assert len(scripted.called("preferred")[1].ids) == 4


async def test_an_error_from_allocate_is_the_users_to_read(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    async def refuse(_ids: Sequence[str]) -> api.AllocateResponse:
        raise RuntimeError("no such luck")

    scripted.allocate = refuse
    pod = await kubelet.admit(wants("a"))
    assert pod.phase is Phase.FAILED
    assert pod.rejection == Rejection(
        "UnexpectedAdmissionError",
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = "
        "Unexpected <class 'RuntimeError'>: no such luck, which is unexpected",
    )
    assert thing.held == frozenset()


async def test_an_empty_answer_rejects_and_loses_the_devices_until_somebody_counts(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    good = scripted.allocate
    first = await kubelet.admit(wants("first"))

    async def empty(_ids: Sequence[str]) -> api.AllocateResponse:
        return api.AllocateResponse()

    scripted.allocate = empty
    pod = await kubelet.admit(wants("a", 4))
    assert pod.rejection is not None
    assert "no containers return in allocation response" in pod.rejection.message
    assert len(thing.held) == 5
    scripted.allocate = good
    starved = await kubelet.admit(wants("b"))
    assert starved.rejection is not None
    assert "Requested: 1, Available: 0" in starved.rejection.message
    await kubelet.remove(first)
    assert (await kubelet.admit(wants("c"))).phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("version", "answer"),
    [("1.33", "&AllocateResponse{ContainerResponses:[]*ContainerAllocateResponse{},}"), ("1.34", "")],
)
async def test_an_empty_answer_is_printed_in_full_up_to_1_33(root: Path, version: str, answer: str) -> None:
    async with FakeKubelet(root, version=version) as kubelet:
        plugin = ScriptedPlugin(kubelet)
        await plugin.serve()
        await plugin.register()
        plugin.list(*devices("d1"))
        await (await kubelet.registered(THING)).devices(healthy=1)

        async def empty(_ids: Sequence[str]) -> api.AllocateResponse:
            return api.AllocateResponse()

        plugin.allocate = empty
        pod = await kubelet.admit(wants("a"))
        assert pod.rejection == Rejection(
            "UnexpectedAdmissionError",
            "Pod was rejected: Allocate failed due to no containers return in allocation response "
            f"{answer}, which is unexpected",
        )
        await plugin.stop()


async def test_a_pod_rejected_after_allocate_gives_back_later(root: Path) -> None:
    def no_cpu(pod: Pod) -> Rejection | None:
        return Rejection("OutOfcpu", "no cpu left") if pod.name == "greedy" else None

    async with FakeKubelet(root, admission_hook=no_cpu) as kubelet:
        plugin = ScriptedPlugin(kubelet)
        await plugin.serve()
        await plugin.register()
        plugin.list(*devices("d1"))
        thing = await kubelet.registered(THING)
        await thing.devices(healthy=1)
        greedy = await kubelet.admit(wants("greedy"))
        assert greedy.rejection == Rejection("OutOfcpu", "no cpu left")
        assert thing.held == {"d1"}
        assert (await kubelet.admit(wants("next")))["main"].devices == {THING: ("d1",)}
        await plugin.stop()


async def test_nothing_is_freed_before_somebody_counts_and_a_terminating_pod_keeps_its_devices(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    pod = await kubelet.admit(wants("a", 5))
    await kubelet.terminate(pod)
    await listing(kubelet)
    assert len(thing.held) == 5
    await kubelet.remove(pod)
    assert len(thing.held) == 5
    await listing(kubelet)
    assert thing.held == frozenset()


@pytest.mark.parametrize(("version", "is_given_twice"), [("1.36", True), ("1.37", True), ("1.38", False)])
async def test_a_list_during_an_allocate_loses_its_reservation_up_to_1_37(
    root: Path, version: str, is_given_twice: bool
) -> None:
    async with FakeKubelet(root, version=version) as kubelet:
        plugin = ScriptedPlugin(kubelet)
        await plugin.serve()
        await plugin.register()
        plugin.list(*devices("d1", "d2"))
        thing = await kubelet.registered(THING)
        await thing.devices(healthy=2)
        dead = await kubelet.admit(wants("dead"))
        held_during = frozenset[str]()

        async def allocate(_ids: Sequence[str]) -> api.AllocateResponse:
            nonlocal held_during
            await kubelet.remove(dead)
            await listing(kubelet)
            held_during = thing.held
            return one_response()

        plugin.allocate = allocate
        pod = await kubelet.admit(wants("new"))
        reserved = set(pod["main"].devices[THING])
        assert (not held_during & reserved) is is_given_twice
        await plugin.stop()


@pytest.mark.parametrize(("version", "crashes"), [("1.33", False), ("1.34", True), ("1.38", True)])
async def test_an_id_that_vanishes_during_its_allocate_crashes_from_1_34(
    root: Path, version: str, crashes: bool
) -> None:
    kubelet = FakeKubelet(root, version=version)
    await kubelet.start()
    plugin = ScriptedPlugin(kubelet)
    await plugin.serve()
    await plugin.register()
    plugin.list(*devices("d1"))
    thing = await kubelet.registered(THING)
    await thing.devices(healthy=1)

    async def allocate(_ids: Sequence[str]) -> api.AllocateResponse:
        plugin.list()
        await thing.devices(healthy=0)
        return one_response()

    plugin.allocate = allocate
    if crashes:
        with pytest.raises(KubeletCrash, match=r"d1 of example\.com/thing left the plugin's list"):
            await kubelet.admit(wants("a"))
        assert not kubelet.is_running
    else:
        assert (await kubelet.admit(wants("a")))["main"].devices == {THING: ("d1",)}
    await plugin.stop()
    await kubelet.stop()


async def test_a_crash_nobody_saw_fails_the_test_at_its_end(root: Path) -> None:
    async def story() -> None:
        async with FakeKubelet(root) as kubelet:
            plugin = ScriptedPlugin(kubelet)
            await plugin.serve()
            await plugin.register()
            plugin.list(*devices("d1"))
            thing = await kubelet.registered(THING)
            await thing.devices(healthy=1)

            async def allocate(_ids: Sequence[str]) -> api.AllocateResponse:
                plugin.list()
                await thing.devices(healthy=0)
                return one_response()

            plugin.allocate = allocate
            kubelet.bind(wants("a"))
            # Whoever waits on the trace would see the crash.
            while kubelet.is_running:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await plugin.stop()

    with pytest.raises(KubeletCrash):
        await story()


async def test_a_full_disk_rejects_new_pods_and_changes_nothing_else(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    before = kubelet.checkpoint.read_bytes()
    kubelet.faults.disk_full = True
    scripted.list(*devices("d1", "d2"))
    await thing.devices(healthy=2)
    pod = await kubelet.admit(wants("a"))
    assert pod.rejection is not None
    assert "no space left on device" in pod.rejection.message
    assert kubelet.checkpoint.read_bytes() == before
    kubelet.faults.disk_full = False
    assert (await kubelet.admit(wants("b"))).phase is Phase.RUNNING


async def test_asking_for_none_still_needs_a_healthy_device(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    await scripted.register()
    scripted.list(device("d1", "Unhealthy"))
    await (await kubelet.registered(THING)).devices(unhealthy=1)
    pod = await kubelet.admit(wants("none", 0))
    assert pod.rejection is not None
    assert "no healthy devices present; cannot allocate unhealthy devices" in pod.rejection.message


async def test_a_resource_nobody_knows_is_left_to_others(kubelet: FakeKubelet) -> None:
    pod = await kubelet.admit(a_pod(limits={"example.com/elsewhere": 1}))
    assert pod.phase is Phase.RUNNING
    assert pod["main"].devices == {}


async def test_a_resource_of_dynamic_allocation_is_skipped(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    pod = await kubelet.admit(a_pod(containers=[a_container("main", {THING: 1}, dra_backed=[THING])]))
    assert pod.phase is Phase.RUNNING
    assert scripted.called("allocate") == []


async def test_everything_a_plugin_gives_reaches_the_container(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    async def answer(_ids: Sequence[str]) -> api.AllocateResponse:
        return one_response(
            envs={"A": "1"},
            annotations={"a.b/c": "d"},
            mounts=[api.Mount(container_path="/c", host_path="/h", read_only=True)],
            devices=[api.DeviceSpec(container_path="/dev/c", host_path="/dev/h", permissions="rw")],
            cdi_devices=[api.CDIDevice(name="v/c=n"), api.CDIDevice(name="v/c=n")],
        )

    scripted.allocate = answer
    options = (await kubelet.admit(wants("a")))["main"].options
    assert (options.envs, options.annotations, options.cdi_devices) == (
        {"A": "1"},
        {"a.b/c": "d"},
        ("v/c=n",),
    )
    (mount,), (given,) = options.mounts, options.devices
    assert (mount.container_path, mount.host_path, mount.read_only) == ("/c", "/h", True)
    assert (given.container_path, given.host_path, given.permissions) == ("/dev/c", "/dev/h", "rw")


async def test_the_health_of_held_devices_is_in_the_pods_status(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, thing: ResourceView
) -> None:
    pod = await kubelet.admit(wants("a", 5))
    scripted.list(device("d1", "Unhealthy"), device("d2"))
    await thing.devices(healthy=1, unhealthy=1)
    health = dict.fromkeys(("d2", "d3", "d4", "d5"), "Healthy") | {"d1": "Unhealthy"}
    assert kubelet.allocated_resources_status(pod) == {"main": {THING: health}}
