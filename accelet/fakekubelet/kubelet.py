"""The fake kubelet as tests and commands use it."""

from collections.abc import Iterable

from accelet.fakekubelet.claims.cache import ClaimInfo
from accelet.fakekubelet.claims.view import DriverView
from accelet.fakekubelet.devices.devicemanager import HEALTHY
from accelet.fakekubelet.life import KubeletDownError, KubeletLife
from accelet.fakekubelet.node import ContainerState, Phase, PodRecord
from accelet.fakekubelet.pods import Pod
from accelet.fakekubelet.resource import ResourceView
from accelet.fakekubelet.services.plugin import PluginClient


class FakeKubelet(KubeletLife):
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

    With `claims`, an API server's ResourceClaims, it is a kubelet with DRA on node `node_name`. `cdi_dirs`
    are the container runtime's folders; without them nobody looks whether CDI devices are there.
    """

    # Plugins.

    def resource(self, resource: str) -> ResourceView:
        """What the kubelet knows of `resource`, whether anyone has registered it or not."""
        return ResourceView(resource, self._node, self._manager)

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

    def driver(self, driver: str) -> DriverView:
        """What the kubelet knows of a DRA driver, whether it has registered or not."""
        return DriverView(driver, self._node, self._claims)

    async def driver_registered(self, driver: str, *, timeout_s: float = 10.0) -> DriverView:
        """The view of a DRA driver, once it is registered and connected.

        Raises:
            StillWaitingError: it is not in `timeout_s` seconds of real time.
        """
        view = self.driver(driver)
        await view.connected(timeout_s=timeout_s)
        return view

    def claim(self, name: str, namespace: str = "default") -> ClaimInfo | None:
        """What the kubelet knows of a claim; None if no pod of this node uses it."""
        claims = self._claims()
        return claims.manager.cache.infos.get((namespace, name)) if claims is not None else None

    async def wipe_slices(self, driver: str | None = None) -> None:
        """Removes the node's ResourceSlices, of one driver or of all, as a kubelet does when it starts.

        Raises:
            KubeletDownError: the kubelet is down, or has no DRA.
        """
        claims = self._claims()
        if claims is None:
            raise KubeletDownError("no kubelet with DRA is running")
        await claims.drivers.wipe(driver)

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
            ValueError: a pod of this name or uid is there already, or it has claims and there is no DRA.
        """
        if pod.claims and (self._node.claim_api is None or not self.version.driver_services):
            raise ValueError(
                f"pod {pod} has claims: give the fake kubelet an API server (claims=), of 1.32 or later"
            )
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

    async def running(self, record: PodRecord, *, timeout_s: float = 30.0) -> None:
        """Returns once all containers run, also those that could not be made at first.

        Raises:
            StillWaitingError: they do not in `timeout_s` seconds of real time.
        """
        await self._node.trace.until(
            lambda: record.phase is Phase.RUNNING,
            f"pod {record.pod} to run",
            timeout_s=timeout_s,
            seen=lambda: record.claim_error or f"it is {record.phase.value}",
        )

    async def released(self, record: PodRecord, *, timeout_s: float = 30.0) -> None:
        """Returns once no claim is held for a pod any more.

        Raises:
            StillWaitingError: one still is after `timeout_s` seconds of real time.
        """

        def held() -> list[str]:
            claims = self._claims()
            return [info.name for info in claims.manager.cache.of_pod(record.pod.uid)] if claims else []

        await self._node.trace.until(
            lambda: self._process is not None and not held(),
            f"the claims of {record.pod} to be unprepared",
            timeout_s=timeout_s,
            seen=lambda: f"it still has {', '.join(held()) or 'none, and the kubelet is down'}",
        )

    async def renew_sandbox(self, record: PodRecord) -> None:
        """Ends the pod's sandbox with all its containers; the kubelet makes another one."""
        process = self._running()
        record.has_sandbox = record.tried = False
        record.phase = Phase.PENDING
        for container in record.containers.values():
            container.state = ContainerState.WAITING
        self._node.trace.record("sandbox-ended", pod=str(record.pod))
        process.spawn(process.workers.run(record))
        await self.decided(record)

    async def start_containers(self, record: PodRecord) -> None:
        """Starts the containers of a pod that was admitted without."""
        record.starts = True
        self._running().spawn(self._running().workers.run(record))
        await self.decided(record)

    async def restart_container(self, record: PodRecord, container: str = "main") -> bool:
        """Ends one container and starts it once more; whether it could be made.

        If not, the kubelet tries again every ten seconds.
        """
        process = self._running()
        made = await process.workers.start(record, record.containers[container])
        if not made:
            process.spawn(process.workers.try_again(record))
        return made

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
        if self._process is not None:
            self._process.release(record)

    async def remove(self, record: PodRecord) -> None:
        """Deletes the pod: its containers end and it is gone. The kubelet frees its devices later.

        Its claims are unprepared from now on; see `released`.
        """
        self._node.pods.pop(record.pod.uid, None)
        record.removed = True
        if self._process is not None:
            self._process.forget(record)
            self._process.release(record)
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
