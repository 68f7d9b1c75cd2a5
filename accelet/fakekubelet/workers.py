"""Runs the containers of admitted pods; there is no runtime, they just count as running."""

from dataclasses import dataclass
from typing import Final

from accelet.fakekubelet.admission import Allocator
from accelet.fakekubelet.devices.devicemanager import AllocationError, DeviceManager
from accelet.fakekubelet.devices.options import merged
from accelet.fakekubelet.node import ContainerRecord, ContainerState, Node, Phase, PodRecord
from accelet.fakekubelet.pods import Container, Pod
from accelet.fakekubelet.services.plugin import PRE_START_FAILED

RETRY_S: Final = 10.0
"""How long a container that could not be made waits for the next try."""


@dataclass(slots=True)
class Workers:
    """What the kubelet's pod workers do, one task a pod, next to admissions and to each other."""

    node: Node
    manager: DeviceManager
    allocator: Allocator

    async def run(self, record: PodRecord) -> None:
        """Starts the pod's containers in order, and tries again later as long as one of them cannot be made.

        Plain init containers end at once; sidecars and main containers stay.
        """
        while not await self._start_all(record):
            await self.node.clock.sleep(RETRY_S)

    async def try_again(self, record: PodRecord) -> None:
        """What the next syncs of the pod do about a container that could not be made just now."""
        await self.node.clock.sleep(RETRY_S)
        await self.run(record)

    async def _start_all(self, record: PodRecord) -> bool:
        """One sync of the pod; whether nothing is left to do."""
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
        except AllocationError as error:
            container.error = str(error)
            container.state = ContainerState.WAITING
            self.node.trace.record("container-waits", pod=str(pod), container=name, detail=str(error))
            return False
        self.show(pod, container)
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
