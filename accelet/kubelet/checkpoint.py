"""The kubelet's device checkpoint: which container holds which devices, as written on the node's disk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import msgspec
from google.protobuf.message import DecodeError

from accelet.kubelet.api.deviceplugin_pb2 import ContainerAllocateResponse
from accelet.kubelet.errors import CheckpointError, MalformedCheckpointError

CHECKPOINT_FILE = "kubelet_internal_checkpoint"
"""Its name in the device plugin directory."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """One resource of one container: the devices it holds, and what the plugin answered for them.

    `annotations` and `environment` are those of the stored AllocateResponse. They are empty where
    the kubelet stored none or one that cannot be decoded.
    """

    pod_uid: str
    container: str
    resource: str
    device_ids: frozenset[str]
    annotations: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    environment: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The whole file. `registered` are the resources the kubelet knew, with their healthy devices."""

    entries: tuple[CheckpointEntry, ...] = ()
    registered: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))


class _RegisteredDevices(Mapping[str, frozenset[str]]):
    """Ids by resource, decoded when somebody asks: thousands stand in a file that is read at every change."""

    def __init__(self, raw: Mapping[str, msgspec.Raw]) -> None:
        self._raw = raw

    def __getitem__(self, resource: str) -> frozenset[str]:
        return frozenset(msgspec.json.decode(self._raw[resource], type=list[str] | None) or ())

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


Known = dict[tuple[str, str, str], tuple["_Entry", CheckpointEntry]]
"""Entries as they stood in a file before, by pod, container and resource: what has not changed is kept."""


def read_checkpoint(directory: Path, known: Known | None = None) -> Checkpoint:
    """Reads the checkpoint in the device plugin directory; blocks on the file.

    `known` is brought up to date, for the next time.

    A directory without the file is that of a kubelet that has handed out nothing yet: an empty checkpoint.

    Raises:
        CheckpointError: no such directory, no permission, or a file that is not a checkpoint.
    """
    path = directory / CHECKPOINT_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        if directory.is_dir():
            return Checkpoint()
        raise CheckpointError(
            f"{directory} does not exist: is the kubelet's device plugin directory mounted here?"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}); it is root's own file") from None
    return parse_checkpoint(content, str(path), known)


def parse_checkpoint(content: bytes, name: str = CHECKPOINT_FILE, known: Known | None = None) -> Checkpoint:
    """Parses the file's content: Kubernetes from 1.20 (ids by NUMA node) and up to 1.19 (a plain list).

    The checksum is not verified. It is a hash over the printed form of the kubelet's own Go structures, which
    differs between kubelet versions; a reader that got it wrong would discard a good file. The kubelet writes
    the file whole, under another name, and renames it, so a torn one is never seen, and what it cannot verify
    it starts without and writes anew.

    Fields that newer kubelets add (1.38: BootID) are ignored; a field of the wrong type is refused.

    Raises:
        MalformedCheckpointError: with the place of what is wrong.
    """
    try:
        file = _READ_FILE.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"{name} is not a device checkpoint of the kubelet: {error}"
        raise MalformedCheckpointError(reason) from None
    data = file.data
    before = {} if known is None else dict(known)
    found: Known = {}
    entries = []
    for raw in data.entries or ():
        key = (raw.pod_uid, raw.container, raw.resource)
        old = before.get(key)
        entry = old[1] if old is not None and old[0] == raw else _entry(raw)
        found[key] = (raw, entry)
        entries.append(entry)
    if known is not None:
        known.clear()
        known.update(found)
    registered = _RegisteredDevices(data.registered or {})
    return Checkpoint(tuple(entries), registered)


class _Entry(msgspec.Struct):
    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    device_ids: dict[str, list[str] | None] | list[str] | None = msgspec.field(name="DeviceIDs")
    response: bytes | None = msgspec.field(name="AllocResp", default=None)


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")
    registered: dict[str, msgspec.Raw] | None = msgspec.field(name="RegisteredDevices")


class _File(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


# Used on several threads, so made before there are any: see docs/decisions/0003.
_READ_FILE = msgspec.json.Decoder(_File)


def _entry(raw: _Entry) -> CheckpointEntry:
    if isinstance(raw.device_ids, dict):
        # A device near two NUMA nodes stands under both.
        ids = frozenset(one for several in raw.device_ids.values() for one in several or ())
    else:
        ids = frozenset(raw.device_ids or ())
    response = _response(raw.response)
    return CheckpointEntry(
        pod_uid=raw.pod_uid,
        container=raw.container,
        resource=raw.resource,
        device_ids=ids,
        annotations=_NOTHING if response is None else MappingProxyType(dict(response.annotations)),
        environment=_NOTHING if response is None else MappingProxyType(dict(response.envs)),
    )


def _response(encoded: bytes | None) -> ContainerAllocateResponse | None:
    """The stored answer; None where there is none, or it cannot be decoded: the ids beside it still count."""
    if encoded is None:
        return None
    try:
        return ContainerAllocateResponse.FromString(encoded)
    except DecodeError:
        return None
