"""Tables for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Records, styled
from accelet.cli.forms.demoforms import Report, SeenContainer, SeenResource
from accelet.cli.forms.deviceforms import Shown, ShownDevice

if TYPE_CHECKING:
    from accelet.cli.forms.explained import Explained
    from accelet.dra.preparing.explaining import ClaimExplanation

_DEVICE_HEADS = ("DEVICE", "CARD", "TILE", "NUMA", "HEALTH", "NODES")
_CLAIM_HEADS = ("CONTAINER", "CLAIM", "REQUESTS", "DEVICES", "MASK, ENV", "WHY")
_EXPLAINED_HEADS = ("CONTAINER", "RESOURCE", "DEVICES", "TILES", "MASK", "PROOF", "WHY")


def print_devices(output: Output, shown: Shown) -> None:
    for resource in shown.resources:
        healthy = sum(device.health == "Healthy" for device in resource.devices)
        expected = len(resource.devices) + resource.missing
        count = f"{healthy} of {expected} healthy" if expected else "no devices"
        missing = f", {resource.missing} missing" if resource.missing else ""
        output.line(styled(resource.name, "bold"), f"  {count}{missing}")
        for warning in resource.warnings:
            output.line(styled(f"! {warning}", "yellow"))
        if resource.unknown_memory:
            output.line(f"  the memory of {', '.join(resource.unknown_memory)} is not known: set `memory`")
        if resource.devices:
            output.table(Records(_DEVICE_HEADS, list(map(_device_row, resource.devices))))
            output.line()
    if shown.skipped:
        if shown.resources and not shown.resources[-1].devices:
            output.line()
        output.line(styled("Skipped", "bold"))
        rows = [(skipped.path, skipped.code, skipped.reason) for skipped in shown.skipped]
        output.table(Records(("PATH", "CODE", "WHY"), rows))
    if shown.resources and not shown.skipped and not any(resource.devices for resource in shown.resources):
        output.line("No accelerator was found, and nothing that looks like one.")


def _device_row(device: ShownDevice) -> tuple[str | Text, ...]:
    return (
        device.id,
        device.card or "",
        "" if device.tile is None else str(device.tile),
        " ".join(map(str, device.numa_nodes)),
        styled("Healthy", "green") if device.reason is None else styled(device.reason, "red"),
        " ".join(device.nodes) or device.cdi or "",
    )


def print_explained(output: Output, explained: "Explained") -> None:
    output.line(styled(explained.pod, "bold"), f"  {explained.uid or 'its UID is not known'}")
    rows = [
        (
            one.name,
            one.resource,
            one.devices,
            [f"{card} {','.join(map(str, tiles))}" for card, tiles in one.tiles.items()],
            one.mask or "",
            one.proof or "",
            styled(one.reason, "green" if one.agrees else "red"),
        )
        for one in explained.containers
    ]
    if rows or not explained.claims:
        output.table(Records(_EXPLAINED_HEADS, rows))
    if explained.claims:
        output.table(Records(_CLAIM_HEADS, list(map(_claim_row, explained.claims))))
    for note in explained.notes:
        output.line(note)


def _claim_row(one: "ClaimExplanation") -> tuple[str | Text | Sequence[str | Text], ...]:
    return (
        one.container,
        one.claim,
        ",".join(one.requests) or "all",
        one.devices,
        _environment(one.environment),
        styled(one.reason, "green" if one.agrees else "red"),
    )


def print_demo(output: Output, report: Report) -> None:
    output.line()
    output.line(
        styled("The agent registered", "bold"),
        f" with a fake kubelet {report.kubelet}; the first list came after {report.first_list_s:.2f} s.",
    )
    _print_resources(output, report.resources)
    output.line(styled("Pods arrived", "bold"), ", and this is what their containers were given.")
    _print_containers(output, report.containers)
    recovery = report.recovery
    output.line(
        styled("The kubelet restarted", "bold"),
        f" and wiped every socket; all was registered again after {recovery.seconds:.2f} s.",
    )
    lost = styled(f", {recovery.lost} lost theirs" if recovery.lost else "", "red")
    output.line(f"{recovery.kept} running pods kept their devices", lost, ".")
    _print_resources(output, recovery.resources)


def _print_containers(output: Output, containers: Sequence[SeenContainer]) -> None:
    rows = [
        (
            f"{seen.pod}/{seen.container}",
            seen.devices,
            _fold_paths(seen.nodes) or " ".join(seen.cdi),
            _environment(seen.environment),
        )
        if seen.rejected is None
        else (f"{seen.pod}/{seen.container}", styled("rejected", "red"), "", "")
        for seen in containers
    ]
    output.table(Records(("POD/CONTAINER", "DEVICES", "NODES", "MASK, ENV"), rows))
    output.line()
    rejected = {seen.pod: seen.rejected for seen in containers if seen.rejected is not None}
    for pod, message in rejected.items():
        output.line(styled(f"{pod} rejected: ", "red"), message.removeprefix("Pod was rejected: "))
    if rejected:
        output.line()


def _fold_paths(paths: Sequence[str]) -> Sequence[str]:
    """Paths by folder: `/dev/dri/{card0,renderD128}`."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    return [
        f"{folder}/{names[0]}" if len(names) == 1 else f"{folder}/{{{','.join(names)}}}"
        for folder, names in folders.items()
    ]


def _environment(environment: Mapping[str, str]) -> Sequence[Text]:
    """Level Zero's variables as one mask, the others as they are."""
    lines = []
    if mask := environment.get("ZE_AFFINITY_MASK"):
        lines.append(styled(mask, "cyan") + styled(f" {environment.get('ZE_FLAT_DEVICE_HIERARCHY', '')}"))
    lines += [
        styled(f"{name}=") + styled(value, "cyan")
        for name, value in environment.items()
        if not name.startswith("ZE_")
    ]
    return lines


def _print_resources(output: Output, resources: Sequence[SeenResource]) -> None:
    rows = [(resource.name, str(resource.healthy), str(resource.unhealthy)) for resource in resources]
    output.table(Records(("RESOURCE", "HEALTHY", "UNHEALTHY"), rows))
    output.line()
