"""The back-end `tpu`: what its settings make of the chips that a scan found."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import Device, DeviceId
from accelet.accelerators.edits import ContainerEdits, Mount
from accelet.accelerators.errors import EditsError
from accelet.accelerators.gathering import gather_edits
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.scancache import HostScan
from accelet.accelerators.settings import NodeFacts
from accelet.accelerators.tpu.boxes import SIZES, box_shape, order_by_rest
from accelet.accelerators.tpu.controlservice import MOUNT, VARIABLE, ControlServiceCheck, control_service_url
from accelet.accelerators.tpu.environment import (
    NO_METADATA,
    describe_box,
    describe_metrics_ports,
    describe_one_process,
    describe_process_a_chip,
    describe_whole_host,
)
from accelet.accelerators.tpu.host import Group, Host, host_of
from accelet.accelerators.tpu.refusal import explain_not_a_box, explain_not_whole
from accelet.accelerators.tpu.scanning.health import chip_files
from accelet.accelerators.tpu.scanning.scan import ChipFinder, ChipScan, describe_host
from accelet.accelerators.tpu.seenhost import SeenHost
from accelet.accelerators.tpu.shape import Shape
from accelet.accelerators.tpu.statements import (
    is_ici_resilient,
    statements_of_labels,
    statements_of_settings,
)

if TYPE_CHECKING:  # the settings name their back-end, so they import this module
    from accelet.accelerators.tpu.settings import TpuSettings

_LOGS_IN_CONTAINER: Final = "/tmp/tpu_logs"  # noqa: S108  libtpu writes there, whatever the host has


@dataclass(frozen=True, slots=True)
class TpuBackend:
    """One resource's TPU chips on a node of which `node` is known."""

    settings: "TpuSettings"
    node: NodeFacts = field(default_factory=NodeFacts)
    check_service: ControlServiceCheck = field(default_factory=ControlServiceCheck, compare=False)
    find: HostScan[ChipScan] = field(default_factory=ChipFinder, compare=False)

    def scan(self, root: Path) -> Inventory:
        """Reads the chips below `root`: `Backend.scan`."""
        inventory = describe_host(
            root,
            self.find(root),
            statements_of_settings(self.settings.topology),
            statements_of_labels(self.node.labels),
            SeenHost.parse(self.node.remembered),
        )
        return replace(inventory, warnings=(*inventory.warnings, *self._warn(root, host_of(inventory))))

    def _warn(self, root: Path, host: Host) -> Iterator[str]:
        """What the settings cannot do on this host."""
        if self.settings.mode == "sub-host" and not host.is_whole_slice:
            yield f"mode: sub-host has no effect: this host is a part of {host.slice_name}"
        if host.generation is None:
            return
        if self.settings.processes == "per-chip" and host.generation.functions_per_chip > 1:
            yield f"processes: per-chip has no effect on {host.generation.name}: one process is told of all"
        if host.generation.needs_control_service:
            fault = self.check_service(root, self.settings.control_service, self.node.ip)
            if fault is not None:
                yield fault

    def valid_sets(
        self, inventory: Inventory, size: int, available: Collection[DeviceId] | None = None
    ) -> Sequence[Group] | None:
        """The sets of `size` chips that one container can use: `Backend.valid_sets`.

        First those whose taking leaves the largest boxes free, of them those within a NUMA node.
        """
        host = host_of(inventory)
        if self._gives_whole_hosts_only(host):
            return [host.everything] if host.is_complete and size == len(host.chips) else []
        if host.shape is None:
            return None
        larger = [host.groups(of_size) for of_size in reversed(SIZES)]
        return order_by_rest(host.groups(size), host.everything if available is None else available, larger)

    def edits(
        self,
        inventory: Inventory,
        devices: Sequence[Device],
        tiles: Tiles,
        environment: Mapping[str, str],
    ) -> ContainerEdits:
        """The chips' files, their environment and a folder for their logs: `Backend.edits`.

        Raises:
            EditsError: libtpu could not start on these chips.
        """
        host = host_of(inventory)
        chips = sorted(devices, key=lambda device: host.ordinal(device.id))
        if any(chip.unit in tiles for chip in chips):
            raise EditsError("TPU chips have no tiles: ask for whole chips")
        told = describe_metrics_ports(_number_files(host, chips)) | self._describe(host, chips)
        numa_nodes = sorted({node for chip in chips for node in chip.numa_nodes})
        if host.generation is not None and host.generation.is_spread and len(chips) > 1 and numa_nodes:
            told["WORKLOAD_NIC_PREFERRED_NUMA"] = ",".join(str(node) for node in numa_nodes)
        edits = gather_edits(chips, told)
        return self._with_log_folder(self._with_control_service(edits, host), chips)

    def _with_control_service(self, edits: ContainerEdits, host: Host) -> ContainerEdits:
        if host.generation is None or not host.generation.needs_control_service:
            return edits
        url = control_service_url(self.settings.control_service, self.node.ip)
        if url is None:
            return edits
        mounts = (MOUNT,) if self.settings.control_service == "unix" else ()
        environment = MappingProxyType({**edits.environment, VARIABLE: url})
        return replace(edits, mounts=(*edits.mounts, *mounts), environment=environment)

    def _with_log_folder(self, edits: ContainerEdits, chips: Sequence[Device]) -> ContainerEdits:
        folders = self.settings.folders_of([chip.id for chip in chips])
        logs = tuple(Mount(folder.host_path, _LOGS_IN_CONTAINER, read_only=False) for folder in folders)
        return replace(edits, mounts=(*edits.mounts, *logs), folders=folders)

    def _gives_whole_hosts_only(self, host: Host) -> bool:
        return self.settings.mode == "whole-host" or not host.is_whole_slice

    def _describe(self, host: Host, chips: Sequence[Device]) -> dict[str, str]:
        """The chips' bounds; empty where none can be known.

        Raises:
            EditsError: the chips are no box, and the settings do not let that pass.
        """
        asked = frozenset(chip.id for chip in chips)
        if self._gives_whole_hosts_only(host) and (asked != host.everything or not host.is_complete):
            raise EditsError(explain_not_whole(host, len(asked)))
        if host.generation is None or host.shape is None or host.slice_shape is None:
            return {}
        if asked == host.everything and host.is_complete:
            resilient = is_ici_resilient(self.node.labels)
            return describe_whole_host(host.generation, host.shape, host.slice_shape, ici_resilient=resilient)
        if asked in host.groups(len(asked)):
            half = Shape.parse(self.settings.half_bounds)
            box = box_shape(host.shape.chips, len(asked), half)
            return describe_box(host.generation, box) | self._describe_processes(host, chips, box)
        if self.settings.check == "strict":
            raise EditsError(explain_not_a_box(host, chips))
        return {**NO_METADATA, **self._describe_visible(host, chips)}

    def _describe_processes(self, host: Host, chips: Sequence[Device], box: Shape) -> dict[str, str]:
        has_one_function = host.generation is not None and host.generation.functions_per_chip == 1
        if self.settings.processes == "per-chip" and has_one_function:
            return describe_process_a_chip(box)
        first = min(host.number(chip.id) for chip in chips)
        return describe_one_process(box, first) | self._describe_visible(host, chips)

    def _describe_visible(self, host: Host, chips: Sequence[Device]) -> dict[str, str]:
        match self.settings.visible_chips:
            case "none":
                return {}
            case "container":
                numbers = [str(number) for number, _ in enumerate(chips)]
            case "ordinal":
                numbers = [str(host.place(chip.id)) for chip in chips]
            case "device-number":
                numbers = [_number(file) for chip in chips for file in chip_files(chip)]
        return {"TPU_VISIBLE_CHIPS": ",".join(numbers)}


def _number_files(host: Host, chips: Sequence[Device]) -> list[int]:
    """The numbers of the chips' own device files, counted through the files of all chips of the host.

    No two containers have one in common, also when a chip leaves between them.
    """
    each = max(len(chip_files(chip)) for chip in host.chips)
    return [
        each * host.number(chip.id) + number for chip in chips for number, _ in enumerate(chip_files(chip))
    ]


def _number(path: str) -> str:
    match = re.search("[0-9]+$", path)
    assert match is not None, "device files of chips end in a number"
    return match[0]
