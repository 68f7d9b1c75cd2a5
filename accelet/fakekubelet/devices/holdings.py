"""Which container holds which devices, as the kubelet remembers it and writes it to its checkpoint."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelet.fakekubelet.devices.checksum import checksum
from accelet.fakekubelet.pods import PodUid

NO_NUMA_NODE = -1
"""Where the kubelet puts devices that name no NUMA node."""


@dataclass(frozen=True, slots=True)
class Held:
    """One container's devices of one resource: ids by NUMA node, and the plugin's answer, serialized.

    A device of two NUMA nodes is under both.
    """

    by_numa_node: Mapping[int, tuple[str, ...]]
    response: bytes

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(device for ids in self.by_numa_node.values() for device in ids)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the record."""

    pod: PodUid
    container: str
    resource: str
    held: Held


class Holdings:
    """The record itself: pod, container, resource to what is held."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._pods: dict[PodUid, dict[str, dict[str, Held]]] = {}
        for entry in entries:
            self.insert(entry)

    def __iter__(self) -> Iterator[Entry]:
        for pod, containers in self._pods.items():
            for container, resources in containers.items():
                for resource, held in resources.items():
                    yield Entry(pod, container, resource, held)

    def pods(self) -> frozenset[PodUid]:
        return frozenset(self._pods)

    def insert(self, entry: Entry) -> None:
        self._pods.setdefault(entry.pod, {}).setdefault(entry.container, {})[entry.resource] = entry.held

    def delete(self, pods: Iterable[PodUid]) -> None:
        for pod in pods:
            self._pods.pop(pod, None)

    def of_container(self, pod: PodUid, container: str) -> Mapping[str, Held]:
        """What the container holds, by resource."""
        return self._pods.get(pod, {}).get(container, {})

    def holder(self, device: str) -> tuple[PodUid, str] | None:
        """The pod and container that hold `device`, of whatever resource: the kubelet looks no closer."""
        return next(((entry.pod, entry.container) for entry in self if device in entry.held.ids), None)

    def ids_by_resource(self) -> dict[str, set[str]]:
        ids: dict[str, set[str]] = {}
        for entry in self:
            ids.setdefault(entry.resource, set()).update(entry.held.ids)
        return ids


class CorruptCheckpointError(Exception):
    """The checkpoint cannot be used."""


def write_checkpoint(holdings: Holdings, registered: Mapping[str, Sequence[str]]) -> str:
    """The text of kubelet_internal_checkpoint; `registered` are the healthy ids by resource."""
    entries = [
        {
            "PodUID": entry.pod,
            "ContainerName": entry.container,
            "ResourceName": entry.resource,
            "DeviceIDs": {str(node): list(ids) for node, ids in sorted(entry.held.by_numa_node.items())},
            "AllocResp": base64.b64encode(entry.held.response).decode(),
        }
        for entry in holdings
    ]
    data = {
        "PodDeviceEntries": entries or None,
        "RegisteredDevices": {resource: list(ids) for resource, ids in sorted(registered.items())},
    }
    return json.dumps({"Data": data, "Checksum": checksum(data)}, separators=(",", ":"), ensure_ascii=False)


def read_checkpoint(text: str) -> tuple[Holdings, list[str]]:
    """What a checkpoint says: who holds what, and the resources that were registered.

    Raises:
        CorruptCheckpointError: it is no JSON, has another shape, or its checksum does not fit.
    """
    try:
        document = json.loads(text)
        data = document["Data"]
        is_whole = checksum(data) == document["Checksum"]
        holdings = Holdings(_entry(entry) for entry in data["PodDeviceEntries"] or ())
        registered = list(data["RegisteredDevices"] or ())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptCheckpointError(f"cannot be read: {error!r}") from error
    if not is_whole:
        raise CorruptCheckpointError("checkpoint is corrupted: its checksum does not fit its data")
    return holdings, registered


# Parsed JSON of unknown shape: what is wrong with it raises, and read_checkpoint says so.
def _entry(entry: Any) -> Entry:
    by_node = {int(node): tuple(ids) for node, ids in entry["DeviceIDs"].items()}
    response = base64.b64decode(entry["AllocResp"] or "", validate=True)
    return Entry(
        PodUid(entry["PodUID"]), entry["ContainerName"], entry["ResourceName"], Held(by_node, response)
    )
