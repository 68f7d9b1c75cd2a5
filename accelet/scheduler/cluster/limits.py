"""Rules between pods of one node as amounts, which every search for places treats as it does resources."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.cluster.topology import Ints


class Limit(NamedTuple):
    """An amount, `free` on each leaf, of which each pod to be placed needs one of `needs`, by rank.

    `reason` says for people, behind a number of nodes, why there is too little of it.
    """

    needs: tuple[int, ...]
    free: Ints
    reason: str


def leaves_one_a_leaf(limit: Limit) -> bool:
    """Whether no two of the pods get enough of it on any leaf."""
    return int(limit.free.max(initial=0)) < 2 * min(limit.needs)


def name_of(number: int) -> str:
    """What a limit is called among the resources; no resource can have such a name."""
    return f"limit {number}"


def with_amounts(shapes: Sequence[PodShape], limits: Sequence[Limit]) -> tuple[PodShape, ...]:
    """Shapes that ask for what they need of each limit instead of for ports."""
    found: dict[tuple[PodShape, tuple[int, ...]], PodShape] = {}
    limited = []
    for shape, *needs in zip(shapes, *(limit.needs for limit in limits), strict=True):
        key = shape, tuple(needs)
        if key not in found:
            asked = ((name_of(number), need) for number, need in enumerate(needs) if need)
            found[key] = replace(shape, units=shape.units.union(asked), host_ports=frozenset())
        limited.append(found[key])
    return tuple(limited)
