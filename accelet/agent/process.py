"""The whole agent process: configuration, resources, probes, and what they watch together."""

import asyncio
import time
from collections.abc import Sequence, Set
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from accelet.accelerators.looking import SharedLooks
from accelet.agent.audit import Audit
from accelet.agent.cardnews import CardNews
from accelet.agent.config import AgentConfig, ResourceConfig
from accelet.agent.configfile import ConfigFile
from accelet.agent.resource import ServedResource, Surroundings
from accelet.kubelet.paths import KubeletPaths, SocketIdentity, identify_socket, is_dead_mount
from accelet.kubelet.podresources import PodResources
from accelet.node.directorylock import turn
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.nodeview import NodeView
from accelet.node.unitlocks import Claims
from accelet.runtime.logs import Log
from accelet.runtime.probes import Check, ProbeServer
from accelet.runtime.run import FatalError
from accelet.runtime.supervise import supervise
from accelet.runtime.watch import DirectoryWatcher
from deviceplugin.discovery import LOOK_FRESH_S
from deviceplugin.metrics import Metrics
from deviceplugin.search import MakeSearch, Search
from deviceplugin.server import remove_stale_sockets

LOOK_S = 2.0
"""How often the kubelet's directory is looked at without any hint."""

_HINT_DIRECTORIES = ("dev", "dev/dri", "dev/vfio", "dev/accel")

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Where the agent finds things; `http` is host and port of the probes, None for none.

    `kubeconfig` is the way to the API server where a resource needs it, None for the pod's service account.
    """

    root: Path
    paths: KubeletPaths
    node_name: str
    http: tuple[str, int] | None
    kubeconfig: Path | None = None


class Agent:
    """Serves the configured resources while `run` runs."""

    def __init__(
        self, options: AgentOptions, config_file: ConfigFile, make_search: MakeSearch = Search
    ) -> None:
        """`make_search` makes what finds out whose a call is, for resources that follow assignments."""
        self._options = options
        self._make_search = make_search
        self._config_file = config_file
        self.metrics = Metrics()
        self._claims = Claims()
        self._looks = SharedLooks(LOOK_FRESH_S)
        self._records = KubeletRecords(options.paths)
        self._served: dict[str, tuple[ServedResource, asyncio.Task[None]]] = {}
        self._surroundings: Surroundings | None = None
        self._node: NodeView | None = None
        self._cards = CardNews(
            options.node_name,
            options.root,
            lambda: [served for served, _ in self._served.values()],
            self.metrics,
        )
        self._blocked = "waiting for the kubelet's directory"
        self._kubelet_changed = asyncio.Event()
        self._hardware_changed = asyncio.Event()
        self.probe_port: int | None = None

    async def run(self) -> None:
        """Waits for the kubelet's directory and for its turn on it, then serves.

        Raises:
            FatalError: the node's directory is gone from under us, or the probes' address is taken.
            SettingsError: the configuration at start is wrong.
        """
        config = self._config_file.load()
        async with AsyncExitStack() as stack:
            if self._options.http is not None:
                probes = ProbeServer(self._options.http, self.metrics.registry, self.readiness)
                stack.callback(probes.close)
                self.probe_port = probes.port
            watcher = DirectoryWatcher()
            stack.callback(watcher.close)
            await self._take_turn(self._options.paths.device_plugins, watcher, stack)
            self._watch_hardware(watcher)
            self._config_file.watch_with(watcher)
            try:
                await self._serve(config)
            except ExceptionGroup as group:
                raise group.exceptions[0] from group

    async def _serve(self, config: AgentConfig) -> None:
        async with asyncio.TaskGroup() as tasks:
            self.metrics.config_is_good.set(1)
            await self._apply(config, tasks)
            tasks.create_task(self._guard_directory(), name="guard")
            tasks.create_task(self._audit().run(), name="audit")
            tasks.create_task(self._fan_out_hardware_hints(), name="hints")
            tasks.create_task(self._follow_config(tasks), name="config")
            features, count = self._cards.features, self.metrics.feature_file_failures.inc
            tasks.create_task(supervise("feature file", features.run, count), name="feature file")

    def _audit(self) -> Audit:
        return Audit(self._options.paths, lambda: [served for served, _ in self._served.values()])

    def readiness(self) -> Sequence[Check]:
        """One check a resource, and one for the agent itself."""
        checks = [Check("agent", not self._blocked, self._blocked or "serving")]
        now = time.time()
        for name, (resource, _) in sorted(self._served.items()):
            state = resource.state
            if (problem := resource.discovery.problem) is not None:
                checks.append(Check(name, is_ok=False, detail=problem))
            elif state is None:
                checks.append(Check(name, is_ok=True, detail="no such device on this node"))
            else:
                since = f"for {now - state.since:.0f} s"
                checks.append(Check(name, state.is_registered, f"{state.reason} {since}"))
        return checks

    async def knows_pods(self) -> None:
        """Waits until this node's pods are known, where a resource needs them."""
        while self._surroundings is not None and not await self._surroundings.pods.synced(LOOK_S):
            pass

    def pods_known(self) -> Set[str]:
        """The UIDs of the pods that are known."""
        return set() if self._surroundings is None else set(self._surroundings.pods.pods())

    async def _take_turn(self, directory: Path, watcher: DirectoryWatcher, stack: AsyncExitStack) -> None:
        """Waits for the kubelet's directory and for its turn on it, until the end of `stack`; watches it.

        A directory that goes meanwhile, since the node's is just being replaced, is waited for anew.
        """
        while self._blocked:
            self._blocked = "waiting for the kubelet's directory"
            await self._wait_for(directory)
            self._blocked = "another agent serves this node"
            async with AsyncExitStack() as held:
                with suppress(FileNotFoundError):
                    await held.enter_async_context(turn(directory))
                    if stale := remove_stale_sockets(directory):
                        _log.info("removed what an earlier agent left", sockets=stale)
                    watcher.watch(directory, self._kubelet_changed)
                    stack.push_async_exit(held.pop_all())
                    self._blocked = ""
            _refuse_dead(directory)

    async def _wait_for(self, directory: Path) -> None:
        is_told = False
        while not await asyncio.to_thread(directory.is_dir):
            if not is_told:
                is_told = True
                _log.warning("the kubelet's directory is not there; waiting for it", directory=str(directory))
            await asyncio.sleep(LOOK_S / 4)

    def _watch_hardware(self, watcher: DirectoryWatcher) -> None:
        for name in _HINT_DIRECTORIES:
            with suppress(OSError):  # a node without such devices; the timer finds what comes later
                watcher.watch(self._options.root / name, self._hardware_changed)

    async def _apply(self, config: AgentConfig, tasks: asyncio.TaskGroup) -> None:
        """Stops what changed or went, then starts what is new or changed; the rest goes on untouched."""
        self._cards.hold()
        for resource in config.served_by("dra"):
            _log.error("serve: dra is not served yet; its slices are shown only", resource=resource.name)
        resources = config.served_by("device-plugin")
        wanted = {resource.name: resource for resource in resources}
        for name, (served, task) in list(self._served.items()):
            if wanted.get(name) != served.config:
                _log.info("no longer served as it was", resource=name)
                task.cancel()
                await asyncio.wait([task])
                del self._served[name]
                if name not in wanted:
                    served.forget_metrics()
        for resource in resources:
            if resource.name not in self._served:
                self._start(resource, tasks)
        if config.publish_cards:
            self._know_node(tasks)
        self._cards.take(config)
        self.metrics.config_loaded_at.set_to_current_time()

    def _start(self, config: ResourceConfig, tasks: asyncio.TaskGroup) -> None:
        served = ServedResource(
            config,
            root=self._options.root,
            paths=self._options.paths,
            records=self._records,
            claims=self._claims,
            share=self._looks.share,
            metrics=self.metrics,
            looked=self._cards.look,
            surroundings=self._surround(tasks) if config.rules.following is not None else None,
            node=self._know_node(tasks) if config.settings.wants_node_labels else None,
        )
        run = supervise(config.name, served.run, self.metrics.of(config.name).count_fault)
        self._served[config.name] = (served, tasks.create_task(run, name=config.name))

    def _surround(self, tasks: asyncio.TaskGroup) -> Surroundings:
        """What resources that follow assignments have in common; made when the first of them is served."""
        if self._surroundings is None:
            # Imported here: the way to the API server costs 20 MiB, which other agents do without.
            nodepods: ModuleType = import_module("accelet.node.nodepods")
            options, count = self._options, self.metrics.watch_failures.inc
            pods = nodepods.NodePods(options.node_name, options.kubeconfig, count)
            tasks.create_task(supervise("pods of this node", pods.run, count), name="pods of this node")
            pod_resources = PodResources(options.paths.pod_resources_socket)
            self._surroundings = Surroundings(pods, pod_resources, self._make_search)
        return self._surroundings

    def _know_node(self, tasks: asyncio.TaskGroup) -> NodeView:
        """The node's Node, for its labels and its cards; made when one of them is first wanted."""
        if self._node is None:
            ownnode: ModuleType = import_module("accelet.node.ownnode")  # imported here as above
            options, count = self._options, self.metrics.node_failures.inc
            node = ownnode.OwnNode(
                options.node_name,
                options.kubeconfig,
                changed=self._mind_labels,
                failed=count,
                publisher=self._cards.publisher,
            )
            tasks.create_task(supervise("the Node", node.run, count), name="the Node")
            self._node = node
        return self._node

    def _mind_labels(self) -> None:
        for served, _ in self._served.values():
            served.mind_labels()

    async def _follow_config(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            config = await self._config_file.changed()
            self.metrics.config_is_good.set(config is not None)
            if config is not None:
                await self._apply(config, tasks)

    async def _guard_directory(self) -> None:
        """Wakes the plugins when the kubelet's directory changes; ends the process when it is dead."""
        paths = self._options.paths
        kubelet: SocketIdentity | None = identify_socket(paths.registration_socket)
        while True:
            self._kubelet_changed.clear()
            _refuse_dead(paths.device_plugins)
            now = identify_socket(paths.registration_socket)
            if now is not None and now != kubelet:
                if kubelet is not None:
                    self.metrics.kubelet_restarts.inc()
                    self._cards.publisher.look_after_kubelet()
                kubelet = now
            for served, _ in self._served.values():
                served.plugin.wake.set()
                served.records_changed.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._kubelet_changed.wait()

    async def _fan_out_hardware_hints(self) -> None:
        while True:
            await self._hardware_changed.wait()
            self._hardware_changed.clear()
            for served, _ in self._served.values():
                served.discovery.wake.set()


def _refuse_dead(directory: Path) -> None:
    if is_dead_mount(directory):
        raise FatalError(
            f"{directory} was removed on the host and is dead here; "
            "the pod must start again to see the new one"
        )
