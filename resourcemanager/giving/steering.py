"""Which free devices a container had best get where assignments are followed."""

from dataclasses import dataclass

from accelet.accelerators.device import UnitId
from accelet.assignments.assignment import AssignmentError, Pieces
from resourcemanager.holdings.assigned import Assignments, list_assigned_units
from resourcemanager.matching.candidates import list_needs
from resourcemanager.matching.inquiry import Match, NoProof
from resourcemanager.surroundings import Surroundings
from resourcemanager.target import Target, find_target


@dataclass(frozen=True, slots=True)
class Steering:
    """Towards a target where there is one, away from the units of others where there is none."""

    target: Target | None = None
    avoid: frozenset[UnitId] = frozenset()


NO_STEERING = Steering()


def steer(found: Match | NoProof, size: int, surroundings: Surroundings) -> Steering:
    """Where the container that was found is to be steered.

    An assignment that cannot be followed steers nowhere: Allocate will say what is wrong with it.
    """
    inventory, assignments, resource = (
        surroundings.inventory,
        surroundings.assignments,
        surroundings.resource,
    )
    if isinstance(found, Match) and found.proof.is_exact:
        pieces = _pieces_to_steer_to(found, size, assignments, resource)
        if pieces:
            try:
                return Steering(target=find_target(pieces, inventory, size, resource))
            except AssignmentError:
                return NO_STEERING
    return Steering(avoid=list_assigned_units(surroundings.pods.values(), assignments, inventory, resource))


def _pieces_to_steer_to(found: Match, size: int, assignments: Assignments, resource: str) -> Pieces | None:
    """What the container is assigned, or, for a plain init container, what comes after it in its devices.

    The kubelet gives a plain init container's devices to the next containers of the pod before any other,
    without asking again and in no particular order.
    """
    pod, name = found.pod, found.owner.container
    pieces = dict(assignments.readable(pod, resource))
    if name in pieces:
        return pieces[name]
    needs = list_needs(pod, resource)
    index = next((i for i, need in enumerate(needs) if need.container == name), len(needs))
    if index == len(needs) or not needs[index].is_plain_init:
        return None
    left = size
    for need in needs[index + 1 :]:
        if left <= 0:
            return None
        if need.container in pieces:
            return _first(pieces[need.container], size)
        if not need.is_plain_init:
            left -= need.size
    return None


def _first(pieces: Pieces, size: int) -> Pieces:
    """As many of the pieces as a request of `size` has room for."""
    kept, room = [], size
    for piece in pieces:
        if piece.count <= room:
            kept.append(piece)
            room -= piece.count
    return tuple(kept)
