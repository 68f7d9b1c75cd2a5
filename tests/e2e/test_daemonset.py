"""The agent from daemonset.yaml itself, as a pod: its restrictions, its devices, its replacement."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from accelet.kube.quantity import parse_quantity
from tests.e2e.agent import SHOW_DEVICES, allocatable, device_pod, wait_for_allocatable
from tests.e2e.agent_pod import PROJECT, AgentPod, LogLine, container_id, parse_log, read_manifest
from tests.e2e.arrivals import Arrivals
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.usage import MIB, ContainerCgroup

Say = Callable[[str], None]

pytestmark = pytest.mark.timeout(300)  # some wait for what a kubelet does once in 90 s

GPU, TILE, FUSE, ZERO = "gpu.intel.com/i915", "gpu.intel.com/tile", "accelet.dev/fuse", "accelet.dev/zero"
SHARES = 40

CONFIG = read_manifest(PROJECT / "examples" / "agent" / "simulated.yaml")["ConfigMap"]["data"]["config.yaml"]
"""Four resources: this node has no GPU, but the host's /dev/fuse and /dev/zero are really looked at."""

TRY_EVERYTHING = """
import json, os, socket, stat
PODRESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"
def outcome(act):
    try:
        act()
    except OSError as error:
        return error.strerror
    return "done"
print(json.dumps({
    "process 1": dict(line.strip().split(":\\t", 1) for line in open("/proc/1/status") if ":\\t" in line),
    "write to the root": outcome(lambda: open("/x", "w")),
    "write to the host's /dev": outcome(lambda: open("/host/dev/x", "w")),
    "write to the host's /sys": outcome(lambda: open("/host/sys/bus/pci/rescan", "w")),
    "mounts of the host": [line.split()[4:6] for line in open("/proc/1/mountinfo") if " /host" in line],
    "see the host's terminals": os.listdir("/host/dev/pts") + os.listdir("/host/dev/shm"),
    "open a device of the host": outcome(lambda: os.open("/host/dev/fuse", os.O_RDWR)),
    "make a device": outcome(lambda: os.mknod("/dev/shm/x", stat.S_IFCHR | 0o600, os.makedev(10, 229))),
    "give a file away": outcome(lambda: os.chown("/dev/shm", 1000, 1000)),
    "ask podresources": outcome(lambda: socket.socket(socket.AF_UNIX).connect(PODRESOURCES)),
    "have a token": outcome(lambda: os.listdir("/var/run/secrets/kubernetes.io")),
    "processes": [name for name in os.listdir("/proc") if name.isdigit()],
    "networks": os.listdir("/sys/class/net"),
}))
"""

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
def steady(pod: Json, workloads: Workloads) -> Iterator[dict[str, Json]]:
    """Two pods with devices, as they were when they had started."""
    names = ["steady-0", "steady-1"]
    for name in names:
        workloads.apply(device_pod(name, {GPU: 1, FUSE: 1}))
    yield {name: workloads.wait_for_phase(name, "Running") for name in names}
    for name in names:
        workloads.delete_pod(name)


def assert_unharmed(steady: dict[str, Json], workloads: Workloads) -> None:
    """The same containers run as before; what the kubelet says of their devices may change meanwhile."""
    for name, before in steady.items():
        pod = workloads.pod(name)
        assert life(pod) == life(before)


def life(pod: Json) -> list[object]:
    """Everything that would differ had a container of the pod ended or started."""
    said = [
        [status[key] for key in ("containerID", "restartCount", "state", "ready")]
        for status in pod["status"]["containerStatuses"]
    ]
    return [pod["metadata"]["uid"], pod["status"]["phase"], said]


def test_agent_can_do_nothing_but_its_work(agent: AgentPod, pod: Json) -> None:
    seen = json.loads(agent.run_inside(pod, TRY_EVERYTHING))

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
    assert seen["see the host's terminals"] == []
    assert seen["open a device of the host"] == "Operation not permitted"
    assert seen["make a device"] == "Operation not permitted"
    assert seen["give a file away"] == "Operation not permitted"
    assert seen["have a token"] == "No such file or directory"
    assert seen["ask podresources"] == "done"
    # Its own processes and its own network alone: itself, and what looks here.
    assert len(seen["processes"]) == 2
    assert set(seen["networks"]) == {"lo", "eth0"}
    assert all(line.values["level"] == "info" for line in agent.log(pod))


def test_pods_get_devices_from_it(pod: Json, workloads: Workloads) -> None:
    workloads.apply(device_pod("gpu-and-fuse", {GPU: 1, FUSE: 1}, SHOW_DEVICES + "; sleep 3600"))
    workloads.apply(device_pod("one-tile", {TILE: 1}, SHOW_DEVICES + "; sleep 3600"))
    for name in ("gpu-and-fuse", "one-tile"):
        workloads.wait_for_phase(name, "Running")

    both, tile = (own_view(workloads, name) for name in ("gpu-and-fuse", "one-tile"))
    assert "/dev/fuse" in both
    assert "card0" in both or "card1" in both
    assert {"card2", "hierarchy=FLAT"} <= set(tile)
    assert "mask=0" in tile or "mask=1" in tile
    for name in ("gpu-and-fuse", "one-tile"):
        workloads.delete_pod(name)


def own_view(workloads: Workloads, name: str) -> list[str]:
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
    agent: AgentPod, pod: Json, steady: dict[str, Json], say: Say
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
    assert_unharmed(steady, agent.workloads)
    assert fates.running
    for refused in fates.refused:
        assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    wait_for_allocatable(agent.node, FUSE, SHARES)
    arrivals.leave()


def test_killed_agent_serves_again_in_the_same_pod(
    agent: AgentPod, pod: Json, steady: dict[str, Json], say: Say
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
    assert_unharmed(steady, agent.workloads)


def test_pod_deleted_by_force_is_replaced(
    agent: AgentPod, pod: Json, steady: dict[str, Json], say: Say
) -> None:
    deleted_at = time.time()
    agent.delete_at_once(pod)
    fresh = agent.wait_until_ready(other_than=pod["metadata"]["name"])

    say(f"\ndeleted by force: registered {registered_at(agent.log(fresh), FUSE) - deleted_at:.2f} s later")
    wait_for_allocatable(agent.node, FUSE, SHARES)
    assert_unharmed(steady, agent.workloads)


def test_edited_config_map_is_taken_over_without_a_restart(
    agent: AgentPod, pod: Json, steady: dict[str, Json], say: Say
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
    assert_unharmed(steady, agent.workloads)
    agent.configure(CONFIG)


def last(lines: list[LogLine], message: str, resource: str) -> float:
    """When this was last said of a resource, as a Unix time."""
    return max(
        line.at.timestamp()
        for line in lines
        if line.message == message and line.values.get("resource") == resource
    )


def registered_at(lines: list[LogLine], resource: str) -> float:
    return last(lines, "registered", resource)


def registrations_after(moment: float, lines: list[LogLine]) -> list[float]:
    """The Unix times of all registrations since."""
    return [
        line.at.timestamp()
        for line in lines
        if line.message == "registered" and line.at >= datetime.fromtimestamp(moment, UTC)
    ]


def restarts(pod: Json) -> int:
    count: int = pod["status"]["containerStatuses"][0]["restartCount"]
    return count
