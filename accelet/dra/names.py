"""The names of drivers and of published devices, and what can be published."""

import hashlib
import re
from typing import Final

from accelet.accelerators.amd.settings import AmdGpuSettings
from accelet.accelerators.files.backend import FilesSettings
from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.nvidia.settings import NvidiaGpuSettings
from accelet.accelerators.settings import Settings
from accelet.accelerators.simulated import SimulatedSettings
from accelet.accelerators.tpu.settings import TpuSettings

GPU_DRIVER: Final = "gpu.accelet.dev"
TPU_DRIVER: Final = "tpu.accelet.dev"
FILES_DRIVER: Final = "files.accelet.dev"

DRIVERS: Final = (GPU_DRIVER, TPU_DRIVER, FILES_DRIVER)

GPU_RESOURCES: Final = "gpu.intel.com/"
"""What the names of extended resources begin with by which pods ask for cards, tiles and monitors."""

LONGEST_LABEL: Final = 63

ALL_MILLICORES: Final = 1000
STEP_MILLICORES: Final = 10
MOST_SHARES: Final = ALL_MILLICORES // STEP_MILLICORES
"""A share takes a step of a card's millicores at least."""

_PCI_UNIT = re.compile(r"[0-9a-f]{4,8}-[0-9a-f]{2}-[0-9a-f]{2}\.[0-7]")
_NO_PLAIN_LABEL = re.compile(r".*-[0-9a-f]{8}|[0-9a-f]{4,8}-[0-9a-f]{2}-[0-9a-f]{2}-[0-7]")
_NUMBERED = re.compile(r"chips?(?:-[0-9]{1,2})+")
_SUFFIX_ROOM = 9  # of `-tile-63` and `-monitor`, and one to spare


def driver_of(settings: Settings) -> str | None:
    """The driver that serves a resource with these settings; None where DRA has no form for it."""
    match settings:
        case IntelGpuSettings() | SimulatedSettings():
            return GPU_DRIVER
        case TpuSettings():
            return TPU_DRIVER
        case FilesSettings():
            return FILES_DRIVER
    return None


def label_of(unit: str) -> str:
    """A unit's id as part of a DNS label: `0000-03-00.0` is `0000-03-00-0`.

    Other ids that are no labels get eight hex digits of their hash, so that two units never have one name.
    """
    if _PCI_UNIT.fullmatch(unit):
        return unit.replace(".", "-")
    plain = re.sub(r"[^a-z0-9]+", "-", unit.lower()).strip("-")
    room = LONGEST_LABEL - len("file-") - _SUFFIX_ROOM
    if plain == unit and len(plain) <= room and not _NO_PLAIN_LABEL.fullmatch(plain):
        return plain
    digest = hashlib.sha256(unit.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{plain[: room - 9].strip('-')}-{digest}".strip("-")


def is_numbered(device: str) -> bool:
    """Whether earlier versions gave this name to TPU chips, by their number on the host: `chips-0-3`.

    Only the record of prepared claims tells which chips it was: numbers moved when a chip left the bus.
    """
    return _NUMBERED.fullmatch(device) is not None


def explain_not_for_dra(settings: Settings) -> str | None:
    """Why a resource with these settings cannot be served through DRA; None where it can."""
    if isinstance(settings, NvidiaGpuSettings | AmdGpuSettings):
        return (
            "this back-end is served as a device plugin only; for claims there is the vendor's own DRA driver"
        )
    if driver_of(settings) is None:
        return "this back-end is served as a device plugin only; cards served through DRA have a monitor each"
    if isinstance(settings, IntelGpuSettings | SimulatedSettings) and settings.shares > MOST_SHARES:
        return f"with DRA a card has at most {MOST_SHARES} shares, of {STEP_MILLICORES} millicores each"
    return None
