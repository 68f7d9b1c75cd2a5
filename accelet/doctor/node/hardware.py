"""Reads the configuration, and what this node has of it."""

from functools import partial
from pathlib import Path

from accelet.accelerators.intel.cardmemory import cards_of_unknown_memory
from accelet.accelerators.reading.hardwarereads import TimedScan
from accelet.accelerators.scancache import CachedScans, ScanCache
from accelet.accelerators.settings import NodeFacts
from accelet.agent.config import AgentConfig, ResourceConfig
from accelet.agent.configfile import ConfigFile
from accelet.doctor.node.seen import ConfigurationSeen, ResourceSeen
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
    found = tuple(_scan(resource, root, memory, locks, cache) for resource in config.resources)
    return config, ConfigurationSeen(name, (), found, config.warnings)


def _scan(
    resource: ResourceConfig, root: Path, memory: InventoryMemory, locks: UnitLocks, cache: ScanCache
) -> ResourceSeen:
    facts = NodeFacts(remembered=memory.recall(resource.name))
    is_plugin = resource.serve == "device-plugin"
    scan = partial(resource.settings.backend_on(facts, cache).scan, root)
    try:
        inventory = locks.take(resource.name, TimedScan(scan)())
    except OSError as error:
        return ResourceSeen(resource.name, is_plugin, problem=error.strerror or str(error))
    listed = next_listing(Listing(), inventory, held=frozenset()).entries
    healthy = frozenset(str(one) for one in listed if inventory.by_id[one].health.is_healthy)
    unhealthy = {
        str(one): inventory.by_id[one].health.reason or "" for one in listed if str(one) not in healthy
    }
    may_be_asked_for = not is_plugin or resource.rules.following is not None
    unknown = cards_of_unknown_memory(inventory.devices) if may_be_asked_for else ()
    return ResourceSeen(resource.name, is_plugin, healthy, unhealthy, unknown_memory=unknown)
