"""The file for Node Feature Discovery follows the cards, and goes with the agent."""

import asyncio
from pathlib import Path

from accelet.node.publishing.featurefile import FeatureFile
from tests.integration.agent.running import agent, scan, until
from tests.integration.cards.publishing import resource, write_cards, write_config
from tests.integration.identity.world import node

PLACE = "/features.d/gpu.txt"
HEAD = f"nfd_features: {PLACE}"


def read(folder: Path, place: str = PLACE) -> dict[str, str]:
    """The labels; none where there is no file."""
    path = folder / place.lstrip("/")
    return dict(line.split("=") for line in path.read_text().splitlines()) if path.exists() else {}


def numbers(folder: Path, place: str = PLACE) -> str | None:
    return read(folder, place).get("gpu.intel.com/gpu-numbers")


async def test_file_follows_the_cards_and_goes_at_the_end(folder: Path) -> None:
    (folder / "features.d").mkdir()
    async with node(folder) as world:
        config = write_config(folder, resource(write_cards(folder, 2)), head=HEAD)
        async with agent(folder, config, world.kubeconfig) as running:
            await until(lambda: numbers(folder) == "0.1")
            assert read(folder)["gpu.intel.com/tiles"] == "4"
            inode = (folder / "features.d/gpu.txt").stat().st_ino
            await scan(folder, running)
            assert (folder / "features.d/gpu.txt").stat().st_ino == inode
            write_cards(folder, 2, sick=[0])
            await scan(folder, running)
            await until(lambda: numbers(folder) == "1")
            write_cards(folder, 0)
            await scan(folder, running)
            await until(lambda: read(folder) == {})
            write_cards(folder, 1)
            await scan(folder, running)
            await until(lambda: numbers(folder) == "0")
        assert list((folder / "features.d").iterdir()) == []
        assert world.api.count(method="PATCH", path="/nodes") == 0


async def test_file_moves_and_goes_with_the_configuration(folder: Path) -> None:
    (folder / "features.d").mkdir()
    async with node(folder) as world:
        cards = resource(write_cards(folder, 1))
        config = write_config(folder, cards, head=HEAD)
        async with agent(folder, config, world.kubeconfig):
            await until(lambda: numbers(folder) == "0")
            write_config(folder, cards, head="nfd_features: /features.d/other.txt")
            await until(lambda: numbers(folder, "/features.d/other.txt") == "0" and not read(folder))
            write_config(folder, cards, head="nfd_features: null")
            await until(lambda: list((folder / "features.d").iterdir()) == [])


async def test_folder_that_is_missing_harms_nobody_and_is_counted(folder: Path) -> None:
    async with node(folder) as world:
        config = write_config(folder, resource(write_cards(folder, 1)), head=HEAD)
        async with agent(folder, config, world.kubeconfig) as running:
            registry = running.metrics.registry
            await until(lambda: registry.get_sample_value("accelet_feature_file_failures_total") != 0)
            await world.kubelet.resource("gpu.intel.com/i915").devices(healthy=10)
            (folder / "features.d").mkdir()
            await scan(folder, running)
            await until(lambda: numbers(folder) == "0")


async def test_cards_that_are_not_known_are_waited_for_in_peace(folder: Path) -> None:
    asked: list[None] = []
    features = FeatureFile(folder, lambda: asked.append(None), failed=lambda: None)
    features.set_place("/gpu.txt")
    running = asyncio.create_task(features.run())
    for _ in range(100):
        await asyncio.sleep(0)
    running.cancel()
    assert len(asked) <= 2
