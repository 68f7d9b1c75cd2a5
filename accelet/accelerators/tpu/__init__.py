"""Google TPUs: chips found on the PCI bus, given as whole hosts or as boxes of neighbouring chips."""

from accelet.accelerators.tpu.backend import TpuBackend
from accelet.accelerators.tpu.settings import TpuSettings

__all__ = ["TpuBackend", "TpuSettings"]
