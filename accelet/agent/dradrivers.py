"""The drivers of Dynamic Resource Allocation in this process, and the resources they serve.

Imported only where something is served so: the way to the API server costs 20 MiB.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from accelet.accelerators.backend import Backend
from accelet.accelerators.inventory import Inventory, list_health
from accelet.accelerators.settings import NodeFacts
from accelet.agent.config import ResourceConfig
from accelet.agent.service import HeldUnit, SharedParts
from accelet.assignments.nodecards import NodeCard
from accelet.dra.lateapi import Connect
from accelet.dra.names import DRIVERS, driver_of
from accelet.dra.pool import Effect
from accelet.dra.publishing.pcieroots import read_pcie_roots
from accelet.dra.publishing.served import ServedResource
from accelet.dra.running.driver import DriverOptions, NodeDriver
from accelet.dra.running.places import has_record
from accelet.dra.running.pluginholders import PluginHolders
from accelet.kubelet.podresources import PodResources
from accelet.node.discovery import Discovery, Scan
from accelet.node.nodeview import NodeView
from accelet.runtime.probes import Check
from accelet.runtime.supervise import supervise

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class DraDrivers:
    """Runs a task a driver, from when it first has a resource, or a record of an earlier life, to the end.

    A driver that lost its last resource goes on without devices: what it prepared must be undone by it.
    """

    def __init__(self, node_name: str, cdi: Path, shared: SharedParts, connect: Connect) -> None:
        self._node_name, self._cdi, self._shared, self._connect = node_name, cdi, shared, connect
        self._drivers: dict[str, NodeDriver] = {}
        self._pod_resources = PodResources(shared.paths.pod_resources_socket)
        self._holders = PluginHolders(shared.records, self._pod_resources)

    def apply(self, resources: Sequence[ResourceConfig], tasks: asyncio.TaskGroup) -> None:
        """Starts what has resources from here on, and tells each driver which they are."""
        for driver in DRIVERS:
            names = [one.name for one in resources if driver_of(one.settings) == driver]
            if driver not in self._drivers and (names or has_record(self._shared.paths.root, driver)):
                self._start(driver, tasks)
            if driver in self._drivers:
                self._drivers[driver].expect(names)

    def of(self, config: ResourceConfig) -> NodeDriver:
        """The driver that serves a resource it was told of."""
        return self._drivers[driver_of(config.settings) or ""]

    def _start(self, name: str, tasks: asyncio.TaskGroup) -> None:
        shared = self._shared
        options = DriverOptions(name, self._node_name, shared.root, shared.paths, self._cdi, _read_boot_id())
        driver = NodeDriver(
            options,
            self._connect,
            self._holders.held_units,
            shared.metrics.dra,
            served_units=lambda: shared.locks.units,
            shown_pods=self._pod_resources.list_all,
            calls=shared.calls,
        )
        self._drivers[name] = driver
        run = supervise(name, driver.run, shared.metrics.node.of(name).count_fault)
        tasks.create_task(run, name=name)


class DraResource:
    """One configured resource, served through DRA; implements `accelet.agent.service.ResourceService`."""

    audited = None

    def __init__(
        self, config: ResourceConfig, shared: SharedParts, driver: NodeDriver, node: NodeView | None = None
    ) -> None:
        self.config = config
        self._shared, self._driver, self._node = shared, driver, node
        self._facts = NodeFacts(ip=shared.node_ip)
        self._knows_labels = False
        self._backend: Backend = config.backend(shared.scan_cache)
        self._metrics = shared.metrics.node.of(config.name)
        self._discovery = Discovery(
            config.name,
            self._scan,
            locks=shared.locks,
            take=self._take,
            metrics=self._metrics,
            node=node,
        )

    @property
    def name(self) -> str:
        return self.config.name

    async def run(self) -> None:
        """Scans for ever."""
        if self._node is not None:
            # A container that is told of the wrong slice hangs, and cannot be told again.
            await self._node.read()
            self._knows_labels = True
        remembered = await asyncio.to_thread(self._shared.memory.recall, self.name)
        labels = self._facts.labels if self._node is None else self._node.labels
        self._know(replace(self._facts, labels=labels, remembered=remembered))
        try:
            await self._discovery.run()
        finally:
            self._shared.locks.release(self.name)
            self._shared.tell_health(self.name, None)
            if self._node is not None:
                self._node.report(self.name, ())

    def adopt(self, config: ResourceConfig) -> bool:
        """Never: it is started anew, which costs no pod anything; what claims hold is its driver's."""
        return False

    def check(self) -> Check:
        problem = self._discovery.problem or self._driver.problem
        return Check(self.name, problem is None, problem or "published, and registered with the kubelet")

    def note_hardware_hint(self) -> None:
        self._discovery.wake.set()

    def note_kubelet_hint(self) -> None:
        """The kubelet finds the driver's sockets by itself."""

    def note_labels(self) -> None:
        """Scans with the Node's labels as they are now."""
        if self._node is not None and self._knows_labels:
            self._know(replace(self._facts, labels=self._node.labels))
            self._discovery.wake.set()

    def list_cards(self) -> Sequence[NodeCard]:
        """None: what schedulers assign by annotations is served by device plugins."""
        return ()

    @property
    def knows_holders(self) -> bool:
        return True

    def held_units(self) -> Iterable[HeldUnit]:
        """None: claims hold them."""
        return ()

    def forget_metrics(self) -> None:
        self._metrics.forget()

    def _know(self, facts: NodeFacts) -> None:
        self._facts = facts
        self._backend = self.config.settings.backend_on(facts, self._shared.scan_cache)

    def _scan(self) -> Inventory:
        """Reads the hardware; on a thread."""
        inventory = self._shared.ailments.applied_to(self._backend.scan(self._shared.root))
        if inventory.remember is not None:
            self._shared.memory.keep(self.name, inventory.remember)
        return inventory

    async def _take(self, scan: Scan) -> None:
        found = scan.inventory
        if found.remember not in {None, self._facts.remembered}:
            self._know(replace(self._facts, remembered=found.remember))
        addresses = [device.pci for device in found.devices]
        roots = await asyncio.to_thread(read_pcie_roots, self._shared.root, addresses)
        failed: Effect = "NoExecute" if self.config.unhealthy == "evict" else "NoSchedule"
        steady = self._driver.take(ServedResource(self.name, self._backend, found, roots, failed))
        self._shared.tell_health(self.name, lambda: list_health(steady))


def _read_boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
