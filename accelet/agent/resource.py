"""One resource served by a device plugin: its scans and its registration, side by side."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accelet.accelerators.folders import restore_folders
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.settings import NodeFacts
from accelet.agent.config import ResourceConfig
from accelet.agent.service import HeldUnit, SharedParts
from accelet.assignments.nodecards import NodeCard
from accelet.dra.names import driver_of
from accelet.dra.running.places import has_record
from accelet.kubelet.podresources import PodResources
from accelet.node.discovery import Discovery, Scan
from accelet.node.nodeview import NodeView
from accelet.node.pods.view import PodView
from accelet.runtime.blocking import uncollected
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.probes import Check
from deviceplugin.allocator import PlainAllocator
from deviceplugin.freeing import EndedPods
from deviceplugin.listingupdater import ListingUpdater, explain_too_long
from deviceplugin.metrics import ResourceMetrics
from deviceplugin.plugin import Plugin
from deviceplugin.reconciler import Reconciler
from resourcemanager.manager import ResourceManager

if TYPE_CHECKING:
    from deviceplugin.identity import DoubtWithin, IdentityAllocator
    from deviceplugin.search import MakeSearch

_log = Log(__name__)

CONFIRM_GATHER_S = 0.2
"""The kubelet writes its records for every container. Where nobody waits for them, a burst of pods is looked
at a few times."""


@dataclass(frozen=True, slots=True)
class PodSources:
    """Where resources that follow assignments learn of pods, and what makes their search for a caller.

    `doubt_within` says why assignments are not believed. None for what they are mostly.
    """

    pods: PodView
    pod_resources: PodResources
    make_search: "MakeSearch | None" = None
    doubt_within: "DoubtWithin | None" = None


class DevicePluginResource:
    """Serves one configured resource while `run` runs; implements `accelet.agent.service.ResourceService`.

    A resource that has never had a device is not registered: a node without the hardware shows no trace
    of it. Once registered it stays so, down to an empty list.
    """

    def __init__(
        self,
        config: ResourceConfig,
        shared: SharedParts,
        *,
        sources: PodSources | None = None,
        node: NodeView | None = None,
    ) -> None:
        """`sources` are needed where the resource follows assignments, and only there.

        `node` likewise where its back-end wants the Node's labels.
        """
        self.config = config
        self._shared = shared
        self._node = node
        self._pods = None if sources is None else sources.pods
        self._facts = NodeFacts(ip=shared.node_ip)
        self._knows_labels = False
        self._restoring = Failing(_log, "folder not made", named="reason")
        self._has_devices = asyncio.Event()
        self._records_hint = asyncio.Event()
        self._node_metrics = shared.metrics.node.of(config.name)
        self._metrics = shared.metrics.plugins.of(config.name)
        self._manager = ResourceManager(config.rules, config.backend(shared.scan_cache))
        self._reconciler, self._identity = _follow_pods(self._manager, shared, self._metrics, sources)
        self.audited = self._plugin = Plugin(
            self._manager,
            self._identity or PlainAllocator(self._manager),
            shared.root,
            shared.paths,
            self._metrics,
            before_registration=None if self._identity is None else self._identity.before_registration,
            calls=shared.calls,
        )
        socket = shared.paths.pod_resources_socket
        self._ended_pods = EndedPods(lambda: PodResources(socket), self._plugin.repeat_list)
        self._updater = ListingUpdater(
            self._manager, read_records=self._reconciler.keep, announce=self._announce, metrics=self._metrics
        )
        self._discovery = Discovery(
            config.name,
            self._scan,
            locks=shared.locks,
            take=self._take,
            explain_unusable=explain_too_long,
            metrics=self._node_metrics,
            node=node,
        )

    @property
    def name(self) -> str:
        return self.config.name

    async def run(self) -> None:
        """Scans and stays registered, for ever."""
        if self._node is not None:
            # A container that is told of the wrong slice hangs, and cannot be told again.
            await self._node.read()
            self._knows_labels = True
        await self._recall()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._discovery.run(), name=f"discovery {self.name}")
                tasks.create_task(self._stay_registered(), name=f"plugin {self.name}")
                if self._identity is not None:
                    tasks.create_task(self._confirm(), name=f"records {self.name}")
                    tasks.create_task(self._identity.run(), name=f"screening {self.name}")
        finally:
            self._shared.locks.release(self.name)
            self._shared.tell_health(self.name, None)
            if self._node is not None:
                self._node.report(self.name, ())

    def adopt(self, config: ResourceConfig) -> bool:
        """Other rules hold from the next call on: the kubelet is told nothing of them."""
        if not config.differs_in_rules_alone(self.config):
            return False
        self.config = config
        self._manager.rules = config.rules
        return True

    def check(self) -> Check:
        if self._node is not None and not self._knows_labels:
            return Check(self.name, is_ok=False, detail="the labels of its Node were not read yet")
        if (problem := self._discovery.problem) is not None:
            return Check(self.name, is_ok=False, detail=problem)
        if not self._has_devices.is_set():
            return Check(self.name, is_ok=True, detail="no such device on this node")
        state = self._plugin.state
        since_s = time.monotonic() - state.since_s
        return Check(self.name, state.is_registered, f"{state.reason} for {since_s:.0f} s")

    async def screened(self) -> None:
        """Waits, if there are devices, until it is known which pods were admitted without them."""
        if self._identity is not None and self._has_devices.is_set():
            await self._identity.screened()

    def note_hardware_hint(self) -> None:
        self._discovery.wake.set()

    def note_kubelet_hint(self) -> None:
        self._plugin.wake.set()
        self._records_hint.set()

    def note_labels(self) -> None:
        """Scans with the Node's labels as they are now."""
        if self._node is not None and self._knows_labels:
            self._know(replace(self._facts, labels=self._node.labels))
            self._discovery.wake.set()

    def list_cards(self) -> Sequence[NodeCard] | None:
        """The cards that schedulers may assign parts of; None while they are not known.

        Their holders are those that the last look at the kubelet's records showed.
        """
        if self._pods is None:
            return ()
        if not self._updater.has_scanned:
            return None
        return self._manager.list_cards({**self._pods.deleted(), **self._pods.pods()})

    @property
    def knows_holders(self) -> bool:
        return self._pods is None or self._pods.is_synced

    def held_units(self) -> Iterator[HeldUnit]:
        by_id, ledger = self._manager.inventory.by_id, self._manager.ledger
        for device in sorted(ledger.held & by_id.keys()):
            pci = by_id[device].pci
            for owner in ledger.holders(device):
                if pci is not None and owner is not None:
                    yield HeldUnit(pci, owner)

    def forget_metrics(self) -> None:
        self._metrics.forget()
        self._node_metrics.forget()

    async def _recall(self) -> None:
        """Has the back-end know what there is to know before the first scan."""
        remembered = await asyncio.to_thread(self._shared.memory.recall, self.name)
        labels = self._facts.labels if self._node is None else self._node.labels
        self._know(replace(self._facts, labels=labels, remembered=remembered))

    def _know(self, facts: NodeFacts) -> None:
        self._facts = facts
        self._manager.backend = self.config.settings.backend_on(facts, self._shared.scan_cache)

    def _scan(self) -> Inventory:
        """What is there, without what claims hold that were prepared while it was served through DRA.

        Called on a thread.
        """
        inventory = self._shared.ailments.applied_to(self._manager.backend.scan(self._shared.root))
        if inventory.remember is not None:
            self._shared.memory.keep(self.name, inventory.remember)
        driver = driver_of(self.config.settings)
        kubelet = self._shared.paths.root
        if driver is None or not has_record(kubelet, driver):
            return inventory
        # As with ApiAccess: most nodes have never prepared a claim.
        from accelet.dra.running.held import keep_off, read_held_units  # noqa: PLC0415

        return keep_off(inventory, read_held_units(kubelet, driver))

    async def _take(self, scan: Scan) -> None:
        if scan.inventory.remember not in {None, self._facts.remembered}:
            self._know(replace(self._facts, remembered=scan.inventory.remember))
        await self._updater.take(scan)
        if self._pods is None and self._manager.has_strangers:
            await self._ended_pods.free()
        await self._restore_folders()
        self._shared.refresh_cards()
        self._shared.tell_health(self.name, self._manager.list_health)

    async def _restore_folders(self) -> None:
        """Makes folders again that containers mount and the host has lost: they start anew without a call."""
        held = [holding.device_ids for holding in self._manager.ledger.holdings.values()]
        folders = {folder for devices in held for folder in self.config.settings.folders_of(devices)}
        if not folders:
            return
        faults = await asyncio.to_thread(restore_folders, folders, self._shared.root)
        if faults:
            self._restoring.failed(faults[0], resource=self.name)
        else:
            self._restoring.worked()

    def _announce(self, is_urgent: bool) -> None:
        if self._manager.listing.entries:
            self._has_devices.set()
        self._plugin.announce(is_urgent=is_urgent)

    async def _stay_registered(self) -> None:
        await self._has_devices.wait()
        await self._plugin.run()

    async def _confirm(self) -> None:
        """Looks at the kubelet's records after they changed: whom our answers were for.

        At once where assignments are followed: then the next call finds them read. That was half of the time
        of a match in a storm of pods.
        """
        while True:
            await self._records_hint.wait()
            if self._pods is None:
                await asyncio.sleep(CONFIRM_GATHER_S)
            self._records_hint.clear()
            before = self._manager.ledger
            await self._reconciler.follow_checkpoint()
            if self._manager.ledger is not before:
                self._shared.refresh_cards()


def _follow_pods(
    manager: ResourceManager, shared: SharedParts, metrics: ResourceMetrics, sources: PodSources | None
) -> "tuple[Reconciler, IdentityAllocator | None]":
    """Who keeps the ledger, and who finds out whose each call is, where assignments are followed."""
    records = shared.records
    if sources is None:
        return Reconciler(manager, records, metrics), None
    # As with ApiAccess: where nothing is assigned, nobody asks whose a call is.
    with uncollected():
        from deviceplugin.identity import IdentityAllocator, undoubted  # noqa: PLC0415
        from deviceplugin.screening import Screener  # noqa: PLC0415
        from deviceplugin.search import Search  # noqa: PLC0415

    pods, pod_resources = sources.pods, sources.pod_resources
    reconciler = Reconciler(manager, records, metrics, pod_resources=pod_resources, pods=pods)
    search = (sources.make_search or Search)(manager, reconciler, pods, pod_resources)
    screener = Screener(manager, records, pods, pod_resources)
    return reconciler, IdentityAllocator(
        manager,
        reconciler=reconciler,
        records=records,
        pods=pods,
        search=search,
        screener=screener,
        metrics=metrics,
        doubt_within=sources.doubt_within or undoubted,
    )
