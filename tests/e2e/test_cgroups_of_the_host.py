"""The agent of deploy/agent-cards sees the host's cgroups, for the memory of cards, and changes none."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.agent_pod import PROJECT, AgentPod, read_manifest
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node

CONFIG = """\
version: v1
resources:
- {name: accelet.dev/null, backend: files, paths: [/dev/null]}
"""
TRY = """
import json, os, pathlib

def outcome(act):
    try:
        act()
    except OSError as error:
        return error.strerror
    return "done"

root = pathlib.Path("/host/sys/fs/cgroup")
folders = [root, *(one for one in root.iterdir() if one.is_dir() and not one.is_symlink())]
print(json.dumps({
    "seen": [one.name for one in root.iterdir()],
    "make": {str(one): outcome(lambda: (one / "made-by-the-agent").mkdir()) for one in folders},
    "open": {str(one): outcome(lambda: os.open(one / "cgroup.procs", os.O_WRONLY)) for one in folders[1:]},
}))
"""


@pytest.fixture
def agent(cluster: ControlPlane, node: Node, binaries: Binaries, tmp_path: Path) -> Iterator[AgentPod]:
    agent = AgentPod(node, binaries, cluster.workloads)
    (patch,) = read_manifest(PROJECT / "deploy/agent-cards/daemonset.patch.yaml")
    more, spec = patch["spec"]["template"]["spec"], agent.daemonset["spec"]["template"]["spec"]
    spec["volumes"] += more["volumes"]
    spec["containers"][0]["volumeMounts"] += more["containers"][0]["volumeMounts"]
    agent.start(CONFIG, tmp_path)
    yield agent
    agent.remove()


@pytest.mark.timeout(300)
def test_cgroups_of_the_host_are_seen_and_cannot_be_changed(agent: AgentPod) -> None:
    tried = json.loads(agent.run_inside(agent.wait_until_ready(), TRY))
    assert tried["seen"] != []
    assert set(tried["make"].values()) == {"Read-only file system"}
    assert set(tried["open"].values()) == {"Read-only file system"}
