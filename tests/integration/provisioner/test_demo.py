"""`accelet demo provisioner`: the whole without a cluster, in a process of its own."""

import subprocess
import sys
from typing import Any

import pytest

from tests.output_forms import read_form

WORDS = [sys.executable, "-m", "accelet", "demo", "provisioner"]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run([*WORDS, "--json"], capture_output=True, text=True, timeout=110, check=True)
    shown: dict[str, Any] = read_form("demo-provisioner", done.stdout)
    return shown


def test_set_falls_back_as_a_whole(report: dict[str, Any]) -> None:
    assert report["tiers"] == ["on-demand", "on-demand"]
    assert any("there is no spot capacity left" in one for one in report["events"])


def test_each_worker_is_told_who_it_is(report: dict[str, Any]) -> None:
    seen = {one["pod"]: one["environment"] for one in report["workers"]}
    assert len({one["node"] for one in report["workers"]}) == 4
    assert [told["TPU_WORKER_ID"] for told in seen.values()] == ["0", "1", "0", "1"]
    assert seen["train-workers-1-1"] == {
        "TPU_WORKER_ID": "1",
        "TPU_WORKER_HOSTNAMES": "train-workers-1-0.train,train-workers-1-1.train",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
        "MEGASCALE_COORDINATOR_ADDRESS": "train-workers-0-0.train",
        "MEGASCALE_PORT": "8080",
    }


def test_people_read_the_same() -> None:
    done = subprocess.run(WORDS, capture_output=True, text=True, timeout=110, check=True)
    assert "all were ready after" in done.stdout
    assert "  MEGASCALE_SLICE_ID=1\n" in done.stdout
    assert "nothing was left of them" in done.stdout
