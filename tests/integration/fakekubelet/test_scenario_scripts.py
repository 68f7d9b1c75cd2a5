"""The scripts for real kubelets leave a kubelet no choice that shows: another seed reads the same."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.scenarios.playing import NUMA, SCRIPTS, play_on_fake


@pytest.mark.thorough
@pytest.mark.parametrize("script", [*SCRIPTS, NUMA])
async def test_script_reads_the_same_with_every_seed(script: str, tmp_path: Path) -> None:
    first, second = await asyncio.gather(
        play_on_fake(script, "1.36", tmp_path / "a"), play_on_fake(script, "1.36", tmp_path / "b")
    )
    if first != second:
        # Both at once may keep each other waiting on a busy machine: one after the other they must agree.
        first = await play_on_fake(script, "1.36", tmp_path / "c")
        second = await play_on_fake(script, "1.36", tmp_path / "d")

    assert first == second
    assert not [line for line in first if "PROBLEM" in line]
