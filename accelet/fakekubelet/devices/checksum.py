"""The checksum in the kubelet's device checkpoint: FNV-1a over how Go prints the data."""

import base64
from typing import Any

# The document is JSON that anyone may have written; its reader catches what a wrong shape raises here.
_Json = Any


def checksum(data: _Json) -> int:
    """The 32 bit checksum of a checkpoint's `Data`, given as parsed JSON.

    The kubelet hashes the text that go-spew prints for its Go value, so the text has to be the same
    to the letter: types in brackets, map keys in order, nil apart from empty (Kubernetes 1.36,
    pkg/kubelet/checkpointmanager/checksum and k8s.io/utils/dump).

    Raises:
        KeyError, TypeError, ValueError, AttributeError: `data` has another shape.
    """
    entries = _list(data["PodDeviceEntries"], _entry)
    registered = _map({key: _list(ids, str) for key, ids in sorted(_items(data["RegisteredDevices"]))})
    if data["RegisteredDevices"] is None:
        registered = "<nil>"
    text = (
        "(checkpoint.checkpointData){"
        f"PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} "
        f"RegisteredDevices:(map[string][]string){registered}}}"
    )
    return _fnv1a(text.encode("utf-8", "surrogatepass"))


def _entry(entry: _Json) -> str:
    by_node = {int(node): ids for node, ids in _items(entry["DeviceIDs"])}
    devices = _map({str(node): _list(by_node[node], str) for node in sorted(by_node)})
    response = entry["AllocResp"]
    raw = None if response is None else list(base64.b64decode(response, validate=True))
    return (
        f"{{PodUID:(string){entry['PodUID']} ContainerName:(string){entry['ContainerName']} "
        f"ResourceName:(string){entry['ResourceName']} "
        f"DeviceIDs:(checkpoint.DevicesPerNUMA){'<nil>' if entry['DeviceIDs'] is None else devices} "
        f"AllocResp:([]uint8){_list(raw, str)}}}"
    )


def _items(value: _Json) -> Any:
    return () if value is None else value.items()


def _list(values: _Json, shown: Any) -> str:
    return "<nil>" if values is None else f"[{' '.join(shown(value) for value in values)}]"


def _map(values: dict[str, str]) -> str:
    return f"map[{' '.join(f'{key}:{value}' for key, value in values.items())}]"


def _fnv1a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
