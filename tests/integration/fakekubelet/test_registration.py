"""How plugins come and go: the folder, Register, ListAndWatch, and what the node then has."""

import asyncio
import json
import os
import socket
import stat
import time
from pathlib import Path

import grpc
import grpc.aio
import pytest
from watchdog.events import FileCreatedEvent, FileMovedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from accelet.fakekubelet import FakeKubelet, Hang, Late, ManualClock, Refuse, a_pod
from accelet.kubelet.api import deviceplugin_pb2 as api
from tests.integration.fakekubelet.scripted import THING, ScriptedPlugin, device, devices


async def refusal(plugin: ScriptedPlugin, **what: str) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await plugin.register(**what)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    return caught.value.details() or ""


def is_refused(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


async def test_a_start_removes_only_sockets_of_the_folder_itself(root: Path) -> None:
    folder = root / "device-plugins"
    (folder / "sub").mkdir(parents=True)
    for name in ("old.sock", "kubelet.sock", "sub/deep.sock"):
        a_socket(folder / name)
    (root / "elsewhere").mkdir()
    a_socket(root / "elsewhere" / "target.sock")
    (folder / "link.sock").symlink_to(root / "elsewhere" / "target.sock")
    (folder / "a-file").write_text("kept")
    async with FakeKubelet(root):
        left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        assert left == ["a-file", "kubelet.sock", "sub", "sub/deep.sock"]
        assert (root / "elsewhere" / "target.sock").exists()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
        assert (folder / "kubelet.sock").is_socket()


class _Events(FileSystemEventHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def on_any_event(self, event: FileSystemEvent) -> None:
        for path in {os.fsdecode(event.src_path), os.fsdecode(event.dest_path)} - {""}:
            if path.endswith("kubelet.sock"):
                self.seen.append((type(event).__name__, Path(path).parent.name))


async def test_each_socket_appears_in_one_event_as_with_the_real_kubelet(root: Path) -> None:
    for name in ("device-plugins", "pod-resources"):
        (root / name).mkdir()
    events = _Events()
    observer = Observer()
    observer.schedule(events, str(root), recursive=True, event_filter=[FileCreatedEvent, FileMovedEvent])
    observer.start()
    try:
        async with FakeKubelet(root):
            (root / "device-plugins" / "last-kubelet.sock").touch()
            deadline = time.monotonic() + 5
            # watchdog tells on a thread of its own
            while len(events.seen) < 3 and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        observer.stop()
        observer.join()
    assert sorted(events.seen) == [
        ("FileCreatedEvent", "device-plugins"),
        ("FileCreatedEvent", "device-plugins"),
        ("FileMovedEvent", "pod-resources"),
    ]


async def test_a_stop_leaves_socket_files_that_refuse_and_drops_every_stream(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    await scripted.register()
    scripted.list(*devices("a"))
    await kubelet.resource(THING).devices(healthy=1)
    await kubelet.stop()
    for path in (kubelet.plugins_dir / "kubelet.sock", kubelet.pod_resources_dir / "kubelet.sock"):
        assert path.is_socket()
        assert is_refused(path)
    assert kubelet.resource(THING).capacity == kubelet.node_status.get(THING, (0, 0))[0]


@pytest.mark.parametrize(
    "name",
    ["thing", "kubernetes.io/thing", "x.kubernetes.io/thing", "requests.a.b/c", "A.b/c", "a.b/", "a.b/-x"],
)
async def test_bad_resource_names_are_refused_without_a_dial(scripted: ScriptedPlugin, name: str) -> None:
    assert await refusal(scripted, resource=name) == f'the ResourceName "{name}" is invalid'
    assert scripted.calls == []


async def test_another_api_version_is_refused_without_a_dial(scripted: ScriptedPlugin) -> None:
    assert await refusal(scripted, version="v1") == (
        'requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]'
    )
    assert scripted.calls == []


async def test_register_answers_after_the_options_were_read(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    scripted.options = api.DevicePluginOptions(pre_start_required=True)
    await scripted.register()
    assert [call.method for call in scripted.calls][:1] == ["options"]
    assert kubelet.resource(THING).options.pre_start_required
    assert scripted.calls[0].metadata.keys() <= {"user-agent", "grpc-accept-encoding"}


async def test_an_endpoint_is_a_path_below_the_folder(kubelet: FakeKubelet, scripted: ScriptedPlugin) -> None:
    (kubelet.plugins_dir / "sub").mkdir()
    nested = ScriptedPlugin(kubelet, "example.com/nested")
    await nested.serve("sub/nested.sock")
    await nested.register(endpoint="/sub/../sub/nested.sock")
    assert kubelet.resource("example.com/nested").is_connected
    await nested.stop()


async def test_a_plugin_that_does_not_answer_is_given_up_after_ten_seconds(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = ScriptedPlugin(kubelet)
        registering = asyncio.create_task(refusal(plugin, endpoint="nobody.sock"))
        await kubelet.trace.until(lambda: any(e.event == "register" for e in kubelet.trace), "the call")
        await clock.advance(9.9)
        assert not registering.done()
        await clock.advance(0.2)
        assert await registering == "failed to dial device plugin: context deadline exceeded"
        assert clock.now() < 11


async def test_a_socket_that_appears_late_is_found_by_the_next_try(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    late = ScriptedPlugin(kubelet, "example.com/late")
    late.socket = kubelet.plugins_dir / "late.sock"
    began = time.monotonic()
    registering = asyncio.create_task(late.register())
    await kubelet.trace.until(lambda: any(e.event == "register" for e in kubelet.trace), "the call")
    await asyncio.sleep(0.3)  # the kubelet's first try has to fail, and nothing tells when it has
    await late.serve("late.sock")
    await registering
    assert 0.7 < time.monotonic() - began < 3
    await late.stop()


async def test_failing_options_fail_the_registration_and_nothing_is_known(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    scripted.options_error = "no options today"
    assert await refusal(scripted) == (
        "failed to get device plugin options: rpc error: code = Internal desc = no options today"
    )
    assert scripted.called("watch") == []
    assert not kubelet.resource(THING).is_connected
    assert THING not in kubelet.node_status


async def test_each_list_replaces_the_last_and_rewrites_the_checkpoint(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    await scripted.register()
    scripted.list(*devices("a", "b"))
    thing = kubelet.resource(THING)
    await thing.devices(healthy=2)
    first = kubelet.checkpoint.stat()
    scripted.list(device("b"), device("c", "Broken"), device("d", "healthy"))
    await thing.devices(healthy=1, unhealthy=2)
    assert set(thing.listed) == {"b", "c", "d"}
    assert (thing.capacity, thing.allocatable) == (3, 1)
    second = kubelet.checkpoint.stat()
    assert second.st_ino != first.st_ino
    assert stat.S_IMODE(second.st_mode) == 0o600
    assert json.loads(kubelet.checkpoint.read_text())["Data"]["RegisteredDevices"] == {THING: ["b"]}


async def test_an_id_listed_twice_counts_in_both_states(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    await scripted.register()
    scripted.list(device("a"), device("a", "Unhealthy"), device(""))
    thing = kubelet.resource(THING)
    await thing.devices(healthy=2, unhealthy=1)
    assert (thing.capacity, thing.allocatable) == (3, 2)


@pytest.mark.parametrize(("count", "fits"), [(55_188, True), (55_189, False)])
async def test_a_list_of_more_than_four_mebibytes_ends_the_stream(
    kubelet: FakeKubelet, scripted: ScriptedPlugin, count: int, fits: bool
) -> None:
    await scripted.register()
    scripted.list(*devices(*(f"{number:063d}" for number in range(count))))
    thing = kubelet.resource(THING)
    if fits:
        await thing.devices(healthy=count, timeout_s=30)
    else:
        await thing.disconnected(timeout_s=30)
        ended = next(event for event in kubelet.trace if event.event == "stream-ended")
        assert "ResourceExhausted" in ended.detail
        assert "4194364 vs. 4194304" in ended.detail
        assert (thing.capacity, thing.allocatable) == (0, 0)


async def test_a_lost_plugin_keeps_its_capacity_for_five_minutes(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = ScriptedPlugin(kubelet)
        await plugin.serve()
        await plugin.register()
        plugin.list(*devices("a", "b"), device("c", "Unhealthy"))
        thing = kubelet.resource(THING)
        await thing.devices(healthy=2)
        await clock.advance(10)
        assert kubelet.node_status == {THING: (3, 2)}
        plugin.end_stream()
        await thing.disconnected()
        await clock.advance(10)
        assert kubelet.node_status == {THING: (3, 0)}
        await clock.advance(290)
        assert kubelet.node_status == {THING: (3, 0)}
        await clock.advance(10)
        assert kubelet.node_status == {THING: (0, 0)}
        assert plugin.called("watch")[1:] == []
        assert json.loads(kubelet.checkpoint.read_text())["Data"]["RegisteredDevices"] == {}
        await plugin.stop()


async def test_a_stream_that_ends_without_a_list_leaves_zeroes(root: Path) -> None:
    clock = ManualClock()
    async with FakeKubelet(root, clock=clock) as kubelet:
        plugin = ScriptedPlugin(kubelet)
        await plugin.serve()
        await plugin.register()
        plugin.end_stream()
        await kubelet.resource(THING).disconnected()
        await clock.advance(10)
        assert kubelet.node_status == {THING: (0, 0)}
        await plugin.stop()


@pytest.mark.parametrize(
    ("version", "survives"), [("1.27", False), ("1.36", False), ("1.37", True), ("1.38", True)]
)
async def test_the_end_of_an_old_stream_kills_the_new_plugin_up_to_1_36(
    root: Path, version: str, survives: bool
) -> None:
    async with FakeKubelet(root, version=version) as kubelet:
        old, new = ScriptedPlugin(kubelet), ScriptedPlugin(kubelet)
        await old.serve("old.sock")
        await old.register()
        old.list(*devices("a"))
        thing = await kubelet.registered(THING)
        await thing.devices(healthy=1)
        await new.serve("new.sock")
        await new.register()
        new.list(*devices("a", "b"))
        await thing.devices(healthy=2)
        old.list(*devices("a", "b", "c"))
        await thing.devices(healthy=3)
        await kubelet.admit(a_pod(limits={THING: 1}))
        assert (len(old.called("allocate")), len(new.called("allocate"))) == (0, 1)
        old.end_stream()
        await kubelet.trace.until(
            lambda: any(event.event == "stream-ended" for event in kubelet.trace), "the old stream's end"
        )
        if survives:
            assert (thing.is_connected, thing.allocatable) == (True, 3)
        else:
            await thing.disconnected()
            assert (thing.capacity, thing.allocatable) == (3, 0)
        await old.stop()
        await new.stop()


async def test_a_socket_name_used_twice_is_refused_from_1_37_and_for_good(root: Path) -> None:
    async with FakeKubelet(root, version="1.37") as kubelet:
        plugin = ScriptedPlugin(kubelet)
        await plugin.serve()
        await plugin.register()
        plugin.list(*devices("a"))
        thing = await kubelet.registered(THING)
        await thing.devices(healthy=1)
        already = f"device plugin already connected: {plugin.socket}"
        assert await refusal(plugin) == already
        # The refusal also made the kubelet lose sight of the first registration, whose end it misses.
        plugin.end_stream()
        await kubelet.trace.until(
            lambda: any(event.event == "stream-ended" for event in kubelet.trace), "the stream's end"
        )
        assert thing.allocatable == 1
        assert await refusal(plugin) == already


async def test_a_failed_registration_hides_the_death_of_the_one_before(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    await scripted.register()
    scripted.list(*devices("a"))
    thing = await kubelet.registered(THING)
    await thing.devices(healthy=1)
    scripted.options_error = "not now"
    await refusal(scripted)
    scripted.end_stream()
    await kubelet.trace.until(
        lambda: any(event.event == "stream-ended" for event in kubelet.trace), "the stream's end"
    )
    assert (thing.is_connected, thing.allocatable) == (True, 1)
    pod = await kubelet.admit(a_pod(limits={THING: 1}))
    assert pod.rejection is not None
    assert "code = Unavailable" in pod.rejection.message


async def test_a_cut_stream_is_the_end_of_that_registration(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    await scripted.register()
    scripted.list(*devices("a"))
    thing = await kubelet.registered(THING)
    await thing.devices(healthy=1)
    await kubelet.cut_stream(THING)
    assert not thing.is_connected
    assert (thing.capacity, thing.allocatable) == (1, 0)


async def test_registering_can_be_refused_late_or_left_hanging(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    kubelet.faults.register.inject(Refuse("not in the mood"), times=1)
    assert await refusal(scripted) == "not in the mood"
    kubelet.faults.register.inject(Late(0.2), times=1)
    began = time.monotonic()
    await scripted.register()
    assert time.monotonic() - began >= 0.2
    kubelet.faults.register.inject(Hang())
    hanging = asyncio.create_task(scripted.register())
    await kubelet.trace.until(
        lambda: sum(event.event == "register" for event in kubelet.trace) == 3, "the third call"
    )
    assert not hanging.done()
    kubelet.faults.register.lift()
    await hanging


async def test_a_replaced_kubelet_has_another_socket_and_wipes_nothing(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    before = (kubelet.plugins_dir / "kubelet.sock").stat().st_ino
    await kubelet.replace()
    assert (kubelet.plugins_dir / "kubelet.sock").stat().st_ino != before
    assert scripted.socket.exists()
    await scripted.register()
    assert kubelet.resource(THING).is_connected


async def test_a_replaced_folder_is_another_one_and_serves(kubelet: FakeKubelet) -> None:
    before = kubelet.plugins_dir.stat().st_ino
    await kubelet.replace_directory()
    assert kubelet.plugins_dir.stat().st_ino != before
    plugin = ScriptedPlugin(kubelet)
    await plugin.serve()
    await plugin.register()
    assert kubelet.resource(THING).is_connected
    await plugin.stop()


async def test_a_dropped_socket_is_gone_while_streams_live_on(
    kubelet: FakeKubelet, scripted: ScriptedPlugin
) -> None:
    await scripted.register()
    kubelet.drop_socket()
    assert not (kubelet.plugins_dir / "kubelet.sock").exists()
    scripted.list(*devices("a"))
    await kubelet.resource(THING).devices(healthy=1)
