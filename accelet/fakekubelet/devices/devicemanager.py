"""The kubelet's device manager without its wire: which devices there are, who holds them, what is free."""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from accelet.fakekubelet.behaviour import KubeletVersion
from accelet.fakekubelet.devices.holdings import NO_NUMA_NODE, Entry, Held, Holdings, write_checkpoint
from accelet.fakekubelet.pods import Container, Pod, PodUid

HEALTHY = "Healthy"
"""The one word that means healthy; every other one means not."""

STOP_GRACE_S = 300.0
"""How long a resource whose plugin is gone keeps its capacity."""


class AllocationError(Exception):
    """A container cannot get its devices. The text is the kubelet's own."""


class KubeletCrash(Exception):  # noqa: N818 - it is no error of the fake, but what it is there to show
    """The real kubelet would have panicked here, and the fake is down too. The text says why."""


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device as a plugin lists it. `numa_nodes` is None without a topology, empty with an empty one."""

    id: str
    health: str = HEALTHY
    numa_nodes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """What GetDevicePluginOptions answered."""

    pre_start_required: bool = False
    prefers: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Who answers for a resource. `serial` counts registrations; 0 is a placeholder from the checkpoint.

    `socket` is the plugin's path, empty for a placeholder. `stopped_at` is when the plugin was lost, on the
    kubelet's clock.
    """

    serial: int
    options: PluginOptions = PluginOptions()
    socket: str = ""
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True)
class PreferenceQuestion:
    """What GetPreferredAllocation is to be asked; ids in the order in which they are sent."""

    endpoint: Endpoint
    available: tuple[str, ...]
    must_include: tuple[str, ...]
    size: int


Choice = Generator[PreferenceQuestion, Iterable[str], tuple[str, ...]]
"""Yields what to ask the plugin, is sent its wish, and returns the chosen ids; none if none are needed."""


@dataclass(slots=True)
class DeviceManager:
    """One kubelet's knowledge, from its start to its end. Every method is synchronous and takes no time.

    The same steps in the same order as Kubernetes 1.36, pkg/kubelet/cm/devicemanager/manager.go.
    `is_active` says whether a pod is among the kubelet's active ones; `was_running` whether the runtime
    reported a container as running when this kubelet started.
    """

    version: KubeletVersion
    rng: Random
    is_active: Callable[[PodUid], bool]
    was_running: Callable[[PodUid, str], bool]
    holdings: Holdings = field(default_factory=Holdings)
    sources_ready: bool = False
    lists: dict[str, tuple[PluginDevice, ...]] = field(default_factory=dict)
    devices: dict[str, dict[str, PluginDevice]] = field(default_factory=dict)
    healthy: dict[str, set[str]] = field(default_factory=dict)
    unhealthy: dict[str, set[str]] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    allocated: dict[str, set[str]] = field(default_factory=dict)
    in_flight: dict[str, set[str]] = field(default_factory=dict)

    def restore(self, holdings: Holdings, registered: Iterable[str], now: float) -> None:
        """Takes over a checkpoint: held ids stay held, and the resources have no device until they return."""
        self.holdings = holdings
        self.allocated = holdings.ids_by_resource()
        for resource in registered:
            self.healthy[resource] = set()
            self.unhealthy[resource] = set()
            self.endpoints[resource] = Endpoint(serial=0, stopped_at=now)

    # Plugins come, speak and go.

    def connect(self, resource: str, endpoint: Endpoint) -> None:
        self.endpoints[resource] = endpoint

    def disconnect(self, resource: str, now: float) -> None:
        """All devices of the resource become unhealthy at once, and its grace period begins."""
        endpoint = self.endpoints.get(resource)
        if endpoint is None:
            return
        healthy = self.healthy.get(resource)
        self.unhealthy.setdefault(resource, set()).update(healthy or ())
        if healthy is not None:
            self.healthy[resource] = set()
        self.endpoints[resource] = replace(endpoint, stopped_at=now)

    def update(self, resource: str, devices: Iterable[PluginDevice]) -> None:
        """Replaces the resource's list. An id that is listed twice counts in both states."""
        self.lists[resource] = tuple(devices)
        self.devices[resource] = {}
        self.healthy[resource] = set()
        self.unhealthy[resource] = set()
        for device in self.lists[resource]:
            self.devices[resource][device.id] = device
            (self.healthy if device.health == HEALTHY else self.unhealthy)[resource].add(device.id)

    def capacity(self, now: float) -> dict[str, tuple[int, int]]:
        """Capacity and allocatable by resource, without those whose grace period is over."""
        known = self.healthy.keys() | self.unhealthy.keys()
        return {
            resource: (
                len(self.healthy.get(resource, ())) + len(self.unhealthy.get(resource, ())),
                len(self.healthy.get(resource, ())),
            )
            for resource in sorted(known)
            if not self._is_gone(resource, now)
        }

    def forget_gone(self, now: float) -> list[str]:
        """Drops the resources whose grace period is over, and says which."""
        known = self.healthy.keys() | self.unhealthy.keys()
        gone = sorted(resource for resource in known if self._is_gone(resource, now))
        for resource in gone:
            for table in (self.endpoints, self.healthy, self.unhealthy):
                table.pop(resource, None)
        return gone

    def _is_gone(self, resource: str, now: float) -> bool:
        endpoint = self.endpoints.get(resource)
        if endpoint is None:
            return True
        return endpoint.stopped_at is not None and now - endpoint.stopped_at > STOP_GRACE_S

    def has_listed(self, resource: str) -> bool:
        """Whether the node's status has anything to say of this resource."""
        return resource in self.healthy or resource in self.unhealthy

    def is_known(self, resource: str) -> bool:
        """Whether the device manager, and not somebody else, provides this resource."""
        return resource in self.healthy or resource in self.allocated

    def checkpoint(self) -> str:
        """The text of kubelet_internal_checkpoint."""
        healthy = {resource: self._shuffled(ids) for resource, ids in self.healthy.items()}
        return write_checkpoint(self.holdings, healthy)

    # Devices are reserved, given and taken back.

    def free_dead(self) -> frozenset[PodUid]:
        """Takes back the devices of pods that are no longer active, and says whose.

        Up to 1.37 this forgets what is reserved by an Allocate that is under way.
        """
        if not self.sources_ready:
            return frozenset()
        dead = frozenset(pod for pod in self.holdings.pods() if not self.is_active(pod))
        if dead:
            self.holdings.delete(dead)
            self.recount(keep_in_flight=not self.version.loses_reservations_in_flight)
        return dead

    def recount(self, *, keep_in_flight: bool = False) -> None:
        """Makes the allocated ids those that somebody holds."""
        self.allocated = self.holdings.ids_by_resource()
        if keep_in_flight:
            for resource, ids in self.in_flight.items():
                self.allocated.setdefault(resource, set()).update(ids)

    def choose(
        self, pod: Pod, container: Container, resource: str, required: int, reusable: Iterable[str]
    ) -> Choice:
        """Reserves `required` devices, preferring `reusable` ones, then those the plugin wishes.

        Raises:
            AllocationError: the kubelet would reject the pod.
        """
        held = self.holdings.of_container(pod.uid, container.name).get(resource)
        already = held.ids if held is not None else frozenset()
        if held is not None and len(already) != required:
            raise AllocationError(
                f'pod "{pod.uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {len(already)} to {required}"
            )
        if not self.sources_ready and self.was_running(pod.uid, container.name):
            return ()
        self._refuse_unusable(resource, already)
        if len(already) == required:
            return ()
        return (yield from _Chooser(self, resource, required).choose(container, reusable))

    def _refuse_unusable(self, resource: str, already: frozenset[str]) -> None:
        if resource not in self.healthy:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        if not self.healthy[resource]:
            raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not already <= self.healthy[resource]:
            raise AllocationError(
                "previously allocated devices are no longer healthy; "
                f"cannot allocate unhealthy devices {resource}"
            )

    def give(
        self, pod: Pod, container: Container, resource: str, ids: Iterable[str], response: bytes
    ) -> None:
        """Records what the container got, with the plugin's serialized answer.

        Raises:
            KubeletCrash: an id is no longer listed (from 1.34).
        """
        by_node: dict[int, list[str]] = {}
        for device_id in ids:
            device = self.devices.get(resource, {}).get(device_id)
            if device is None and self.version.crashes_on_vanished_id:
                raise KubeletCrash(
                    f"kubelet {self.version} panics with a nil dereference: {device_id} of {resource} left "
                    f"the plugin's list while it was being allocated to {pod}; list it as Unhealthy instead"
                )
            nodes = device.numa_nodes if device is not None else None
            for node in nodes or (NO_NUMA_NODE,):
                by_node.setdefault(node, []).append(device_id)
        held = Held({node: tuple(devices) for node, devices in by_node.items()}, response)
        self.holdings.insert(Entry(pod.uid, container.name, resource, held))

    def land(self, resource: str, ids: Iterable[str]) -> None:
        """The allocation that reserved `ids` is over, well or not."""
        self.in_flight.get(resource, set()).difference_update(ids)

    def _shuffled(self, ids: Iterable[str]) -> list[str]:
        """In an order that only the seed decides, as Go's maps have none."""
        ordered = sorted(ids)
        self.rng.shuffle(ordered)
        return ordered


class _Chooser:
    """One container's choice of one resource, step by step."""

    def __init__(self, manager: DeviceManager, resource: str, required: int) -> None:
        self.manager = manager
        self.resource = resource
        self.required = required
        self.chosen: dict[str, None] = {}

    def choose(self, container: Container, reusable: Iterable[str]) -> Choice:
        succeeded = False
        try:
            answer = yield from self._choose(container, reusable)
            succeeded = True
        finally:
            # What was reserved before it failed stays allocated until the next recount, as in the kubelet.
            if not succeeded:
                self.manager.land(self.resource, self.chosen)
        return answer

    def _choose(self, container: Container, reusable: Iterable[str]) -> Choice:
        manager, resource = self.manager, self.resource
        if self._take(reusable):
            return self._answer()
        available = manager.healthy[resource] - manager.allocated.get(resource, set())
        missing = self.required - len(self.chosen)
        if len(available) < missing:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {missing}, Available: {len(available)}"
            )
        aligned, unaligned, without_node = self._by_affinity(available, container.numa_affinity)
        if missing < len(aligned):
            preferred = yield from self._ask(aligned)
            done = self._take(preferred & aligned) or self._take(aligned)
        elif self._take(aligned):
            done = True
        else:
            preferred = yield from self._ask(available)
            done = self._take(preferred & available) or self._take(unaligned) or self._take(without_node)
        if not done:
            raise AllocationError(
                "unexpectedly allocated less resources than required. "
                f"Requested: {self.required}, Got: {len(self.chosen)}"
            )
        return self._answer()

    def _take(self, ids: Iterable[str]) -> bool:
        """Reserves some of `ids` until there are enough, and says whether there are."""
        allocated = self.manager.allocated.setdefault(self.resource, set())
        for device in self.manager._shuffled(set(ids) - self.chosen.keys()):  # noqa: SLF001 - one unit
            allocated.add(device)
            self.manager.in_flight.setdefault(self.resource, set()).add(device)
            self.chosen[device] = None
            if len(self.chosen) == self.required:
                return True
        return False

    def _answer(self) -> tuple[str, ...]:
        return tuple(self.manager._shuffled(self.chosen))  # noqa: SLF001 - one unit

    def _ask(self, among: set[str]) -> Generator[PreferenceQuestion, Iterable[str], set[str]]:
        endpoint = self.manager.endpoints.get(self.resource)
        if endpoint is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {self.resource}")
        if not endpoint.options.prefers:
            return set()
        shuffled = self.manager._shuffled  # noqa: SLF001 - one unit
        available = tuple(shuffled(among | self.chosen.keys()))
        return set((yield PreferenceQuestion(endpoint, available, self._answer(), self.required)))

    def _by_affinity(
        self, available: set[str], mask: frozenset[int] | None
    ) -> tuple[set[str], set[str], set[str]]:
        """Devices of a NUMA node in the mask, of another one, of none."""
        nodes: Mapping[str, tuple[int, ...]] = {
            device.id: device.numa_nodes or () for device in self.manager.devices[self.resource].values()
        }
        if mask is None or not any(nodes.values()):
            return set(), set(), available
        aligned = {device for device in available if mask & set(nodes[device])}
        without_node = {device for device in available if not nodes[device]}
        return aligned, available - aligned - without_node, without_node
