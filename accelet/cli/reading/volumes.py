"""Reads volumes, their claims and classes out of one list."""

from pathlib import Path

from accelet.cli.reading.objectfiles import UnreadableInputError, read_objects
from accelet.kube.apiresources import VOLUME_CLAIMS, VOLUME_CLASSES, VOLUMES
from accelet.kube.objects import ObjectKey, RawObject, WireObject, read_object
from accelet.scheduler.cluster.volumes import (
    Volume,
    VolumeClaim,
    VolumeClass,
    parse_volume,
    parse_volume_claim,
    parse_volume_class,
)
from accelet.scheduler.state import SchedulerState


def read_volumes(file: Path, state: SchedulerState) -> None:
    """Has the state know the volumes of a file: what is not in it is not there.

    Raises:
        UnreadableInputError: the file or one of its objects cannot be read.
    """
    for (namespace, name), value in read_objects(file, None, _parse):
        match value:
            case VolumeClaim():
                state.set_volume_claim((namespace, name), value)
            case Volume():
                state.set_volume(name, value)
            case VolumeClass():
                state.set_volume_class(name, value)
            case kind:
                raise UnreadableInputError(f"{file}: {name} is a {kind}, no volume, volume claim or class")
    state.begin_volumes()


class _WireKind(WireObject, frozen=True):
    kind: str = ""


def _parse(raw: RawObject) -> tuple[ObjectKey, VolumeClaim | Volume | VolumeClass | str]:
    """An object by namespace and name; of another kind that."""
    wire = read_object(raw, "object", _WireKind)
    key = wire.metadata.namespace or "", wire.metadata.name
    match wire.kind:
        case VOLUME_CLAIMS.kind:
            return key, parse_volume_claim(raw)
        case VOLUMES.kind:
            return key, parse_volume(raw)
        case VOLUME_CLASSES.kind:
            return key, parse_volume_class(raw)
    return key, wire.kind
