"""What the back-ends make of a host root, as lines to read and to compare."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from accelet.accelerators import BACKENDS
from accelet.accelerators.backend import Backend
from accelet.accelerators.device import DEVICE_ID_PATTERN, Device
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.sensors.cardlook import CardReader
from accelet.runtime.excerpts import printable

RESOURCES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "intel-gpu": ("intel-gpu", {}),
    "amd-gpu": ("amd-gpu", {}),
    "nvidia-gpu": ("nvidia-gpu", {}),
    "nvidia-gpu, inject: envvar": ("nvidia-gpu", {"inject": "envvar"}),
    "tpu": ("tpu", {}),
}
"""What is served, by the name it has in a report: back-end and settings."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The lines of one machine, and those of them that tell of a scanner that failed."""

    lines: tuple[str, ...]
    failures: tuple[str, ...]


def replay(root: Path) -> Replay:
    """Scans the host below `root` by every back-end; nothing is said of those that find no candidate."""
    lines: list[str] = []
    failures: list[str] = []
    for name, (backend, settings) in RESOURCES.items():
        try:
            said = list(_scan(root, msgspec.convert(settings, BACKENDS[backend]).backend()))
        except Exception as error:  # whatever a scanner raises here is its fault
            failures.append(f"  {name} FAILED: {type(error).__name__}: {printable(str(error), 200)}")
            lines.append(failures[-1])
        else:
            lines += [f"  {name}", *said] if said else []
    return Replay(tuple(lines), tuple(failures))


def _scan(root: Path, backend: Backend) -> Iterator[str]:
    found = backend.scan(root)
    judge(found, backend.scan(root))
    _give_each(found, backend)
    for device in found.devices:
        yield f"    served   {_describe(device)}"
        if device.driver in ("i915", "xe") and device.pci is not None:
            yield f"             sensors: {_sense(root, device)}"
    alike: dict[tuple[str, str], list[str]] = {}
    for skip in found.skipped:
        alike.setdefault((skip.code, skip.reason), []).append(skip.path)
    for (code, reason), paths in alike.items():
        others = f" and {len(paths) - 1} others" if len(paths) > 1 else ""
        yield f"    skipped  {paths[0]}{others}, {code}: {reason}"
    for warning in found.warnings:
        yield f"    warning  {warning}"


def judge(found: Inventory, again: Inventory) -> None:
    ids = [device.id for device in found.devices]
    if len(set(ids)) < len(ids):
        raise ValueError("two devices have one id")
    wrong = next((one for one in ids if not DEVICE_ID_PATTERN.fullmatch(one)), None)
    if wrong is not None:
        raise ValueError(f"{wrong} is no id that every consumer takes")
    nodes = Counter(
        node.host_path for one in found.devices for node in one.nodes if "/renderD" in node.host_path
    )
    shared = next((path for path, count in nodes.items() if count > 1), None)
    if shared is not None:
        raise ValueError(f"{shared} is given with more than one device")
    if found != again:
        raise ValueError("a second scan of the same files found something else")


def _give_each(found: Inventory, backend: Backend) -> None:
    """A container can be given each device alone, where one is a set that can be used."""
    if found.devices and (sets := backend.valid_sets(found, 1)) is not None:
        usable = {one for chosen in sets for one in chosen}
    else:
        usable = {device.id for device in found.devices}
    for device in found.devices:
        if device.id in usable:
            edits = backend.edits(found, [device], {}, {})
            if not (edits.nodes or edits.cdi_names):
                raise ValueError(f"a container with {device.id} gets nothing")


def _describe(device: Device) -> str:
    memory = "memory not known" if device.memory_bytes is None else f"{device.memory_bytes >> 20} MiB"
    numa = "".join(f", NUMA node {one}" for one in device.numa_nodes)
    given = device.cdi_name or " ".join(node.host_path for node in device.nodes)
    health = "" if device.health.is_healthy else f", unhealthy: {device.health.reason}"
    what = ", ".join(str(one) for one in (device.model, device.pci_device, device.driver, device.kind) if one)
    return f"{device.id} ({what}), {memory}{numa}: {given}{health}"


def _sense(root: Path, device: Device) -> str:
    look = CardReader(root / "sys/bus/pci/devices" / str(device.pci), device.card).read()
    if not look.is_active:
        return "asleep"
    metrics = Counter(sample.metric.name for sample in look.samples)
    said = ", ".join(f"{count} {name}" for name, count in sorted(metrics.items()))
    return f"{said or 'none'}; {look.errors} files could not be read"
