"""What the agent costs beside a bare plugin in the same run; `make bench` has the figures in full."""

from pathlib import Path

from benches.agent.allocating import measure_allocate

MOST = 3.0
"""Twice what is aimed at: a busy machine must not fail a test, a call that waits for something must."""


async def test_allocate_takes_no_longer_than_a_few_bare_calls(folder: Path) -> None:
    section = await measure_allocate(folder, calls=500)
    [ratio] = [figure for figure in section.figures if figure.unit == "x"]
    assert ratio.value < MOST
