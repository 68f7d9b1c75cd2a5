"""The agent on a real kubelet: containers get their devices, and nothing that happens takes them away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.agent import allocatable, device_pod, start_agent, wait_for_allocatable, write_cards
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.steady import steady_pods

GPU, TILE, FUSE = "gpu.intel.com/i915", "gpu.intel.com/tile", "accelet.dev/fuse"
CARDS = 4

CONFIG = """\
version: v1
resources:
  - name: gpu.intel.com/i915
    backend: simulated
    file: {cards}
    match: {{id: "0000-0[34]*"}}
    shares: 2
  - name: gpu.intel.com/tile
    backend: simulated
    file: {cards}
    match: {{id: "0000-0[56]*"}}
    unit: tile
    policy: packed
  - {{name: accelet.dev/fuse, backend: files, paths: [/dev/fuse], shares: 4}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent")
    write_cards(folder / "cards.yaml", CARDS)
    (folder / "config.yaml").write_text(CONFIG.format(cards=folder / "cards.yaml"))
    return folder


@pytest.fixture(scope="module")
def agent(node: Node, folder: Path) -> Iterator[NodeProcess]:
    process = start_agent(node, folder / "config.yaml")
    yield process
    if process.is_running:
        process.terminate()


@pytest.fixture(autouse=True)
def served(agent: NodeProcess, node: Node) -> None:
    """Each test begins with everything served and free of the tests before it."""
    if not agent.is_running:
        agent.start()
    wait_for_allocatable(node, GPU, 4)
    wait_for_allocatable(node, TILE, 4)
    wait_for_allocatable(node, FUSE, 4)


def test_containers_see_the_devices_and_the_mask_they_were_given(workloads: Workloads) -> None:
    workloads.apply(device_pod("whole", {GPU: 1, FUSE: 1}))
    workloads.apply(device_pod("two-tiles", {TILE: 2}))
    workloads.apply(device_pod("one-tile", {TILE: 1}))
    for name in ("whole", "two-tiles", "one-tile"):
        workloads.wait_for_phase(name, "Running")

    whole = _own_view(workloads, "whole")
    two = _own_view(workloads, "two-tiles")
    one = _own_view(workloads, "one-tile")

    assert "/dev/fuse" in whole
    assert len([word for word in whole if word.startswith("card")]) == 1
    assert "mask=" in whole
    # Packed: both tiles of a card need no mask, and the third pod's one tile is on the other card.
    assert len([word for word in two if word.startswith("card")]) == 1
    assert "mask=" in two
    assert "mask=0" in one
    assert "hierarchy=FLAT" in one
    assert set(one).isdisjoint(word for word in two if word.startswith("card"))
    for name in ("whole", "two-tiles", "one-tile"):
        workloads.delete_pod(name)


def test_running_pods_outlive_five_kubelets_and_five_agents(
    node: Node, agent: NodeProcess, workloads: Workloads
) -> None:
    with steady_pods(workloads, ["steady-0", "steady-1"], {GPU: 1, FUSE: 1}) as steady:
        for _ in range(5):
            node.kubelet.process.kill()
            node.kubelet.start()
            node.wait_until_ready()
            wait_for_allocatable(node, GPU, 4)
            agent.kill()
            wait_for_allocatable(node, GPU, 0)
            agent.start()
            wait_for_allocatable(node, GPU, 4)

        steady.assert_unharmed()
        workloads.apply(device_pod("newcomer", {GPU: 1}))
        workloads.wait_for_phase("newcomer", "Running")
        workloads.delete_pod("newcomer")


def test_unhealthy_card_lowers_allocatable_and_recovers(node: Node, folder: Path) -> None:
    write_cards(folder / "cards.yaml", CARDS, unhealthy=[0])
    wait_for_allocatable(node, GPU, 2)
    assert allocatable(node, TILE) == 4

    write_cards(folder / "cards.yaml", CARDS)
    wait_for_allocatable(node, GPU, 4)


def test_changed_configuration_is_taken_over_without_touching_the_rest(
    node: Node, agent: NodeProcess, folder: Path
) -> None:
    config = folder / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("shares: 4", "shares: 3"))
    wait_for_allocatable(node, FUSE, 3)
    config.write_text(text.replace("shares: 4", "shares: none"))
    wait_until(
        "the agent says what is wrong",
        lambda: "must be int" in agent.log_text(),
        timeout_s=30,
        depends_on=[agent],
    )
    assert allocatable(node, FUSE) == 3

    config.write_text(text)
    wait_for_allocatable(node, FUSE, 4)
    registrations = [line for line in agent.log_text().splitlines() if '"registered"' in line]
    assert sum(GPU in line for line in registrations) < sum(FUSE in line for line in registrations)


def test_pod_that_asks_for_a_sick_device_is_told_why(node: Node, workloads: Workloads, folder: Path) -> None:
    write_cards(folder / "cards.yaml", CARDS, unhealthy=range(CARDS))
    wait_for_allocatable(node, GPU, 0)
    workloads.apply(device_pod("refused", {GPU: 1}, nodeName=node.name))
    pod = workloads.wait_for_phase("refused", "Failed")
    assert "unhealthy" in pod["status"]["message"]
    workloads.delete_pod("refused")
    write_cards(folder / "cards.yaml", CARDS)


def _own_view(workloads: Workloads, pod: str) -> list[str]:
    """What the container printed of itself, word by word."""
    return wait_until(
        f"{pod} has printed its view",
        lambda: text.split() if "mask=" in (text := workloads.log(pod)) else None,
        timeout_s=20,
    )
