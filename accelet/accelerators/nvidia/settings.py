"""The settings of the `nvidia-gpu` back-end."""

from typing import Literal, Self

import msgspec

from accelet.accelerators.backend import Backend
from accelet.accelerators.nvidia.gpu import GpuMatch
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.accelerators.settings import Settings, Shares

Inject = Literal["cdi", "envvar"]


class NvidiaGpuSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which GPUs, how many containers each, and how they get into containers.

    `inject`: `cdi` names devices of the CDI specification that the host's nvidia-ctk keeps; `envvar` gives
    the device nodes and NVIDIA_VISIBLE_DEVICES, for nodes whose containers run with NVIDIA's runtime.
    """

    match: GpuMatch = msgspec.field(default_factory=GpuMatch)
    shares: Shares = 1
    inject: Inject = "cdi"

    def overlaps(self, other: Self) -> bool:
        return self.match.overlaps(other.match)

    def backend(self, cache: ScanCache = uncached) -> Backend:
        from accelet.accelerators.nvidia.backend import NvidiaGpus  # noqa: PLC0415  for nodes that serve them alone
        from accelet.accelerators.nvidia.scan import GpuFinder  # noqa: PLC0415

        return NvidiaGpus(self, cache(GpuFinder))
