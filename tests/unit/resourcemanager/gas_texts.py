"""Assignments as the `gas-*` annotations that say them: what the scheduler of those would write."""

from collections.abc import Sequence

from accelet.assignments.assignment import ANY_RESOURCE, Assignment, Naming, Pieces
from accelet.assignments.gas import CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION


def render_gas(assignment: Assignment, containers: Sequence[str]) -> dict[str, str]:
    """The annotations that say `assignment`; `containers` are the names of spec.containers, in order.

    Raises:
        ValueError: the assignment cannot be said so: an init container, a device not named by its card, more
            than one device of a card, tiles of some cards of a container only.
    """
    strangers = assignment.containers.keys() - set(containers)
    if strangers:
        raise ValueError(f"gas-* annotations have no place for container {min(strangers)}")
    slots = [assignment.pieces(name, ANY_RESOURCE) or () for name in containers]
    for pieces in slots:
        _check_renderable(pieces)
    annotations = {CARDS_ANNOTATION: "|".join(",".join(one.name for one in pieces) for pieces in slots)}
    if any(piece.tiles for pieces in slots for piece in pieces):
        annotations[TILES_ANNOTATION] = "|".join(
            ",".join(f"{one.name}:{_render_tiles(one.tiles)}" for one in pieces if one.tiles)
            for pieces in slots
        )
    if assignment.decided_ns is not None:
        annotations[TIME_ANNOTATION] = str(assignment.decided_ns)
    return annotations


def _render_tiles(tiles: frozenset[int]) -> str:
    return "+".join(f"gt{number}" for number in sorted(tiles))


def _check_renderable(pieces: Pieces) -> None:
    names = [piece.name for piece in pieces]
    if len(set(names)) < len(names) or any(piece.count != 1 for piece in pieces):
        raise ValueError("gas-* annotations give a container one device of a card")
    if any(piece.naming is not Naming.CARD for piece in pieces):
        raise ValueError("gas-* annotations name units by their cards")
    if len({bool(piece.tiles) for piece in pieces}) > 1:
        raise ValueError("gas-* annotations give a container tiles of all its cards or of none")
