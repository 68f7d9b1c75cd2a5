"""The pools of devices that one node can use, as kube-scheduler gathers them (pools_incubating.go)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelet.claims.slices import Counters, ListedDevice, NodeReach, ResourceSlice
from accelet.scheduler.cluster.eligibility import matches


@dataclass(frozen=True, slots=True)
class TriedNode:
    """A node, as far as devices look at it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def is_reached(self, reach: NodeReach) -> bool:
        """Whether what has this reach can be used on the node."""
        if reach.node is not None:
            return reach.node == self.name
        if reach.is_everywhere:
            return True
        return any(matches(term, self.labels, self.name) for term in reach.terms or ())


@dataclass(frozen=True, slots=True)
class Pool:
    """One driver's pool. `devices` are in order of preference; those of `elsewhere` are of other nodes alone.

    `problem` says why no device of it is given: it is being updated, or contradicts itself.
    """

    driver: str
    name: str
    devices: tuple[ListedDevice, ...] = ()
    elsewhere: tuple[ListedDevice, ...] = ()
    counters: Counters = field(default_factory=dict)
    problem: str | None = None
    is_invalid: bool = False

    @property
    def waits_for_driver(self) -> bool:
        return any(device.waits_for_driver for device in self.devices)


_Key = tuple[str, str]


class SliceIndex:
    """All slices of a cluster, so that each node looks only at its own and those that several nodes share."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._of_node: dict[str, list[ResourceSlice]] = defaultdict(list)
        self._shared: list[ResourceSlice] = []
        self._of_pool: dict[_Key, list[ResourceSlice]] = defaultdict(list)
        for one in slices:
            self._of_pool[one.driver, one.pool].append(one)
            if one.reach is not None and one.reach.node is not None and not one.counters:
                self._of_node[one.reach.node].append(one)
            else:
                self._shared.append(one)

    def pools(self, place: TriedNode) -> tuple[Pool, ...]:
        """The pools that `place` can use, in kube-scheduler's order of preference.

        Pools without devices that wait for their driver come first; then it goes by driver and name.
        """
        here: dict[_Key, list[ResourceSlice]] = defaultdict(list)
        for one in (*self._of_node.get(place.name, ()), *self._shared):
            if one.counters or any(place.is_reached(reach) for reach in _reaches(one)):
                here[one.driver, one.pool].append(one)
        found = [_pool(key, _newest(ours), self._of_pool[key]) for key, ours in here.items()]
        there = [pool for pool in found if pool is not None]
        return tuple(sorted(there, key=lambda pool: (pool.waits_for_driver, pool.driver, pool.name)))


def _reaches(one: ResourceSlice) -> Iterator[NodeReach]:
    if one.reach is not None:
        yield one.reach
        return
    yield from (device.reach for device in one.devices if device.reach is not None)


def _newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    given = list(slices)
    newest = max(one.generation for one in given)
    return sorted((one for one in given if one.generation == newest), key=lambda one: one.name)


def _pool(key: _Key, ours: Sequence[ResourceSlice], everywhere: Iterable[ResourceSlice]) -> Pool | None:
    """The pool of these slices; None if a newer generation of it has nothing for this node."""
    driver, name = key
    wanted, generation = ours[0].slice_count, ours[0].generation
    others: list[ResourceSlice] = []
    if len(ours) != wanted:
        whole = _newest(everywhere)
        if whole[0].generation > generation:
            return None
        if len(whole) != wanted:
            return Pool(driver, name, problem="is currently being updated")
        known = {one.name for one in ours}
        others = [one for one in whole if one.name not in known]
    devices = [device for one in ours if not one.counters for device in one.devices]
    elsewhere = [device for one in others for device in one.devices]
    counters = {set_name: amounts for one in ours for set_name, amounts in one.counters.items()}
    problem = _contradiction(ours, devices, [*devices, *elsewhere], counters)
    if problem is not None:
        return Pool(driver, name, problem=problem, is_invalid=True)
    return Pool(driver, name, tuple(devices), tuple(elsewhere), counters)


def _contradiction(
    slices: Sequence[ResourceSlice],
    devices: Sequence[ListedDevice],
    all_devices: Sequence[ListedDevice],
    counters: Counters,
) -> str | None:
    if twice := _first_twice(device.id.name for device in devices):
        return f"has two devices {twice}"
    if any(one.has_counters_twice for one in slices):
        return "has a counter set twice"
    if twice := _first_twice(name for one in slices for name in one.counters):
        return f"has the counter set {twice} twice"
    for device in all_devices:
        for set_name, amounts in device.draws.items():
            if set_name not in counters:
                return f"has no counter set {set_name}, from which {device.id.name} draws"
            if lacking := [name for name in amounts if name not in counters[set_name]]:
                return f"has no counter {lacking[0]} in {set_name}, from which {device.id.name} draws"
    return None


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
