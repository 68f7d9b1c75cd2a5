"""What the agent costs beside a bare plugin in the same run; `make bench` has the figures in full."""

import subprocess
import sys
from pathlib import Path

from benches.agent.allocating import measure_allocate

MOST = 3.0
"""Twice what is aimed at: a busy machine must not fail a test, a call that waits for something must."""


async def test_allocate_takes_no_longer_than_a_few_bare_calls(folder: Path) -> None:
    section = await measure_allocate(folder, calls=500)
    [ratio] = [figure for figure in section.figures if figure.unit == "x"]
    assert ratio.value < MOST


def test_agent_loads_nothing_that_it_does_not_need() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, accelet.cli.agent; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    packages = {name.partition(".")[0] for name in loaded}
    assert packages.isdisjoint({"rich", "kubernetes", "numpy", "pytest"})
    assert not any(name.startswith("accelet.fakekubelet") for name in loaded)
