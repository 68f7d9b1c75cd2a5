"""The configuration is taken over while the agent runs."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from accelet.fakekubelet import FakeKubelet, PodRecord, a_pod
from tests.integration.agent.running import (
    GPU,
    agent,
    cards_config,
    config,
    configuration_loaded_at,
    until,
    until_ready,
    write_config,
)

OTHER = "gpu.intel.com/xe"
THIRD = "gpu.intel.com/arc"


async def test_only_what_changed_is_registered_anew(folder: Path) -> None:
    other = cards_config(1, name=OTHER, first=9)
    async with FakeKubelet(folder) as kubelet, agent(folder, write_config(folder, cards_config(2), other)):
        gpu = kubelet.resource(GPU)
        await gpu.devices(healthy=2)
        await kubelet.resource(OTHER).devices(healthy=1)
        pod = await kubelet.admit(a_pod(limits={OTHER: 1}))

        write_config(folder, cards_config(4), other, cards_config(1, name=THIRD, first=20))

        await gpu.devices(healthy=4)
        await kubelet.resource(THIRD).devices(healthy=1)
        assert (gpu.registrations, kubelet.resource(OTHER).registrations) == (2, 1)
        assert pod.is_running


async def test_other_rules_hold_without_a_new_registration(folder: Path) -> None:
    file = write_config(folder, cards_config(2, options="shares: 4"))
    async with FakeKubelet(folder) as kubelet, agent(folder, file) as running:
        gpu = kubelet.resource(GPU)
        await gpu.devices(healthy=8)
        assert len(_cards(await kubelet.admit(a_pod("before", limits={GPU: 2})))) == 2

        loaded_at = configuration_loaded_at(running)
        write_config(folder, cards_config(2, options="shares: 4\n  policy: packed"))
        await until(lambda: configuration_loaded_at(running) > loaded_at)

        assert len(_cards(await kubelet.admit(a_pod("after", limits={GPU: 2})))) == 1
        assert (gpu.registrations, gpu.is_connected) == (1, True)


async def test_removed_resource_is_no_longer_served(folder: Path) -> None:
    other = cards_config(1, name=OTHER, first=9)
    file = write_config(folder, cards_config(2), other)
    async with FakeKubelet(folder) as kubelet, agent(folder, file) as running:
        await kubelet.resource(OTHER).devices(healthy=1)
        write_config(folder, cards_config(2))
        await kubelet.resource(OTHER).disconnected()
        await until_ready(running)
        assert kubelet.resource(GPU).registrations == 1
        assert kubelet.resource(OTHER).allocatable == 0


async def test_wrong_configuration_changes_nothing_until_it_is_mended(folder: Path) -> None:
    file = write_config(folder, cards_config(2))
    async with FakeKubelet(folder) as kubelet, agent(folder, file) as running:
        await kubelet.resource(GPU).devices(healthy=2)
        file.write_text("version: v2\n")
        await until(lambda: _is_good(running.metrics.registry) == 0)
        await until_ready(running)
        write_config(folder, cards_config(3))
        await kubelet.resource(GPU).devices(healthy=3)
        assert _is_good(running.metrics.registry) == 1


async def test_unreadable_file_is_told_and_changes_nothing(folder: Path) -> None:
    file = write_config(folder, cards_config(2))
    async with FakeKubelet(folder) as kubelet, agent(folder, file) as running:
        await kubelet.resource(GPU).devices(healthy=2)
        file.unlink()
        await until(lambda: _is_good(running.metrics.registry) == 0)
        await until_ready(running)
        write_config(folder, cards_config(2))
        await until(lambda: _is_good(running.metrics.registry) == 1)
        assert kubelet.resource(GPU).registrations == 1


async def test_mounted_configmap_changes_by_its_link(folder: Path) -> None:
    """The kubelet writes a ConfigMap into a new folder and swaps the link `..data` over to it."""
    mounted = folder / "configmap"
    mounted.mkdir()
    _publish(mounted, "..1", config(cards_config(2)))
    (mounted / "config.yaml").symlink_to("..data/config.yaml")
    async with FakeKubelet(folder) as kubelet, agent(folder, mounted / "config.yaml"):
        await kubelet.resource(GPU).devices(healthy=2)
        _publish(mounted, "..2", config(cards_config(5)))
        # Sooner than the next look that needs no change to be seen.
        await kubelet.resource(GPU).devices(healthy=5, timeout_s=8)


def _cards(record: PodRecord) -> set[str]:
    return {node.container_path for node in record["main"].options.devices}


def _publish(mounted: Path, version: str, text: str) -> None:
    (mounted / version).mkdir()
    (mounted / version / "config.yaml").write_text(text)
    (mounted / "..data_tmp").symlink_to(version)
    (mounted / "..data_tmp").replace(mounted / "..data")


def _is_good(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("accelet_config_last_reload_successful")
