"""The fake kubelet as tests and commands use it."""

import asyncio
import random
import uuid
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from accelet.fakekubelet.behaviour import KubeletVersion, kubelet_version
from accelet.fakekubelet.clock import Clock, SystemClock
from accelet.fakekubelet.devicemanager import HEALTHY, DeviceManager
from accelet.fakekubelet.faults import Faults
from accelet.fakekubelet.node import AdmissionHook, ContainerState, Node, Phase, PodRecord, RegisterCall
from accelet.fakekubelet.plugin import PluginClient
from accelet.fakekubelet.pods import Pod
from accelet.fakekubelet.process import Process
from accelet.fakekubelet.resource import ResourceView
from accelet.fakekubelet.trace import Trace


class KubeletDownError(AssertionError):
    """A test asked something of a kubelet that is not running."""


class FakeKubelet:
    """A kubelet on one node, with the API server's pods and a container runtime that only keeps count.

    `dir` stands for /var/lib/kubelet and gets device-plugins/ and pod-resources/. `version` is a minor
    version from 1.27 to 1.38. Every random choice comes from `seed`, which every failure names. What
    waits for the plugin waits in real time; the kubelet's own times (10 s status tick, 5 min grace,
    retries, the rate limit) run on `clock`.

        async with FakeKubelet(tmp_path, version="1.36") as kubelet:
            gpu = await kubelet.registered("gpu.intel.com/i915")
            await gpu.devices(healthy=4)
            pod = await kubelet.admit(a_pod(limits={"gpu.intel.com/i915": 1}))
            assert pod["main"].options.envs["ZE_AFFINITY_MASK"] == "0"
            await kubelet.restart()
    """

    def __init__(
        self,
        dir: Path | str,  # noqa: A002 - what it is
        *,
        version: str | KubeletVersion = "1.36",
        clock: Clock | None = None,
        seed: int | None = None,
        admission_hook: AdmissionHook = lambda _pod: None,
    ) -> None:
        self.seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        clock = clock or SystemClock()
        self._node = Node(
            root=Path(dir),
            version=kubelet_version(version) if isinstance(version, str) else version,
            clock=clock,
            rng=random.Random(self.seed),  # noqa: S311 - choices to be repeated, not to be secret
            trace=Trace(clock, self.seed),
            faults=Faults(),
            admission_hook=admission_hook,
        )
        self._process: Process | None = None
        self._crashes: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"fake kubelet {self.version}, seed {self.seed}")
        await self.stop()
        if error is None and self.trace.failure is not None:
            raise self.trace.failure

    # What it is.

    @property
    def version(self) -> KubeletVersion:
        return self._node.version

    @property
    def trace(self) -> Trace:
        """Every event since the fake was made."""
        return self._node.trace

    @property
    def faults(self) -> Faults:
        """What it shall do wrong."""
        return self._node.faults

    @property
    def plugins_dir(self) -> Path:
        """Where plugins put their sockets: `dir`/device-plugins."""
        return self._node.plugins_dir

    @property
    def registry_dir(self) -> Path:
        """Where plugins that want to be found put their sockets: `dir`/plugins_registry."""
        return self._node.registry_dir

    @property
    def pod_resources_dir(self) -> Path:
        """Where the podresources socket is: `dir`/pod-resources."""
        return self._node.pod_resources_dir

    @property
    def checkpoint(self) -> Path:
        """The file in which the kubelet writes down who holds what."""
        return self._node.checkpoint

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def node_status(self) -> dict[str, tuple[int, int]]:
        """Capacity and allocatable by resource, as the API server was last told."""
        return dict(self._node.status)

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        """Every pod that is bound to this node, also those that have ended."""
        return tuple(self._node.pods.values())

    @property
    def register_calls(self) -> tuple[RegisterCall, ...]:
        """Every call of Register so far, also those that were refused."""
        return tuple(self._node.register_calls)

    # Its life.

    async def start(self, *, pods_after_s: float = 0.0) -> None:
        """Starts a kubelet. It wipes the sockets, opens its own, and admits the pods bound here anew.

        The first list of pods comes `pods_after_s` seconds later on the kubelet's clock; until then
        podresources shows none. Does nothing if it runs already.
        """
        await self._start(pods_after_s=pods_after_s, replacing=False)

    async def _start(self, *, pods_after_s: float, replacing: bool) -> None:
        if self._process is None:
            for record in self._node.pods.values():
                if not record.is_over:
                    record.admitted = None
                    record.tried = False
            self._node.trace.recover()
            self._process = Process(self._node, self._crash)
            await self._process.start(pods_after_s=pods_after_s, replacing=replacing)

    def _crash(self, error: BaseException) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._crashes.append(asyncio.create_task(process.stop()))

    async def stop(self) -> None:
        """Ends the kubelet as SIGKILL does: connections drop, socket files stay and refuse."""
        await asyncio.gather(*self._crashes)
        self._crashes.clear()
        if self._process is not None:
            process, self._process = self._process, None
            await process.stop()

    async def restart(self, *, pods_after_s: float = 0.0) -> None:
        """Stops and starts; containers run on."""
        await self.stop()
        await self.start(pods_after_s=pods_after_s)

    async def reboot(self, *, pods_after_s: float = 0.0) -> None:
        """Stops, ends every container, and starts; the checkpoint stays."""
        await self.stop()
        for record in self._node.pods.values():
            for container in record.containers.values():
                if not record.is_over:
                    container.state = ContainerState.WAITING
                    container.starts = 0
        await self.start(pods_after_s=pods_after_s)

    async def pause(self, seconds: float) -> None:
        """Lets `seconds` pass on the kubelet's clock."""
        await self._node.clock.sleep(seconds)

    # What goes wrong, besides `faults`.

    async def replace(self) -> None:
        """Another kubelet takes over: kubelet.sock is a new one from one moment to the next.

        Nothing is wiped and nothing is deleted; what plugins see is a rename onto the path.
        """
        await self.stop()
        await self._start(pods_after_s=0.0, replacing=True)

    async def replace_directory(self) -> None:
        """The plugin folder is another one: who watched the old one by inode hears no more.

        The kubelet is restarted and serves in the new folder. The checkpoint moves along.
        """
        await self.stop()
        await asyncio.to_thread(self._swap_directory)
        await self.start()

    def _swap_directory(self) -> None:
        old = self.plugins_dir.rename(self._node.root / f"device-plugins.old-{uuid.uuid4().hex[:8]}")
        self.plugins_dir.mkdir(mode=0o755)
        moved = old / self.checkpoint.name
        if moved.exists():
            moved.rename(self.checkpoint)

    def drop_socket(self) -> None:
        """Removes kubelet.sock while the kubelet runs on."""
        (self.plugins_dir / "kubelet.sock").unlink()
        self.trace.record("socket-dropped")

    async def cut_stream(self, resource: str) -> None:
        """Cuts the connection to a resource's plugin while the kubelet runs on."""
        self.trace.record("stream-cut", resource=resource)
        await self._running().plugins.cut(resource)

    def forget_held(self, resource: str, ids: Iterable[str]) -> None:
        """Makes the device manager think that `ids` are free, so that they are given twice.

        Up to 1.37 this happens to the real one when a pod's devices are freed during an Allocate.
        """
        self._running().manager.allocated.get(resource, set()).difference_update(ids)
        self.trace.record("forgot", resource=resource, devices=sorted(ids))

    # Plugins.

    def resource(self, resource: str) -> ResourceView:
        """What the kubelet knows of `resource`, whether anyone has registered it or not."""
        return ResourceView(resource, self._node, self._manager)

    def _manager(self) -> DeviceManager | None:
        return self._process.manager if self._process is not None else None

    def client(self, resource: str) -> PluginClient:
        """The connection to the plugin, for calls that no kubelet makes.

        Raises:
            KubeletDownError: the kubelet is down, or nobody is connected for `resource`.
        """
        process = self._running()
        endpoint = process.manager.endpoints.get(resource)
        client = process.plugins.client(endpoint.serial) if endpoint is not None else None
        if client is None:
            raise KubeletDownError(f"no plugin is connected for {resource}")
        return client

    async def registered(self, resource: str, *, timeout_s: float = 10.0) -> ResourceView:
        """The view of `resource`, once its plugin is connected.

        Raises:
            StillWaitingError: no plugin registered in `timeout_s` seconds of real time.
        """
        view = self.resource(resource)
        await view.registered(timeout_s=timeout_s)
        return view

    # Pods.

    async def admit(self, pod: Pod, *, start: bool = True, timeout_s: float = 30.0) -> PodRecord:
        """Binds `pod` to this node, and returns once it was rejected or its containers were tried.

        While the kubelet is down the pod waits. Without `start` the containers are admitted but not
        started, as if their images were still being pulled.

        Raises:
            StillWaitingError: nothing was decided in `timeout_s` seconds of real time.
        """
        record = self.bind(pod, start=start)
        await self.decided(record, timeout_s=timeout_s)
        return record

    async def admit_all(self, pods: Iterable[Pod], *, timeout_s: float = 30.0) -> list[PodRecord]:
        """Binds several pods in this order, at once, and returns when all are decided."""
        records = [self.bind(pod) for pod in pods]
        for record in records:
            await self.decided(record, timeout_s=timeout_s)
        return records

    def bind(self, pod: Pod, *, start: bool = True) -> PodRecord:
        """Binds `pod` to this node without waiting for what becomes of it.

        Raises:
            ValueError: a pod of this name or uid is there already.
        """
        if any(str(other.pod) == str(pod) or other.pod.uid == pod.uid for other in self._node.pods.values()):
            raise ValueError(f"pod {pod} is on this node already; remove it first")
        record = PodRecord(pod, starts=start)
        self._node.pods[pod.uid] = record
        self._node.trace.record("bound", pod=str(pod))
        if self._process is not None:
            self._process.submit(record)
        return record

    async def decided(self, record: PodRecord, *, timeout_s: float = 30.0) -> None:
        """Returns once the kubelet has decided about a pod, and tried its containers if it may."""
        await self._node.trace.until(
            lambda: (
                record.admitted is False or (record.admitted is True and (record.tried or not record.starts))
            ),
            f"pod {record.pod} to be admitted",
            timeout_s=timeout_s,
            seen=lambda: "the kubelet is down" if self._process is None else "it is still pending",
        )

    async def start_containers(self, record: PodRecord) -> None:
        """Starts the containers of a pod that was admitted without."""
        record.starts = True
        self._running().spawn(self._running().workers.run(record))
        await self.decided(record)

    async def restart_container(self, record: PodRecord, container: str = "main") -> bool:
        """Ends one container and starts it once more; whether it could be made."""
        return await self._running().workers.start(record, record.containers[container])

    async def terminate(self, record: PodRecord) -> None:
        """Marks the pod as being deleted; its containers run on and keep their devices."""
        record.terminating = True
        self._node.trace.record("terminating", pod=str(record.pod))

    async def finish(self, record: PodRecord, phase: Phase = Phase.SUCCEEDED) -> None:
        """Lets the containers end by themselves; the pod stays as ended."""
        record.phase = phase
        for container in record.containers.values():
            container.state = ContainerState.EXITED
        self._node.trace.record("finished", pod=str(record.pod), detail=phase.value)

    async def remove(self, record: PodRecord) -> None:
        """Deletes the pod: its containers end and it is gone. The kubelet frees its devices later."""
        self._node.pods.pop(record.pod.uid, None)
        if self._process is not None:
            self._process.known.pop(record.pod.uid, None)
        for container in record.containers.values():
            container.state = ContainerState.EXITED
        self._node.trace.record("removed", pod=str(record.pod))

    def allocated_resources_status(self, record: PodRecord) -> dict[str, dict[str, dict[str, str]]]:
        """The health of each container's devices in the pod's status: container, resource, id, word.

        From 1.36, and not for init containers. A device that is no longer listed still reads Healthy, and
        so do those of a plugin that is gone.
        """
        if not self.version.reports_device_health:
            return {}
        manager = self._running().manager

        def word(resource: str, device: str) -> str:
            listed = manager.devices.get(resource, {}).get(device)
            return HEALTHY if listed is None or listed.health == HEALTHY else "Unhealthy"

        return {
            container.name: {
                resource: {device: word(resource, device) for device in sorted(held.ids)}
                for resource, held in manager.holdings.of_container(record.pod.uid, container.name).items()
            }
            for container in record.pod.containers
        }

    def _running(self) -> Process:
        if self._process is None:
            raise KubeletDownError("the kubelet is down; start it first")
        return self._process
