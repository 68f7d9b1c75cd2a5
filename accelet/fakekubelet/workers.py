"""Runs the containers of admitted pods; there is no runtime, they just count as running."""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from accelet.fakekubelet.admission import Allocator
from accelet.fakekubelet.claims.cache import ClaimError
from accelet.fakekubelet.claims.cdi import CdiDevices, UnresolvableError
from accelet.fakekubelet.claims.service import ClaimService
from accelet.fakekubelet.devices.devicemanager import AllocationError, DeviceManager
from accelet.fakekubelet.devices.options import merged
from accelet.fakekubelet.node import ContainerRecord, ContainerState, Node, Phase, PodRecord
from accelet.fakekubelet.pods import Container, Pod
from accelet.fakekubelet.services.plugin import PRE_START_FAILED

RETRY_S: Final = 10.0
"""How long a container that could not be made waits for the next try."""

RESYNC_S: Final = 60.0
"""How long a pod waits whose claims could not be prepared, or up to half as long again."""


@dataclass(slots=True)
class Workers:
    """What the kubelet's pod workers do, one task a pod, next to admissions and to each other."""

    node: Node
    manager: DeviceManager
    allocator: Allocator
    claims: ClaimService | None = None

    async def run(self, record: PodRecord) -> None:
        """Starts the pod's containers in order, and tries again later as long as one of them cannot be made.

        Plain init containers end at once; sidecars and main containers stay.
        """
        while (wait_s := await self._sync(record)) is not None:
            await self.node.clock.sleep(wait_s)

    async def try_again(self, record: PodRecord) -> None:
        """What the next syncs of the pod do about a container that could not be made just now."""
        await self.node.clock.sleep(RETRY_S)
        await self.run(record)

    async def release(self, record: PodRecord) -> None:
        """Gives back what the claims of a pod hold that has ended, however often that fails."""
        assert self.claims is not None, "a pod with claims is only bound where there is DRA"
        while True:
            try:
                async with record.worker:
                    await self.claims.manager.unprepare(record.pod)
                    record.has_sandbox = False
            except ClaimError as error:
                self.node.trace.record("unprepare-failed", pod=str(record.pod), detail=str(error))
                await self.node.clock.sleep(RETRY_S * (1 + self.node.rng.random() / 2))
            else:
                self.node.trace.record("released", pod=str(record.pod))
                return

    async def _sync(self, record: PodRecord) -> float | None:
        """One sync of the pod; in how many seconds another is needed, if it is."""
        async with record.worker:
            if record.removed or record.is_over:
                return None
            if await self._has_sandbox(record):
                return None if await self._start_all(record) else RETRY_S
        record.tried = True
        self.node.trace.record("pod-synced", pod=str(record.pod), detail=record.phase.value)
        # To a kubelet this is no error: it comes back to the pod when it comes back to all of them.
        return RESYNC_S * (1 + self.node.rng.random() / 2)

    async def _has_sandbox(self, record: PodRecord) -> bool:
        """Makes the pod's sandbox if there is none; not without what its claims are to give."""
        if record.has_sandbox:
            return True
        try:
            if self.claims is not None and record.pod.claims:
                await self.claims.manager.prepare(record.pod)
        except ClaimError as error:
            record.claim_error = f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
            self.node.trace.record("prepare-failed", pod=str(record.pod), detail=str(error))
            return False
        record.claim_error = None
        record.has_sandbox = True
        return True

    async def _start_all(self, record: PodRecord) -> bool:
        """Starts what does not run; whether nothing is left to do."""
        done = True
        for name, container in record.containers.items():
            if record.is_over or record.terminating or record.pod.uid not in self.node.pods:
                break
            is_init = record.pod.is_plain_init(name)
            if container.state is ContainerState.RUNNING or (is_init and self._has_served(record, container)):
                continue
            if not await self.start(record, container):
                done = False
                if container.container in record.pod.init_containers:
                    break  # what comes after waits for it
        if done and not record.is_over:
            record.phase = Phase.RUNNING
        record.tried = True
        self.node.trace.record("pod-synced", pod=str(record.pod), detail=record.phase.value)
        return done

    @staticmethod
    def _has_served(record: PodRecord, init: ContainerRecord) -> bool:
        return init.state is ContainerState.EXITED and init.starts > 0

    async def start(self, record: PodRecord, container: ContainerRecord) -> bool:
        """Starts one container, also once more; whether it could be made."""
        pod, name = record.pod, container.container.name
        try:
            await self._prepare(record, container.container)
            self.show(pod, container)
            await self._inject(pod, container)
        except (AllocationError, ClaimError, UnresolvableError) as error:
            container.error = str(error)
            container.state = ContainerState.WAITING
            self.node.trace.record("container-waits", pod=str(pod), container=name, detail=str(error))
            return False
        container.error = None
        container.starts += 1
        is_init = pod.is_plain_init(name)
        container.state = ContainerState.EXITED if is_init else ContainerState.RUNNING
        self.node.trace.record(
            "container-ran" if is_init else "container-started",
            pod=str(pod),
            container=name,
            devices=sorted(device for ids in container.devices.values() for device in ids),
        )
        return True

    async def _inject(self, pod: Pod, container: ContainerRecord) -> None:
        """Adds what the container's claims give it, through the runtime's CDI folders if there are any.

        Raises:
            ClaimError: the kubelet does not know one of its claims.
            UnresolvableError: the runtime does not know one of its CDI devices.
        """
        if self.claims is None or not container.container.claims:
            return
        ids = self.claims.manager.cdi_ids(pod, container.container)
        named = (*container.options.cdi_devices, *ids)
        container.options = replace(container.options, cdi_devices=named)
        if self.node.cdi_dirs:
            devices = await asyncio.to_thread(CdiDevices, self.node.cdi_dirs)
            container.injected = devices.inject(named)

    def show(self, pod: Pod, container: ContainerRecord) -> None:
        """Puts down what the kubelet now holds for the container."""
        held = dict(self.manager.holdings.of_container(pod.uid, container.container.name))
        container.devices = {resource: tuple(sorted(held[resource].ids)) for resource in sorted(held)}
        order = [
            resource for resource in self.allocator.in_random_order(container.container) if resource in held
        ]
        container.options = merged(held[resource].response for resource in order)
        if container.options.conflicts:
            conflicts = ", ".join(container.options.conflicts)
            self.node.trace.record(
                "conflict", pod=str(pod), container=container.container.name, detail=conflicts
            )

    async def _prepare(self, record: PodRecord, container: Container) -> None:
        """What comes before a container is made: PreStartContainer, and devices if it has none.

        Raises:
            AllocationError: it cannot be made now.
        """
        pod = record.pod
        lacks = False
        for resource in self.allocator.in_random_order(container):
            if not self.manager.is_known(resource) or container.limits[resource] == 0:
                continue
            await self._pre_start(pod, container, resource)
            is_active = self.manager.is_active(pod.uid)
            held = self.manager.holdings.of_container(pod.uid, container.name)
            lacks = lacks or (is_active and resource not in held)
        if lacks:
            self.node.trace.record("allocate-again", pod=str(pod), container=container.name)
            await self.allocator.allocate(pod, container)

    async def _pre_start(self, pod: Pod, container: Container, resource: str) -> None:
        endpoint = self.manager.endpoints.get(resource)
        if endpoint is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.options.pre_start_required:
            return
        held = self.manager.holdings.of_container(pod.uid, container.name).get(resource)
        if held is None:
            raise AllocationError(
                f"no devices found allocated in local cache for pod {pod.uid}, "
                f"container {container.name}, resource {resource}"
            )
        ids = sorted(held.ids)
        self.node.rng.shuffle(ids)
        where = {"resource": resource, "pod": str(pod), "container": container.name}
        self.node.trace.record("pre-start", devices=ids, **where)
        try:
            client = self.allocator.client(resource, endpoint, error_prefix=PRE_START_FAILED)
            await client.pre_start(ids)
        except AllocationError as error:
            self.node.trace.record("pre-start-failed", devices=ids, detail=str(error), **where)
            raise
