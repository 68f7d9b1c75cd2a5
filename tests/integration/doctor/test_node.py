"""Doctor finds nothing wrong on a sound node, and each fault that is planted on it, by its name."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from accelet.agent.process import Agent
from accelet.doctor.findings import Finding
from accelet.doctor.node.agent import judge_agent
from accelet.doctor.node.judgement import judge_node
from accelet.doctor.node.kubelet import judge_kubelet
from accelet.doctor.node.look import WhereToLook, look_at_node
from accelet.fakeapi import FakeApi
from accelet.fakehost.amd import MI210, RADEON, write_amd
from accelet.fakehost.gpus import write_gpus
from accelet.fakehost.nodes import ARC_I915, LAPTOP
from accelet.fakehost.nvidia import T4, write_nvidia
from accelet.fakekubelet import FakeKubelet
from accelet.fakekubelet.sample_plugin import SamplePlugin
from accelet.kubelet.paths import KubeletPaths
from tests.integration.agent.running import GPU, agent, cards_config, until_ready, until_said, write_config

FOLLOWED = cards_config(2, options="assignment: annotations")


async def found(folder: Path, running: Agent | None, kubeconfig: Path | None = None) -> Mapping[str, Finding]:
    """The first thing wrong of each check that finds any."""
    port = 1 if running is None else running.probe_port
    where = WhereToLook(
        "node", KubeletPaths(folder), folder, folder / "config.yaml", f"127.0.0.1:{port}", kubeconfig
    )
    async with asyncio.timeout(30):
        seen = await look_at_node(where)
    verdicts = judge_node(seen)
    return {v.check: one for v in verdicts for one in reversed(v.findings) if one.level == "wrong"}


@asynccontextmanager
async def sound_node(folder: Path) -> AsyncIterator[tuple[FakeKubelet, Agent]]:
    file = write_config(folder, cards_config(2))
    async with FakeKubelet(folder) as kubelet, agent(folder, file) as running:
        await kubelet.resource(GPU).devices(healthy=2)
        await until_ready(running)
        yield kubelet, running


async def test_nothing_is_wrong_with_a_sound_node(folder: Path) -> None:
    async with sound_node(folder) as (_, running):
        assert await found(folder, running) == {}


def test_a_node_is_looked_at_without_any_extra(folder: Path) -> None:
    hidden = "import sys; sys.modules.update(dict.fromkeys(('numpy', 'kubernetes', 'urllib3'))); "
    code = hidden + "from accelet.cli import main; main(sys.argv[1:])"
    config = write_config(folder, cards_config(2))
    places = ["--config", str(config), "--host-root", str(folder), "--kubelet-dir", str(folder)]
    words = [sys.executable, "-c", code, "doctor", *places, "--http", "127.0.0.1:1", "--look-at", "node"]
    bundle = ["--bundle", str(folder / "bundle.tar.gz")]
    done = subprocess.run([*words, *bundle], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "kubelet-folders" in done.stdout
    assert (folder / "bundle.tar.gz").exists()


async def test_a_kubelet_that_ended_is_found(folder: Path) -> None:
    async with sound_node(folder) as (kubelet, running):
        await kubelet.stop()
        wrong = await found(folder, running)
    assert wrong.keys() == {"kubelet-socket"}, "that its resources are not ready follows from it"
    assert "Start the kubelet" in wrong["kubelet-socket"].cure


async def test_a_folder_that_is_missing_is_found_once(folder: Path) -> None:
    write_config(folder, cards_config(2))
    (folder / "pod-resources").mkdir()
    wrong = await found(folder, None)
    assert wrong.keys() == {"kubelet-folders"}, "that no agent serves follows from it"
    assert wrong["kubelet-folders"].about == str(folder / "device-plugins")


async def test_a_damaged_checkpoint_is_found(folder: Path) -> None:
    async with sound_node(folder) as (_, running):
        KubeletPaths(folder).checkpoint.write_text('{"Data": [1, 2')
        wrong = await found(folder, running)
    assert wrong.keys() == {"checkpoint"}


async def test_podresources_that_do_not_answer_are_found(folder: Path) -> None:
    async with sound_node(folder) as (_, running):
        KubeletPaths(folder).pod_resources_socket.unlink()
        wrong = await found(folder, running)
    assert wrong.keys() == {"podresources"}


async def test_a_mistake_in_the_configuration_is_found_with_its_line(folder: Path) -> None:
    async with sound_node(folder) as (_, running):
        write_config(folder, cards_config(2), "- {name: gpu.intel.com/xe, backend: intel-gpuu}\n")
        wrong = await found(folder, running)
    assert "config.yaml:8" in wrong["configuration"].quote
    assert "must be one of" in wrong["configuration"].quote


async def test_a_device_that_is_ill_is_found_with_its_reason(folder: Path) -> None:
    async with sound_node(folder) as (kubelet, running):
        write_config(folder, cards_config(2, unhealthy=[1]))
        await kubelet.resource(GPU).devices(healthy=1, unhealthy=1)
        wrong = await found(folder, running)
    assert wrong.keys() == {"devices"}
    assert wrong["devices"].quote == "it is sick"


async def test_a_card_whose_memory_is_not_known_is_noted_where_pods_may_ask_for_memory(folder: Path) -> None:
    write_gpus(folder, (*ARC_I915, replace(LAPTOP[0], card=1)))
    paths = KubeletPaths(folder)
    for options, noted in (
        ("assignment: annotations", [f"{GPU} card0 (0x56a5)"]),
        ("serve: dra", [f"{GPU} card0 (0x56a5)"]),
        ("assignment: annotations, memory: {0x56a5: 6Gi}", []),
        ("policy: none", []),
    ):
        card = f"- {{name: {GPU}, backend: intel-gpu, match: {{driver: [i915]}}, {options}}}\n"
        file = write_config(folder, card)
        seen = await look_at_node(WhereToLook("node", paths, folder, file, "127.0.0.1:1", None))
        (devices,) = (verdict for verdict in judge_agent(seen) if verdict.check == "devices")
        assert [one.about for one in devices.findings if one.level == "note"] == noted
        assert not [one for one in devices.findings if one.level == "wrong"]


async def test_an_agent_that_does_not_run_is_found(folder: Path) -> None:
    async with sound_node(folder):
        pass
    async with FakeKubelet(folder):
        wrong = await found(folder, None)
    assert wrong["agent"].reason == "no agent serves this node"


async def test_a_second_agent_is_found(folder: Path) -> None:
    async with sound_node(folder), agent(folder, folder / "config.yaml") as second:
        await until_said(second, "another agent serves this node")
        wrong = await found(folder, second)
    assert "two DaemonSets" in wrong["agent"].cure


class OtherPlugin(SamplePlugin):
    """Somebody else's plugin for the same resource name."""

    resource = GPU


async def test_another_plugin_for_the_same_resource_is_found(folder: Path) -> None:
    write_config(folder, cards_config(2))
    devices = folder / "other"
    devices.mkdir()
    (devices / "card0-0").write_text("healthy")
    async with FakeKubelet(folder) as kubelet:
        plugin = asyncio.create_task(OtherPlugin(KubeletPaths(folder).device_plugins, devices).run())
        try:
            await (await kubelet.registered(GPU)).devices(healthy=1)
            wrong = await found(folder, None)
        finally:
            plugin.cancel()
            await asyncio.gather(plugin, return_exceptions=True)
    assert "another plugin serves it" in wrong["one-plugin"].reason
    assert wrong["one-plugin"].quote == "card0-0"


NVIDIA = "- {name: nvidia.com/gpu, backend: nvidia-gpu}\n"


async def left_out(folder: Path, resources: str) -> list[tuple[str, str, str]]:
    """Level, reason and what was said of everything that is left out, on a node of these resources."""
    file = write_config(folder, resources)
    seen = await look_at_node(WhereToLook("node", KubeletPaths(folder), folder, file, "127.0.0.1:1", None))
    (verdict,) = (one for one in judge_agent(seen) if one.check == "left-out")
    return [(one.level, one.reason, one.quote) for one in verdict.findings]


async def test_gpus_without_a_cdi_specification_are_found(folder: Path) -> None:
    write_nvidia(folder, T4[:1], cdi=None)
    ((level, reason, said),) = await left_out(folder, NVIDIA)
    assert (level, reason) == ("wrong", "no resource serves it: no-cdi-name")
    assert said.startswith("/etc/cdi and /var/run/cdi have no specification of nvidia.com/gpu")
    assert await left_out(folder, NVIDIA.replace("}", ", inject: envvar}")) == []
    write_nvidia(folder, T4[:1])
    assert await left_out(folder, NVIDIA) == []


async def test_a_specification_older_than_the_last_cut_is_found(folder: Path) -> None:
    mig = "- {name: nvidia.com/mig, backend: nvidia-gpu, unit: mig}\n"
    cut = replace(T4[0], instances=((1, 0),))
    write_nvidia(folder, T4[:1])
    before = (folder / "var/run/cdi/nvidia.yaml").read_text()
    write_nvidia(folder, [cut])
    assert await left_out(folder, NVIDIA + mig) == []
    assert [level for level, *_ in await left_out(folder, NVIDIA)] == ["note"], "partitioned, and not served"
    (folder / "var/run/cdi/nvidia.yaml").write_text(before)
    found = await left_out(folder, NVIDIA + mig)
    assert ("wrong", "no resource serves it: stale-cdi") in [(level, reason) for level, reason, _ in found]


async def test_amds_gpus_without_kfd_are_found_and_cards_of_other_drivers_are_not(folder: Path) -> None:
    amd = "- {name: amd.com/gpu, backend: amd-gpu}\n"
    write_amd(folder, MI210[:1], has_kfd=False)
    ((level, reason, _),) = await left_out(folder, amd)
    assert (level, reason) == ("wrong", "no resource serves it: no-kfd")
    write_amd(folder, RADEON)
    assert await left_out(folder, amd) == []


async def test_keys_of_nvidias_file_that_mean_nothing_are_noted(folder: Path) -> None:
    (folder / "config.yaml").write_text("version: v1\nflags: {failOnInitError: true}\n")
    where = WhereToLook("node", KubeletPaths(folder), folder, folder / "config.yaml", "127.0.0.1:1", None)
    seen = await look_at_node(where)
    (verdict,) = (one for one in judge_agent(seen) if one.check == "configuration")
    ((level, said),) = ((one.level, one.quote) for one in verdict.findings)
    assert (level, said.partition(":")[0]) == ("note", "flags.failOnInitError")


@pytest.mark.parametrize(
    ("name", "resources", "whose"),
    [
        ("nvidia-gpu.sock", NVIDIA, "NVIDIA's"),
        ("nvidia-mig-1g.10gb.sock", NVIDIA, "NVIDIA's"),
        ("amd.com_gpu", "- {name: amd.com/gpu, backend: amd-gpu}\n", "ROCm's"),
        ("amd.com_gpu", NVIDIA, None),
    ],
)
async def test_a_vendors_plugin_is_found_by_its_socket(
    folder: Path, name: str, resources: str, whose: str | None
) -> None:
    """By the ids it cannot be: NVIDIA's plugin names whole GPUs by their UUIDs, as we do."""
    write_config(folder, resources)
    async with FakeKubelet(folder):
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(folder / "device-plugins" / name))
            other.listen()
            wrong = await found(folder, None)
    reason = wrong["one-plugin"].reason if "one-plugin" in wrong else None
    assert whose is None if reason is None else reason.startswith(f"{whose} device plugin runs beside")


async def test_rights_are_asked_one_by_one_and_a_missing_one_is_found(folder: Path) -> None:
    file = write_config(folder, FOLLOWED)
    with FakeApi() as api:
        api.forbid("watch", "pods")
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        async with FakeKubelet(folder), agent(folder, file, kubeconfig) as running:
            await until_ready(running)
            wrong = await found(folder, running, kubeconfig)
    assert wrong.keys() == {"rights"}
    assert wrong["rights"].about == "watch pods"


async def test_a_clock_that_is_wrong_is_found(folder: Path) -> None:
    file = write_config(folder, FOLLOWED)
    with FakeApi() as api:
        api.clock_ahead_s = 3600
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        async with FakeKubelet(folder), agent(folder, file, kubeconfig) as running:
            await until_ready(running)
            wrong = await found(folder, running, kubeconfig)
    assert wrong.keys() == {"clock"}
    assert "behind the API server's" in wrong["clock"].reason


async def test_an_api_server_that_is_needed_and_away_is_found(folder: Path) -> None:
    file = write_config(folder, FOLLOWED)
    with FakeApi() as api:
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
    async with FakeKubelet(folder), agent(folder, file, kubeconfig) as running:
        await until_said(running, "registered")
        wrong = await found(folder, running, kubeconfig)
    assert wrong["rights"].about == "API server"


@pytest.mark.parametrize("left", ["stale.sock"])
async def test_a_socket_that_nobody_serves_is_a_note_alone(folder: Path, left: str) -> None:
    async with sound_node(folder) as (_, running):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(folder / "device-plugins" / left))
        where = WhereToLook(
            "node",
            KubeletPaths(folder),
            folder,
            folder / "config.yaml",
            f"127.0.0.1:{running.probe_port}",
            None,
        )
        (notes,) = (v.findings for v in judge_kubelet(await look_at_node(where)) if v.findings)
    assert [(one.level, one.about) for one in notes] == [("note", str(folder / "device-plugins" / left))]
