"""Cards that change their resource, or its shares, while containers hold them."""

from pathlib import Path

import pytest

from accelet.fakekubelet import FakeKubelet, a_pod
from tests.integration.agent.running import GPU, agent, cards_config, scan, write_config

OTHER = "gpu.intel.com/xe"


async def test_card_that_moves_to_another_resource_is_not_given_again_before_it_is_free(folder: Path) -> None:
    file = write_config(folder, cards_config(1), cards_config(1, name=OTHER, first=9))
    async with FakeKubelet(folder) as kubelet:
        async with agent(folder, file):
            await kubelet.resource(GPU).devices(healthy=1)
            await kubelet.resource(OTHER).devices(healthy=1)
            holder = await kubelet.admit(a_pod(limits={GPU: 1}))

            write_config(folder, cards_config(2, name=OTHER, first=3))

            told = await kubelet.resource(OTHER).devices(healthy=1, unhealthy=1)
            assert told["0000-03-00.0"].health == "Unhealthy"
        async with agent(folder, file) as running:  # which remembers nothing
            await kubelet.resource(OTHER).devices(healthy=1, unhealthy=1)
            await kubelet.remove(holder)
            await kubelet.admit(a_pod(limits={OTHER: 1}))  # the kubelet frees what it has left when it gives
            for _ in range(4):
                await scan(folder, running, OTHER)
            await kubelet.resource(OTHER).devices(healthy=2)


@pytest.mark.thorough  # a quarter of a minute passes
async def test_card_of_a_pod_that_ended_unseen_is_free_without_another_admission(folder: Path) -> None:
    file = write_config(folder, cards_config(1))
    async with FakeKubelet(folder) as kubelet, agent(folder, file):
        await kubelet.resource(GPU).devices(healthy=1)
        await kubelet.remove(await kubelet.admit(a_pod(limits={GPU: 1})))

        write_config(folder, cards_config(1, options="shares: 2"))

        told = await kubelet.resource(GPU).devices(healthy=2, timeout_s=30)
        assert set(told) >= {"0000-03-00.0-s0", "0000-03-00.0-s1"}
