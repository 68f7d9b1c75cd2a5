"""Which chips of a host one process can use together, and which of them to hand out first.

libtpu starts on a box of the chips' mesh. In order of PCI address, chip k of a host sits at x = k // Hy, y =
k % Hy, with Hy = 4 on hosts of eight chips and 2 on hosts of four; so an aligned run of 1, 2, 4 or 8 chips in
that order is a box. Every group that JAX, Ray and vLLM use on hosts of 4 and 8 chips is of this kind. The
two-by-two squares of an 8-chip host would be boxes too; nobody is known to have run one, and they straddle
the NUMA nodes, so they are not handed out.
"""

from collections.abc import Collection, Sequence
from typing import Final, TypeVar

from accelet.accelerators.tpu.shape import Shape

SIZES: Final = (1, 2, 4, 8)

T = TypeVar("T")


def boxes_of(chips: int, size: int) -> tuple[frozenset[int], ...]:
    """The places of each box of `size` chips on a host of `chips`; empty for a size that has none."""
    if size not in SIZES:
        return ()
    return tuple(frozenset(range(first, first + size)) for first in range(0, chips - size + 1, size))


def box_shape(chips: int, size: int, half: Shape) -> Shape:
    """The shape of a box of `size` chips on a host of `chips`.

    `half` is that of four chips of eight, on which sources disagree.
    """
    if size == 4 and chips == 8:
        return half
    return {1: Shape(1), 2: Shape(1, 2), 4: Shape(2, 2), 8: Shape(2, 4)}[size]


def order_by_rest(
    groups: Sequence[frozenset[T]], free: Collection[T], by_size: Sequence[Sequence[frozenset[T]]]
) -> tuple[frozenset[T], ...]:
    """Orders `groups`: first the one that leaves most of the largest groups free, then most of the next.

    `by_size` has all groups, the largest first. Equally good ones stay in their order.
    """
    whole = frozenset(free)

    def used_up_by(group: frozenset[T]) -> tuple[int, ...]:
        left = whole - group
        return tuple(-sum(other <= left for other in others) for others in by_size)

    return tuple(sorted(groups, key=used_up_by))
