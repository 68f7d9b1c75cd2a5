"""The same script on both kubelets, and the difference between what was seen."""

import difflib
from pathlib import Path

from accelet.fakekubelet import FakeKubelet
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.scenarios.fake import FakeStage, QuickClock, lack_of_cpu
from tests.e2e.scenarios.real import RealStage
from tests.e2e.scenarios.script import read_script
from tests.e2e.scenarios.stage import Stage

FOLDER = Path(__file__).parent
SCRIPTS = ("registering", "allocating", "restarting", "replacing")
QUICK_STATUS = {"nodeStatusUpdateFrequency": "1s"}


async def play_on_fake(name: str, version: str, folder: Path) -> list[str]:
    """The transcript of a script on a fake kubelet."""
    async with FakeKubelet(
        folder, version=version, clock=QuickClock(), admission_hook=lack_of_cpu
    ) as kubelet:
        return await Stage(FakeStage(kubelet)).play(read_script(FOLDER / f"{name}.yaml"))


async def play_on_node(name: str, node: Node, workloads: Workloads, folder: Path) -> list[str]:
    """The transcript of a script on a real kubelet; its pods are removed afterwards."""
    real = RealStage(node, workloads, folder)
    try:
        return await Stage(real).play(read_script(FOLDER / f"{name}.yaml"))
    finally:
        await real.clean()


def difference(fake: list[str], real: list[str]) -> str:
    """As `diff` would tell it; empty when both read the same."""
    return "\n".join(
        difflib.unified_diff(fake, real, "the fake kubelet", "the real kubelet", lineterm="", n=4)
    )
