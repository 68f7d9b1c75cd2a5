"""Tables for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from accelet.cli.demo_run import Report, SeenResource
    from accelet.cli.devices import Shown
    from accelet.cli.explain import Explained


def make_table(*columns: str) -> Table:
    """An empty table in the house's style."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_devices(shown: "Shown") -> None:
    console = Console(highlight=False)
    for resource in shown.resources:
        healthy = sum(device.health == "Healthy" for device in resource.devices)
        count = f"{healthy} of {len(resource.devices)} healthy" if resource.devices else "no devices"
        console.print(f"[bold]{resource.name}[/]  {count}")
        if resource.devices:
            table = make_table("DEVICE", "CARD", "TILE", "NUMA", "HEALTH", "NODES")
            for device in resource.devices:
                table.add_row(
                    device.id,
                    device.card or "",
                    "" if device.tile is None else str(device.tile),
                    " ".join(map(str, device.numa_nodes)),
                    "[green]Healthy[/]" if device.reason is None else f"[red]{escape(device.reason)}[/]",
                    " ".join(device.nodes),
                )
            console.print(table)
    if shown.skipped:
        console.print("[bold]Skipped[/]")
        table = make_table("PATH", "CODE", "WHY")
        for skipped in shown.skipped:
            table.add_row(escape(skipped.path), skipped.code, escape(skipped.reason))
        console.print(table)
    if not shown.skipped and not any(resource.devices for resource in shown.resources):
        console.print("No accelerator was found, and nothing that looks like one.")


def print_explained(explained: "Explained") -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{escape(explained.pod)}[/]  {explained.uid or 'its UID is not known'}")
    table = make_table("CONTAINER", "RESOURCE", "DEVICES", "TILES", "MASK", "PROOF", "WHY")
    for one in explained.containers:
        tiles = (f"{card} {','.join(map(str, tiles))}" for card, tiles in one.tiles.items())
        colour = "green" if one.agrees else "red"
        table.add_row(
            one.name,
            one.resource,
            "\n".join(one.devices),
            "\n".join(tiles),
            one.mask or "",
            one.proof or "",
            f"[{colour}]{escape(one.reason)}[/]",
        )
    console.print(table)
    for note in explained.notes:
        console.print(escape(note))


def print_demo(report: "Report") -> None:
    console = Console(highlight=False)
    console.print(
        f"\n[bold]The agent registered[/] with a fake kubelet {report.kubelet}; "
        f"the first list came after {report.first_list_s:.2f} s."
    )
    console.print(_resource_table(report.resources))
    console.print("[bold]Pods arrived[/], and this is what their containers were given.")
    table = make_table("POD/CONTAINER", "DEVICES", "NODES", "MASK, ENV")
    for column in table.columns[:3]:
        column.no_wrap = True
    for seen in report.containers:
        name = f"{seen.pod}/{seen.container}"
        if seen.rejected is None:
            table.add_row(
                name, "\n".join(seen.devices), _fold_paths(seen.nodes), _show_environment(seen.environment)
            )
        else:
            table.add_row(name, "[red]rejected[/]", "", "")
    console.print(table)
    for message in dict.fromkeys(seen.rejected for seen in report.containers if seen.rejected is not None):
        console.print(f"[red]rejected[/] {escape(message.removeprefix('Pod was rejected: '))}")
    recovery = report.recovery
    lost = f", [red]{recovery.lost} lost theirs[/]" if recovery.lost else ""
    console.print(
        "\n[bold]The kubelet restarted[/] and wiped every socket; all was registered again after "
        f"{recovery.seconds:.2f} s.\n{recovery.kept} running pods kept their devices{lost}."
    )
    console.print(_resource_table(recovery.resources))


def _fold_paths(paths: Sequence[str]) -> str:
    """Paths by folder: `/dev/dri/{card0,renderD128}`."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    return "\n".join(
        f"{folder}/{names[0]}" if len(names) == 1 else f"{folder}/{{{','.join(names)}}}"
        for folder, names in folders.items()
    )


def _show_environment(environment: Mapping[str, str]) -> str:
    """Level Zero's variables as one mask, the others as they are."""
    lines = []
    if mask := environment.get("ZE_AFFINITY_MASK"):
        lines.append(f"[cyan]{escape(mask)}[/] {escape(environment.get('ZE_FLAT_DEVICE_HIERARCHY', ''))}")
    lines += [
        f"{name}=[cyan]{escape(value)}[/]"
        for name, value in environment.items()
        if not name.startswith("ZE_")
    ]
    return "\n".join(lines)


def _resource_table(resources: "tuple[SeenResource, ...]") -> Table:
    table = make_table("RESOURCE", "HEALTHY", "UNHEALTHY")
    for resource in resources:
        table.add_row(resource.name, str(resource.healthy), str(resource.unhealthy))
    return table
