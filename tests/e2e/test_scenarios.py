"""The fake kubelet of this version and the real one do the same in every scenario."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.scenarios.nodes import Site, plain_node, two_numa_nodes
from tests.e2e.scenarios.playing import NUMA, SCRIPTS, assert_same, play_on_fake, play_on_node


@pytest.fixture(scope="module")
def scenario_node(cluster: ControlPlane, binaries: Binaries, base_images: Sequence[Path]) -> Iterator[Site]:
    with plain_node(cluster, binaries, "scenarios", base_images) as site:
        yield site


@pytest.mark.parametrize("script", SCRIPTS)
async def test_fake_and_real_kubelet_1_36_read_the_same(
    script: str, scenario_node: Site, tmp_path: Path
) -> None:
    fake = await play_on_fake(script, "1.36", tmp_path / "fake")
    real = await play_on_node(script, scenario_node, tmp_path)

    assert_same(fake, real)


async def test_fake_and_real_kubelet_1_36_read_the_same_on_numa_nodes(
    cluster: ControlPlane, binaries: Binaries, base_images: Sequence[Path], tmp_path: Path
) -> None:
    fake = await play_on_fake(NUMA, "1.36", tmp_path / "fake")
    with two_numa_nodes(cluster, binaries, "numa", base_images, tmp_path / "system") as site:
        real = await play_on_node(NUMA, site, tmp_path)

    assert_same(fake, real)
