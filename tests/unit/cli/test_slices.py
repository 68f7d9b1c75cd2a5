"""`accelet devices --dra`: the ResourceSlices a node would publish."""

import json
import socket
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from accelet.cli import main
from tests.unit.dra.apirules import faults

CONFIG = """\
version: v1
resources:
  - name: gpu.intel.com/i915
    backend: simulated
    serve: dra
    shares: 4
    cards:
      - {pci: "0000:03:00.0", tiles: 2, memory_mib: 131072, nodes: [{path: /dev/null}]}
      - {pci: "0000:04:00.0", nodes: [{path: /dev/null}], unhealthy: too hot}
  - name: gpu.intel.com/xe
    backend: simulated
    cards:
      - {pci: "0000:05:00.0", driver: xe, nodes: [{path: /dev/null}]}
  - {name: squat.ai/null, backend: files, serve: dra, paths: [/dev/null]}
"""


def devices(tmp_path: Path, *options: str, config: str = CONFIG) -> Result:
    (tmp_path / "config.yaml").write_text(config)
    return CliRunner().invoke(main, ["devices", "--config", str(tmp_path / "config.yaml"), *options])


def slices(tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    result = devices(tmp_path, "--dra", "--json", *options)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert list(answer) == ["slices"]
    return list(answer["slices"])


def test_slices_are_those_of_resources_served_through_dra(tmp_path: Path) -> None:
    shown = slices(tmp_path, "--node-name", "node-7")
    names = [device["name"] for one in shown for device in one["spec"].get("devices", ())]
    assert names == [
        "gpu-0000-03-00-0-tile-0",
        "gpu-0000-03-00-0-tile-1",
        "gpu-0000-03-00-0",
        "gpu-0000-04-00-0",
        "gpu-0000-03-00-0-monitor",
        "gpu-0000-04-00-0-monitor",
        "file-dev-null",
    ]
    assert {one["spec"]["nodeName"] for one in shown} == {"node-7"}
    assert {one["apiVersion"] for one in shown} == {"resource.k8s.io/v1"}
    assert {one["kind"] for one in shown} == {"ResourceSlice"}
    for driver in ("gpu.accelet.dev", "files.accelet.dev"):
        assert faults([one for one in shown if one["spec"]["driver"] == driver]) == []


def test_sick_devices_are_tainted(tmp_path: Path) -> None:
    tainted = [
        device["name"]
        for one in slices(tmp_path)
        for device in one["spec"].get("devices", ())
        if "taints" in device
    ]
    assert tainted == ["gpu-0000-04-00-0"]


def test_node_is_the_host_unless_named(tmp_path: Path) -> None:
    assert {one["spec"]["pool"]["name"] for one in slices(tmp_path)} == {socket.gethostname()}


def test_table_shows_what_devices_are_made_of(tmp_path: Path) -> None:
    output = devices(tmp_path, "--dra", "--node-name", "node-7").output
    assert "gpu.accelet.dev  pool node-7: 6 devices in 2 slices" in output
    assert "unhealthy" in output


def test_without_dra_the_answer_is_as_ever(tmp_path: Path) -> None:
    answer = json.loads(devices(tmp_path, "--json").stdout)
    assert [resource["name"] for resource in answer["resources"]] == [
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "squat.ai/null",
    ]


def test_impossible_node_name_is_refused(tmp_path: Path) -> None:
    result = devices(tmp_path, "--dra", "--node-name", "Node_7")
    assert result.exit_code == 2
    assert "'Node_7' is no name that a Node can have" in result.output


def test_what_means_nothing_with_dra_is_refused(tmp_path: Path) -> None:
    config = CONFIG.replace("    shares: 4\n", "    shares: 101\n    policy: packed\n")
    result = devices(tmp_path, "--dra", config=config)
    assert result.exit_code == 2
    assert (
        "resources[0].serve: with DRA a card has at most 100 shares, of 10 millicores each" in result.output
    )
    assert "resources[0].policy: means nothing with serve: dra; claims say it" in result.output


def test_monitoring_resource_is_no_dra_resource(tmp_path: Path) -> None:
    entry = "{name: gpu.intel.com/monitoring, backend: intel-gpu-monitoring, serve: dra}"
    config = f"version: v1\nresources:\n  - {entry}\n"
    result = devices(tmp_path, "--dra", config=config)
    assert result.exit_code == 2
    assert "cards served through DRA have a monitor each" in result.output
