"""`accelet demo dra`: the whole without a cluster, in a process of its own."""

import subprocess
import sys
from typing import Any

import pytest

from tests.output_forms import read_form

WORDS = [sys.executable, "-m", "accelet", "demo"]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run([*WORDS, "dra", "--json"], capture_output=True, text=True, timeout=60, check=True)
    shown: dict[str, Any] = read_form("demo-dra", done.stdout)
    return shown


def test_containers_get_what_their_claims_were_given(report: dict[str, Any]) -> None:
    claims = {claim["claim"]: claim for claim in report["claims"]}
    tiles = claims["two-tiles"]
    assert tiles["devices"] == ["gpu-0000-03-00-0-tile-1", "gpu-0000-04-00-0-tile-0"]
    assert tiles["nodes"] == ["/dev/dri/card0", "/dev/dri/card1"]
    assert tiles["environment"]["ZE_AFFINITY_MASK"] == "1,2"
    assert claims["quarter-card"]["devices"] == claims["half-card"]["devices"] == ["gpu-0000-05-00-0"]


def test_what_does_not_fit_waits_and_nothing_is_left(report: dict[str, Any]) -> None:
    refused = {claim["claim"]: claim["refused"] for claim in report["claims"] if claim["refused"]}
    assert refused == {"whole-card": "waits: nothing that is free fits"}
    assert report["files_left"] == 0
    assert report["allocation"] == "plain first fit"


def test_demo_without_a_name_is_what_it_was() -> None:
    done = subprocess.run([*WORDS, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "--node" in done.stdout
    assert "--json" in done.stdout
    assert "dra" in done.stdout
