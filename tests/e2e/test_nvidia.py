"""NVIDIA GPUs and MIG instances on a real kubelet: containers get theirs by CDI names, through containerd."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from accelet.fakehost.nvidia import T4, NvidiaCard, capability_of, uuid_of, write_nvidia
from tests.e2e.agent import AGENT, device_pod, wait_for_allocatable
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads

GPU, INSTANCE = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
CONFIG = f"""version: v1
resources:
- {{name: {GPU}, backend: nvidia-gpu}}
- {{name: {INSTANCE}, backend: nvidia-gpu, unit: mig}}
"""
CUT = NvidiaCard("0000:47:00.0", 4, uuid_of(9), "NVIDIA A100-SXM4-40GB", instances=((1, 0), (5, 0)))
"""A fifth GPU, cut into two MIG instances."""

SHOW = (
    "(ls /dev; ls /dev/nvidia-caps 2>/dev/null) | grep nvidia | xargs echo files; "
    "echo visible=$NVIDIA_VISIBLE_DEVICES; echo end; sleep 3600"
)
SPECIFICATION = "/run/cdi/nvidia.yaml"


@pytest.fixture(scope="module", autouse=True)
def served(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An agent that sees the GPUs' tree, and a containerd that has their specification.

    Every device node of a GPU stands for /dev/null there.
    """
    root = tmp_path_factory.mktemp("t4")
    specification = write_nvidia(root, (*T4, CUT)) / "var/run/cdi/nvidia.yaml"
    specification.write_text(_standing_for_null(specification.read_text()))
    config = root / "config.yaml"
    config.write_text(CONFIG)
    node.run(["mkdir", "-p", str(Path(SPECIFICATION).parent)])
    node.run(["cp", str(specification), SPECIFICATION])
    places: list[str | Path] = ["--host-root", root, "--config", config]
    agent = node.process(
        "nvidia-agent", [AGENT, "agent", *places, "--node-name", node.name, "--http", "127.0.0.1:0"]
    )
    try:
        with agent.running():
            wait_for_allocatable(node, GPU, len(T4))
            wait_for_allocatable(node, INSTANCE, len(CUT.instances))
            yield
    finally:
        node.run(["rm", SPECIFICATION])


def _standing_for_null(specification: str) -> str:
    lines = []
    for line in specification.splitlines():
        lines.append(line)
        if "- path: /dev/" in line:
            lines.append(line.partition("- ")[0] + "  hostPath: /dev/null")
    return "\n".join(lines) + "\n"


def test_pods_see_their_own_gpus_and_no_others(workloads: Workloads) -> None:
    seen: list[str] = []
    for name, count in (("one", 1), ("two", 2), ("last", 1)):
        workloads.apply(device_pod(name, {GPU: count}, script=SHOW))
        workloads.wait_for_phase(name, "Running")
        files, visible, *_ = _own_view(workloads, name)
        names = files.split()[1:]
        assert set(names) >= {"nvidiactl", "nvidia-uvm"}
        assert visible == "visible=void", "the specification's own variable arrives too"
        own = [file for file in names if file.removeprefix("nvidia").isdecimal()]
        assert len(own) == count
        seen += own

    assert sorted(seen) == ["nvidia0", "nvidia1", "nvidia2", "nvidia3"]
    for name in ("one", "two", "last"):
        workloads.delete_pod(name)


def test_pods_see_their_own_mig_instances_and_no_others(workloads: Workloads) -> None:
    seen = []
    for name in ("first", "second"):
        workloads.apply(device_pod(name, {INSTANCE: 1}, script=SHOW))
        workloads.wait_for_phase(name, "Running")
        files, *_ = _own_view(workloads, name)
        names = set(files.split()[1:])
        assert {one for one in names if one.removeprefix("nvidia").isdecimal()} == {"nvidia4"}
        seen.append({one for one in names if one.startswith("nvidia-cap") and one != "nvidia-caps"})
    expected = [
        {f"nvidia-cap{capability_of(4, number, part)}" for part in (None, 0)} for number, _ in CUT.instances
    ]
    assert sorted(seen, key=sorted) == sorted(expected, key=sorted)
    for name in ("first", "second"):
        workloads.delete_pod(name)


def _own_view(workloads: Workloads, pod: str) -> list[str]:
    return wait_until(
        f"{pod} has printed its view",
        lambda: text.splitlines() if "end\n" in (text := workloads.log(pod)) else None,
        timeout_s=20,
    )
