"""Slices of a gang or a pod set: so many pods that follow each other in rank, each slice near together."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import msgspec

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.runtime.excerpts import excerpt
from accelet.scheduler.gangs.annotations import Said
from accelet.scheduler.gangs.levels import KUEUE_SLICE_LAYERS, KUEUE_SLICE_LEVEL, LevelName, read_level
from accelet.scheduler.gangs.rank import has_index, is_named_at_random, rank_of

SLICE_SIZE = "accelet.dev/rank-slice-size"
SLICE_LEVEL = "accelet.dev/rank-slice-level"
UNLIKE_SLICES = "its pods are unlike, and slices are placed of like pods alone"
KUEUE_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"

_MOST_LAYERS = 3
_LONGEST_LAYERS = 2_048
_LAYERS_WANTED = (
    'not a list of one to three layers from wide to narrow, as [{"topology": "LABEL", "size": 16}, ...]'
)


@dataclass(frozen=True, slots=True)
class SliceTerms:
    """Each slice of `size` pods is to be in one domain of `level`; `of` has the number of each member's.

    Each of them is of slices of the next layer, `inner`, if there is one.
    """

    size: int
    level: LevelName
    of: Mapping[ObjectKey, int]
    inner: "SliceTerms | None" = None

    def are_whole(self, pods: Iterable[Pod]) -> bool:
        """Whether these pods are slices of which none is missing."""
        return all(count == self.size for count in Counter(self.of[pod.key] for pod in pods).values())

    @property
    def layers(self) -> "tuple[SliceTerms, ...]":
        """These slices, those of which they are made, and so on."""
        return (self, *(self.inner.layers if self.inner else ()))


@dataclass(frozen=True, slots=True)
class RankedPods:
    """The pods of a gang, or of a pod set, that there are, in rank order.

    They are of `whole` with those `done`; `whole` is None where it is not known. `groups` are as for
    `rank_of`. Their indexes begin with `first`.
    """

    pods: Sequence[Pod]
    groups: Sequence[str] = ()
    whole: int | None = None
    done: int = 0
    first: int = 0


class _WireLayer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topology: Annotated[str, msgspec.Meta(min_length=1, max_length=317)]
    size: Annotated[int, msgspec.Meta(ge=1, le=999_999)]


_LAYERS: msgspec.json.Decoder[list[_WireLayer]] = msgspec.json.Decoder(
    Annotated[list[_WireLayer], msgspec.Meta(min_length=1, max_length=_MOST_LAYERS)]
)


def read_slices(said: Said, ranked: RankedPods) -> SliceTerms | None:
    """What pods say of their slices; ours counts before Kueue's."""
    return read_our_slices(said, ranked) if says_our_slices(said) else read_kueues_slices(said, ranked)


def says_our_slices(said: Said) -> bool:
    return said.one(SLICE_LEVEL) is not None or said.one(SLICE_SIZE) is not None


def read_our_slices(said: Said, ranked: RankedPods) -> SliceTerms | None:
    """What they say of them in our annotations alone."""
    return _read_layer(said, ranked, read_level(said, SLICE_LEVEL), SLICE_SIZE)


def read_kueues_slices(said: Said, ranked: RankedPods) -> SliceTerms | None:
    """The same in Kueue's annotations alone."""
    text = said.one(KUEUE_SLICE_LAYERS)
    level = read_level(said, KUEUE_SLICE_LEVEL)
    if text is None:
        return _read_layer(said, ranked, level, KUEUE_SLICE_SIZE)
    if level is not None or said.one(KUEUE_SLICE_SIZE) is not None:
        said.object_to(f"{KUEUE_SLICE_LAYERS} and {KUEUE_SLICE_LEVEL} are both given: one may")
    layers = _read_layers(said, text)
    if not layers:
        return None
    outer = LevelName(KUEUE_SLICE_LAYERS, layers[0].topology)
    _check(said, ranked, outer, KUEUE_SLICE_LAYERS, layers[0].size)
    terms: SliceTerms | None = None
    for layer in reversed(layers):
        of = _numbers(said, ranked, layer.size)
        terms = SliceTerms(layer.size, LevelName(KUEUE_SLICE_LAYERS, layer.topology), of, terms)
    return terms


def _read_layers(said: Said, text: str) -> Sequence[_WireLayer]:
    try:
        if len(text) > _LONGEST_LAYERS:
            raise msgspec.ValidationError
        layers = _LAYERS.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        said.object_to(f"{KUEUE_SLICE_LAYERS} is {excerpt(text)}, {_LAYERS_WANTED}")
        return ()
    for wide, narrow in pairwise(layers):
        if wide.size % narrow.size:
            said.object_to(
                f"{KUEUE_SLICE_LAYERS} has slices of {narrow.size}, which do not divide those of {wide.size}"
            )
            return ()
    return layers


def _read_layer(said: Said, ranked: RankedPods, level: LevelName | None, named: str) -> SliceTerms | None:
    """One layer of slices of this level, whose size the annotation `named` says."""
    size = said.number(named)
    if level is None and size is None and said.one(KUEUE_SLICE_SIZE) is None:
        return None
    if level is None or size is None:
        said.object_to(f"of the annotations {SLICE_SIZE} and {SLICE_LEVEL}, or Kueue's, one is missing")
        return None
    _check(said, ranked, level, named, size)
    return SliceTerms(size, level, _numbers(said, ranked, size))


def _check(said: Said, ranked: RankedPods, level: LevelName, named: str, size: int) -> None:
    whose, whole = "a gang" if said.whose == "the gang" else said.whose, ranked.whole
    without = next((pod for pod in ranked.pods if level.annotation not in pod.annotations), None)
    if without is not None:
        said.object_to(f"{level.annotation} is for all pods of {whose}, but pod {without.name} has it not")
    elif whole is not None and whole % size:
        is_list = named == KUEUE_SLICE_LAYERS
        what = f"{named} begins with slices of {size}" if is_list else f"{named} is {size}"
        said.object_to(f"{what}, which does not divide the {whole} pods of {said.whose}")


def _numbers(said: Said, ranked: RankedPods, size: int) -> Mapping[ObjectKey, int]:
    """The slice of each pod: by index where all are one Job's, else by place in the order of ranks."""
    keys, ranks = [pod.key for pod in ranked.pods], [rank_of(pod, ranked.groups) for pod in ranked.pods]
    if all(has_index(rank) and rank[:3] == ranks[0][:3] for rank in ranks):
        return {key: (rank[5] - ranked.first) // size for key, rank in zip(keys, ranks, strict=True)}
    if any(map(is_named_at_random, ranks)):
        said.object_to(
            "its pods have no ranks, so that nothing follows for slices: see completionMode Indexed"
        )
    elif ranked.done:
        said.object_to("some of its pods have ended: which of the others are of one slice cannot be told")
    return {key: place // size for place, key in enumerate(keys)}
