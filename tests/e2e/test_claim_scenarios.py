"""The fake kubelet of this version and the real one do the same with claims, in every scenario."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.scenarios.dra.playing import PREPARING, play_claims_on_fake, play_claims_on_node
from tests.e2e.scenarios.nodes import Site, plain_node
from tests.e2e.scenarios.playing import assert_same


@pytest.fixture(scope="module")
def claim_node(cluster: ControlPlane, binaries: Binaries, base_images: Sequence[Path]) -> Iterator[Site]:
    with plain_node(cluster, binaries, "claim-scenarios", base_images) as site:
        yield site


async def test_fake_and_real_kubelet_1_36_do_the_same_with_claims(claim_node: Site) -> None:
    fake = await play_claims_on_fake(PREPARING, "1.36")
    real = await play_claims_on_node(PREPARING, claim_node)

    assert_same(fake, real)
