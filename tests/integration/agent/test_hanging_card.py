"""A card whose driver hangs: what the kubelet, Prometheus and people are told of it, and of the others."""

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from accelet.accelerators.steadyhealth import GOOD_LOOKS_TO_RECOVER, UNKNOWN_LOOKS_TO_DOUBT
from accelet.cli import main
from accelet.doctor.node.hardware import read_configuration
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.sensors import write_i915
from accelet.fakekubelet import FakeKubelet
from accelet.node.inventorymemory import InventoryMemory
from tests.fakes.hangingfile import hanging
from tests.integration.agent.running import GPU, agent, scan, until

HANGING, UNPLUGGED, THIRD = (Gpu(number, f"0000:0{number}:00.0") for number in (3, 4, 5))
MONITORING = "gpu.intel.com/i915_monitoring"
CONFIG = f"""version: v1
resources:
- {{name: {GPU}, backend: intel-gpu}}
- {{name: {MONITORING}, backend: intel-gpu-monitoring, driver: i915}}
sensors: {{}}
"""
REASON = "the card does not answer: reading its files did not end within 2 s"


def write(folder: Path) -> Path:
    write_gpus(folder, [HANGING, UNPLUGGED, THIRD])
    for card in (HANGING, UNPLUGGED, THIRD):
        write_i915(folder, card)
    (config := folder / "config.yaml").write_text(CONFIG)
    return config


async def test_a_card_that_hangs_is_unhealthy_and_the_loss_of_another_is_told_as_ever(folder: Path) -> None:
    async with FakeKubelet(folder) as kubelet, agent(folder, write(folder)) as running:

        def unanswered() -> float | None:
            return running.metrics.registry.get_sample_value("accelet_hardware_unanswered", {"resource": GPU})

        def is_looked_at(card: Gpu) -> bool:
            return running.metrics.registry.get_sample_value("accelet_card_active", {"pci": card.pci}) == 1

        listed = kubelet.resource(GPU)
        await listed.devices(healthy=3)
        with hanging(folder / f"sys/bus/pci/devices/{HANGING.pci}/config"):
            for _ in range(UNKNOWN_LOOKS_TO_DOUBT):
                await scan(folder, running)
            await listed.devices(healthy=2, unhealthy=1, timeout_s=30)
            assert unanswered() == 1
            (folder / UNPLUGGED.host_path[1:]).unlink()
            await scan(folder, running)
            await listed.devices(healthy=1, timeout_s=30)
            assert [device for device in listed.healthy if "05-00" in device] == list(listed.healthy)
            await kubelet.resource(MONITORING).devices(healthy=1)
            assert all(check.is_ok for check in running.readiness())
            await until(lambda: is_looked_at(THIRD))
        for _ in range(GOOD_LOOKS_TO_RECOVER):
            await scan(folder, running)
        await until(lambda: unanswered() == 0)
        await listed.devices(healthy=2, timeout_s=30)


async def test_people_who_look_at_a_node_with_such_a_card_get_an_answer(folder: Path) -> None:
    config = write(folder)
    with hanging(folder / f"sys/bus/pci/devices/{HANGING.pci}/config"):
        where = ["--config", str(config), "--host-root", str(folder), "--kubelet-dir", str(folder)]
        shown = await asyncio.to_thread(CliRunner().invoke, main, ["devices", "--json", *where])
        assert shown.exit_code == 0, shown.output
        answer = json.loads(shown.output)
        assert [one["reason"] for one in answer["skipped"]] == [REASON]
        assert len(answer["resources"][0]["devices"]) == 2
        memory = InventoryMemory(folder / "memory")
        _, seen = await asyncio.to_thread(read_configuration, config, folder, memory)
        assert [len(resource.healthy) for resource in seen.resources] == [2, 1]
