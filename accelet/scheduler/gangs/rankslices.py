"""Slices of a gang: so many pods that follow each other in rank, each slice near together."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.annotations import Said
from accelet.scheduler.gangs.levels import KUEUE_SLICE_LEVEL, LevelName, read_level
from accelet.scheduler.gangs.rank import Rank, has_index, is_named_at_random, rank_of

SLICE_SIZE = "accelet.dev/rank-slice-size"
SLICE_LEVEL = "accelet.dev/rank-slice-level"
UNLIKE_SLICES = "its pods are unlike, and slices are placed of like pods alone"
KUEUE_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"


@dataclass(frozen=True, slots=True)
class SliceTerms:
    """Each slice of `size` pods is to be in one domain of `level`; `of` has the number of each member's."""

    size: int
    level: LevelName
    of: Mapping[ObjectKey, int]

    def are_whole(self, pods: Iterable[Pod]) -> bool:
        """Whether these pods are slices of which none is missing."""
        return all(count == self.size for count in Counter(self.of[pod.key] for pod in pods).values())


def read_slices(
    said: Said, ranked: Sequence[Pod], groups: Sequence[str], whole: int, done: int
) -> SliceTerms | None:
    """What a gang's pods say of its slices; `ranked` are those that there are, of `whole` with those done.

    Ours count before Kueue's. `groups` are as for `rank_of`.
    """
    level = read_level(said, SLICE_LEVEL, KUEUE_SLICE_LEVEL)
    named = KUEUE_SLICE_SIZE if level is not None and level.annotation == KUEUE_SLICE_LEVEL else SLICE_SIZE
    size = said.number(named)
    if level is None and size is None and said.one(KUEUE_SLICE_SIZE) is None:
        return None
    if level is None or size is None:
        said.object_to(f"of the annotations {SLICE_SIZE} and {SLICE_LEVEL}, or Kueue's, one is missing")
        return None
    without = next((pod for pod in ranked if level.annotation not in pod.annotations), None)
    if without is not None:
        said.object_to(f"{level.annotation} is for all pods of a gang, but pod {without.name} has it not")
    elif whole % size:
        said.object_to(f"{named} is {size}, which does not divide the {whole} pods of the gang")
    numbers = _numbers(said, [rank_of(pod, groups) for pod in ranked], size, done)
    return SliceTerms(size, level, {pod.key: number for pod, number in zip(ranked, numbers, strict=True)})


def _numbers(said: Said, ranks: Sequence[Rank], size: int, done: int) -> Sequence[int]:
    """By index where all are one Job's, else by place in the order of ranks."""
    first = ranks[0][:3]
    if all(has_index(rank) and rank[:3] == first for rank in ranks):
        return [rank[5] // size for rank in ranks]
    if any(map(is_named_at_random, ranks)):
        said.object_to(
            "its pods have no ranks, so that nothing follows for slices: see completionMode Indexed"
        )
    elif done:
        said.object_to("some of its pods have ended: which of the others are of one slice cannot be told")
    return [place // size for place in range(len(ranks))]
