"""The settings of the `nvidia-gpu` back-end."""

from typing import Literal, Self

import msgspec

from accelet.accelerators.backend import Backend
from accelet.accelerators.nvidia.gpu import GpuMatch
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.accelerators.settings import Settings, Shares
from accelet.runtime.settings import Contradiction

Inject = Literal["cdi", "envvar"]
Unit = Literal["gpu", "mig"]


class NvidiaGpuSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which GPUs or MIG instances, how many containers each, and how they get into containers.

    `unit`: `gpu` serves whole GPUs, `mig` the MIG instances that others are cut into.

    `inject`: `cdi` names devices of the CDI specification that the host's nvidia-ctk keeps; `envvar` gives
    the device nodes and NVIDIA_VISIBLE_DEVICES, for nodes whose containers run with NVIDIA's runtime.
    """

    match: GpuMatch = msgspec.field(default_factory=GpuMatch)
    unit: Unit = "gpu"
    shares: Shares = 1
    inject: Inject = "cdi"

    def problems(self) -> tuple[Contradiction, ...]:
        if self.match.instance is not None and self.unit != "mig":
            return (Contradiction(("match", "instance"), "means nothing without unit: mig"),)
        if self.unit == "mig" and self.inject != "cdi":
            sentence = "unit: mig needs inject: cdi; what NVIDIA's runtime calls a MIG instance is in no file"
            return (Contradiction(("inject",), sentence),)
        return ()

    def overlaps(self, other: Self) -> bool:
        return self.unit == other.unit and self.match.overlaps(other.match)

    def backend(self, cache: ScanCache = uncached) -> Backend:
        from accelet.accelerators.nvidia.backend import NvidiaGpus  # noqa: PLC0415  for nodes that serve them alone
        from accelet.accelerators.nvidia.scan import GpuFinder  # noqa: PLC0415

        return NvidiaGpus(self, cache(GpuFinder))
