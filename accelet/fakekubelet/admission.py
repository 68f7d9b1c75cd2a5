"""Admits one pod: container by container, resource by resource, as the kubelet does."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from accelet.fakekubelet.devices.checkpointfile import CheckpointFile
from accelet.fakekubelet.devices.devicemanager import (
    AllocationError,
    DeviceManager,
    Endpoint,
    PreferenceQuestion,
)
from accelet.fakekubelet.node import Node, PodRecord, Rejection
from accelet.fakekubelet.pods import Container, Pod, PodUid
from accelet.fakekubelet.services.plugin import PREFERENCE_FAILED, PluginClient
from accelet.fakekubelet.services.registration import Plugins

UNEXPECTED = "UnexpectedAdmissionError"
"""The reason of a pod whose devices could not be allocated."""


@dataclass(slots=True)
class Allocator:
    """Gets devices from plugins for one container at a time; also used when a container starts."""

    node: Node
    manager: DeviceManager
    plugins: Plugins
    checkpoint: CheckpointFile
    free_dead: Callable[[], None]
    _reusable: dict[PodUid, dict[str, set[str]]] = field(default_factory=dict)

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Gets `container` all its devices, and remembers which ones later containers may use again.

        What a plain init container held is free for the rest of its pod; what a sidecar or a main
        container holds is not.

        Raises:
            AllocationError: the pod is to be rejected.
            KubeletCrash: the real kubelet would be gone.
        """
        self._reusable = {pod.uid: self._reusable.get(pod.uid, {})}
        reusable = self._reusable[pod.uid]
        await self._allocate_resources(pod, container, reusable)
        for resource, held in self.manager.holdings.of_container(pod.uid, container.name).items():
            if pod.is_plain_init(container.name):
                reusable.setdefault(resource, set()).update(held.ids)
            else:
                reusable.setdefault(resource, set()).difference_update(held.ids)

    async def _allocate_resources(
        self, pod: Pod, container: Container, reusable: dict[str, set[str]]
    ) -> None:
        freed = changed = False
        for resource in self.in_random_order(container):
            if resource in container.dra_backed or not self.manager.is_known(resource):
                continue
            if not freed:
                self.free_dead()
                freed = True
            required = container.limits[resource]
            ids = await self._choose(pod, container, resource, required, reusable.get(resource, set()))
            if not ids:
                continue
            changed = True
            try:
                await self._ask_plugin(pod, container, resource, ids)
            finally:
                self.manager.land(resource, ids)
        if changed:
            self.checkpoint.save(self.manager)

    def in_random_order(self, container: Container) -> list[str]:
        """The container's resources; the kubelet walks a Go map."""
        resources = list(container.limits)
        self.node.rng.shuffle(resources)
        return resources

    async def _choose(
        self, pod: Pod, container: Container, resource: str, required: int, reusable: Iterable[str]
    ) -> tuple[str, ...]:
        choice = self.manager.choose(pod, container, resource, required, set(reusable))
        try:
            question = next(choice)
            while True:
                question = choice.send(await self._preferred(pod, container, resource, question))
        except StopIteration as done:
            ids: tuple[str, ...] = done.value
            return ids
        finally:
            choice.close()

    async def _preferred(
        self, pod: Pod, container: Container, resource: str, question: PreferenceQuestion
    ) -> Iterable[str]:
        client = self.client(resource, question.endpoint, error_prefix=PREFERENCE_FAILED)
        self.node.trace.record(
            "preferred-asked",
            resource=resource,
            pod=str(pod),
            container=container.name,
            devices=question.must_include,
            detail=f"{question.size} of {len(question.available)}",
        )
        wish = await client.preferred(question.available, question.must_include, question.size)
        self.node.trace.record(
            "preferred", resource=resource, pod=str(pod), container=container.name, devices=wish
        )
        return wish

    async def _ask_plugin(self, pod: Pod, container: Container, resource: str, ids: tuple[str, ...]) -> None:
        endpoint = self.manager.endpoints.get(resource)
        if endpoint is None:
            self.manager.recount()
            raise AllocationError(f"unknown Device Plugin {resource}")
        where = {"resource": resource, "pod": str(pod), "container": container.name}
        self.node.trace.record("allocate", devices=ids, **where)
        try:
            client = self.client(resource, endpoint)
            responses = await client.allocate(ids)
        except AllocationError as error:
            self.manager.recount()
            self.node.trace.record("allocate-failed", devices=ids, detail=str(error), **where)
            raise
        if not responses:
            self.node.trace.record("allocate-failed", devices=ids, detail="no container response", **where)
            # The ids stay allocated until something makes the kubelet count again.
            raise AllocationError(f"no containers return in allocation response {self._empty_response()}")
        self.manager.give(pod, container, resource, ids, responses[0])
        self.node.trace.record("allocated", devices=ids, **where)

    def _empty_response(self) -> str:
        if not self.node.version.prints_types_of_messages:
            return ""
        return "&AllocateResponse{ContainerResponses:[]*ContainerAllocateResponse{},}"

    def client(self, resource: str, endpoint: Endpoint, *, error_prefix: str = "") -> PluginClient:
        """The live connection behind `endpoint`.

        Raises:
            AllocationError: there is none any more. The text begins with `error_prefix`.
        """
        client = self.plugins.client(endpoint.serial)
        if endpoint.stopped_at is not None:
            raise AllocationError(
                f"{error_prefix}endpoint {self._printed(resource, endpoint)} has been stopped"
            )
        if client is None:
            raise AllocationError(f"{error_prefix}rpc error: code = Unavailable desc = connection error")
        return client

    def _printed(self, resource: str, endpoint: Endpoint) -> str:
        """An endpoint as Go prints the kubelet's own structure; its addresses and its time stand for any."""
        # The change after which each socket has an endpoint of its own also gave it to the structure.
        socket = "" if self.node.version.old_stream_end_kills_new else f" {endpoint.socket}"
        stopped = "{14031015326927229604 5829365553 0x5498020}"
        return f"&{{{{{{}} {{0 0}}}} {resource}{socket} 0xc000a1b2c0 {stopped} <nil>}}"


@dataclass(slots=True)
class Admission:
    """Decides about one pod after the other."""

    node: Node
    manager: DeviceManager
    allocator: Allocator

    async def admit(self, record: PodRecord) -> Rejection | None:
        """Lets one pod through all checks; returns why it is rejected.

        Raises:
            KubeletCrash: the real kubelet would be gone.
        """
        try:
            for container in record.pod.in_order():
                await self.allocator.allocate(record.pod, container)
        except AllocationError as error:
            return Rejection(
                UNEXPECTED, f"Pod was rejected: Allocate failed due to {error}, which is unexpected"
            )
        return self.node.admission_hook(record.pod) or self._fits(record.pod)

    def _fits(self, pod: Pod) -> Rejection | None:
        """The predicate on extended resources: what the node is known to have must suffice.

        Devices the device manager has given always suffice, and what the node never had does not count.
        """
        for resource in sorted({name for container in pod.in_order() for name in container.limits}):
            if resource not in self.node.status:
                continue
            allocatable = max(self.node.status[resource][1], len(self.manager.allocated.get(resource, ())))
            requested = needed(pod, resource)
            used = sum(
                needed(other.pod, resource)
                for other in self.node.pods.values()
                if other.pod.uid != pod.uid and other.admitted and not other.is_over
            )
            if requested + used > allocatable:
                return Rejection(
                    f"OutOf{resource}",
                    f"Pod was rejected: Node didn't have enough resource: {resource}, "
                    f"requested: {requested}, used: {used}, capacity: {allocatable}",
                )
        return None


def needed(pod: Pod, resource: str) -> int:
    """How many devices a pod counts for: its main containers together, or its greediest init step."""
    sidecars = most = 0
    for init in pod.init_containers:
        asked = _asked(init, resource)
        if init.restart_policy is None:
            most = max(most, sidecars + asked)
        else:
            sidecars += asked
            most = max(most, sidecars)
    return max(most, sidecars + sum(_asked(container, resource) for container in pod.containers))


def _asked(container: Container, resource: str) -> int:
    return 0 if resource in container.dra_backed else container.limits.get(resource, 0)
