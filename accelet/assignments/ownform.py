"""Our own annotation for an assignment, `accelet.dev/assignment`: JSON by container name and resource.

The form is that of docs/assignment.schema.json.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from accelet.accelerators.device import DEVICE_ID_PATTERN
from accelet.assignments.assignment import (
    ANY_RESOURCE,
    MAX_COUNT,
    MAX_TILE,
    MAX_TIME_NS,
    Assignment,
    AssignmentError,
    Naming,
    Piece,
    Pieces,
)
from accelet.kube.objects import MOST_ANNOTATED
from accelet.runtime.excerpts import excerpt, printable

ASSIGNMENT_ANNOTATION = "accelet.dev/assignment"
_VERSION = 1
_Name = Annotated[str, msgspec.Meta(pattern=rf"^{DEVICE_ID_PATTERN.pattern}\Z")]
_Tile = Annotated[int, msgspec.Meta(ge=0, le=MAX_TILE)]
_RESOURCE = re.compile(r"[a-z0-9.-]{1,253}/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class _Piece(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    unit: _Name | UnsetType = UNSET
    device: _Name | UnsetType = UNSET
    tiles: Annotated[list[_Tile], msgspec.Meta(min_length=1)] | UnsetType = UNSET
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)] = 1


_Pieces = Annotated[list[_Piece], msgspec.Meta(min_length=1)]
_Resources = Annotated[dict[str, _Pieces], msgspec.Meta(min_length=1)]


class _Document(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    containers: Annotated[dict[str, _Resources], msgspec.Meta(min_length=1)]
    time: Annotated[int, msgspec.Meta(ge=0, le=MAX_TIME_NS)] | UnsetType = UNSET


class _Version(msgspec.Struct):
    version: int


def parse_own(text: str, containers: Sequence[str]) -> Assignment:
    """The assignment that the annotation says; `containers` are the pod's, init containers included.

    Raises:
        AssignmentError: it is malformed, with its place.
    """
    raw = _read_json(text)
    try:
        version = msgspec.convert(raw, _Version).version
        if version != _VERSION:
            _refuse(f"version {version} is not known here; this accelet reads version {_VERSION}")
        document = msgspec.convert(raw, _Document)
    except msgspec.ValidationError as error:
        _refuse(printable(str(error), 200))
    except UnicodeEncodeError:
        _refuse("it has half a character: one of \\ud800 to \\udfff without its other half")
    return Assignment(
        containers={
            name: {
                resource: _pieces(pieces, f"containers.{name}[{excerpt(resource)}]")
                for resource, pieces in _resources(name, resources, containers).items()
            }
            for name, resources in document.containers.items()
        },
        decided_ns=None if document.time is UNSET else document.time,
    )


def render_own(assignment: Assignment) -> str:
    """The annotation's text, compact, keys and tiles in order.

    Raises:
        ValueError: the assignment cannot be said so: cards by DRM name, no resource named, nothing assigned.
    """
    containers: dict[str, dict[str, list[_Piece]]] = {}
    for name, resources in sorted(assignment.containers.items()):
        if ANY_RESOURCE in resources:
            raise ValueError(f"the assignment of container {name} names no resource")
        if not resources or not all(resources.values()):
            raise ValueError(f"container {name} is assigned nothing")
        containers[name] = {
            resource: [_render(piece) for piece in pieces] for resource, pieces in sorted(resources.items())
        }
    time = UNSET if assignment.decided_ns is None else assignment.decided_ns
    document = _Document(version=_VERSION, containers=containers, time=time)
    return msgspec.json.encode(document).decode()


def _render(piece: Piece) -> _Piece:
    if piece.naming is Naming.DEVICE:
        return _Piece(device=piece.name)
    if piece.naming is Naming.UNIT:
        return _Piece(unit=piece.name, tiles=sorted(piece.tiles) or UNSET, count=piece.count)
    raise ValueError(f"{piece.name} is a DRM name, which may mean another card after a reboot")


def _read_json(text: str) -> object:
    if len(text) > MOST_ANNOTATED:
        _refuse(f"it has {len(text)} characters, more than any object may")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_int=_integer, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        _refuse(f"character {error.pos + 1}: {error.msg}; it has to be JSON")
    except RecursionError:
        _refuse("it is nested too deeply")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            _refuse(f"{excerpt(name)} is there twice in one object")
        found[name] = value
    return found


def _integer(text: str) -> int:
    if len(text) > 20:
        _refuse(f"{excerpt(text)} is too long a number")
    return int(text)


def _no_number(text: str) -> NoReturn:
    _refuse(f"{text} is no JSON number")


def _resources(
    name: str, resources: Mapping[str, list[_Piece]], containers: Sequence[str]
) -> Mapping[str, list[_Piece]]:
    if name not in containers:
        _refuse(f"containers: the pod has no container {excerpt(name)}")
    for resource in resources:
        if not _RESOURCE.fullmatch(resource):
            _refuse(f"containers.{name}: {excerpt(resource)} is no resource name; one is gpu.intel.com/i915")
    return resources


def _pieces(raw: Sequence[_Piece], place: str) -> Pieces:
    found: dict[tuple[Naming, str], Piece] = {}
    for index, one in enumerate(raw):
        piece = _piece(one, f"{place}[{index}]")
        if (piece.naming, piece.name) in found:
            _refuse(f"{place}[{index}]: {piece.name} is there twice")
        found[piece.naming, piece.name] = piece
    return tuple(found.values())


def _piece(raw: _Piece, place: str) -> Piece:
    tiles: list[int] = [] if raw.tiles is UNSET else raw.tiles
    if len(set(tiles)) < len(tiles):
        _refuse(f"{place}.tiles: a tile is there twice")
    if (raw.unit is UNSET) == (raw.device is UNSET):
        _refuse(f"{place}: it has to have either unit or device")
    if raw.unit is not UNSET:
        return Piece(Naming.UNIT, raw.unit, frozenset(tiles), raw.count)
    if tiles or raw.count != 1:
        _refuse(f"{place}: a device is given as it is, without tiles or count")
    return Piece(Naming.DEVICE, str(raw.device))


def _refuse(problem: str) -> NoReturn:
    # What a parser below says of the same text adds nothing.
    raise AssignmentError(f"Annotation {ASSIGNMENT_ANNOTATION}: {problem}.") from None
