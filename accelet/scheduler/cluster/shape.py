"""What a pod asks of a node, without who asks; and rules between pods of one node, as amounts it asks for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelet.kube.pods import HostPort, Pod
from accelet.kube.requests import pod_units
from accelet.kube.selection import NodeTerm, Toleration
from accelet.scheduler.cards.needs import CARD_RESOURCES, CardNeeds, read_needs
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.cluster.usage import UNLIMITED
from accelet.scheduler.errors import NeedsError


@dataclass(frozen=True, slots=True)
class Reach:
    """From which nodes a pod's volume can be reached: those that meet one of the terms.

    `volume` is what people call it. Volumes of one reach are one rule: pods are alike that differ in nothing
    but which of them they use.
    """

    terms: tuple[NodeTerm, ...]
    volume: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class NodeRules:
    """Which nodes a pod may be on. `required_terms` is None without required node affinity.

    `features` are those that a node must declare, `keys` the labels that it must have, of whatever value.
    """

    node_selector: frozenset[tuple[str, str]] = frozenset()
    required_terms: tuple[NodeTerm, ...] | None = None
    tolerations: frozenset[Toleration] = frozenset()
    reaches: frozenset[Reach] = frozenset()
    features: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        selects = self.node_selector, self.required_terms, self.reaches
        object.__setattr__(self, "_hash", hash((*selects, self.tolerations, self.features, self.keys)))

    def __hash__(self) -> int:
        """Worked out once: a pod may say much of nodes, and is looked up often."""
        return self._hash


@dataclass(frozen=True, slots=True)
class PodShape:
    """Pods of one shape are interchangeable: same rules, same units (positive ones, `pods` among them).

    `cards` is None where they ask for none. `host_ports` are those that they take of their node.
    """

    units: frozenset[tuple[str, int]]
    rules: NodeRules = NodeRules()
    cards: CardNeeds | None = None
    host_ports: frozenset[HostPort] = frozenset()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.units, self.rules, self.cards, self.host_ports)))

    def __hash__(self) -> int:
        """Worked out once, as of the rules."""
        return self._hash


def share_shapes(shapes: Iterable[PodShape]) -> tuple[PodShape, ...]:
    """The same shapes, one object for those that are equal, so that they are compared at a glance."""
    known: dict[PodShape, PodShape] = {}
    return tuple(known.setdefault(shape, shape) for shape in shapes)


@dataclass(frozen=True, slots=True)
class PodAsk:
    """What one pod asks for. Where its wishes for cards contradict themselves, `problem` says how.

    The shape then has the amounts only. So it is where the pod says more than is read. `problem` also says
    for which volume it waits.
    """

    shape: PodShape
    problem: str | None = None

    def with_volumes(self, reaches: frozenset[Reach], problem: str | None = None) -> "PodAsk":
        """The same of a pod whose volumes can be reached from there, or that waits for one of them."""
        if not reaches and problem is None:
            return self
        rules = replace(self.shape.rules, reaches=reaches)
        return PodAsk(replace(self.shape, rules=rules), self.problem or problem)


def shape_of(pod: Pod, card_resources: Sequence[str] = CARD_RESOURCES) -> PodShape:
    return asked_by(pod, card_resources).shape


def asked_by(pod: Pod, card_resources: Sequence[str] = CARD_RESOURCES) -> PodAsk:
    if pod.unread:
        return PodAsk(_shape(pod, None), f"pod {pod.name}: {pod.unread}")
    try:
        return PodAsk(_shape(pod, read_needs(pod, card_resources)))
    except NeedsError as error:
        return PodAsk(_shape(pod, None), f"pod {pod.name}: {error}")


def _shape(pod: Pod, cards: CardNeeds | None) -> PodShape:
    return PodShape(
        cards=cards,
        host_ports=pod.host_ports,
        units=frozenset(
            (resource, min(amount, UNLIMITED)) for resource, amount in pod_units(pod).items() if amount > 0
        ),
        rules=NodeRules(
            node_selector=frozenset(pod.node_selector.items()),
            required_terms=pod.required_terms,
            tolerations=frozenset(pod.tolerations),
            features=pod.features,
            keys=pod.required_keys,
        ),
    )


class Limit(NamedTuple):
    """An amount, `free` on each leaf, of which each pod to be placed needs one of `needs`, by rank.

    `reason` says for people, behind a number of nodes, why there is too little of it.
    """

    needs: tuple[int, ...]
    free: Ints
    reason: str


class Separation(NamedTuple):
    """Two groups of the pods to be placed, no pod of one on a leaf with a pod of the other.

    `one` and `other` are 1 for each pod of that group, by rank; `where` has the leaves on which it holds.
    """

    one: tuple[int, ...]
    other: tuple[int, ...]
    where: npt.NDArray[np.bool_]


def leaves_one_a_leaf(limit: Limit) -> bool:
    """Whether no two of the pods get enough of it on any leaf."""
    return int(limit.free.max(initial=0)) < 2 * min(limit.needs)


def marks_of(separations: Sequence[Separation], leaves: int) -> list[Limit]:
    """Amounts of which there is enough everywhere: what is taken of them says which group is on a leaf."""
    groups = (group for separation in separations for group in (separation.one, separation.other))
    return [Limit(group, np.full(leaves, UNLIMITED), "") for group in groups]


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
