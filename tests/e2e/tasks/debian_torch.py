"""PyTorch as Debian packages it for processors: the lightest that has torchrun and gloo.

PyPI's wheel for Linux is CUDA's: 539 MB, and gigabytes of libraries that it does not load without. Debian's
packages are 150 MB. Those of Debian 13 are built without libuv, which torchrun's c10d rendezvous asks for in
PyTorch 2.6; so these are of Debian 12, with PyTorch 1.13.
"""

import shutil
import subprocess
from pathlib import Path

from tests.e2e.cluster.cache import cache_folder, locked

SUITE = "bookworm"
_PACKAGES = "python3-torch"


class DebianError(Exception):
    """There is no folder with PyTorch, and why."""


def debian_torch() -> Path:
    """A Debian with PyTorch in a folder of the cache; made once, in some minutes.

    Raises:
        DebianError: debootstrap is missing, or has failed.
    """
    made = cache_folder("debian-torch") / SUITE
    with locked(made.with_suffix(".lock")):
        if made.exists():
            return made
        if shutil.which("debootstrap") is None:
            raise DebianError("PyTorch is unpacked by debootstrap: apt-get install debootstrap")
        half_done = made.with_suffix(".half-done")
        shutil.rmtree(half_done, ignore_errors=True)
        words = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", SUITE, str(half_done)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DebianError(f"debootstrap: {(done.stdout + done.stderr)[-2000:]}")
        (half_done / "etc/hosts").touch()
        half_done.rename(made)
    return made
