"""Fetches the wheels named in requirements.txt and unpacks the modules of theirs that the tests run."""

import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = HERE.parent.parent / ".launchers"
"""Where the modules are, as in the wheels; not in the repository."""

MODULES = (
    "jax/_src/cloud_tpu_init.py",
    "jax/_src/clusters/",
    "jax/_src/hardware_utils.py",
    "jax/version.py",
    "torch_xla/_internal/tpu.py",
    "torch_xla/core/xla_env_vars.py",
    "torch_xla/utils/utils.py",
    "torch_xla/version.py",
)
_WHEELS = PACKAGES / "wheels"
# For this version and platform there is a wheel of torch_xla; what is unpacked of it is Python only.
_PLATFORM = (
    "--only-binary=:all:",
    "--python-version=3.11",
    "--implementation=cp",
    "--platform=manylinux_2_28_x86_64",
)


def fetch() -> None:
    """Downloads 80 MB once."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    wanted = ("--requirement", str(HERE / "requirements.txt"), "--dest", str(_WHEELS))
    subprocess.run([*command, *_PLATFORM, *wanted], check=True)
    for wheel in sorted(_WHEELS.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(PACKAGES, [name for name in archive.namelist() if name.startswith(MODULES)])


if __name__ == "__main__":
    fetch()
