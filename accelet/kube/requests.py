"""How much of a node a pod takes, as kube-scheduler counts it.

The rules are those of Kubernetes 1.36, component-helpers/resource/helpers.go and pkg/scheduler/framework.
"""

from collections.abc import Iterable, Mapping
from math import ceil

from accelet.kube.objects import NO_AMOUNTS, Amounts
from accelet.kube.pods import Container, Pod
from accelet.kube.quantity import Quantity

SchedulingUnits = Mapping[str, int]
"""Amounts by resource name as kube-scheduler compares them: `cpu` in millicores, the rest in whole units."""


def scheduling_units(resources: Amounts) -> SchedulingUnits:
    """Each amount rounded up to kube-scheduler's unit, for what a pod takes and what a node has alike."""
    return {
        name: ceil(amount * 1000) if name == "cpu" else ceil(amount) for name, amount in resources.items()
    }


def pod_units(pod: Pod) -> SchedulingUnits:
    """What kube-scheduler takes off a node for `pod`, with its place in the node's `pods` as `pods: 1`."""
    return {**scheduling_units(pod_requests(pod)), "pods": 1}


def pod_requests(pod: Pod) -> Amounts:
    """The exact request of the whole pod.

    Containers and sidecars together, or the highest moment of initialisation, whichever is more; pod-level
    requests take their place for cpu, memory and huge pages; overhead is added. During an in-place resize
    the most of what is asked, allocated and in effect counts.
    """
    infeasible = any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.conditions)
    total = _sum(_effective(pod, container, infeasible) for container in pod.containers)
    started: Amounts = NO_AMOUNTS
    peak: Amounts = NO_AMOUNTS
    for container in pod.init_containers:
        if container.is_sidecar:
            started = _sum((started, _effective(pod, container, infeasible)))
        else:
            peak = _most((peak, _sum((started, container.requests))))
    total = _most((_sum((total, started)), peak))
    return _sum(({**total, **_level_requests(pod, infeasible)}, pod.overhead))


def _effective(pod: Pod, container: Container, infeasible: bool) -> Amounts:
    status = pod.statuses.get(container.name)
    if status is None or status.actuated is None:
        return container.requests
    wanted = NO_AMOUNTS if infeasible else container.requests
    return _most((wanted, status.actuated, status.allocated or NO_AMOUNTS))


def _level_requests(pod: Pod, infeasible: bool) -> Amounts:
    spec = {
        name: amount
        for name, amount in pod.level_requests.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }
    if not spec or pod.level_actuated is None:
        return spec
    wanted = NO_AMOUNTS if infeasible else spec
    effective = _most((wanted, pod.level_actuated, pod.level_allocated or NO_AMOUNTS))
    return {name: effective.get(name, 0) for name in spec}


def _sum(lists: Iterable[Amounts]) -> Amounts:
    total: dict[str, Quantity] = {}
    for resources in lists:
        for name, amount in resources.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _most(lists: Iterable[Amounts]) -> Amounts:
    most: dict[str, Quantity] = {}
    for resources in lists:
        for name, amount in resources.items():
            most[name] = max(most[name], amount) if name in most else amount
    return most
