"""What `make e2e-dra` runs: storms, changes of nodes and of agents on real clusters 1.36 and 1.37.

Named so that `make e2e` does not collect it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from tests.e2e.agent import allocatable, device_pod, wait_for_allocatable
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.dra.oracle import VIEW, Part, seen_in
from tests.e2e.dra.requests import templates
from tests.e2e.dra.roles import run_each_role
from tests.e2e.dra.site import CARDS, GROUPS, Site, dra_site
from tests.e2e.dra.storm import kill_agent, kill_kubelet, run

CARD = "gpu.intel.com/i915"
STORMS, CLAIMS_IN_A_STORM, KILLS = 5, 60, 4
STAY = f"{VIEW}; echo end; sleep 3600"
SEED = 14

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def versions(binaries: Binaries, kubernetes_1_37: Binaries) -> Mapping[str, Binaries]:
    return {"1.36": binaries, "1.37": kubernetes_1_37}


@pytest.fixture(scope="module", params=["1.36", "1.37"])
def whole_site(
    request: pytest.FixtureRequest,
    workspace: Workspace,
    versions: Mapping[str, Binaries],
    base_images: Sequence[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """A cluster of its own of each version, without any feature gate."""
    version = versions[request.param]
    name = f"dra-{request.param.replace('.', '-')}"
    with ControlPlane(workspace.part(name), version) as cluster, Node(cluster, version, name=name) as node:
        cluster.start()
        node.start(base_images)
        with dra_site(cluster, node, workspace, tmp_path_factory.mktemp("dra")) as site:
            yield site


@pytest.fixture
def site(whole_site: Site) -> Iterator[Site]:
    for template in templates():
        whole_site.user.apply(template)
    yield whole_site
    whole_site.serve("dra")
    whole_site.clean()


def test_each_role_sees_exactly_what_its_claim_was_given(site: Site) -> None:
    run_each_role(site)


@pytest.mark.parametrize("number", range(STORMS))
def test_storm_of_claims_with_kills_of_agent_and_of_kubelet(site: Site, number: int, say: Progress) -> None:
    """300 claims and twenty kills of each in all."""
    random = Random(SEED + number)
    blows = [kill_agent(site)] * KILLS + [kill_kubelet(site)] * KILLS
    random.shuffle(blows)
    storm = run(site, random, CLAIMS_IN_A_STORM, blows, timeout_s=1200)
    assert not storm.wrong, "\n".join(storm.wrong)
    site.wait_until_nothing_is_left()
    say(f"{site.node.name}: {storm.summary}")


def test_agents_replace_one_another_while_pods_arrive(site: Site) -> None:
    """As a DaemonSet does it that starts the new pod before it ends the old one."""
    agents = [site.agent, site.successor]

    def replace() -> None:
        old, new = agents
        new.start()
        old.terminate()
        agents.reverse()

    storm = run(site, Random(SEED), 60, [replace] * 4, timeout_s=900)
    assert not storm.wrong, "\n".join(storm.wrong)
    assert agents[0] is site.agent


def test_node_changes_to_the_device_plugin_and_back_while_pods_hold_devices(site: Site) -> None:
    held: dict[str, frozenset[Part]] = {}

    def start(name: str, resources: dict[str, int]) -> None:
        pod = device_pod(name, resources, script=STAY, nodeSelector={"accelet.dev/serve": "dra"})
        site.user.apply(pod)
        site.admin.wait_for_phase(name, "Running", timeout_s=180)
        view = wait_until(
            f"{name} has looked",
            lambda: log if "end\n" in (log := site.admin.log(name)) else None,
            timeout_s=30,
        )
        mine = seen_in(view, GROUPS)
        assert mine
        for other, parts in held.items():
            assert mine.isdisjoint(parts), f"{name} and {other} both have {sorted(mine & parts)}"
        held[name] = mine

    def restarts(name: str) -> int:
        return sum(one["restartCount"] for one in site.admin.pod(name)["status"]["containerStatuses"])

    for number in range(3):
        start(f"by-claim-{number}", {CARD: 1})
    site.serve("device-plugin")
    wait_for_allocatable(site.node, CARD, CARDS - 3, timeout_s=120)
    for number in range(2):  # the scheduler counts pods with the same name by claims against what there is
        start(f"by-plugin-{number}", {CARD: 1})
    site.serve("dra")
    site.wait_for_slices(timeout_s=120)
    wait_until("the kubelet offers none", lambda: not allocatable(site.node, CARD), timeout_s=120)
    wait_until("held cards are tainted", lambda: _tainted(site) == 2, timeout_s=60)
    for number in range(3, 6):
        start(f"by-claim-{number}", {CARD: 1})
    assert len({card for parts in held.values() for _, card, _ in parts}) == CARDS
    assert [restarts(name) for name in held] == [0] * CARDS
    for number in range(2):
        site.admin.delete_pod(f"by-plugin-{number}")
        del held[f"by-plugin-{number}"]
    wait_until("cards of pods that ended are free", lambda: _tainted(site) == 0, timeout_s=180)
    start("by-claim-6", {CARD: 1})


def _tainted(site: Site) -> int:
    """How many whole cards are kept for who came by them through the device plugin."""
    devices = [device for one in site.slices() for device in one["spec"].get("devices", ())]
    return sum(
        "held-by-device-plugin" in json.dumps(device.get("taints", []))
        for device in devices
        if device["attributes"]["type"] == {"string": "gpu"}
    )
