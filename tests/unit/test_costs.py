"""`make test` tells which test files take the most processor time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import Costs

PROJECT = Path(__file__).parents[2]
DEAR = """
import pathlib, subprocess, sys, time
def burn():
    until_s = time.process_time() + 0.2
    while time.process_time() < until_s: pass
def test_burns(): burn()
def test_waits_for_a_child_that_does():
    command = [sys.executable, "-c", "import test_dear; test_dear.burn()"]
    subprocess.run(command, cwd=pathlib.Path(__file__).parent, check=True)
"""
CHEAP = """
import time
def test_waits(): time.sleep(0.5)
"""


@pytest.mark.parametrize(
    "workers", [[], ["-p", "xdist", "-n", "2", "--dist", "loadfile"]], ids=["alone", "workers"]
)
def test_the_file_that_takes_most_processor_time_is_printed_first(workers: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_dear.py").write_text(DEAR)
    (tmp_path / "test_cheap.py").write_text(CHEAP)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        "/dev/null",
        f"--rootdir={tmp_path}",
        "-p",
        "tests.costs",
    ]
    before_s = children_s()
    done = subprocess.run(
        [*command, *workers, str(tmp_path)],
        cwd=PROJECT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    used_s = children_s() - before_s
    assert done.returncode == 0, done.stdout
    told = re.findall(r"^ +([0-9.]+) s  (\S+)$", done.stdout, re.MULTILINE)
    assert [file for _, file in told] == ["test_dear.py", "test_cheap.py"]
    dear_s, cheap_s = (float(seconds) for seconds, _ in told)
    assert dear_s >= 0.4 > cheap_s
    told_s = re.search(r"processor time: ([0-9]+) s", done.stdout)
    assert told_s is not None
    assert dear_s + cheap_s < float(told_s[1]) + 1 < used_s + 2


def children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(0, 100), max_size=20))
def test_ten_files_are_told_and_none_that_is_left_out_took_more(by_file_s: dict[str, float]) -> None:
    costs = Costs()
    costs.add(1.0, 0.5, dict.fromkeys(by_file_s, 0.0))
    costs.add(1.0, 0.5, by_file_s)
    assert (costs.all_s, costs.collecting_s) == (2.0, 1.0)
    told = [line.split()[-1] for line in costs.lines()]
    assert len(told) == min(10, len(by_file_s))
    assert [by_file_s[file] for file in told] == sorted(by_file_s.values(), reverse=True)[: len(told)]
