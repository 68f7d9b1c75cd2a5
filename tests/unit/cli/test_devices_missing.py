"""`accelet devices` on a TPU host that lacks chips."""

import json
from pathlib import Path

from click.testing import CliRunner

from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.settings import TpuSettings
from accelet.cli import main
from accelet.fakehost.tpu import HOSTS
from accelet.node.inventorymemory import MEMORY_FILE, InventoryMemory

CONFIG = "version: v1\nresources:\n- {name: google.com/tpu, backend: tpu}\n"


def show(folder: Path, *options: str) -> str:
    (config := folder / "config.yaml").write_text(CONFIG)
    where = ["--config", str(config), "--host-root", str(folder), "--kubelet-dir", str(folder)]
    shown = CliRunner().invoke(main, ["devices", *where, *options])
    assert shown.exit_code == 0, shown.output
    return shown.output


def test_missing_chips_are_counted_and_said(tmp_path: Path) -> None:
    HOSTS["v5e-8"].without("0000:00:0d.0", "0000:00:0e.0", "0000:00:0f.0").write(tmp_path)

    assert "google.com/tpu  5 of 8 healthy, 3 missing" in show(tmp_path)
    assert "5 of 8 chips were found" in show(tmp_path)
    (resource,) = json.loads(show(tmp_path, "--json"))["resources"]
    assert (len(resource["devices"]), resource["missing"], len(resource["warnings"])) == (5, 3, 1)


def test_what_the_agent_has_seen_is_known(tmp_path: Path) -> None:
    seen = TpuBackend(TpuSettings()).scan(HOSTS["v5e-8"].write(tmp_path / "before")).remember
    assert seen is not None
    (tmp_path / "device-plugins").mkdir()
    InventoryMemory(tmp_path / "device-plugins" / MEMORY_FILE).keep("google.com/tpu", seen)
    HOSTS["v5e-8"].without(*(f"0000:80:0{slot}.0" for slot in range(4))).write(tmp_path)

    assert "google.com/tpu  4 of 8 healthy, 4 missing" in show(tmp_path)


def test_whole_host_has_nothing_missing(tmp_path: Path) -> None:
    HOSTS["v5e-8"].write(tmp_path)

    assert "google.com/tpu  8 of 8 healthy\n" in show(tmp_path)
