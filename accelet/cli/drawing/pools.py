"""The devices of published pools as a table."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from accelet.cli.drawing.tables import make_table
from accelet.dra.pool import Pool, PoolDevice
from accelet.dra.publishing.slices import amount_text, divide


def print_pools(pools: Sequence[Pool]) -> None:
    console = Console(highlight=False)
    if not pools:
        console.print("No resource of the configuration has serve: dra.")
    for pool in pools:
        count = f"{len(pool.devices)} devices in {len(divide(pool))} slices"
        console.print(f"[bold]{pool.driver}[/]  pool {escape(pool.node)}: {count}")
        table = make_table("DEVICE", "TYPE", "MADE OF", "SHARED BY", "TAINTS")
        for device in pool.devices:
            made_of = " ".join(device.counters) or " ".join(sorted(device.units))
            taints = " ".join(f"{taint.key}:{taint.effect}" for taint in device.taints)
            table.add_row(device.name, device.kind, escape(made_of), _shared_by(device), taints)
        if pool.devices:
            console.print(table)


def _shared_by(device: PoolDevice) -> str:
    if not device.is_shareable:
        return "one claim at a time"
    amounts = (f"{amount_text(name, one.value)} {name}" for name, one in device.capacities.items())
    return ", ".join(amounts) or "any number of claims"
