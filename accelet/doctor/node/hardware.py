"""Reads the configuration, and what this node has of it."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from accelet.accelerators.intel.cardmemory import cards_of_unknown_memory
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.reading.hardwarereads import TimedScan
from accelet.accelerators.scancache import CachedScans, ScanCache
from accelet.accelerators.settings import NodeFacts
from accelet.agent.config import AgentConfig, ResourceConfig
from accelet.agent.configfile import ConfigFile
from accelet.doctor.node.seen import ConfigurationSeen, LeftOutSeen, ResourceSeen
from accelet.node.discovery import LOOK_FRESH_S
from accelet.node.inventorymemory import InventoryMemory
from accelet.node.unitlocks import UnitLocks
from accelet.runtime.settings import SettingsError
from resourcemanager.listing import Listing, next_listing

MOST_MISTAKES = 50


def read_configuration(
    file: Path | None, root: Path, memory: InventoryMemory
) -> tuple[AgentConfig, ConfigurationSeen]:
    """The configuration, empty where it is wrong, and what the node has of its resources; blocks on files."""
    name = "built-in configuration" if file is None else str(file)
    try:
        config = ConfigFile(file).load()
    except SettingsError as error:
        mistakes = tuple(str(problem) for problem in error.problems[:MOST_MISTAKES])
        return AgentConfig(()), ConfigurationSeen(name, mistakes)
    locks, cache = UnitLocks(), CachedScans(LOOK_FRESH_S).cached
    found = [_scan(resource, root, memory, locks, cache) for resource in config.resources]
    left_out = tuple(_find_left_out([inventory for _, inventory in found]))
    return config, ConfigurationSeen(name, (), tuple(one for one, _ in found), config.warnings, left_out)


def _find_left_out(inventories: Sequence[Inventory]) -> Iterator[LeftOutSeen]:
    """What one resource skipped and no other serves, whole or in parts; each thing once."""
    served = [device.unit for inventory in inventories for device in inventory.devices]
    skipped = {
        (skip.path, skip.code, skip.reason)
        for inventory in inventories
        for skip in inventory.skipped
        if skip.unit is None or not any(f"{unit}-".startswith(f"{skip.unit}-") for unit in served)
    }
    return (LeftOutSeen(*one) for one in sorted(skipped))


def _scan(
    resource: ResourceConfig, root: Path, memory: InventoryMemory, locks: UnitLocks, cache: ScanCache
) -> tuple[ResourceSeen, Inventory]:
    facts = NodeFacts(remembered=memory.recall(resource.name))
    is_plugin = resource.serve == "device-plugin"
    scan = partial(resource.settings.backend_on(facts, cache).scan, root)
    try:
        inventory = locks.take(resource.name, TimedScan(scan)())
    except OSError as error:
        return ResourceSeen(resource.name, is_plugin, problem=error.strerror or str(error)), Inventory()
    listed = next_listing(Listing(), inventory, held=frozenset()).entries
    healthy = frozenset(str(one) for one in listed if inventory.by_id[one].health.is_healthy)
    unhealthy = {
        str(one): inventory.by_id[one].health.reason or "" for one in listed if str(one) not in healthy
    }
    may_be_asked_for = not is_plugin or resource.rules.following is not None
    unknown = cards_of_unknown_memory(inventory.devices) if may_be_asked_for else ()
    return ResourceSeen(resource.name, is_plugin, healthy, unhealthy, unknown_memory=unknown), inventory
