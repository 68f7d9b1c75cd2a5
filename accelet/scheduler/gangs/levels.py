"""Which level of the network a gang's pods must or had best share, said in our annotations or in Kueue's."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelet.kube.pods import Pod
from accelet.runtime.excerpts import excerpt
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.errors import UnknownLevelError
from accelet.scheduler.gangs.annotations import Said

REQUIRED_LEVEL = "accelet.dev/required-level"
PREFERRED_LEVEL = "accelet.dev/preferred-level"
EXCLUSIVE_LEVEL = "accelet.dev/exclusive-level"
"""Of which level a gang is to have a domain to itself."""

POD_GROUP_TOPOLOGY = "the topology key of its PodGroup"

_KUEUE = "kueue.x-k8s.io/podset-"
KUEUE_REQUIRED = f"{_KUEUE}required-topology"
KUEUE_PREFERRED = f"{_KUEUE}preferred-topology"
KUEUE_SLICE_LEVEL = f"{_KUEUE}slice-required-topology"
KUEUE_SLICE_LAYERS = f"{_KUEUE}slice-required-topology-constraints"
KUEUE_GROUP = f"{_KUEUE}group-name"


@dataclass(frozen=True, slots=True)
class LevelName:
    """A level as somebody names it: we by its name, Kueue and PodGroups by a label that nodes have for it.

    `annotation` is where that is said.
    """

    annotation: str
    text: str

    def number(self, scheme: Scheme) -> int:
        """
        Raises:
            UnknownLevelError: there is no such level; a sentence for people.
        """
        is_label = self.annotation.startswith(_KUEUE) or self.annotation == POD_GROUP_TOPOLOGY
        for names in scheme.label_sets if is_label else (scheme.levels,):
            if self.text in names:
                return names.index(self.text)
        known = [label for labels in scheme.label_sets for label in labels] if is_label else scheme.levels
        what = "labels of the levels" if is_label else "levels"
        raise UnknownLevelError(
            f"{self.annotation} is {excerpt(self.text)}, but the {what} are {', '.join(known)}"
        )


def read_required_level(said: Said) -> LevelName | None:
    return read_level(said, REQUIRED_LEVEL, KUEUE_REQUIRED)


def read_preferred_level(said: Said) -> LevelName | None:
    return read_level(said, PREFERRED_LEVEL, KUEUE_PREFERRED)


def read_exclusive_level(said: Said, gated: Sequence[Pod]) -> LevelName | None:
    """Of which level the gang is to have a domain to itself. It has it as long as one of its pods runs."""
    level = read_level(said, EXCLUSIVE_LEVEL)
    without = next((pod for pod in gated if EXCLUSIVE_LEVEL not in pod.annotations), None)
    if level is not None and without is not None:
        said.object_to(f"{EXCLUSIVE_LEVEL} is for all pods of a gang, but pod {without.name} has it not")
    return level


def read_level(said: Said, *names: str) -> LevelName | None:
    """What the first of these annotations says that the pods have."""
    for name in names:
        text = said.one(name)
        if text is not None:
            return LevelName(name, text)
    return None
