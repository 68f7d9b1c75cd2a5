"""The whole agent process: configuration, resources, probes, and what they watch together."""

import asyncio
from collections.abc import Sequence, Set
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accelet.accelerators.ailments import Ailments
from accelet.accelerators.scancache import CachedScans
from accelet.agent.config import AgentConfig, ResourceConfig
from accelet.agent.configfile import ConfigFile
from accelet.agent.discarding import Discarding
from accelet.agent.metrics import AgentMetrics
from accelet.agent.resource import DevicePluginResource, PodSources
from accelet.agent.service import ListHealth, ResourceService, SharedParts
from accelet.agent.services import ResourceServices
from accelet.dra.names import DRIVERS
from accelet.dra.running.places import DEFAULT_CDI_FOLDER, has_record
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from accelet.node.audit import Audit
from accelet.node.discovery import LOOK_FRESH_S
from accelet.node.inventorymemory import MEMORY_FILE, InventoryMemory
from accelet.node.kubeletdirectory import KubeletDirectory
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.namelocks import UNIT_LOCKS, NameLocks
from accelet.node.nodeview import NodeView
from accelet.node.publishing.cards import CardPublishing
from accelet.node.unitlocks import UnitLocks
from accelet.runtime.blocking import uncollected
from accelet.runtime.logs import Log
from accelet.runtime.probes import Check, ProbeServer
from accelet.runtime.supervise import supervise
from accelet.runtime.tasks import task_group
from accelet.runtime.watch import DirectoryWatcher
from deviceplugin.sockets import remove_stale_sockets

if TYPE_CHECKING:
    from accelet.agent.apiaccess import ApiAccess
    from accelet.agent.cardholders import CardHolders
    from accelet.agent.cardsensors import CardSensors
    from accelet.agent.dradrivers import DraDrivers
    from deviceplugin.search import MakeSearch

_HINT_DIRECTORIES = ("dev", "dev/dri", "dev/vfio", "dev/accel")
_PODS_S = 2.0

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Where the agent finds things; `http` is host and port of the probes, None for none.

    `kubeconfig` is the way to the API server where a resource needs it, None for the pod's service account.
    `node_ip` is the node's address where it is known.
    `cdi` is where the container runtime reads CDI files.
    """

    root: Path
    paths: KubeletPaths
    node_name: str
    http: tuple[str, int] | None
    kubeconfig: Path | None = None
    node_ip: str | None = None
    cdi: Path = DEFAULT_CDI_FOLDER


class Agent:
    """Serves the configured resources while `run` runs."""

    def __init__(
        self, options: AgentOptions, config_file: ConfigFile, make_search: "MakeSearch | None" = None
    ) -> None:
        """`make_search` makes what finds out whose a call is, for resources that follow assignments.

        None: as accelet does.
        """
        self._options = options
        self._make_search = make_search
        self._config_file = config_file
        self.metrics = AgentMetrics()
        self._directory = KubeletDirectory(options.paths)
        self._hardware_hint = asyncio.Event()
        self._services = ResourceServices(self.metrics)
        self._cards = CardPublishing(
            options.node_name, options.root, lambda: self._services, self.metrics.node
        )
        self._ailments = Ailments()
        self._shared = SharedParts(
            options.root,
            options.paths,
            KubeletRecords(options.paths),
            UnitLocks(NameLocks(options.paths.device_plugins / UNIT_LOCKS)),
            CachedScans(LOOK_FRESH_S).cached,
            InventoryMemory(options.paths.device_plugins / MEMORY_FILE),
            self.metrics,
            self._cards.refresh,
            self._tell_health,
            self._ailments,
            node_ip=options.node_ip,
        )
        self._sensors: CardSensors | None = None
        self._holders: CardHolders | None = None
        self._health_view: NodeView | None = None
        self._discarding = Discarding(options.root)
        self._api: ApiAccess | None = None
        self._drivers: DraDrivers | None = None
        self._sources: PodSources | None = None
        self._requires_policies = False
        self._has_begun = False
        self.probe_port: int | None = None

    async def run(self) -> None:
        """Waits for the kubelet's directory and until no other agent serves it, then serves.

        Raises:
            FatalError: the node's directory is gone from under us.
            AddressError: the probes' address is taken.
            SettingsError: the configuration at start is wrong.
        """
        config = self._config_file.load()
        self._config_file.log_warnings(config)
        async with AsyncExitStack() as stack:
            if self._options.http is not None:
                probes = ProbeServer(
                    self._options.http, self.metrics.registry, self.readiness, guard=lambda: self._holders
                )
                stack.callback(probes.close)
                self.probe_port = probes.port
            watcher = DirectoryWatcher()
            stack.callback(watcher.close)
            await self._directory.enter(watcher, stack)
            if stale := remove_stale_sockets(self._options.paths.device_plugins):
                _log.info("removed what an earlier agent left", sockets=stale)
            self._watch_hardware(watcher)
            self._config_file.watch_with(watcher)
            try:
                await self._serve_and_finish(config)
            finally:
                if self._api is not None:
                    self._api.close()

    async def _serve_and_finish(self, config: AgentConfig) -> None:
        """Serves until it is cancelled, and then until the kubelet's calls are answered, as far as that goes.

        Everything that answers need goes on meanwhile: the watch of the pods, the kubelet's records.
        """
        serving = asyncio.create_task(self._serve(config), name="serving")
        try:
            await asyncio.wait([serving])
        except asyncio.CancelledError:
            if not await self._shared.calls.finished():
                _log.warning("ends with calls of the kubelet unanswered", calls=self._shared.calls.count)
            raise
        finally:
            serving.cancel()
            while not serving.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([serving])
        serving.result()

    async def _serve(self, config: AgentConfig) -> None:
        async with task_group() as tasks:
            self.metrics.config_is_good.set(1)
            await self._apply(config, tasks)
            self._has_begun = True
            tasks.create_task(self._follow_directory(), name="directory")
            tasks.create_task(Audit(self._options.paths, self._services.audited).run(), name="audit")
            tasks.create_task(self._discarding.run(), name="discarded folders")
            tasks.create_task(self._fan_out_hardware_hints(), name="hints")
            tasks.create_task(self._follow_config(tasks), name="config")
            features, count = self._cards.features, self.metrics.node.feature_file_failures.inc
            tasks.create_task(supervise("feature file", features.run, count), name="feature file")

    def readiness(self) -> Sequence[Check]:
        """One check a resource, and one for the agent itself."""
        blocked = self._directory.blocked or ("" if self._has_begun else "the configuration is being applied")
        return [Check("agent", not blocked, blocked or "serving"), *self._services.check()]

    async def knows_pods(self) -> None:
        """Waits until this node's pods are known, also to the kubelet, where a resource needs them."""
        while self._sources is not None and not await self._sources.pods.synced(_PODS_S):
            pass
        for service in self._services:
            if isinstance(service, DevicePluginResource):
                await service.screened()

    def pods_known(self) -> Set[str]:
        """The UIDs of the pods that are known."""
        return set() if self._sources is None else set(self._sources.pods.pods())

    def _watch_hardware(self, watcher: DirectoryWatcher) -> None:
        for name in _HINT_DIRECTORIES:
            with suppress(OSError):  # a node without such devices; the timer finds what comes later
                watcher.watch(self._options.root / name, self._hardware_hint)

    async def _apply(self, config: AgentConfig, tasks: asyncio.TaskGroup) -> None:
        self._cards.pause()
        self._look_at_cards(config, tasks)
        for resource in config.resources:
            self._discarding.look_in(resource.settings.folder_parents)
        self._apply_drivers(config.served_by("dra"), tasks)
        await self._services.apply(config.resources, lambda resource: self._make(resource, tasks), tasks)
        if config.publish_cards:
            self._reach_api(tasks).follow_node()
        self._requires_policies = config.require_policies
        if config.require_policies:
            self._reach_api(tasks).follow_policies()
        self._cards.resume(is_on_node=config.publish_cards, feature_file=config.nfd_features)
        self.metrics.config_loaded_at.set_to_current_time()

    def _look_at_cards(self, config: AgentConfig, tasks: asyncio.TaskGroup) -> None:
        if self._health_view is not None and not config.health_events:
            self._health_view.forget_health()
        self._health_view = self._reach_api(tasks).follow_node() if config.health_events else None
        if config.sensors is not None and self._sensors is None:
            self._sensors = self._make_sensors(tasks)
        if self._sensors is not None:
            self._sensors.apply(config.sensors)
        if config.sensors is None or not config.sensors.holders:
            if self._holders is not None:
                self._holders.close()
            self._holders = None
        elif self._holders is None:
            # As with ApiAccess.
            from accelet.agent.cardholders import CardHolders  # noqa: PLC0415

            assert self._sensors is not None, "made where the configuration has `sensors`"
            api = self._reach_api(tasks)
            self._holders = CardHolders(
                api.connect, api.follow_pods(), self._services, self._sensors, self.metrics.cards
            )

    def _make_sensors(self, tasks: asyncio.TaskGroup) -> "CardSensors":
        # As with ApiAccess.
        from accelet.agent.cardsensors import CardSensors  # noqa: PLC0415

        sensors = CardSensors(
            self._options.root,
            self._shared.scan_cache,
            self.metrics.cards,
            self._ailments,
            self._services.note_hardware_hint,
        )
        run = supervise("sensors", sensors.run, self.metrics.cards.count_failure)
        tasks.create_task(run, name="sensors")
        return sensors

    def _tell_health(self, resource: str, list_health: ListHealth | None) -> None:
        if self._health_view is None:
            return
        if list_health is None:
            self._health_view.forget_health(resource)
        else:
            self._health_view.report_health(resource, list_health())

    def _make(self, config: ResourceConfig, tasks: asyncio.TaskGroup) -> ResourceService:
        node = self._reach_api(tasks).follow_node() if config.settings.wants_node_labels else None
        if config.serve == "dra":
            from accelet.agent.dradrivers import DraResource  # noqa: PLC0415  imported by _apply_drivers

            assert self._drivers is not None, "made before the first of its resources"
            return DraResource(config, self._shared, self._drivers.of(config), node)
        sources = self._find_sources(tasks) if config.rules.following is not None else None
        return DevicePluginResource(config, self._shared, sources=sources, node=node)

    def _apply_drivers(self, resources: Sequence[ResourceConfig], tasks: asyncio.TaskGroup) -> None:
        """Starts what serves them; also without any, where an earlier agent has prepared claims."""
        kubelet = self._options.paths.root
        if self._drivers is None and (resources or any(has_record(kubelet, name) for name in DRIVERS)):
            # As with ApiAccess: agents that serve nothing through DRA do without what it takes.
            with uncollected():
                from accelet.agent.dradrivers import DraDrivers  # noqa: PLC0415

            connect = self._reach_api(tasks).connect
            self._drivers = DraDrivers(self._options.node_name, self._options.cdi, self._shared, connect)
        if self._drivers is not None:
            self._drivers.apply(resources, tasks)

    def _find_sources(self, tasks: asyncio.TaskGroup) -> PodSources:
        """What resources that follow assignments have in common; made when the first of them is served."""
        if self._sources is None:
            pods = self._reach_api(tasks).follow_pods()
            pod_resources = PodResources(self._options.paths.pod_resources_socket)
            self._sources = PodSources(pods, pod_resources, self._make_search, self._doubt_within)
        return self._sources

    async def _doubt_within(self, seconds: float) -> str:
        """Why assignments are not believed, if they are not."""
        if not self._requires_policies or self._api is None:
            return ""
        return await self._api.follow_policies().doubt_within(seconds)

    def _reach_api(self, tasks: asyncio.TaskGroup) -> "ApiAccess":
        if self._api is None:
            # Agents that need no API server do without the 20 MiB that the way to it costs.
            with uncollected():
                from accelet.agent.apiaccess import ApiAccess  # noqa: PLC0415

            self._api = ApiAccess(
                self._options.node_name,
                self._options.kubeconfig,
                tasks=tasks,
                metrics=self.metrics.node,
                labels_changed=self._services.note_labels,
                publisher=self._cards.publisher,
                folder=self._options.paths.device_plugins,
            )
        return self._api

    async def _follow_config(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            config = await self._config_file.next_config()
            self.metrics.config_is_good.set(config is not None)
            if config is not None:
                await self._apply(config, tasks)

    async def _follow_directory(self) -> None:
        await self._directory.follow(
            hinted=self._services.note_kubelet_hint, restarted=self._note_kubelet_restart
        )

    def _note_kubelet_restart(self) -> None:
        self.metrics.kubelet_restarts.inc()
        self._cards.refresh_after_kubelet()

    async def _fan_out_hardware_hints(self) -> None:
        while True:
            await self._hardware_hint.wait()
            self._hardware_hint.clear()
            self._services.note_hardware_hint()
