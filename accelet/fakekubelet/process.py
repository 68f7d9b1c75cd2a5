"""One life of a kubelet: from its start, through a loop over pods, to its end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from accelet.fakekubelet.admission import Admission, Allocator
from accelet.fakekubelet.claims.service import ClaimService
from accelet.fakekubelet.devices.checkpointfile import CheckpointFile
from accelet.fakekubelet.devices.devicemanager import DeviceManager, KubeletCrash
from accelet.fakekubelet.node import ContainerState, Node, Phase, PodRecord, Rejection
from accelet.fakekubelet.pods import PodUid
from accelet.fakekubelet.services.handlers import DevicePluginHandler, DriverHandler
from accelet.fakekubelet.services.podresources import PodResources
from accelet.fakekubelet.services.registration import Plugins, Registration
from accelet.fakekubelet.services.sockets import new_server, serve_at, stop_now, wipe_sockets
from accelet.fakekubelet.services.watcher import Handler, PluginWatcher
from accelet.fakekubelet.workers import Workers
from accelet.kubelet.api import deviceplugin_pb2_grpc, podresources_pb2_grpc

STATUS_TICK_S: Final = 10.0
"""How often the kubelet tells the API server what the node has."""

RECONCILE_S: Final = 60.0
"""How often it looks for claims of pods that are gone."""


class Process:
    """A running kubelet. What it knows ends with it; what it wrote down and what runs stays on the node."""

    def __init__(self, node: Node, crashed: Callable[[BaseException], None]) -> None:
        self.node = node
        self._crashed = crashed
        self.known: dict[PodUid, PodRecord] = {}
        self._ran = frozenset(
            (uid, name)
            for uid, record in node.pods.items()
            for name, container in record.containers.items()
            if self._looks_running(container.state, container.starts)
        )
        self.manager = DeviceManager(
            version=node.version,
            rng=node.rng,
            is_active=self._is_active,
            was_running=lambda uid, container: (uid, container) in self._ran,
        )
        self.checkpoint = CheckpointFile(node)
        self.plugins = Plugins(node, self.manager, self.spawn, self.checkpoint)
        self.allocator = Allocator(node, self.manager, self.plugins, self.checkpoint, self.free_dead)
        self.admission = Admission(node, self.manager, self.allocator)
        self.claims = ClaimService.of(node, self.spawn)
        self.workers = Workers(node, self.manager, self.allocator, self.claims)
        self._registration = new_server()
        self._pod_resources = new_server()
        self._arrivals: asyncio.Queue[PodRecord] = asyncio.Queue()
        self._is_admitting = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = False

    def _looks_running(self, state: ContainerState, starts: int) -> bool:
        if state is not ContainerState.RUNNING:
            return False
        if self.node.version.sees_every_container_of_a_name or starts < 2:
            return True
        # The runtime also lists the container's last, exited incarnation, and either may be found first.
        return self.node.rng.random() < 0.5

    def _is_active(self, uid: PodUid) -> bool:
        record = self.known.get(uid)
        return record is not None and record.is_active

    async def start(self, *, pods_after_s: float, replacing: bool) -> None:
        """Opens both sockets, then admits the pods that are already bound here.

        Raises:
            KubeletStartError: what a former kubelet wrote down of claims makes no sense.
        """
        node = self.node
        if self.claims is not None:
            self.claims.manager.load()
        for folder in (node.plugins_dir, node.pod_resources_dir):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        node.registry_dir.mkdir(mode=0o750, exist_ok=True)
        podresources_pb2_grpc.add_PodResourcesListerServicer_to_server(
            PodResources(node, self.manager, self.known, self.free_dead, self.claims), self._pod_resources
        )
        await serve_at(self._pod_resources, node.pod_resources_dir / "kubelet.sock", by_rename=True)
        self.checkpoint.load(self.manager, node.clock.now())
        if not replacing:
            wipe_sockets(node.plugins_dir)
        deviceplugin_pb2_grpc.add_RegistrationServicer_to_server(
            Registration(node, self.plugins), self._registration
        )
        await serve_at(self._registration, node.plugins_dir / "kubelet.sock", by_rename=replacing)
        node.trace.record("kubelet-started", detail=f"version {node.version}")
        handlers: dict[str, Handler] = {"DevicePlugin": DevicePluginHandler(self.plugins)}
        if self.claims is not None:
            handlers["DRAPlugin"] = DriverHandler(self.claims.drivers)
            self.spawn(self.claims.drivers.wipe())
            self.spawn(self._reconcile(self.claims))
        self.spawn(PluginWatcher(node, handlers, self.spawn).run())
        self.spawn(self._loop(pods_after_s))
        self.spawn(self._tell_status())

    async def stop(self) -> None:
        """Ends at once, as by SIGKILL; both socket files stay behind."""
        self._is_over = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(stop_now(self._registration), stop_now(self._pod_resources))
        await self.plugins.close()
        if self.claims is not None:
            await self.claims.drivers.close()
        self.node.trace.record("kubelet-stopped")

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
        """Runs `work` until it ends or this kubelet does; nothing if that has ended."""
        if self._is_over:  # asked by a Register that was under way at the end
            work.close()
            return None
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._reap)
        return task

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.node.trace.record("kubelet-crashed", detail=str(error))
            self.node.trace.fail(error)
            self._crashed(error)

    def submit(self, record: PodRecord) -> None:
        """A pod has been bound to this node."""
        self._arrivals.put_nowait(record)

    def forget(self, record: PodRecord) -> None:
        """A pod has been removed. The loop hears of it in its turn, which is after an admission under way."""
        if self._is_admitting:
            self._arrivals.put_nowait(record)
        else:
            self.known.pop(record.pod.uid, None)

    def release(self, record: PodRecord) -> None:
        """A pod's containers have ended for good: what its claims hold is given back."""
        if record.pod.claims:
            self.spawn(self.workers.release(record))

    async def _reconcile(self, claims: ClaimService) -> None:
        """What pods left behind that went while no kubelet was there."""
        while True:
            await self.node.clock.sleep(RECONCILE_S)
            if self.manager.sources_ready:
                await claims.manager.reconcile(lambda uid: self._is_active(PodUid(uid)))

    def free_dead(self) -> None:
        freed = self.manager.free_dead()
        if freed:
            self.node.trace.record("freed", detail=f"{len(freed)} pods' devices")

    async def _loop(self, pods_after_s: float) -> None:
        """Pods one after the other: first those found at the start, oldest first, then as they arrive."""
        if pods_after_s > 0:
            await self.node.clock.sleep(pods_after_s)
        for record in self._first_batch():
            self.known[record.pod.uid] = record
            if not record.is_over:
                await self._handle(record)
        self.manager.sources_ready = True
        while True:
            record = await self._arrivals.get()
            if record.removed:
                self.known.pop(record.pod.uid, None)
            elif record.pod.uid not in self.known and record.pod.uid in self.node.pods:
                self.known[record.pod.uid] = record
                await self._handle(record)

    def _first_batch(self) -> list[PodRecord]:
        batch = list(self.node.pods.values())
        # Creation times have whole seconds and the kubelet's sort is not stable.
        self.node.rng.shuffle(batch)
        return sorted(batch, key=lambda record: record.pod.created_at)

    async def _handle(self, record: PodRecord) -> None:
        self._is_admitting = True
        try:
            rejection = await self.admission.admit(record)
        except KubeletCrash as crash:
            record.admitted = False
            record.rejection = Rejection("KubeletCrash", str(crash))
            raise
        finally:
            self._is_admitting = False
        if rejection is not None:
            self._reject(record, rejection)
            return
        for container in record.containers.values():
            self.workers.show(record.pod, container)
        record.admitted = True
        self.node.trace.record("admitted", pod=str(record.pod))
        if record.starts:
            self.spawn(self.workers.run(record))

    def _reject(self, record: PodRecord, rejection: Rejection) -> None:
        record.admitted = False
        record.rejection = rejection
        record.phase = Phase.FAILED
        for container in record.containers.values():
            container.state = ContainerState.EXITED
        self.node.trace.record(
            "rejected", pod=str(record.pod), detail=f"{rejection.reason}: {rejection.message}"
        )

    async def _tell_status(self) -> None:
        while True:
            self.tell_status()
            await self.node.clock.sleep(STATUS_TICK_S)

    def tell_status(self) -> None:
        """One tick of node status: what is there now, and zero for what is gone for good."""
        now = self.node.clock.now()
        gone = self.manager.forget_gone(now)
        before = dict(self.node.status)
        self.node.status.update(dict.fromkeys(gone, (0, 0)))
        self.node.status.update(self.manager.capacity(now))
        for resource, (capacity, allocatable) in self.node.status.items():
            if before.get(resource) != (capacity, allocatable):
                self.node.trace.record(
                    "node-status",
                    resource=resource,
                    detail=f"capacity {capacity}, allocatable {allocatable}",
                )
        if gone:
            self.checkpoint.save(self.manager)
