"""What several threads read with msgspec is ready before the first of them reads."""

import subprocess
import sys

READ_ON_THREADS = (
    "accelet.accelerators.simulated.SimulatedFile",
    "accelet.accelerators.simulated.SimulatedCard",
    "accelet.accelerators.simulated.SimulatedNode",
    "accelet.kubelet.checkpoint._File",
    "accelet.kubelet.checkpoint._Data",
    "accelet.kubelet.checkpoint._Entry",
    "accelet.kube.objects._WireList",
    "accelet.kube.objects._WireListMetadata",
    "accelet.kube.answers._Status",
    "accelet.kube.answers._Details",
    "accelet.kube.answers._Cause",
)

SCRIPT = """
import gc, sys
from importlib import import_module
import msgspec

def is_ready(kind):
    return any(type(one).__name__ == "StructInfo" for one in gc.get_referents(kind))

class Fresh(msgspec.Struct):
    name: str

assert not is_ready(Fresh)
msgspec.convert({"name": "a"}, Fresh)
assert is_ready(Fresh)
for name in sys.argv[1:]:
    module, _, kind = name.rpartition(".")
    if not is_ready(getattr(import_module(module), kind)):
        sys.exit(f"{name} is made ready by whoever reads first, and crashes who reads at the same time")
"""


def test_what_threads_read_is_ready_before_they_do() -> None:
    """msgspec up to 0.22 publishes what it knows of a Struct before it is whole: a second thread crashes."""
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, *READ_ON_THREADS], check=False, capture_output=True, text=True
    )
    assert not told.returncode, told.stderr
