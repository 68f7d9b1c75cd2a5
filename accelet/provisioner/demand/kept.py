"""Which slices are kept where a LeaderWorkerSet or a worker group of Ray has fewer groups than slices."""

from collections.abc import Iterable
from dataclasses import dataclass

from accelet.kinds.slicerequest import Phase

_LEAVING = frozenset(("Releasing", "Parked"))


@dataclass(frozen=True, slots=True)
class GroupSlice:
    """One slice: the name and number of the group that it was made for, and whether pods run on it."""

    job: str
    index: int
    phase: Phase
    has_pods: bool


def keep_slices(slices: Iterable[GroupSlice], groups: int) -> frozenset[str]:
    """The slices that `groups` groups need, by the names of the groups that they were made for.

    A group runs on the slice that its first pod chose, which may be that of another group. So slices with
    pods are kept first, then those that serve, and those that are being given back come last.
    """
    ranked = sorted(slices, key=lambda one: (not one.has_pods, _rank(one.phase), one.index, one.job))
    return frozenset(one.job for one in ranked[: max(0, groups)])


def _rank(phase: Phase) -> int:
    return 0 if phase == "Ready" else 2 if phase in _LEAVING else 1
