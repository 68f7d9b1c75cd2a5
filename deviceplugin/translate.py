"""Our values as device plugin messages."""

from collections.abc import Iterable, Mapping

from accelet.accelerators.device import Device
from accelet.accelerators.edits import ContainerEdits
from accelet.kubelet.api import deviceplugin_pb2 as api
from resourcemanager.listing import Listing

MAX_MESSAGE_BYTES = 4 << 20
"""The kubelet's gRPC client takes no larger list; it would drop the plugin and never come back."""

_UNHEALTHY_BYTES = 15
_TOPOLOGY_BYTES = 2
_NUMA_NODE_BYTES = 5
"""What an Unhealthy entry takes beside its id, then at most for a topology and each NUMA node in it."""


def to_list_message(listing: Listing) -> api.ListAndWatchResponse:
    return api.ListAndWatchResponse(
        devices=[
            api.Device(
                ID=device,
                health="Healthy" if entry.health.is_healthy else "Unhealthy",
                topology=_to_topology(entry.numa_nodes),
            )
            for device, entry in listing.entries.items()
        ]
    )


def _to_topology(numa_nodes: tuple[int, ...]) -> api.TopologyInfo | None:
    # An empty TopologyInfo would hide the device from the kubelet's list of allocatable ones.
    if not numa_nodes:
        return None
    return api.TopologyInfo(nodes=[api.NUMANode(ID=node) for node in numa_nodes])


def worst_list_bytes(devices: Iterable[Device]) -> int:
    """The most bytes the list message has should every device be Unhealthy."""
    return sum(
        len(device.id)
        + _UNHEALTHY_BYTES
        + (_TOPOLOGY_BYTES + _NUMA_NODE_BYTES * len(device.numa_nodes) if device.numa_nodes else 0)
        for device in devices
    )


def to_allocate_message(
    edits: ContainerEdits, annotations: Mapping[str, str]
) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=edits.environment,
        annotations=annotations,
        mounts=[
            api.Mount(container_path=m.container_path, host_path=m.host_path, read_only=m.read_only)
            for m in edits.mounts
        ],
        devices=[
            api.DeviceSpec(container_path=n.container_path, host_path=n.host_path, permissions=n.permissions)
            for n in edits.nodes
        ],
        cdi_devices=[api.CDIDevice(name=name) for name in edits.cdi_names],
    )
