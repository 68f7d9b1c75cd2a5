"""What the kubelet is told of devices, and what containers get, over real sockets."""

from dataclasses import replace
from pathlib import Path

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.fakekubelet import FakeKubelet, a_container, a_pod
from accelet.node.namelocks import UNIT_LOCKS, NameLocks
from accelet.node.unitlocks import UnitLocks
from tests.integration.agent.running import (
    GPU,
    agent,
    cards_config,
    scan,
    until,
    until_ready,
    until_said,
    write_config,
)

UNITS = ["0000-03-00.0", "0000-04-00.0"]


async def test_container_gets_the_nodes_of_its_device(folder: Path) -> None:
    config = write_config(folder, cards_config(2))
    async with FakeKubelet(folder) as kubelet, agent(folder, config):
        await kubelet.resource(GPU).devices(healthy=2)
        pod = await kubelet.admit(a_pod(limits={GPU: 1}))
        (device,) = pod["main"].devices[GPU]
        (node,) = pod["main"].options.devices
        assert device == "0000-03-00.0"
        assert (node.host_path, node.container_path, node.permissions) == (
            "/dev/null",
            "/dev/dri/card0",
            "rw",
        )


async def test_same_devices_are_given_again_for_the_same_pod(folder: Path) -> None:
    """An init container's devices are used again, which is another Allocate with the same ids."""
    config = write_config(folder, cards_config(1))
    async with FakeKubelet(folder) as kubelet, agent(folder, config):
        await kubelet.resource(GPU).devices(healthy=1)
        init, main = a_container("init", {GPU: 1}), a_container("main", {GPU: 1})
        pod = await kubelet.admit(a_pod(init_containers=[init], containers=[main]))
        assert pod["init"].options == pod["main"].options


async def test_two_shares_of_one_device_are_refused_where_they_must_differ(folder: Path) -> None:
    config = write_config(folder, cards_config(1, options="shares: 2\n  distinct: true"))
    async with FakeKubelet(folder) as kubelet, agent(folder, config):
        await kubelet.resource(GPU).devices(healthy=2)
        pod = await kubelet.admit(a_pod(limits={GPU: 2}))
        assert pod.rejection is not None
        assert "0000-03-00.0-s0 and 0000-03-00.0-s1 are shares of one" in pod.rejection.message


async def test_sick_device_is_listed_unhealthy_and_recovers(folder: Path) -> None:
    cards = folder / "cards.yaml"
    described = cards_config(2).split("cards:\n")[1]
    cards.write_text(f"cards:\n{described}")
    resource = f"- {{name: {GPU}, backend: simulated, file: {cards}}}\n"
    async with FakeKubelet(folder) as kubelet, agent(folder, write_config(folder, resource)) as running:
        gpu = kubelet.resource(GPU)
        await gpu.devices(healthy=2)
        cards.write_text("cards:\n" + cards_config(2, unhealthy=[1]).split("cards:\n")[1])
        await scan(folder, running)
        await gpu.devices(healthy=1, unhealthy=1)
        cards.write_text(f"cards:\n{described}")
        await scan(folder, running)
        assert len(gpu.healthy) == 1
        await scan(folder, running)
        await gpu.devices(healthy=2)


async def test_held_device_that_vanishes_stays_listed_until_its_pod_is_gone(folder: Path) -> None:
    async with FakeKubelet(folder) as kubelet:
        async with agent(folder, write_config(folder, cards_config(2))):
            await kubelet.resource(GPU).devices(healthy=2)
            pod = await kubelet.admit(a_pod(limits={GPU: 2}))
        # Another start with a card less: the kubelet's checkpoint still gives it to the pod.
        async with agent(folder, write_config(folder, cards_config(1))) as running:
            gpu = kubelet.resource(GPU)
            await gpu.devices(healthy=1, unhealthy=1)
            assert pod.is_running
            await kubelet.remove(pod)
            # The kubelet frees a dead pod's devices at the next Allocate, and only then says so.
            await kubelet.admit(a_pod("next", limits={GPU: 1}))
            await scan(folder, running)
            await scan(folder, running)
            await until(lambda: len(gpu.listed) == 1)


async def test_ten_thousand_devices_are_listed(folder: Path) -> None:
    config = write_config(folder, cards_config(10, options="shares: 1000"))
    async with FakeKubelet(folder) as kubelet, agent(folder, config):
        devices = await kubelet.resource(GPU).devices(healthy=10_000)
        assert len(devices) == 10_000
        pod = await kubelet.admit(a_pod(limits={GPU: 100}))
        assert len(pod["main"].devices[GPU]) == 100


async def test_list_that_no_kubelet_takes_is_refused_in_a_sentence(folder: Path) -> None:
    config = write_config(
        folder,
        cards_config(20, options="shares: 10000"),
        cards_config(1, name="gpu.intel.com/xe", first=40),
    )
    async with FakeKubelet(folder) as kubelet, agent(folder, config) as running:
        await until_said(running, "200000 devices take")
        await kubelet.resource("gpu.intel.com/xe").devices(healthy=1)
        assert kubelet.resource(GPU).registrations == 0


async def test_nothing_is_sent_when_nothing_has_changed(folder: Path) -> None:
    config = write_config(folder, cards_config(2))
    async with FakeKubelet(folder) as kubelet, agent(folder, config) as running:
        await kubelet.resource(GPU).devices(healthy=2)
        await scan(folder, running)
        await scan(folder, running)
        assert sum(event.event == "list" for event in kubelet.trace) == 1


async def test_folder_that_takes_no_socket_is_told_and_tried_again(folder: Path) -> None:
    config = write_config(folder, cards_config(1))
    async with FakeKubelet(folder) as kubelet, agent(folder, config) as running:
        await kubelet.resource(GPU).devices(healthy=1)
        await kubelet.replace_directory()
        await until_ready(running)
        await kubelet.resource(GPU).devices(healthy=1)


async def test_unit_that_another_process_serves_is_left_to_it_until_that_ends(folder: Path) -> None:
    path = write_config(folder, cards_config(2))
    async with FakeKubelet(folder) as kubelet:
        others = UnitLocks(NameLocks(kubelet.plugins_dir / UNIT_LOCKS))
        both = Inventory(tuple(Device(DeviceId(unit), UnitId(unit)) for unit in UNITS))
        others.take("another", replace(both, devices=both.devices[:1]))
        async with agent(folder, path) as running:
            gpu = kubelet.resource(GPU)
            assert list(await gpu.devices(healthy=1)) == UNITS[1:]
            assert [one.unit for one in others.take("another", both).devices] == [UNITS[0]]
            others.release("another")
            await scan(folder, running)
            assert list(await gpu.devices(healthy=2)) == UNITS
        assert others.take("another", both) == both
