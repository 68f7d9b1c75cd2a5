"""The same scenarios on kubelets of other versions; `make e2e-versions` runs this file by its name."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.scenarios.dra.playing import LEAVING, PREPARING, play_claims_on_fake, play_claims_on_node
from tests.e2e.scenarios.nodes import Site, plain_node, two_numa_nodes
from tests.e2e.scenarios.playing import (
    FIVE_MINUTES,
    LEFT_TO_CHANCE,
    NUMA,
    SCRIPTS,
    assert_same,
    play_on_fake,
    play_on_fake_until,
    play_on_node,
)


@pytest.fixture(scope="module")
def node_1_33(
    cluster: ControlPlane, kubernetes_1_33: Binaries, base_images: Sequence[Path]
) -> Iterator[Site]:
    with plain_node(cluster, kubernetes_1_33, "scenarios-1-33", base_images) as site:
        yield site


@pytest.fixture(scope="module")
def cluster_1_36(workspace: Workspace, binaries: Binaries) -> Iterator[ControlPlane]:
    """One of its own: pods of the same name are played on both its node and the one of 1.33."""
    with ControlPlane(workspace.part("scenarios-1.36"), binaries) as control_plane:
        control_plane.start()
        yield control_plane


@pytest.fixture(scope="module")
def node_1_36(cluster_1_36: ControlPlane, binaries: Binaries, base_images: Sequence[Path]) -> Iterator[Site]:
    with plain_node(cluster_1_36, binaries, "scenarios-1-36", base_images) as site:
        yield site


@pytest.fixture(scope="module")
def cluster_1_37(workspace: Workspace, kubernetes_1_37: Binaries) -> Iterator[ControlPlane]:
    with ControlPlane(workspace.part("scenarios-1.37"), kubernetes_1_37) as control_plane:
        control_plane.start()
        yield control_plane


@pytest.fixture(scope="module")
def node_1_37(
    cluster_1_37: ControlPlane, kubernetes_1_37: Binaries, base_images: Sequence[Path]
) -> Iterator[Site]:
    with plain_node(cluster_1_37, kubernetes_1_37, "scenarios-1-37", base_images) as site:
        yield site


@pytest.mark.parametrize("script", [each for each in SCRIPTS if each != LEFT_TO_CHANCE])
async def test_fake_and_real_kubelet_1_33_read_the_same(script: str, node_1_33: Site, tmp_path: Path) -> None:
    fake = await play_on_fake(script, "1.33", tmp_path / "fake")
    real = await play_on_node(script, node_1_33, tmp_path)

    assert_same(fake, real)


async def test_real_kubelet_1_33_reads_as_the_fake_may(node_1_33: Site, tmp_path: Path) -> None:
    real = await play_on_node(LEFT_TO_CHANCE, node_1_33, tmp_path)
    fake = await play_on_fake_until(real, LEFT_TO_CHANCE, "1.33", tmp_path / "fake")

    assert_same(fake, real)


async def test_fake_and_real_kubelet_1_33_read_the_same_on_numa_nodes(
    cluster: ControlPlane, kubernetes_1_33: Binaries, base_images: Sequence[Path], tmp_path: Path
) -> None:
    fake = await play_on_fake(NUMA, "1.33", tmp_path / "fake")
    with two_numa_nodes(cluster, kubernetes_1_33, "numa-1-33", base_images, tmp_path / "system") as site:
        real = await play_on_node(NUMA, site, tmp_path)

    assert_same(fake, real)


@pytest.mark.parametrize("script", SCRIPTS)
async def test_fake_and_real_kubelet_1_37_read_the_same(script: str, node_1_37: Site, tmp_path: Path) -> None:
    fake = await play_on_fake(script, "1.37", tmp_path / "fake")
    real = await play_on_node(script, node_1_37, tmp_path)

    assert_same(fake, real)


async def test_fake_and_real_kubelet_1_37_read_the_same_on_numa_nodes(
    cluster_1_37: ControlPlane, kubernetes_1_37: Binaries, base_images: Sequence[Path], tmp_path: Path
) -> None:
    fake = await play_on_fake(NUMA, "1.37", tmp_path / "fake")
    with two_numa_nodes(cluster_1_37, kubernetes_1_37, "numa-1-37", base_images, tmp_path / "system") as site:
        real = await play_on_node(NUMA, site, tmp_path)

    assert_same(fake, real)


async def test_fake_and_real_kubelet_1_37_do_the_same_with_claims(node_1_37: Site) -> None:
    fake = await play_claims_on_fake(PREPARING, "1.37")
    real = await play_claims_on_node(PREPARING, node_1_37)

    assert_same(fake, real)


async def test_slices_of_a_driver_that_is_gone_are_removed(node_1_36: Site, node_1_37: Site) -> None:
    async def both(version: str, site: Site) -> tuple[list[str], list[str]]:
        return await play_claims_on_fake(LEAVING, version), await play_claims_on_node(LEAVING, site)

    for fake, real in await asyncio.gather(both("1.36", node_1_36), both("1.37", node_1_37)):
        assert_same(fake, real)


async def test_every_version_forgets_a_plugin_after_five_minutes(
    node_1_33: Site, node_1_36: Site, node_1_37: Site, tmp_path: Path
) -> None:
    async def both(version: str, site: Site) -> tuple[list[str], list[str]]:
        folder = tmp_path / version
        folder.mkdir()
        fake = await play_on_fake(FIVE_MINUTES, version, folder / "fake")
        return fake, await play_on_node(FIVE_MINUTES, site, folder)

    # All at once: it is long to wait and little to do.
    played = await asyncio.gather(both("1.33", node_1_33), both("1.36", node_1_36), both("1.37", node_1_37))

    for fake, real in played:
        assert_same(fake, real)
