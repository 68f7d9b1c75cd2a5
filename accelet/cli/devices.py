"""`accelet devices`: what would be advertised, and what was skipped and why."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click
import msgspec

from accelet.accelerators.intel.cardmemory import cards_of_unknown_memory
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.reading.hardwarereads import TimedScan
from accelet.accelerators.scancache import CachedScans
from accelet.accelerators.settings import NodeFacts
from accelet.agent.config import ResourceConfig
from accelet.agent.configfile import ConfigFile
from accelet.cli.drawing.output import Output
from accelet.cli.drawing.pools import print_pools
from accelet.cli.drawing.tables import print_devices
from accelet.cli.forms.deviceforms import Shown, ShownDevice, ShownResource, ShownSkipped
from accelet.cli.options import IN_THE_POD, choose_config, node_options, refuse_no_host
from accelet.dra.names import driver_of
from accelet.dra.pool import DevicePool
from accelet.dra.publishing.build import build_pools
from accelet.dra.publishing.pcieroots import read_pcie_roots
from accelet.dra.publishing.served import ServedResource
from accelet.dra.publishing.slices import render_all
from accelet.dra.publishing.taints import taints_of
from accelet.kubelet.paths import KubeletPaths
from accelet.node.discovery import LOOK_FRESH_S
from accelet.node.inventorymemory import MEMORY_FILE, InventoryMemory
from accelet.node.unitlocks import UnitLocks
from accelet.runtime.run import EXIT_SETTINGS
from accelet.runtime.settings import SettingsError
from resourcemanager.listing import Listing, next_listing

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST_NODE_NAME = 253


@click.command()
@node_options
@click.option("--dra", "as_slices", is_flag=True, help="Show the ResourceSlices of `serve: dra`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(
    config: Path | None,
    host_root: Path,
    kubelet_dir: Path,
    node_name: str,
    node_ip: str | None,
    *,
    as_slices: bool,
    as_json: bool,
    **_others: object,
) -> None:
    """Show what would be advertised on this node and what was skipped; starts nothing."""
    refuse_no_host(host_root)
    if as_slices:
        _show_slices(config, host_root, node_name, as_json=as_json)
        return
    memory = InventoryMemory(KubeletPaths(kubelet_dir).device_plugins / MEMORY_FILE)
    try:
        shown = _show(choose_config(config), host_root, memory, node_ip)
    except SettingsError as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_SETTINGS) from None
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(shown), indent=2))
    else:
        print_devices(Output(), shown)
        if (hint := _hint(shown, host_root)) is not None:
            click.echo(hint)


def _hint(shown: Shown, root: Path) -> str | None:
    """What an answer without any device may come from."""
    if not shown.resources:
        return "The configuration serves no resource: its `resources` are empty."
    if any(resource.devices for resource in shown.resources) or root == IN_THE_POD:
        return None
    if (IN_THE_POD / "sys").is_dir() and (IN_THE_POD / "dev").is_dir():
        return f"In the agent's pod the host is seen under {IN_THE_POD}: give --host-root {IN_THE_POD}"
    return None


def _show(config: Path | None, root: Path, memory: InventoryMemory, node_ip: str | None) -> Shown:
    scanned = list(_scan(config, root, memory, node_ip))
    resources = tuple(_show_resource(resource.name, inventory) for resource, inventory in scanned)
    return Shown(resources, _show_skipped([inventory for _, inventory in scanned]))


def _scan(
    config: Path | None, root: Path, memory: InventoryMemory | None = None, node_ip: str | None = None
) -> Iterator[tuple[ResourceConfig, Inventory]]:
    locks, cache = UnitLocks(), CachedScans(LOOK_FRESH_S).cached
    read = ConfigFile(config).load()
    for warning in read.warnings:
        click.echo(f"{config}: {warning}", err=True)
    for resource in read.resources:
        remembered = None if memory is None else memory.recall(resource.name)
        backend = resource.settings.backend_on(NodeFacts(ip=node_ip, remembered=remembered), cache)
        try:
            yield resource, locks.take(resource.name, TimedScan(partial(backend.scan, root))())
        except OSError as error:
            text = error.strerror or str(error)
            click.echo(f"{resource.name}: cannot scan: {text}", err=True)
            yield resource, Inventory()


def _show_slices(config: Path | None, root: Path, node: str, *, as_json: bool) -> None:
    """The ResourceSlices of every driver, as on a node that publishes for the first time."""
    try:
        scanned = list(_scan(choose_config(config), root))
    except SettingsError as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_SETTINGS) from None
    if not (_NODE_NAME.fullmatch(node) and len(node) <= _LONGEST_NODE_NAME):
        click.echo(f"--node-name: {node!r} is no name that a Node can have", err=True)
        raise SystemExit(EXIT_SETTINGS)
    served: dict[str, list[ServedResource]] = {}
    for resource, inventory in scanned:
        driver = driver_of(resource.settings)
        if resource.serve == "dra" and driver is not None:
            roots = read_pcie_roots(root, (device.pci for device in inventory.devices))
            served.setdefault(driver, []).append(
                ServedResource(resource.name, resource.backend(), inventory, roots)
            )
    pools = tuple(_mark_sick(pool, served[pool.driver]) for pool in build_pools(node, served))
    if as_json:
        slices = [body for pool in pools for body in render_all(pool)]
        click.echo(json.dumps({"slices": slices}, indent=2))
    else:
        print_pools(Output(), pools)
    for pool in pools:
        for sentence in pool.left_out:
            click.echo(f"{pool.driver}: {sentence}", err=True)


def _mark_sick(pool: DevicePool, resources: Sequence[ServedResource]) -> DevicePool:
    return pool.with_taints(taints_of(resources))


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
                device.cdi_name,
                device.model,
                device.memory_bytes,
            )
            for device in sorted(devices, key=lambda device: device.id)
        ),
        missing=inventory.missing,
        warnings=inventory.warnings,
        unknown_memory=cards_of_unknown_memory(inventory.devices),
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
