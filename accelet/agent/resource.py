"""One resource in this process: its scans and its registration, side by side."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.looking import Share
from accelet.agent.config import ResourceConfig
from accelet.assignments.nodecards import NodeCard
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.nodeview import NodeView
from accelet.node.podview import PodView
from accelet.node.unitlocks import Claims
from deviceplugin.allocator import Allocator, PlainAllocator
from deviceplugin.discovery import Discovery
from deviceplugin.identity import IdentityAllocator
from deviceplugin.metrics import Metrics
from deviceplugin.plugin import Plugin, RegistrationState
from deviceplugin.reconciler import Books
from deviceplugin.search import MakeSearch, Search
from resourcemanager.manager import ResourceManager

CONFIRM_GATHER_S = 0.2
"""The kubelet writes its records for every container; a burst of pods is looked at a few times."""

LABELS_S = 2.0
"""How long the first scan waits for the Node's labels: without them it may describe the devices wrongly."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What resources that follow assignments ask, and have in common."""

    pods: PodView
    pod_resources: PodResources
    make_search: MakeSearch = Search


class ServedResource:
    """Serves one configured resource while `run` runs.

    A resource that has never had a device is not registered: a node without the hardware shows no trace
    of it. Once registered it stays so, down to an empty list.
    """

    def __init__(
        self,
        config: ResourceConfig,
        *,
        root: Path,
        paths: KubeletPaths,
        records: KubeletRecords,
        claims: Claims,
        share: Share,
        metrics: Metrics,
        looked: Callable[[], None],
        surroundings: Surroundings | None = None,
        node: NodeView | None = None,
    ) -> None:
        """`looked` is called when the devices, or who holds them, were looked at and may be others.

        `surroundings` are needed where the resource follows assignments, and only there; `node` likewise
        where its back-end wants the Node's labels.
        """
        self.config = config
        self.manager = ResourceManager(config.rules, config.backend(share))
        own_metrics = metrics.of(config.name)
        self._own_metrics = own_metrics
        self._claims = claims
        self._share = share
        self._node = node
        self._tell_looked = looked
        self._pods = None if surroundings is None else surroundings.pods
        self._has_devices = asyncio.Event()
        self.records_changed = asyncio.Event()
        self._identity: IdentityAllocator | None = None
        allocator: Allocator = PlainAllocator(self.manager)
        if surroundings is None:
            self._books = Books(self.manager, records, own_metrics)
        else:
            pods, pod_resources = surroundings.pods, surroundings.pod_resources
            self._books = Books(self.manager, records, own_metrics, pod_resources=pod_resources, pods=pods)
            allocator = self._identity = IdentityAllocator(
                self.manager,
                books=self._books,
                records=records,
                pods=pods,
                search=surroundings.make_search(self.manager, self._books, pods, pod_resources),
                metrics=own_metrics,
            )
        self.plugin = Plugin(
            self.manager,
            allocator,
            root,
            paths,
            own_metrics,
            before_registration=None if self._identity is None else self._identity.before_registration,
        )
        self.discovery = Discovery(
            self.manager,
            root,
            keep_books=self._books.keep,
            claims=claims,
            changed=self._changed,
            scanned=looked,
            metrics=own_metrics,
            node=node,
        )

    @property
    def state(self) -> RegistrationState | None:
        """Where the registration stands; None while there is nothing to register."""
        return self.plugin.state if self._has_devices.is_set() else None

    async def run(self) -> None:
        """Scans and stays registered, for ever."""
        if self._node is not None:
            await self._node.asked(LABELS_S)
            self.mind_labels()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.discovery.run(), name=f"discovery {self.config.name}")
                tasks.create_task(self._stay_registered(), name=f"plugin {self.config.name}")
                if self._identity is not None:
                    tasks.create_task(self._confirm(), name=f"books {self.config.name}")
        finally:
            self._claims.release(self.config.name)
            if self._node is not None:
                self._node.report(self.config.name, ())

    def mind_labels(self) -> None:
        """Scans with the Node's labels as they are now."""
        if self._node is not None:
            self.manager.backend = self.config.settings.backend_on(self._node.labels, self._share)
            self.discovery.wake.set()

    def list_cards(self) -> Sequence[NodeCard] | None:
        """The cards that schedulers may assign parts of; None while they are not known.

        Their holders are those that the last look at the kubelet's records showed.
        """
        if self._pods is None:
            return ()
        if not self.discovery.has_scanned:
            return None
        return self.manager.list_cards({**self._pods.deleted(), **self._pods.pods()})

    @property
    def knows_holders(self) -> bool:
        """Whether it can be told which holders of the cards are assigned them."""
        return self._pods is None or self._pods.is_synced

    def forget_metrics(self) -> None:
        self._own_metrics.forget()

    async def _stay_registered(self) -> None:
        await self._has_devices.wait()
        await self.plugin.run()

    async def _confirm(self) -> None:
        """Looks at the kubelet's records soon after they changed: whom our answers were for."""
        while True:
            await self.records_changed.wait()
            await asyncio.sleep(CONFIRM_GATHER_S)
            self.records_changed.clear()
            before = self.manager.ledger
            await self._books.follow_checkpoint()
            if self.manager.ledger is not before:
                self._tell_looked()

    def _changed(self, is_urgent: bool) -> None:
        if self.manager.listing.entries:
            self._has_devices.set()
        self.plugin.announce(is_urgent=is_urgent)
