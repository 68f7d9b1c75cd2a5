"""The settings of the `amd-gpu` back-end."""

from typing import Self

import msgspec

from accelet.accelerators.amd.gpu import AmdMatch
from accelet.accelerators.backend import Backend
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.accelerators.settings import Settings, Shares


class AmdGpuSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which GPUs and partitions, and how many containers each."""

    match: AmdMatch = msgspec.field(default_factory=AmdMatch)
    shares: Shares = 1

    def overlaps(self, other: Self) -> bool:
        return self.match.overlaps(other.match)

    def backend(self, cache: ScanCache = uncached) -> Backend:
        from accelet.accelerators.amd.backend import AmdGpus  # noqa: PLC0415  for nodes that serve them alone
        from accelet.accelerators.amd.scan import AmdFinder  # noqa: PLC0415

        return AmdGpus(self, cache(AmdFinder))
