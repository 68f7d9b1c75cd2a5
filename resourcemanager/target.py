"""What an assignment means among the devices of this node."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import DeviceId, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.assignments.assignment import AssignmentError, Naming, Piece, Pieces


@dataclass(frozen=True, slots=True)
class Want:
    """`count` of `devices`, which are in order of hardware."""

    devices: tuple[DeviceId, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Target:
    """What one request is to get: wants, of which those of one certain device come first.

    `devices` are all devices of the assigned units, or of their assigned tiles where a device is a tile: what
    a request has beyond its wants is to be of them.
    `tiles` restricts units of which only some tiles are assigned.
    """

    wants: tuple[Want, ...]
    devices: frozenset[DeviceId]
    tiles: Tiles
    text: str


def find_target(pieces: Pieces, inventory: Inventory, size: int, resource: str) -> Target:
    """The devices that the pieces of one request for `size` devices of `resource` name.

    Raises:
        AssignmentError: the node has no such unit, device or tile, or they are more than are requested.
    """
    wants: list[Want] = []
    units: list[UnitId] = []
    tiles: dict[UnitId, frozenset[int] | None] = {}
    for piece in sorted(pieces, key=lambda piece: piece.naming is not Naming.DEVICE):
        unit = _find_unit(piece, inventory, resource)
        units.append(unit)
        wants += _list_wants(piece, unit, inventory)
        before, some = tiles.get(unit, frozenset()), _tiles_of(piece, inventory)
        tiles[unit] = None if before is None or not some else before | some
    total = sum(want.count for want in wants)
    if total > size:
        raise AssignmentError(
            f"It is assigned {total} devices ({describe(pieces)}) and requests {size} {resource}; it has to"
            " request at least as many as it is assigned."
        )
    return Target(
        wants=tuple(wants),
        devices=frozenset(
            device.id
            for unit in units
            for device in inventory.by_unit[unit]
            if device.tile is None or device.tile in (tiles[unit] or {device.tile})
        ),
        tiles=MappingProxyType({unit: some for unit, some in tiles.items() if some is not None}),
        text=describe(pieces),
    )


def find_units(pieces: Iterable[Piece], inventory: Inventory) -> Iterable[tuple[UnitId, frozenset[int]]]:
    """The units the pieces name, as far as the node has them, each with the tiles named (none: all)."""
    for piece in pieces:
        unit = _look_up(piece, inventory)
        if unit is not None:
            yield unit, piece.tiles


def count_tiles(pieces: Iterable[Piece], inventory: Inventory) -> int:
    """How many tiles the pieces give, as far as the node has their units: a whole unit gives all it has."""
    total = 0
    for piece in pieces:
        unit = _look_up(piece, inventory)
        if unit is None:
            continue
        device = inventory.by_id.get(DeviceId(piece.name)) or inventory.by_unit[unit][0]
        is_one_tile = piece.naming is Naming.DEVICE and device.tile is not None
        total += len(piece.tiles) or (1 if is_one_tile else device.tile_count)
    return total


def describe(pieces: Iterable[Piece]) -> str:
    """The pieces in words: `card0 tiles 0 and 1, card3`."""
    return ", ".join(_describe(piece) for piece in pieces)


def explain_misfit(target: Target, chosen: Collection[DeviceId]) -> str | None:
    """How the devices the kubelet chose differ from the target, None if they do not."""
    left = [want.count for want in target.wants]
    strangers = []
    for device in sorted(chosen):
        index = _take(target.wants, left, device)
        if index is None and device not in target.devices:
            strangers.append(device)
    if not strangers and not any(left):
        return None
    given = ", ".join(sorted(chosen)[:4]) + (" and more" if len(chosen) > 4 else "")
    return f"assigned is {target.text}, but the kubelet chose {given}"


def choose(
    target: Target, available: Collection[DeviceId], must_include: Sequence[DeviceId], size: int
) -> tuple[DeviceId, ...]:
    """At most `size` devices, `must_include` first, that come as near to the target as can be."""
    chosen = dict.fromkeys(must_include)
    left = [want.count for want in target.wants]
    for device in must_include:
        _take(target.wants, left, device)
    free = set(available) - chosen.keys()
    for want, count in zip(target.wants, left, strict=True):
        for device in [one for one in want.devices if one in free][:count]:
            chosen[device] = None
            free.discard(device)
    extras = [device for want in target.wants for device in want.devices if device in free]
    extras += sorted((target.devices & free) - set(extras))
    for device in extras:
        chosen.setdefault(device)
    return tuple(chosen)[: max(size, len(must_include))]


def _take(wants: Sequence[Want], left: list[int], device: DeviceId) -> int | None:
    """Counts `device` towards the first want that still lacks one and may have it."""
    for index, want in enumerate(wants):
        if left[index] > 0 and device in want.devices:
            left[index] -= 1
            return index
    return None


def _look_up(piece: Piece, inventory: Inventory) -> UnitId | None:
    if piece.naming is Naming.CARD:
        return inventory.unit_of_card.get(piece.name)
    if piece.naming is Naming.UNIT:
        return UnitId(piece.name) if piece.name in inventory.by_unit else None
    device = inventory.by_id.get(DeviceId(piece.name))
    return None if device is None else device.unit


def _find_unit(piece: Piece, inventory: Inventory, resource: str) -> UnitId:
    unit = _look_up(piece, inventory)
    if unit is None:
        raise AssignmentError(f"It is assigned {piece.name}, which {resource} does not have on this node.")
    tile_count = inventory.by_unit[unit][0].tile_count
    beyond = sorted(tile for tile in piece.tiles if tile >= tile_count)
    if beyond:
        has = "one tile" if tile_count == 1 else f"{tile_count} tiles"
        raise AssignmentError(
            f"It is assigned tile {beyond[0]} of {piece.name}, which has {has}, counted from 0."
        )
    return unit


def _tiles_of(piece: Piece, inventory: Inventory) -> frozenset[int]:
    """The tiles that a piece is restricted to, by name or by a device that is a tile; empty: all."""
    named = inventory.by_id.get(DeviceId(piece.name)) if piece.naming is Naming.DEVICE else None
    return piece.tiles if named is None or named.tile is None else frozenset({named.tile})


def _list_wants(piece: Piece, unit: UnitId, inventory: Inventory) -> list[Want]:
    if piece.naming is Naming.DEVICE:
        return [Want((DeviceId(piece.name),), 1)]
    devices = inventory.by_unit[unit]
    if devices[0].tile is not None:
        # Where a device is a tile, each tile that is assigned takes a device of its own: all of a whole unit.
        return [
            Want(tuple(device.id for device in devices if device.tile == tile), piece.count)
            for tile in sorted(piece.tiles or range(devices[0].tile_count))
        ]
    return [Want(tuple(device.id for device in devices), piece.count)]


def _describe(piece: Piece) -> str:
    tiles = sorted(piece.tiles)
    if not tiles:
        return piece.name if piece.count == 1 else f"{piece.count} of {piece.name}"
    if len(tiles) == 1:
        return f"{piece.name} tile {tiles[0]}"
    return f"{piece.name} tiles {', '.join(map(str, tiles[:-1]))} and {tiles[-1]}"
