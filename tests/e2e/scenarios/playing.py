"""The same script on both kubelets, and the difference between what was seen."""

import asyncio
import difflib
from pathlib import Path

import pytest

from accelet.fakekubelet import FakeKubelet
from accelet.fakekubelet.scenario.format import Step
from tests.e2e.scenarios.fake import FakeStage, lack_of_cpu
from tests.e2e.scenarios.nodes import Site
from tests.e2e.scenarios.real import RealStage
from tests.e2e.scenarios.script import Act, Serve, read_script
from tests.e2e.scenarios.stage import Stage
from tests.fakes.clocks import QuickClock

OWN = Path(__file__).parent
EXAMPLES = OWN.parents[2] / "examples" / "scenarios"
SCRIPTS = (
    "registering",
    "allocating",
    "arriving",
    "restarting",
    "replacing",
    "erring",
    "first-pods",
    "kubelet-restart",
)
FIVE_MINUTES = "forgetting"
"""Takes as long as a kubelet waits for a plugin that is gone."""
NUMA = "numa"
"""Is for a node of its own."""
LEFT_TO_CHANCE = "kubelet-restart"
"""A kubelet before 1.34 may or may not see that a container runs which has restarted before."""
CHANCES = 8
"""So often the fake is asked for what it chooses with equal odds."""
SAMPLE = Serve(
    plugin="sample", resource="example.com/sample", devices=4, prefers=True, pre_start=True, follow=True
)
"""What the published examples are for; those of this folder say themselves which plugins there are."""


def script(name: str) -> list[tuple[str, Act | Step]]:
    """A script of this folder, or a published example with its plugin."""
    if (OWN / f"{name}.yaml").exists():
        return read_script(OWN / f"{name}.yaml")
    return [("the sample plugin", Act(serve=SAMPLE)), *read_script(EXAMPLES / f"{name}.yaml")]


async def play_on_fake(name: str, version: str, folder: Path) -> list[str]:
    """The transcript of a script on a fake kubelet."""
    clock = QuickClock(10)  # the kubelet's ten seconds are one here, as on the real nodes of these tests
    async with FakeKubelet(folder, version=version, clock=clock, admission_hook=lack_of_cpu) as kubelet:
        return await Stage(FakeStage(kubelet, clock)).play(script(name))


async def play_on_fake_until(real: list[str], name: str, version: str, folder: Path) -> list[str]:
    """A transcript of a fake kubelet that reads like `real`, if one of its choices leads to that."""
    fake: list[str] = []
    for chance in range(CHANCES):
        fake = await play_on_fake(name, version, folder / str(chance))
        if fake == real:
            break
    return fake


async def play_on_node(name: str, site: Site, folder: Path) -> list[str]:
    """The transcript of a script on a real kubelet that starts anew; its pods are removed afterwards."""
    real = RealStage(site.node, site.cluster, folder)
    await asyncio.to_thread(real.kubelet.begin_anew)
    try:
        return await Stage(real).play(script(name))
    finally:
        await real.clean()


def assert_same(fake: list[str], real: list[str]) -> None:
    """Fails with what differs, and nothing else; also where both came out as the script does not say."""
    problems = "\n".join(line for line in real if "PROBLEM" in line)
    if problems:
        pytest.fail(problems, pytrace=False)
    if text := difference(fake, real):
        pytest.fail(text, pytrace=False)


def difference(fake: list[str], real: list[str]) -> str:
    """As `diff` would tell it; empty when both read the same."""
    return "\n".join(
        difflib.unified_diff(fake, real, "the fake kubelet", "the real kubelet", lineterm="", n=4)
    )
