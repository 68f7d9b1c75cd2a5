"""Finds the TPU chips of a host from its PCI bus."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelet.accelerators.device import Device, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.hostfiles import exists_on_host
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.reading.hardwarereads import NO_ANSWER
from accelet.accelerators.tpu.chips import Chip, find_foreign, join_functions
from accelet.accelerators.tpu.generation import DeviceFiles
from accelet.accelerators.tpu.hostslice import FoundChips, decide
from accelet.accelerators.tpu.scanning.health import VFIO_CONTAINER, ChipFile, find_health
from accelet.accelerators.tpu.scanning.sysfs import (
    PCI_DEVICES,
    VFIO_DRIVER,
    Function,
    FunctionReads,
    Unreadable,
)
from accelet.accelerators.tpu.seenhost import SeenHost, remember_host
from accelet.accelerators.tpu.statements import TPU_ENV_PATH, Statements, statements_of_tpu_env
from accelet.accelerators.tpu.table import GOOGLE_VENDOR


@dataclass(frozen=True, slots=True)
class ChipScan:
    """What one look at the bus found; `devices` are those of `chips`, in the same order."""

    chips: tuple[Chip, ...] = ()
    devices: tuple[Device, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unanswered: tuple[str, ...] = ()


class ChipFinder:
    """Looks for the chips of one node, again and again; not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._functions = FunctionReads()

    def __call__(self, root: Path) -> ChipScan:
        """Reads sysfs and /dev below `root`.

        Raises:
            OSError: the PCI bus could not be listed.
        """
        functions: list[Function] = []
        skipped: list[Skipped] = []
        unanswered: list[str] = []
        for found in self._functions.read(root):
            path, unit = f"/{PCI_DEVICES}/{found.address}", UnitId(found.address.as_id)
            if isinstance(found, Unreadable):
                skipped.append(Skipped(path, found.code, found.reason, unit))
                unanswered += [path] if found.code == NO_ANSWER else []
            elif (foreign := find_foreign(found)) is not None:
                skipped.append(Skipped(path, "not-a-tpu", foreign, unit))
            else:
                functions.append(found)
                unanswered += [] if found.answers else [path]
        chips = tuple(join_functions(_number_accels(root, functions)))
        devices = tuple(_make_device(root, chip) for chip in chips)
        return ChipScan(chips, devices, tuple(skipped), tuple(unanswered))


def describe_host(
    root: Path, found: ChipScan, settings: Statements, labels: Statements, seen: SeenHost | None
) -> Inventory:
    """What the chips that were found make of the host; reads /etc/tpu below `root`.

    `settings` and `labels` say more about the host. `seen` is the host as it was before.
    """
    inventory = Inventory(
        found.devices, found.skipped, warnings=tuple(_warn(found.chips)), unanswered=found.unanswered
    )
    return _with_slice(root, inventory, found.chips, (settings, labels), seen)


def _number_accels(root: Path, functions: Sequence[Function]) -> list[Function]:
    """Gives functions their accel numbers by order, where sysfs gives none and there is one file for each.

    tpu-info counts them so too.
    """
    if any(function.accel is not None or function.driver == VFIO_DRIVER for function in functions):
        return list(functions)
    is_there = [exists_on_host(root, f"/dev/accel{number}") for number in range(len(functions) + 1)]
    if is_there != [True] * len(functions) + [False]:
        return list(functions)
    return [replace(function, accel=index) for index, function in enumerate(functions)]


def _make_device(root: Path, chip: Chip) -> Device:
    first = chip.functions[0]
    style, files = _find_files(root, chip)
    paths = [file.path for file in files] + ([VFIO_CONTAINER] if style is DeviceFiles.VFIO else [])
    expected = 1 if chip.generation is None else chip.generation.functions_per_chip
    return Device(
        id=chip.id,
        unit=UnitId(chip.id),
        health=find_health(root, chip.functions, expected, style, files),
        numa_nodes=() if first.numa_node is None else (first.numa_node,),
        nodes=tuple(DeviceNode(path, path) for path in paths),
        pci=str(first.address),
        pci_device=first.device,
        model=None if chip.generation is None else chip.generation.name,
        driver=first.driver,
        memory_bytes=None if chip.generation is None else chip.generation.memory_bytes,
    )


def _find_files(root: Path, chip: Chip) -> tuple[DeviceFiles, list[ChipFile]]:
    """The chip's device files by what the host has, accel before VFIO, whatever is usual."""
    accels = [function.accel for function in chip.functions if function.accel is not None]
    groups = list(
        dict.fromkeys(function.iommu_group for function in chip.functions if function.iommu_group is not None)
    )
    accel_files = [ChipFile(f"/dev/accel{number}", f"sys/class/accel/accel{number}/dev") for number in accels]
    by_generation = DeviceFiles.VFIO if chip.generation is None else chip.generation.files
    if accels and (by_generation is DeviceFiles.ACCEL or _all_exist(root, accel_files)):
        return DeviceFiles.ACCEL, accel_files
    if by_generation is DeviceFiles.VFIO or any(part.driver == VFIO_DRIVER for part in chip.functions):
        return DeviceFiles.VFIO, [
            ChipFile(f"/dev/vfio/{group}", f"sys/class/vfio/{group}/dev") for group in groups
        ]
    return DeviceFiles.ACCEL, []


def _all_exist(root: Path, files: Sequence[ChipFile]) -> bool:
    return all(exists_on_host(root, file.path) for file in files)


def _warn(chips: Sequence[Chip]) -> Iterator[str]:
    unknown = [chip.functions[0] for chip in chips if chip.generation is None]
    if unknown:
        ids = ", ".join(sorted({f"{GOOGLE_VENDOR}:{function.device}" for function in unknown}))
        yield (
            f"{len(unknown)} TPU chips of a generation that is not known ({ids}): they are served, "
            "no bounds are set for them"
        )
    if len({chip.generation for chip in chips}) > 1:
        yield "the chips are of more than one generation: no bounds are set"
    homeless = [str(chip.functions[0].address) for chip in chips if chip.functions[0].numa_node is None]
    if homeless:
        yield (
            f"the NUMA node of {', '.join(homeless)} is not known (numa_node is -1, missing or no number): "
            "the kubelet gets no NUMA hint for them"
        )


def _with_slice(
    root: Path,
    inventory: Inventory,
    chips: Sequence[Chip],
    said: tuple[Statements, Statements],
    seen: SeenHost | None,
) -> Inventory:
    generations = {chip.generation for chip in chips}
    generation = generations.pop() if len(generations) == 1 else None
    if generation is None:
        return replace(inventory, remember=None if seen is None else seen.text())
    settings, labels = said
    sources = (settings, statements_of_tpu_env(_read_tpu_env(root)), labels)
    remembered = remember_host(seen, generation, [chip.id for chip in chips])
    found = FoundChips(
        now=len(chips),
        seen=0 if remembered is None else len(remembered.chips),
        numa_nodes=len({node for device in inventory.devices for node in device.numa_nodes}),
    )
    decided = decide(generation, found, [statement for source in sources for statement in source.statements])
    unread = [warning for source in sources for warning in source.warnings]
    host, slice_ = decided.host_shape, decided.slice_shape
    return replace(
        inventory,
        host_shape=None if host is None else host.text(generation.dimensions),
        slice_shape=None if slice_ is None else slice_.text(generation.dimensions),
        missing=0 if host is None else host.chips - len(chips),
        remember=None if remembered is None else remembered.text(),
        warnings=(*inventory.warnings, *unread, *decided.warnings),
    )


def _read_tpu_env(root: Path) -> str | None:
    try:
        return (root / TPU_ENV_PATH).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
