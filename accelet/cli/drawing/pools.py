"""The devices of published pools as a table."""

from collections.abc import Sequence

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Cell, Records, styled
from accelet.dra.pool import DevicePool, PoolDevice
from accelet.dra.publishing.slices import amount_text, divide

_HEADS = ("DEVICE", "TYPE", "MADE OF", "SHARED BY", "TAINTS")


def print_pools(output: Output, pools: Sequence[DevicePool]) -> None:
    if not pools:
        output.line("No resource of the configuration has serve: dra.")
    for pool in pools:
        count = f"{len(pool.devices)} devices in {len(divide(pool))} slices"
        output.line(styled(pool.driver, "bold"), f"  pool {pool.node}: {count}")
        if pool.devices:
            output.table(Records(_HEADS, list(map(_row, pool.devices))))


def _row(device: PoolDevice) -> tuple[Cell, ...]:
    made_of = " ".join(device.counters) or " ".join(sorted(device.units))
    taints = " ".join(f"{taint.key}:{taint.effect}" for taint in device.taints)
    return device.name, device.kind, made_of, _shared_by(device), taints


def _shared_by(device: PoolDevice) -> str:
    if not device.is_shareable:
        return "one claim at a time"
    amounts = (f"{amount_text(name, one.value)} {name}" for name, one in device.capacities.items())
    return ", ".join(amounts) or "any number of claims"
