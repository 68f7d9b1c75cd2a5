"""The fake kubelet of this version and the real one do the same in every scenario."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.scenarios.playing import QUICK_STATUS, SCRIPTS, assert_same, play_on_fake, play_on_node


@pytest.fixture(scope="module")
def scenario_node(cluster: ControlPlane, binaries: Binaries, base_images: Sequence[Path]) -> Iterator[Node]:
    with Node(cluster, binaries, name="scenarios", kubelet_config=QUICK_STATUS) as node:
        node.start(base_images)
        yield node


SEEN_TO_AGREE = ("registering",)
"""The others are compared by `make e2e-versions`, until docs/fake-kubelet-agreement.md has them as equal."""


@pytest.mark.parametrize(
    "script",
    [pytest.param(each, marks=() if each in SEEN_TO_AGREE else pytest.mark.thorough) for each in SCRIPTS],
)
async def test_fake_and_real_kubelet_1_36_read_the_same(
    script: str, scenario_node: Node, cluster: ControlPlane, tmp_path: Path
) -> None:
    fake = await play_on_fake(script, "1.36", tmp_path / "fake")
    real = await play_on_node(script, scenario_node, cluster, tmp_path)

    assert_same(fake, real)
