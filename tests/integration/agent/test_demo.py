"""`accelet demo`: every cell comes over the socket."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accelet.cli import main
from accelet.cli.demo_run import DemoError, until_listed
from accelet.fakehost.tpu import HOSTS
from accelet.fakekubelet.clock import SystemClock
from accelet.fakekubelet.trace import Trace
from tests.integration.agent.running import cards_config, config
from tests.output_forms import read_form


def demo(*words: str) -> Result:
    return CliRunner().invoke(main, ["demo", *words])


def test_builtin_node_is_served_and_survives_the_restart() -> None:
    shown = read_form("demo", demo("--json").output)
    assert {resource["name"]: resource["healthy"] for resource in shown["resources"]} == {
        "gpu.intel.com/arc": 0,
        "gpu.intel.com/flex": 4,
        "gpu.intel.com/tile": 4,
    }
    masks = {
        f"{seen['pod']}/{seen['container']}": seen["environment"].get("ZE_AFFINITY_MASK")
        for seen in shown["containers"]
    }
    assert (masks["tile-one/main"], masks["tile-pair/left"], masks["tile-pair/right"]) == ("0", "1", "0")
    assert shown["recovery"]["resources"] == shown["resources"]
    assert (shown["recovery"]["kept"], shown["recovery"]["lost"]) == (4, 0)


def test_another_node_gives_another_table(folder: Path) -> None:
    node = folder / "node.yaml"
    node.write_text(config(cards_config(3, name="example.com/gpu", first=7)))
    shown = json.loads(demo("--json", "--node", str(node)).output)
    assert [resource["name"] for resource in shown["resources"]] == ["example.com/gpu"]
    devices = {device for seen in shown["containers"] for device in seen["devices"]}
    assert devices == {"0000-07-00.0", "0000-08-00.0", "0000-09-00.0"}


def test_table_names_every_container_and_why_one_was_rejected() -> None:
    said = demo().output
    assert "tile-pair/right" in said
    assert "cannot allocate" in said


def test_node_that_is_no_configuration_is_refused_in_sentences(folder: Path) -> None:
    node = folder / "node.yaml"
    node.write_text("version: v1\nresources: [{name: x, backend: simulated, cards: []}]\n")
    refused = demo("--node", str(node))
    assert refused.exit_code == 2
    assert "node.yaml:2: resources[0].name: x must have a domain in front" in refused.output
    assert "Traceback" not in refused.output


def test_node_without_devices_is_told(folder: Path) -> None:
    (folder / "sys").mkdir()
    refused = demo("--node", str(folder))
    assert refused.exit_code == 1
    assert "no device to show" in refused.output


async def test_the_demo_waits_while_there_is_progress_and_says_for_what_it_waited() -> None:
    trace = Trace(SystemClock(), seed=0)
    waiting = asyncio.create_task(until_listed(trace, lambda: ["example.com/gpu"], 0.05))
    trace.record("started")
    with pytest.raises(DemoError, match=r"waited 0\.05 s .* the devices of example\.com/gpu"):
        await waiting


def test_a_host_that_is_given_whole_only_is_asked_for_whole(folder: Path) -> None:
    text = "version: v1\nresources: [{name: google.com/tpu, backend: tpu}]\n"
    HOSTS["v5e-8"].with_files({"config.yaml": text}).write(folder)
    shown = json.loads(demo("--json", "--node", str(folder)).output)
    given = {seen["pod"]: len(seen["devices"]) for seen in shown["containers"]}
    assert given == {"tpu-one": 8, "tpu-greedy": 0}


def test_the_readme_shows_what_the_demo_prints() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    _, _, block = readme.partition("prints:\n\n```text\n")
    shown = [line for line in block.partition("```")[0].splitlines() if line not in ("", "...")]
    printed = timeless(demo().output).splitlines()
    assert len(shown) > 15
    assert [line for line in map(timeless, shown) if line not in printed] == []


def timeless(text: str) -> str:
    return re.sub(r"[0-9.]+ s\b", "TIME", text)
