"""Whether a container is to be given what a live pod beside it has, which two cannot have at a time."""

from collections.abc import Collection, Iterator, Mapping

from accelet.accelerators.device import DeviceId, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.assignments.assignment import Pieces
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid
from resourcemanager.surroundings import Surroundings
from resourcemanager.target import find_units

Parts = Mapping[UnitId, frozenset[int]]
"""Tiles by unit, of which each is one container's alone; none of a unit: the whole of it, shared."""


def assigned_parts(pieces: Pieces, inventory: Inventory) -> Parts:
    """What pieces name. A unit of which something is named whole is shared, whatever else is named of it."""
    found: dict[UnitId, frozenset[int]] = {}
    for unit, tiles in find_units(pieces, inventory):
        before = found.get(unit, tiles)
        found[unit] = before | tiles if before and tiles else frozenset()
    return found


def whole_parts(devices: Collection[DeviceId], inventory: Inventory) -> Parts:
    """What devices are without any assignment. One that is a tile is not a unit, and says nothing of it."""
    chosen = (inventory.by_id[one] for one in devices if one in inventory.by_id)
    return {device.unit: frozenset() for device in chosen if device.tile is None}


def find_conflict(mine: Parts, own: PodUid | None, surroundings: Surroundings) -> str | None:
    """Who of another pod stands in the way, in a sentence; None if nobody does.

    Tiles are in the way of the whole from when they are assigned, so that who waits for them finds them free.
    Otherwise who has its devices was first.
    """
    others = ((uid, pod) for uid, pod in surroundings.pods.items() if uid != own and not pod.is_terminal)
    return next((said for uid, pod in others for said in _conflicts_with(uid, pod, mine, surroundings)), None)


def _conflicts_with(uid: PodUid, pod: Pod, mine: Parts, surroundings: Surroundings) -> Iterator[str]:
    inventory, held = surroundings.inventory, surroundings.ledger.containers_of(uid)
    spoken_for: set[UnitId] = set()
    for container, pieces in surroundings.assignments.readable(pod, surroundings.resource):
        theirs = assigned_parts(pieces, inventory)
        spoken_for |= theirs.keys()
        for unit in [unit for unit in mine if unit in theirs]:
            if said := _say(unit, mine[unit], theirs[unit], _name(pod, container), has=container in held):
                yield said
    # A pod's containers take devices over from each other: one that is assigned a unit speaks for all.
    for container, devices in held.items():
        for unit in whole_parts(devices, inventory).keys() & mine.keys() - spoken_for:
            if mine[unit]:
                yield _say_shared(unit, mine[unit], _name(pod, container))


def _say(unit: UnitId, mine: frozenset[int], theirs: frozenset[int], other: str, *, has: bool) -> str | None:
    if theirs and not mine:
        return f"it would have {unit} whole, of which tile {min(theirs)} is assigned to {other}"
    if not has or not mine:
        return None
    if not theirs:
        return _say_shared(unit, mine, other)
    if common := mine & theirs:
        return f"tile {min(common)} of {unit} is assigned to it and held by {other} by its assignment as well"
    return None


def _say_shared(unit: UnitId, mine: frozenset[int], other: str) -> str:
    return f"tile {min(mine)} of {unit} is assigned to it, and {other} has the whole of {unit}"


def _name(pod: Pod, container: str) -> str:
    return f"pod {'/'.join(pod.key)} (container {container})"
