"""What several threads read with msgspec, they may read at the same moment, also for the first time."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, sys, threading
from pathlib import Path
from accelet.accelerators.simulated import read_simulated_file
from accelet.kube.answers import api_error
from accelet.kube.objects import read_page
from accelet.kubelet.checkpoint import parse_checkpoint

CARDS = Path(sys.argv[2])
CHECKPOINT = b'''{"Data": {"PodDeviceEntries": [{"PodUID": "u", "ContainerName": "c", "ResourceName": "r",
    "DeviceIDs": {"-1": ["a"]}, "AllocResp": null}], "RegisteredDevices": {"r": ["a"]}}, "Checksum": 1}'''
STATUS = b'{"code": 404, "details": {"causes": [{"field": "spec"}]}}'
LIST = b'{"items": [{}], "metadata": {"resourceVersion": "1"}}'

read = {
    "simulated cards": lambda: read_simulated_file(CARDS),
    "checkpoint": lambda: parse_checkpoint(CHECKPOINT),
    "status": lambda: api_error("GET pods", 404, STATUS),
    "list": lambda: read_page(LIST, "Pod"),
}[sys.argv[1]]

def read_on_six_threads():
    sys.setswitchinterval(1e-6)
    together = threading.Barrier(6)
    threads = [threading.Thread(target=lambda: (together.wait(), read())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

for _ in range(20):  # each a process that has never read
    pid = os.fork()
    if pid == 0:
        read_on_six_threads()
        os._exit(0)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        sys.exit(f"it ended with {code}")
"""

CARDS = 'cards:\n- {pci: "0000:03:00.0", nodes: [{path: /dev/null}]}\n'


@pytest.mark.parametrize("what", ["simulated cards", "checkpoint", "status", "list"])
def test_threads_that_read_first_at_once_all_live(what: str, tmp_path: Path) -> None:
    """Of such processes one in six to three in four ended by SIGSEGV where msgspec had not been prepared."""
    (cards := tmp_path / "cards.yaml").write_text(CARDS)
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, what, str(cards)], check=False, capture_output=True, text=True
    )
    assert not told.returncode, told.stderr
