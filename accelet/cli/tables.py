"""Tables for people."""

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from accelet.cli.devices import Shown


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
