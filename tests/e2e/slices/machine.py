"""A machine behind a simulated Node: a real kubelet with four chips of v6e and the agent."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from accelet.kubelet.errors import PodResourcesError
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from accelet.provisioner.demand.slices import TPU
from tests.e2e.agent import AGENT
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.slices.world import until
from tests.e2e.tpu_host import tpu_chips

_CONFIG = """\
version: v1
resources:
- {{name: google.com/tpu, backend: tpu, node_labels: true, log_folder: {logs}}}
"""


CHIPS = 4


@dataclass(frozen=True)
class Shop:
    """What machines are made of."""

    cluster: ControlPlane
    binaries: Binaries
    images: Sequence[Path]
    workspace: Workspace
    folder: Path


@asynccontextmanager
async def machine(shop: Shop, name: str) -> AsyncIterator[Node]:
    """The kubelet takes over the Node of that name, which is there, and has what the agent offers it."""
    root = shop.folder / name
    root.mkdir()
    with Node(shop.cluster, shop.binaries, name=name) as node, tpu_chips(node, shop.workspace, root, "v6e-4"):
        node.boot(shop.images)
        config = root / "config.yaml"
        config.write_text(_CONFIG.format(logs=root / "logs"))
        places: list[str | Path] = ["--host-root", root, "--config", config]
        places += ["--kubeconfig", shop.cluster.kubeconfig, "--node-name", name, "--node-ip", node.address]
        agent = node.process(f"agent-{name}", [AGENT, "agent", *places, "--http", "127.0.0.1:0"])
        with agent.running():
            await until(partial(_has_chips, node))
            yield node


async def _has_chips(node: Node) -> bool:
    """Whether its kubelet says so: the Node's status may be what the simulated pool wrote."""
    async with PodResources(node.path(KubeletPaths().pod_resources_socket)) as kubelet:
        try:
            return len((await kubelet.allocatable()).get(TPU, ())) == CHIPS
        except PodResourcesError:
            return False
