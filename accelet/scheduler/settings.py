"""The scheduler's settings file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from accelet.runtime.settings import Contradiction, read_settings_file
from accelet.scheduler.cards.needs import CARD_RESOURCES
from accelet.scheduler.cards.search import CardPolicy
from accelet.scheduler.cluster.topology import MOST_WEIGHT, PRESETS, Scheme

_ResourceName = Annotated[
    str,
    msgspec.Meta(
        pattern="^[a-z0-9.-]{1,253}/[A-Za-z0-9._-]{1,63}$",
        description="the name of an extended resource, as gpu.intel.com/i915",
    ),
]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class LevelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the network: how far apart nodes are that differ here first, and labels that say where.

    A node's place is read from the first labels of all levels, or, if it has not all of these, from the
    second ones, and so on.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    weight: Annotated[int, msgspec.Meta(ge=0, le=MOST_WEIGHT)]
    labels: tuple[str, ...]


class CardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which resources count cards, and which of the cards that will do is taken.

    `packed` takes the fullest, so that whole cards stay free; `balanced` the emptiest.
    """

    resources: tuple[_ResourceName, ...] = CARD_RESOURCES
    policy: CardPolicy = "packed"

    def problems(self) -> Sequence[Contradiction]:
        return [] if self.resources else [Contradiction(("resources",), "name at least one")]


class PreemptionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whether gangs of lower priority are evicted for one that has no place: off unless `gangs` says so.

    Within `within_s` they must have ended, or the attempt is given up.
    """

    gangs: bool = False
    within_s: Annotated[float, msgspec.Meta(ge=1, le=86_400)] = 600.0


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whether Kueue's Workloads are planned before they are admitted: off unless `kueue` says so.

    Room is kept for `within_s` until their pods are there, and a plan is waited for as long. The levels are
    those of Kueue's Topology of the name `topology`, if one is given.
    """

    kueue: bool = False
    within_s: Annotated[float, msgspec.Meta(ge=1, le=86_400)] = 600.0
    topology: Annotated[str, msgspec.Meta(max_length=253)] = ""

    def problems(self) -> Sequence[Contradiction]:
        wants = self.topology and not self.kueue
        return [Contradiction(("topology",), "is read with kueue: true alone")] if wants else []


class MoveSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whether running GPUTasks are proposed to be moved: off unless `propose` says so.

    A gang that has waited for `waits_s` may be let in so, where that gives it at least `factor` times what
    is moved for it. For that, `most_an_hour` moves are begun in the whole cluster. A move that is not
    approved and begun within `valid_s` is withdrawn.

    While nobody waits, `nearer` brings the ranks of a task nearer to each other, and `packs` leaves whole
    nodes and cards to nobody: where it is `improve_factor` times as near, or so many times as much comes free
    as the task has, and no more than `most_improvements_an_hour` are begun in the whole cluster.
    """

    propose: bool = False
    waits_s: _Seconds = 120.0
    factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 2.0
    most_an_hour: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3
    valid_s: Annotated[float, msgspec.Meta(ge=10, le=86_400)] = 600.0
    nearer: bool = True
    packs: bool = False
    improve_factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 2.0
    most_improvements_an_hour: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3

    def problems(self) -> Sequence[Contradiction]:
        wants = self.packs and not self.propose
        return [Contradiction(("packs",), "is read with propose: true alone")] if wants else []


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set. `topology` says by whose labels nodes are near each other; `levels`, from far to near,
    by which others.

    `starving_after_s` is after how long nodes are kept free for a waiting gang; `quiet_s` how long a gang of
    unknown size, or of a PodGroup, must have got no new pod; `stranded_after_s` after how long a pod that its
    node no longer takes is made anew. Nodes are kept free for at most `reserved_for_s`, and no larger share
    of the cluster than `reserved_share`. `require_policies`: nobody leads, and so nothing is placed, before
    the policies have been seen in force that keep others from writing plans and assignments.
    """

    version: Literal["v1"]
    topology: Literal["gke", "aws", "azure", "nvlink", "oci", "topograph"] = "gke"
    levels: tuple[LevelSettings, ...] = ()
    cards: CardSettings = CardSettings()
    starving_after_s: _Seconds = 600.0
    quiet_s: _Seconds = 1.0
    stranded_after_s: _Seconds = 30.0
    reserved_for_s: _Seconds = 3600.0
    reserved_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    preemption: PreemptionSettings = PreemptionSettings()
    admission: AdmissionSettings = AdmissionSettings()
    moves: MoveSettings = MoveSettings()
    require_policies: bool = False

    def problems(self) -> Sequence[Contradiction]:
        """What is wrong with the levels as a whole."""
        if self.levels and self.admission.topology:
            return [Contradiction(("levels",), "admission.topology says the levels already")]
        if self.topology != "gke" and (self.levels or self.admission.topology):
            by = "levels" if self.levels else "admission.topology"
            return [Contradiction(("topology",), f"{by} says the levels already")]
        sets = {len(level.labels) for level in self.levels}
        if len(sets) > 1:
            return [Contradiction(("levels",), "every level needs as many labels as the others")]
        try:
            self.scheme()
        except ValueError as error:
            return [Contradiction(("levels",), str(error))]
        return []

    def scheme(self) -> Scheme:
        """The topology that the levels describe, that of the preset if there are none."""
        if not self.levels:
            return PRESETS[self.topology]
        return Scheme(
            tuple(level.name for level in self.levels),
            tuple(level.weight for level in self.levels),
            tuple(zip(*(level.labels for level in self.levels), strict=True)),
        )


DEFAULT_SETTINGS = SchedulerSettings(version="v1")


def read_settings(file: Path) -> SchedulerSettings:
    """The settings in a file.

    Raises:
        SettingsError: they are wrong, or the file cannot be read; has every mistake.
    """
    return read_settings_file(file, SchedulerSettings)
