"""Finds the TPU chips of a host from its PCI bus."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from accelet.accelerators.device import Device, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.hostfiles import exists_on_host
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.tpu.chips import Chip, find_foreign, join_functions
from accelet.accelerators.tpu.generation import DeviceFiles
from accelet.accelerators.tpu.health import VFIO_CONTAINER, ChipFile, chip_files, find_health
from accelet.accelerators.tpu.hostslice import decide
from accelet.accelerators.tpu.owners import find_owners
from accelet.accelerators.tpu.statements import TPU_ENV_PATH, Statements, statements_of_tpu_env
from accelet.accelerators.tpu.sysfs import PCI_DEVICES, VFIO_DRIVER, Function, Unreadable, read_functions
from accelet.accelerators.tpu.table import GOOGLE_VENDOR


def scan_chips(root: Path, settings: Statements, labels: Statements, *, check_owners: bool) -> Inventory:
    """Reads sysfs, /dev and /etc/tpu below `root`; `settings` and `labels` say more about the host.

    Raises:
        OSError: the PCI bus could not be listed.
    """
    functions: list[Function] = []
    skipped: list[Skipped] = []
    for found in read_functions(root):
        path, unit = f"/{PCI_DEVICES}/{found.address}", UnitId(found.address.as_id)
        if isinstance(found, Unreadable):
            skipped.append(Skipped(path, "unreadable-device-id", found.reason, unit))
        elif (foreign := find_foreign(found)) is not None:
            skipped.append(Skipped(path, "not-a-tpu", foreign, unit))
        else:
            functions.append(found)
    chips = join_functions(_number_accels(root, functions))
    devices = tuple(_make_device(root, chip) for chip in chips)
    inventory = Inventory(devices=devices, skipped=tuple(skipped), warnings=tuple(_warn(chips)))
    inventory = _with_topology(root, inventory, chips, settings, labels)
    return _with_owners(root, inventory) if check_owners else inventory


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


def _with_topology(
    root: Path, inventory: Inventory, chips: Sequence[Chip], settings: Statements, labels: Statements
) -> Inventory:
    generations = {chip.generation for chip in chips}
    generation = generations.pop() if len(generations) == 1 else None
    if generation is None:
        return inventory
    tpu_env = statements_of_tpu_env(_read_tpu_env(root))
    sources = (settings, tpu_env, labels)
    statements = [statement for source in sources for statement in source.statements]
    topology = decide(generation, len(chips), statements)
    unread = [warning for source in sources for warning in source.warnings]
    host, slice_ = topology.host_shape, topology.slice_shape
    return replace(
        inventory,
        host_shape=None if host is None else host.text(generation.dimensions),
        slice_shape=None if slice_ is None else slice_.text(generation.dimensions),
        warnings=(*inventory.warnings, *unread, *topology.warnings),
    )


def _read_tpu_env(root: Path) -> str | None:
    try:
        return (root / TPU_ENV_PATH).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _with_owners(root: Path, inventory: Inventory) -> Inventory:
    device_by_path = {path: device.id for device in inventory.devices for path in chip_files(device)}
    found = find_owners(root, device_by_path)
    if not found.hidden:
        return replace(inventory, owners=found.owners)
    hidden = (
        f"check_owners is on, but not every process shows its open files (hidden: {found.hidden}): "
        "the agent needs hostPID and CAP_SYS_PTRACE"
    )
    return replace(inventory, owners=found.owners, warnings=(*inventory.warnings, hidden))
