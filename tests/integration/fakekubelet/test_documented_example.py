"""The example of docs/fake-kubelet.md, word by word, by a pytest of its own that has no `kubernetes`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = (Path(__file__).parents[3] / "docs/fake-kubelet.md").read_text()
EXAMPLE = next(
    text for text in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL) if "my_plugin" in text
)
SETTINGS = next(text for text in re.findall(r"```ini\n(.*?)```", DOCUMENT, re.DOTALL) if "asyncio" in text)

PLUGIN = """
import sys
sys.modules["kubernetes"] = sys.modules["urllib3"] = None

import builtins
import subprocess
import pytest

@pytest.fixture(autouse=True)
def plugins(tmp_path):
    running = []
    (tmp_path / "config.yaml").write_text(CONFIG)

    def start_my_plugin(folder):
        command = [sys.executable, "-c", AGENT, "agent", "--http=", "--config", tmp_path / "config.yaml"]
        process = subprocess.Popen([*command, "--kubelet-dir", folder.parent], stdout=subprocess.PIPE)
        running.append(process)
        assert process.stdout.readline() == b"imported\\n"

    builtins.start_my_plugin = start_my_plugin
    yield
    for process in running:
        process.stdout.close()
        process.terminate()
        assert process.wait(20) in (0, 1)  # 1: it saw first that the fake kubelet's folder had gone
"""
AGENT = """
import sys
sys.modules["kubernetes"] = sys.modules["urllib3"] = None
import accelet.accelerators.simulated, accelet.cli.agent, deviceplugin.plugin
from accelet.cli import main
print("imported", flush=True)  # from here on it is the plugin's time that the kubelet waits for
main()
"""
CONFIG = """
version: v1
resources:
- name: gpu.intel.com/i915
  backend: simulated
  unit: tile
  cards: [{pci: "0000:03:00.0", tiles: 4, nodes: [{path: /dev/null, mount_path: /dev/dri/card0}]}]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of somebody else's: the example, its settings, and a conftest that starts her plugin."""
    (tmp_path / "test_example.py").write_text(EXAMPLE)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "conftest.py").write_text(f"AGENT = {AGENT!r}\nCONFIG = {CONFIG!r}\n{PLUGIN}")
    return tmp_path


def test_example_passes_without_the_kubernetes_package(project: Path) -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "."]
    done = subprocess.run(run, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
