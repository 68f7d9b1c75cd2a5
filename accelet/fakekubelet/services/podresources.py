"""The podresources API v1: what the kubelet tells others about who holds what."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import grpc
import grpc.aio

from accelet.fakekubelet.claims.cache import PreparedDevice
from accelet.fakekubelet.claims.service import ClaimService
from accelet.fakekubelet.clock import Clock
from accelet.fakekubelet.devices.devicemanager import DeviceManager
from accelet.fakekubelet.devices.holdings import NO_NUMA_NODE
from accelet.fakekubelet.node import Node, PodRecord
from accelet.fakekubelet.pods import Container, Pod, PodUid
from accelet.kubelet.api import podresources_pb2 as api
from accelet.kubelet.api import podresources_pb2_grpc as rpc

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")

_QUERIES_PER_S: Final = 100.0
_BURST: Final = 10.0


class RateLimiter:
    """One bucket for all clients: 100 calls a second, 10 at once, and no waiting (from 1.27)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens = _BURST
        self._at = clock.now()

    def allows(self) -> bool:
        """Whether one more call may pass now, which uses it up."""
        now = self._clock.now()
        self._tokens = min(_BURST, self._tokens + (now - self._at) * _QUERIES_PER_S)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class PodResources(rpc.PodResourcesListerServicer):
    """Answers List, Get and GetAllocatableResources.

    `pods` are those the kubelet knows, the one under admission included, those not yet reached not.
    """

    def __init__(
        self,
        node: Node,
        manager: DeviceManager,
        pods: Mapping[PodUid, PodRecord],
        free_dead: Callable[[], None],
        claims: ClaimService | None = None,
    ) -> None:
        self._node = node
        self._manager = manager
        self._pods = pods
        self._free_dead = free_dead
        self._claims = claims
        self._limiter = RateLimiter(node.clock)

    async def List(  # noqa: N802 - the wire's name
        self,
        request: api.ListPodResourcesRequest,
        context: grpc.aio.ServicerContext[api.ListPodResourcesRequest, api.ListPodResourcesResponse],
    ) -> api.ListPodResourcesResponse:
        await self._admit_call("List", context)
        visible = [record.pod for record in self._pods.values() if self._is_visible(record)]
        # A side effect on whoever is allocating right now, up to 1.37.
        self._free_dead()
        self._node.rng.shuffle(visible)
        return api.ListPodResourcesResponse(pod_resources=[self._pod(pod) for pod in visible])

    async def Get(  # noqa: N802 - the wire's name
        self,
        request: api.GetPodResourcesRequest,
        context: grpc.aio.ServicerContext[api.GetPodResourcesRequest, api.GetPodResourcesResponse],
    ) -> api.GetPodResourcesResponse:
        await self._admit_call(f"Get {request.pod_namespace}/{request.pod_name}", context)
        if not self._node.version.serves_get:
            await context.abort(grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled")
        pod = self._named(request.pod_namespace, request.pod_name)
        if pod is None:
            name, namespace = request.pod_name, request.pod_namespace
            await context.abort(grpc.StatusCode.UNKNOWN, f"pod {name} in namespace {namespace} not found")
        return api.GetPodResourcesResponse(pod_resources=self._pod(pod))

    async def GetAllocatableResources(  # noqa: N802 - the wire's name
        self,
        request: api.AllocatableResourcesRequest,
        context: grpc.aio.ServicerContext[api.AllocatableResourcesRequest, api.AllocatableResourcesResponse],
    ) -> api.AllocatableResourcesResponse:
        await self._admit_call("GetAllocatableResources", context)
        return api.AllocatableResourcesResponse(devices=self._allocatable())

    async def _admit_call(self, what: str, context: grpc.aio.ServicerContext[_Request, _Response]) -> None:
        if not self._limiter.allows():
            self._node.trace.record("podresources-limited", detail=what)
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self._node.trace.record("podresources", detail=what)
        await self._node.faults.pod_resources.suffer(self._node.clock, context)

    def _named(self, namespace: str, name: str) -> Pod | None:
        visible = (record.pod for record in self._pods.values() if self._is_visible(record))
        return next((pod for pod in visible if (pod.namespace, pod.name) == (namespace, name)), None)

    def _is_visible(self, record: PodRecord) -> bool:
        return not self._node.version.lists_only_active_pods or record.is_active

    def _pod(self, pod: Pod) -> api.PodResources:
        shown = [
            container
            for container in pod.in_order()
            if not pod.is_plain_init(container.name)
            and (self._node.version.lists_sidecars or container not in pod.init_containers)
        ]
        return api.PodResources(
            name=pod.name,
            namespace=pod.namespace,
            containers=[
                api.ContainerResources(
                    name=container.name,
                    devices=self._held(pod.uid, container.name),
                    dynamic_resources=self._claimed(pod, container),
                )
                for container in shown
            ],
        )

    def _claimed(self, pod: Pod, container: Container) -> Iterator[api.DynamicResource]:
        """From 1.34, where the gate is on by default."""
        if self._claims is None or not self._node.version.serves_get:
            return
        for info in self._claims.manager.used_by(pod, container):
            yield api.DynamicResource(
                claim_name=info.name,
                claim_namespace=info.namespace,
                claim_resources=[
                    resource
                    for driver, devices in info.devices.items()
                    for resource in _claim_resources(driver, devices)
                ],
            )

    def _held(self, pod: PodUid, container: str) -> Iterator[api.ContainerDevices]:
        for resource, held in self._manager.holdings.of_container(pod, container).items():
            for node, ids in held.by_numa_node.items():
                for device in ids:
                    yield _entry(resource, device, None if node == NO_NUMA_NODE else node)

    def _allocatable(self) -> Iterator[api.ContainerDevices]:
        """Healthy devices; one with an empty topology falls out, one with two nodes comes twice."""
        for resource, healthy in self._manager.healthy.items():
            for device in self._manager.devices.get(resource, {}).values():
                if device.id not in healthy:
                    continue
                for node in (None,) if device.numa_nodes is None else device.numa_nodes:
                    yield _entry(resource, device.id, node)


def _claim_resources(driver: str, devices: Iterable[PreparedDevice]) -> Iterator[api.ClaimResource]:
    """What a driver prepared for a claim; each device has the CDI devices of those before it too.

    So it is up to Kubernetes 1.37 (cm/container_manager_linux.go, GetDynamicResources).
    """
    names: list[str] = []
    for device in devices:
        names += device.cdi_ids
        yield api.ClaimResource(
            cdi_devices=[api.CDIDevice(name=name) for name in names],
            driver_name=driver,
            pool_name=device.pool,
            device_name=device.device,
            share_id=device.share,
        )


def _entry(resource: str, device: str, node: int | None) -> api.ContainerDevices:
    topology = None if node is None else api.TopologyInfo(nodes=[api.NUMANode(ID=node)])
    return api.ContainerDevices(resource_name=resource, device_ids=[device], topology=topology)
