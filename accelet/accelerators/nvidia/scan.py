"""All NVIDIA GPUs of a node, and every candidate that is none with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from accelet.accelerators.cdi.specs import CdiReader, SpecifiedDevices
from accelet.accelerators.device import UnitId
from accelet.accelerators.hostfiles import read_inodes
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.nvidia.functions import BUS, is_gpu, read_gpu
from accelet.accelerators.nvidia.gpu import NvidiaGpu
from accelet.accelerators.nvidia.instances import MigInstance, UnservedInstance, list_instances
from accelet.accelerators.nvidia.naming import CDI_KIND, name_gpus, name_instances
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.reading.hardwarereads import NO_ANSWER, HardwareReads, unanswered_health


@dataclass(frozen=True, slots=True)
class GpuScan:
    """What one look found, in order of PCI address.

    `instances` are the MIG instances of the GPUs that are cut, `unserved` those that cannot be given.
    `unnamed` says of what no CDI specification has, by its unit, why: a code and a sentence.
    `problems` are of those specifications. `unanswered` are the host paths of what did not answer.
    """

    gpus: tuple[NvidiaGpu, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    instances: tuple[MigInstance, ...] = ()
    unserved: tuple[Skipped, ...] = ()
    unnamed: Mapping[UnitId, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class _Function:
    """A PCI function, and the inode that tells its entry on the bus from the next one at that address."""

    pci: PciAddress
    inode: int

    @property
    def host_path(self) -> str:
        return f"/{BUS}/{self.pci}"


class GpuFinder:
    """Looks for the GPUs of one node, again and again; not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._functions, self._gpus = HardwareReads(), HardwareReads()
        self._cdi = CdiReader(CDI_KIND)
        self._is_gpu: Mapping[_Function, bool] = {}
        self._last: Mapping[_Function, NvidiaGpu | Skipped] = {}

    def __call__(self, root: Path) -> GpuScan:
        """Reads every GPU below `root`; never raises for what one GPU's files say."""
        functions, unknown = self._find_functions(root)
        answers = self._gpus.ask({one: partial(read_gpu, root, one.pci) for one in functions})
        self._last = {one: self._remember(one, answers.get(one)) for one in functions}
        gpus, skipped = _without_twins(self._last)
        cdi = self._cdi.find(root) if gpus else SpecifiedDevices()
        named = name_gpus(gpus, cdi)
        parts = [(gpu, part) for gpu in named.gpus for part in list_instances(gpu)]
        instances = name_instances((part for _, part in parts if isinstance(part, MigInstance)), cdi)
        return GpuScan(
            gpus=named.gpus,
            skipped=skipped,
            instances=instances.instances,
            unserved=tuple(
                Skipped(f"/{BUS}/{gpu.pci}", part.code, part.reason, part.unit)
                for gpu, part in parts
                if isinstance(part, UnservedInstance)
            ),
            unnamed=MappingProxyType({**named.unnamed, **instances.unnamed}),
            problems=cdi.problems,
            unanswered=unknown + tuple(one.host_path for one in functions if one not in answers),
        )

    def _find_functions(self, root: Path) -> tuple[list[_Function], tuple[str, ...]]:
        """NVIDIA's GPUs on the bus in order of address, and what did not answer. Each is asked only once."""
        parsed = ((PciAddress.parse(name), inode) for name, inode in read_inodes(root / BUS).items())
        there = sorted(_Function(pci, inode) for pci, inode in parsed if pci is not None)
        new = [one for one in there if one not in self._is_gpu]
        answers = self._functions.ask({one: partial(is_gpu, root, str(one.pci)) for one in new})
        known = {**self._is_gpu, **answers}
        self._is_gpu = {one: known[one] for one in there if one in known}
        unknown = tuple(one.host_path for one in new if one not in answers)
        return [one for one in there if self._is_gpu.get(one)], unknown

    def _remember(self, function: _Function, found: NvidiaGpu | Skipped | None) -> NvidiaGpu | Skipped:
        """What was found, with the unit that was there before if nothing says which it is now.

        A GPU that does not answer is as it was last seen, its health unknown; skipped where it never was.
        """
        last = self._last.get(function)
        if found is None:
            unanswered = unanswered_health("GPU")
            if isinstance(last, NvidiaGpu):
                return replace(last, health=unanswered)
            found = Skipped(function.host_path, NO_ANSWER, unanswered.reason or "")
        if isinstance(found, Skipped) and found.unit is None and last is not None:
            return replace(found, unit=last.unit)
        return found


def _without_twins(
    seen: Mapping[_Function, NvidiaGpu | Skipped],
) -> tuple[list[NvidiaGpu], tuple[Skipped, ...]]:
    """Of two GPUs that say the same UUID, or the same device node, neither can be told from the other."""
    gpus = [one for one in seen.values() if isinstance(one, NvidiaGpu)]
    skipped = [one for one in seen.values() if isinstance(one, Skipped)]
    kept = []
    for gpu in gpus:
        twin = next((o for o in gpus if o is not gpu and (o.unit == gpu.unit or o.minor == gpu.minor)), None)
        if twin is None:
            kept.append(gpu)
        else:
            reason = f"it says the same UUID or device node as the GPU at {twin.pci}"
            skipped.append(Skipped(f"/{BUS}/{gpu.pci}", "duplicate-unit", reason, gpu.unit))
    return kept, tuple(skipped)
