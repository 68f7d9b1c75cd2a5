"""Where things are: in this checkout, and in an image."""

import platform
import sys
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parent.parent
LOCKS: Final = PROJECT / "locks"
DEBIAN_LOCK: Final = LOCKS / "debian.lock"
IMAGE_LOCK: Final = LOCKS / "image.txt"
DEV_LOCK: Final = LOCKS / "dev.txt"
NOTICES: Final = "THIRD_PARTY_NOTICES.txt"
"""Made with each release and not kept in git. It lies here only while archives are made, which take it in."""

PYTHON: Final = "python3.13"
INTERPRETER: Final = f"usr/bin/{PYTHON}"
PACKAGES: Final = f"usr/local/lib/{PYTHON}/dist-packages"
"""Where Debian's Python looks for what does not come from Debian."""

IMAGE_NOTICES: Final = f"usr/share/doc/accelet/{NOTICES}"
COMMAND: Final = "usr/local/bin/accelet"
CERTIFICATES: Final = "etc/ssl/certs/ca-certificates.crt"

_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def this_architecture() -> str:
    """What Debian, Go and images call the processor this runs on."""
    machine = platform.machine()
    if machine not in _MACHINES:
        sys.exit(f"images are made for {', '.join(_MACHINES.values())}; this machine is {machine}")
    return _MACHINES[machine]


def machine_of(architecture: str) -> str:
    """What the kernel and wheels call it."""
    return next(machine for machine, name in _MACHINES.items() if name == architecture)
