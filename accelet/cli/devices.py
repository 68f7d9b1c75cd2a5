"""`accelet devices`: what would be advertised, and what was skipped and why."""

import json
from pathlib import Path

import click
import msgspec

from accelet.accelerators.inventory import Inventory
from accelet.agent.configfile import ConfigFile
from accelet.cli.drawing.tables import print_devices
from accelet.cli.options import choose_config, node_options
from accelet.node.unitlocks import Claims
from accelet.runtime.run import EXIT_SETTINGS
from accelet.runtime.settings import SettingsError
from resourcemanager.listing import Listing, next_listing


class ShownDevice(msgspec.Struct, frozen=True):
    """One device id as `--json` shows it; `nodes` are host paths."""

    id: str
    health: str
    reason: str | None
    numa_nodes: tuple[int, ...]
    nodes: tuple[str, ...]
    card: str | None
    tile: int | None
    pci: str | None


class ShownResource(msgspec.Struct, frozen=True):
    name: str
    devices: tuple[ShownDevice, ...]


class ShownSkipped(msgspec.Struct, frozen=True):
    path: str
    code: str
    reason: str


class Shown(msgspec.Struct, frozen=True):
    """The whole answer of `accelet devices --json`."""

    resources: tuple[ShownResource, ...]
    skipped: tuple[ShownSkipped, ...]


@click.command()
@node_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(config: Path | None, host_root: Path, *, as_json: bool, **_others: object) -> None:
    """Show what would be advertised on this node and what was skipped; starts nothing."""
    try:
        shown = _show(choose_config(config), host_root)
    except SettingsError as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_SETTINGS) from None
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(shown), indent=2))
    else:
        print_devices(shown)


def _show(config: Path | None, root: Path) -> Shown:
    claims = Claims()
    resources = []
    inventories = []
    for resource in ConfigFile(config).load().resources:
        try:
            inventory = claims.take(resource.name, resource.backend().scan(root))
        except OSError as error:
            text = error.strerror or str(error)
            click.echo(f"{resource.name}: cannot scan: {text}", err=True)
            inventory = Inventory()
        inventories.append(inventory)
        resources.append(_show_resource(resource.name, inventory))
    return Shown(tuple(resources), _show_skipped(inventories))


def _show_resource(name: str, inventory: Inventory) -> ShownResource:
    listing = next_listing(Listing(), inventory, held=frozenset())
    devices = (inventory.by_id[device] for device in listing.entries)
    return ShownResource(
        name,
        tuple(
            ShownDevice(
                device.id,
                "Healthy" if device.health.is_healthy else "Unhealthy",
                device.health.reason,
                device.numa_nodes,
                tuple(node.host_path for node in device.nodes),
                device.card,
                device.tile,
                device.pci,
            )
            for device in sorted(devices, key=lambda device: device.id)
        ),
    )


def _show_skipped(inventories: list[Inventory]) -> tuple[ShownSkipped, ...]:
    """What no resource serves, once each; that one resource leaves a unit to another is no news."""
    served = {device.unit for inventory in inventories for device in inventory.devices}
    return tuple(
        ShownSkipped(path, code, reason)
        for path, code, reason in sorted(
            {
                (skipped.path, skipped.code, skipped.reason)
                for inventory in inventories
                for skipped in inventory.skipped
                if skipped.unit not in served
            }
        )
    )
