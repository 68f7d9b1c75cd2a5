"""The agent from daemonset.yaml itself, as a pod: its restrictions, its devices, its replacement."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from accelet.kube.quantity import parse_quantity
from tests.e2e import restrictions
from tests.e2e.agent import allocatable, wait_for_allocatable
from tests.e2e.agent_log import last, parse_log, registered_at, registrations_after
from tests.e2e.agent_pod import PROJECT, AgentPod, container_id, read_manifest, restarts
from tests.e2e.arrivals import Arrivals
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.steady import SteadyPods, steady_pods
from tests.e2e.usage import MIB, ContainerCgroup

Say = Callable[[str], None]

pytestmark = pytest.mark.timeout(300)  # some wait for what a kubelet does once in 90 s

GPU, TILE, FUSE, ZERO = "gpu.intel.com/i915", "gpu.intel.com/tile", "accelet.dev/fuse", "accelet.dev/zero"
SHARES = 40

EXAMPLES = PROJECT / "examples" / "agent"
CONFIG: str = read_manifest(EXAMPLES / "simulated.yaml")[0]["data"]["config.yaml"]
"""Four resources: this node has no GPU, but the host's /dev/fuse and /dev/zero are really looked at."""

HOST_MOUNTS = {"/host/dev", "/host/dev/pts", "/host/dev/shm"} | {
    f"/host/sys/{name}" for name in ("bus", "class", "devices")
}


@pytest.fixture(scope="module")
def agent(
    cluster: ControlPlane, node: Node, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentPod]:
    agent = AgentPod(node, binaries, cluster.workloads)
    agent.start(CONFIG, tmp_path_factory.mktemp("image"))
    yield agent
    agent.remove()


@pytest.fixture
def pod(agent: AgentPod, node: Node) -> Json:
    """The agent's pod, with everything served."""
    pod = agent.wait_until_ready()
    for resource, amount in {GPU: 2, TILE: 2, FUSE: SHARES, ZERO: 1}.items():
        wait_for_allocatable(node, resource, amount)
    return pod


@pytest.fixture
def steady(pod: Json, workloads: Workloads) -> Iterator[SteadyPods]:
    with steady_pods(workloads, ["beside-0", "beside-1"], {GPU: 1, FUSE: 1}) as steady:
        yield steady


def test_agent_can_do_nothing_but_its_work(agent: AgentPod, pod: Json) -> None:
    seen = json.loads(agent.run_inside(pod, Path(restrictions.__file__).read_text()))

    status = seen["process 1"]
    assert status["Name"] == "accelet"
    assert status["Uid"].split() == ["0"] * 4
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"  # a filter
    assert seen["write to the root"] == "Read-only file system"
    assert seen["write to the host's /dev"] == "Read-only file system"
    assert seen["write to the host's /sys"] == "Read-only file system"
    assert {path for path, _ in seen["mounts of the host"]} == HOST_MOUNTS
    assert all("ro" in options.split(",") for _, options in seen["mounts of the host"])
    assert seen["terminals and memory of the host"] == []
    assert seen["open a device of the host"] == "Operation not permitted"
    assert seen["make a device"] == "Operation not permitted"
    assert seen["give a file away"] == "Operation not permitted"
    assert seen["read a token"] == "No such file or directory"
    assert seen["ask podresources"] == "done"
    # Its own processes and its own network alone: itself, and what looks here.
    assert len(seen["processes"]) == 2
    assert set(seen["networks"]) == {"lo", "eth0"}
    assert not [line for line in agent.log(pod) if line.values["level"] == "error"]


def test_pods_of_the_example_get_their_devices(pod: Json, workloads: Workloads) -> None:
    pods = read_manifest(EXAMPLES / "pods.yaml")
    for example in pods:
        example["spec"]["containers"][0]["image"] = BUSYBOX_IMAGE  # there is no registry here
        workloads.apply(example)
    for example in pods:
        workloads.wait_for_phase(example["metadata"]["name"], "Running")

    both, tile = (_own_view(workloads, example["metadata"]["name"]) for example in pods)
    assert "/dev/fuse" in both
    assert len({"card0", "card1"} & set(both)) == 1
    assert tile[0] == "card2"
    assert tile[1:] in (["0", "FLAT"], ["1", "FLAT"])
    for example in pods:
        workloads.delete_pod(example["metadata"]["name"])


def _own_view(workloads: Workloads, name: str) -> list[str]:
    """What the container printed of itself, word by word."""
    return wait_until(f"{name} has spoken", lambda: workloads.log(name).split(), timeout_s=20)


def test_agent_uses_no_more_than_it_requests(agent: AgentPod, pod: Json, say: Say) -> None:
    cgroup = ContainerCgroup(agent.node.cgroup, container_id(pod))
    resources = agent.daemonset["spec"]["template"]["spec"]["containers"][0]["resources"]
    before, started = cgroup.usage(), time.monotonic()
    time.sleep(20)  # a measurement takes its time
    after, elapsed = cgroup.usage(), time.monotonic() - started
    cores = (after.cpu_s - before.cpu_s) / elapsed

    say(
        f"\nthe agent's container, 4 resources: resident {cgroup.resident_mib():.1f} MiB, "
        f"of which its own {after.anonymous_mib:.1f} MiB; "
        f"working set {after.working_set_mib:.1f} MiB, peak with file pages {after.most_mib:.1f} MiB, "
        f"idle {cores:.2%} of a core, {before.cpu_s:.2f} s of CPU since its start"
    )
    assert cgroup.resident_mib() * MIB <= parse_quantity(resources["requests"]["memory"])
    assert cores <= parse_quantity(resources["requests"]["cpu"])


def test_rollout_restart_harms_no_running_pod(
    agent: AgentPod, pod: Json, steady: SteadyPods, say: Say
) -> None:
    arrivals = Arrivals(agent.workloads, FUSE, "arrival")
    seen_allocatable: set[int | None] = set()
    with agent.log_file(pod).open() as old_log:
        arrivals.come()
        agent.restart()
        while (fresh := agent.ready_pod(other_than=pod["metadata"]["name"])) is None:
            arrivals.come()
            seen_allocatable.add(allocatable(agent.node, FUSE))
        arrivals.come()
        old_lines = parse_log(old_log.read())
    fates = arrivals.fates()

    gaps = [
        registered_at(agent.log(fresh), resource) - last(old_lines, "stopped", resource)
        for resource in (GPU, TILE, FUSE, ZERO)
    ]
    say(
        f"\nrollout restart: unregistered for {max(gaps):.2f} s; allocatable {FUSE} in the node's status was "
        f"{sorted(map(str, seen_allocatable))}; of {len(fates.running) + len(fates.refused)} pods that came, "
        f"{len(fates.refused)} were refused"
    )
    assert max(gaps) < 30
    steady.assert_unharmed()
    assert fates.running
    for refused in fates.refused:
        assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    wait_for_allocatable(agent.node, FUSE, SHARES)
    arrivals.leave()


def test_killed_agent_serves_again_in_the_same_pod(
    agent: AgentPod, pod: Json, steady: SteadyPods, say: Say
) -> None:
    killed_at = time.time()
    os.kill(ContainerCgroup(agent.node.cgroup, container_id(pod)).pid(), signal.SIGKILL)
    wait_until("it is registered again", lambda: registrations_after(killed_at, agent.log(pod)), timeout_s=60)

    back_at = registrations_after(killed_at, agent.log(pod))[0]
    say(f"\nSIGKILL: unregistered for {back_at - killed_at:.2f} s")
    again = agent.wait_until_ready()
    assert again["metadata"]["uid"] == pod["metadata"]["uid"]
    wait_until(
        "the restart is counted", lambda: restarts(agent.wait_until_ready()) > restarts(pod), timeout_s=30
    )
    steady.assert_unharmed()


def test_pod_deleted_by_force_is_replaced(agent: AgentPod, pod: Json, steady: SteadyPods, say: Say) -> None:
    deleted_at = time.time()
    agent.delete_at_once(pod)
    fresh = agent.wait_until_ready(other_than=pod["metadata"]["name"])

    say(f"\ndeleted by force: registered {registered_at(agent.log(fresh), FUSE) - deleted_at:.2f} s later")
    wait_for_allocatable(agent.node, FUSE, SHARES)
    steady.assert_unharmed()


def test_edited_config_map_is_taken_over_without_a_restart(
    agent: AgentPod, pod: Json, steady: SteadyPods, say: Say
) -> None:
    edited_at = time.time()
    agent.configure(CONFIG.replace(f"shares: {SHARES}", f"shares: {SHARES - 1}"))
    # The kubelet looks at a pod's volumes once in 60 to 90 s.
    taken_over = wait_until(
        "the edit is taken over",
        lambda: [line for line in agent.log(pod) if line.message == "configuration taken over"],
        timeout_s=120,
    )
    say(f"\nConfigMap edited: taken over {taken_over[-1].at.timestamp() - edited_at:.0f} s later")
    wait_for_allocatable(agent.node, FUSE, SHARES - 1)

    assert agent.wait_until_ready()["status"]["containerStatuses"] == pod["status"]["containerStatuses"]
    assert len(registrations_after(edited_at, agent.log(pod))) == 1
    steady.assert_unharmed()
    agent.configure(CONFIG)
