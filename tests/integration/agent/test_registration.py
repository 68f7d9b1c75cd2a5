"""A resource stays registered through everything that happens to the kubelet and its directory."""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.fakekubelet import FakeKubelet, Hang, Late, Refuse, a_pod
from accelet.kubelet.paths import KubeletPaths
from accelet.runtime.run import FatalError
from tests.integration.agent.running import (
    GPU,
    agent,
    cards_config,
    until,
    until_ready,
    until_said,
    write_config,
)

OTHER = "gpu.intel.com/xe"
_FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE
VERSIONS = ["1.27", "1.33", "1.34", "1.36", "1.37", "1.38"]


@pytest.fixture
def config_file(folder: Path) -> Path:
    return write_config(folder, cards_config(2), cards_config(1, name=OTHER, first=9))


@pytest.mark.parametrize("version", VERSIONS)
async def test_registers_at_once_again_after_each_restart(
    folder: Path, config_file: Path, version: str
) -> None:
    async with FakeKubelet(folder, version=version) as kubelet, agent(folder, config_file):
        gpu, other = kubelet.resource(GPU), kubelet.resource(OTHER)
        await gpu.devices(healthy=2)
        pod = await kubelet.admit(a_pod(limits={GPU: 1}))
        clock = asyncio.get_running_loop().time
        took_s: list[float] = []
        for _ in range(3):
            began_s = clock()
            await kubelet.restart()
            await gpu.devices(healthy=2)
            await other.devices(healthy=1)
            took_s.append(clock() - began_s)
        # A machine may stall once for longer than that; the agent looks by itself every two seconds only.
        assert sorted(took_s)[1] < 1.0
        assert pod.is_running
        assert len(pod["main"].devices[GPU]) == 1


@pytest.mark.parametrize("what", ["file", "folder", "socket"])
async def test_a_socket_that_something_else_replaced_is_served_anew(
    folder: Path, config_file: Path, what: str
) -> None:
    async with FakeKubelet(folder) as kubelet, agent(folder, config_file):
        gpu = kubelet.resource(GPU)
        await gpu.devices(healthy=2)
        await kubelet.resource(OTHER).devices(healthy=1)
        (path,) = (one for one in kubelet.plugins_dir.glob("accelet-*.sock") if "i915" in one.name)
        path.rename(path.with_suffix(".aside"))
        with socket.socket(socket.AF_UNIX) as other:
            match what:
                case "file":
                    path.touch()
                case "folder":
                    path.mkdir()
                case _:
                    other.bind(str(path))
            await gpu.registered(times=2)
            await gpu.devices(healthy=2)
            pod = await kubelet.admit(a_pod(limits={GPU: 1}))
            assert len(pod["main"].devices[GPU]) == 1


async def test_registers_when_the_kubelet_comes_late(folder: Path, config_file: Path) -> None:
    kubelet = FakeKubelet(folder)
    async with agent(folder, config_file) as running:
        await until_ready(running, is_ready=False)
        async with kubelet:
            gpu = await kubelet.registered(GPU)
            await gpu.devices(healthy=2)
            await until_ready(running)


async def test_directory_that_is_replaced_while_the_agent_starts_is_waited_for(
    folder: Path, config_file: Path
) -> None:
    directory = FakeKubelet(folder).plugins_dir
    for _ in range(5):  # it takes luck to meet the moment in which the directory is not there
        async with being_replaced(directory), agent(folder, config_file) as running:
            await until_said(running, "serving")
    async with FakeKubelet(folder), agent(folder, config_file) as running:
        await until_ready(running)


@asynccontextmanager
async def being_replaced(directory: Path) -> AsyncIterator[None]:
    """Every other millisecond there is another directory, every other there is none."""
    is_over = threading.Event()

    def replace_again_and_again() -> None:
        while not is_over.is_set():
            directory.mkdir(exist_ok=True)
            is_over.wait(0.001)
            directory.rename(directory.with_name(f"old-{secrets.token_hex(4)}"))
            is_over.wait(0.001)
        directory.mkdir(exist_ok=True)

    replacing = asyncio.create_task(asyncio.to_thread(replace_again_and_again))
    try:
        yield
    finally:
        is_over.set()
        await replacing


async def test_directory_that_was_removed_on_the_host_ends_the_agent_with_a_sentence(
    folder: Path, config_file: Path
) -> None:
    (folder / "device-plugins").mkdir()
    removed = os.open(folder / "device-plugins", os.O_PATH)
    (folder / "device-plugins").rmdir()
    (folder / "device-plugins").symlink_to(
        f"/proc/self/fd/{removed}"
    )  # as a mount of it would be: there and dead
    made = Agent(AgentOptions(folder, KubeletPaths(folder), "node", None), ConfigFile(config_file))
    with pytest.raises(FatalError, match="was removed on the host"):
        await made.run()
    os.close(removed)


async def test_stopped_kubelet_is_not_ready_and_is_found_again(folder: Path, config_file: Path) -> None:
    async with FakeKubelet(folder) as kubelet, agent(folder, config_file) as running:
        await until_ready(running)
        await kubelet.stop()
        await until_ready(running, is_ready=False)
        await kubelet.start()
        await until_ready(running)


async def test_registers_again_when_the_kubelet_cuts_the_stream(folder: Path, config_file: Path) -> None:
    async with FakeKubelet(folder) as kubelet, agent(folder, config_file) as running:
        await until_ready(running)
        gpu = kubelet.resource(GPU)
        await kubelet.cut_stream(GPU)
        await gpu.registered(times=2)
        await gpu.devices(healthy=2)
        assert kubelet.resource(OTHER).registrations == 1


async def test_registers_again_when_its_socket_file_is_removed(folder: Path, config_file: Path) -> None:
    async with FakeKubelet(folder) as kubelet, agent(folder, config_file) as running:
        await until_ready(running)
        for path in kubelet.plugins_dir.glob("accelet-*.sock"):
            path.unlink()
        await kubelet.resource(GPU).registered(times=2)
        await kubelet.resource(OTHER).registered(times=2)
        await until_ready(running)


async def test_registers_again_when_its_socket_file_is_removed_before_the_kubelet_answers(
    folder: Path, config_file: Path
) -> None:
    """The kubelet would look for the file for ten seconds before it said that it is not there."""
    async with FakeKubelet(folder) as kubelet:
        kubelet.faults.register.inject(Hang(), times=2)
        async with agent(folder, config_file):
            await kubelet.trace.until(
                lambda: len(kubelet.register_calls) == 2, "both resources to call Register", timeout_s=5
            )
            for path in kubelet.plugins_dir.glob("accelet-*.sock"):
                path.unlink()
            await kubelet.resource(GPU).devices(healthy=2, timeout_s=5)
            await kubelet.resource(OTHER).devices(healthy=1, timeout_s=5)


async def test_refusal_is_told_and_tried_again(folder: Path, config_file: Path) -> None:
    kubelet = FakeKubelet(folder)
    kubelet.faults.register.inject(Refuse("not today"))
    async with kubelet, agent(folder, config_file) as running:
        await until_ready(running, is_ready=False)
        await until_said(running, "not today")
        kubelet.faults.register.lift()
        await until_ready(running)


async def test_kubelet_that_hangs_in_register_is_survived_by_a_restart(
    folder: Path, config_file: Path
) -> None:
    kubelet = FakeKubelet(folder)
    kubelet.faults.register.inject(Hang())
    async with kubelet, agent(folder, config_file) as running:
        await kubelet.trace.until(
            lambda: any(event.event == "register" for event in kubelet.trace), "a Register call"
        )
        await kubelet.stop()
        kubelet.faults.register.lift()
        await kubelet.start()
        await until_ready(running)


async def test_connection_that_found_nobody_does_not_hold_up_the_next(
    folder: Path, config_file: Path
) -> None:
    """gRPC lets connections to one address share how long they wait, a second and more, to try again."""
    clock = asyncio.get_running_loop().time
    took_s: list[float] = []
    for _ in range(3):
        async with FakeKubelet(folder) as kubelet:
            await kubelet.stop()
            options = [("grpc.default_authority", "localhost")]
            address = f"unix:{kubelet.plugins_dir}/kubelet.sock"
            async with (
                grpc.aio.insecure_channel(address, options) as other,
                agent(folder, config_file) as running,
            ):
                while (state := other.get_state(try_to_connect=True)) is not _FAILED:
                    await other.wait_for_state_change(state)
                await until_said(running, "does not answer")
                await kubelet.start()
                began_s = clock()
                await kubelet.resource(GPU).devices(healthy=2)
                await kubelet.resource(OTHER).devices(healthy=1)
                took_s.append(clock() - began_s)
    assert sorted(took_s)[1] < 0.5, "a machine may stall once for longer than that"


async def test_kubelet_that_answers_late_is_waited_for(folder: Path, config_file: Path) -> None:
    kubelet = FakeKubelet(folder)
    kubelet.faults.register.inject(Late(0.5))
    async with kubelet, agent(folder, config_file) as running:
        await until_ready(running)
        assert kubelet.resource(GPU).registrations == 1


async def test_socket_that_answers_garbage_is_no_kubelet(folder: Path, config_file: Path) -> None:
    plugins = folder / "device-plugins"
    plugins.mkdir()

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_unix_server(babble, plugins / "kubelet.sock")
    async with agent(folder, config_file) as running:
        async with server:
            await until_ready(running, is_ready=False)
            await until_said(running, "does not answer")
        (plugins / "kubelet.sock").unlink()
        async with FakeKubelet(folder):
            await until_ready(running)


async def test_an_agent_is_not_ready_before_it_knows_its_resources(folder: Path, config_file: Path) -> None:
    async with FakeKubelet(folder), agent(folder, config_file) as running:
        async with asyncio.timeout(30):
            while not all(check.is_ok for check in running.readiness()):  # noqa: ASYNC110 - at each turn
                await asyncio.sleep(0)
        assert GPU in {check.name for check in running.readiness()}


async def test_second_agent_waits_for_its_turn(folder: Path, config_file: Path) -> None:
    async with FakeKubelet(folder) as kubelet:
        async with agent(folder, config_file) as first:
            await until_ready(first)
            async with agent(folder, config_file) as second:
                await until_said(second, "another agent serves this node")
                assert kubelet.resource(GPU).registrations == 1
        async with agent(folder, config_file) as second:
            await until_ready(second)
            assert kubelet.resource(GPU).registrations == 2


async def test_ending_removes_its_own_sockets_and_no_others(folder: Path, config_file: Path) -> None:
    async with FakeKubelet(folder) as kubelet:
        stranger = kubelet.plugins_dir / "another-plugin.sock"
        stale = kubelet.plugins_dir / "accelet-gpu-000000000000.sock"
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
            one.bind(str(stranger))
            other.bind(str(stale))
            async with agent(folder, config_file) as running:
                await until_ready(running)
                assert not stale.exists()
            left = {path.name for path in kubelet.plugins_dir.iterdir()}
        locks = {".accelet.lock", ".accelet-units"}
        assert left == {stranger.name, "kubelet.sock", "kubelet_internal_checkpoint", *locks}


async def test_one_resource_that_is_cut_off_leaves_the_other_alone(folder: Path, config_file: Path) -> None:
    async with FakeKubelet(folder) as kubelet, agent(folder, config_file) as running:
        await until_ready(running)
        for _ in range(3):
            seen = kubelet.resource(GPU).registrations
            await kubelet.cut_stream(GPU)
            await kubelet.resource(GPU).registered(times=seen + 1)
        await until_ready(running)
        assert kubelet.resource(OTHER).registrations == 1
        assert kubelet.resource(OTHER).is_connected


async def test_devices_that_containers_hold_are_counted(folder: Path, config_file: Path) -> None:
    async with FakeKubelet(folder) as kubelet, agent(folder, config_file) as running:
        await kubelet.resource(GPU).devices(healthy=2)

        def held(resource: str) -> float | None:
            return running.metrics.registry.get_sample_value("accelet_devices_held", {"resource": resource})

        await until(lambda: held(GPU) == 0)
        await kubelet.admit(a_pod("one", limits={GPU: 1}))
        await until(lambda: held(GPU) == 1)
        await kubelet.admit(a_pod("two", limits={GPU: 1}))
        await until(lambda: held(GPU) == 2)
        assert held(OTHER) == 0
        write_config(folder, cards_config(1, name=OTHER, first=9))
        await until(lambda: held(GPU) is None)
