"""From what the scans found to the pool that is published, within what Kubernetes takes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accelet.dra.names import FILES_DRIVER, GPU_DRIVER, TPU_DRIVER
from accelet.dra.pool import DevicePool
from accelet.dra.publishing.features import ALL, Features, limit_pool
from accelet.dra.publishing.files import file_devices
from accelet.dra.publishing.gpus import gpu_devices
from accelet.dra.publishing.served import ServedResource, units_of
from accelet.dra.publishing.tpus import tpu_devices

MOST_DEVICES = 4096
"""Of one driver on one node: 64 slices. The scheduler looks at each of them for each claim."""


def build_pool(driver: str, node: str, resources: Sequence[ServedResource]) -> DevicePool:
    """What `driver` publishes of its resources on `node`; what does not fit is left out, and said."""
    pool = _build(driver, node, resources)
    if len(pool.devices) <= MOST_DEVICES:
        return pool
    kept = pool.devices[:MOST_DEVICES]
    used = {device.counter_set for device in kept}
    said = f"{len(pool.devices)} devices are too many: the first {MOST_DEVICES} are published"
    sets = tuple(one for one in pool.counter_sets if one.name in used)
    return replace(pool, devices=kept, counter_sets=sets, left_out=(*pool.left_out, said))


def build_pools(
    node: str, resources: Mapping[str, Sequence[ServedResource]], features: Features = ALL
) -> tuple[DevicePool, ...]:
    """The pool of each driver, for an API server with these features; `resources` by driver."""
    return tuple(
        limit_pool(build_pool(driver, node, served), features) for driver, served in resources.items()
    )


def _build(driver: str, node: str, resources: Sequence[ServedResource]) -> DevicePool:
    if driver == GPU_DRIVER:
        gpus = gpu_devices(units_of(resources))
        return DevicePool(driver, node, gpus.counter_sets, gpus.devices, gpus.left_out)
    if driver == TPU_DRIVER:
        tpus = [tpu_devices(resource) for resource in resources]
        return DevicePool(
            driver,
            node,
            tuple(one for host in tpus for one in host.counter_sets),
            tuple(one for host in tpus for one in host.devices),
            tuple(one for host in tpus for one in host.left_out),
        )
    assert driver == FILES_DRIVER, driver
    return DevicePool(driver, node, devices=file_devices(units_of(resources)))
