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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "older", "newer"),
    [
        ("allocating", "1.33", "1.36"),
        ("erring", "1.33", "1.36"),
        ("replacing", "1.36", "1.37"),
        ("erring", "1.37", "1.38"),
    ],
)
async def test_script_tells_versions_apart(script: str, older: str, newer: str, tmp_path: Path) -> None:
    """Else a script would agree with a kubelet that behaves otherwise."""
    first, second = await asyncio.gather(
        play_on_fake(script, older, tmp_path / "a"), play_on_fake(script, newer, tmp_path / "b")
    )

    assert first != second
