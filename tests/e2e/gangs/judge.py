"""What is wrong with gangs as they are seen, looked at a few times a second: values, and no cluster."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from accelet.kube.pods import Pod
from tests.e2e.gangs.kinds import Drawn

Places = Mapping[str, tuple[str, str, str]]


@dataclass
class Streak:
    """For how long something has been so without a break, and was at most."""

    now_s: float = 0.0
    worst_s: float = 0.0

    def look(self, *, holds: bool, passed_s: float) -> None:
        self.now_s = self.now_s + passed_s if holds else 0.0
        self.worst_s = max(self.worst_s, self.now_s)


@dataclass
class Kept:
    """For how long one reservation of one leader kept nodes free at most, and all of them did in a row."""

    one: Streak = field(default_factory=Streak)
    in_a_row: Streak = field(default_factory=Streak)
    which: object = None

    def look(self, which: object, passed_s: float) -> None:
        """`which` one keeps nodes free now, None if none does."""
        self.one.look(holds=which is not None and which == self.which, passed_s=passed_s)
        self.in_a_row.look(holds=which is not None, passed_s=passed_s)
        self.which = which


@dataclass(frozen=True)
class Sight:
    """A gang at one moment: its pods that have not ended, and how many have."""

    gang: Drawn
    pods: Sequence[Pod]
    done: int

    @property
    def bound(self) -> Sequence[Pod]:
        return [pod for pod in self.pods if pod.node_name]

    @property
    def needed(self) -> int:
        return min(self.gang.least, self.gang.size - self.done)

    @property
    def is_made(self) -> bool:
        """Whether its owner has made all pods that are still to come."""
        return len(self.pods) == self.gang.size - self.done

    @property
    def is_partial(self) -> bool:
        return 0 < len(self.bound) < self.needed

    @property
    def waits(self) -> bool:
        """Whether it is for a scheduler to place it, or what is left of it."""
        return self.is_made and any(pod.gates for pod in self.pods)


def pinned_to(pod: Pod) -> str | None:
    """The node that a pod has, or is to get."""
    if pod.node_name:
        return pod.node_name
    pins = [field for term in pod.required_terms or () for field in term.fields]
    return pins[0].values[0] if pins and not pod.gates else None


def gpus_of(sight: Sight, pod: Pod) -> int:
    """Pods of unlike gangs end in their rank."""
    amounts = sight.gang.gpus
    return amounts[0] if len(set(amounts)) == 1 else amounts[int(pod.name.rsplit("-", 1)[1])]


def free_gpus(sights: Iterable[Sight], nodes: Mapping[str, int]) -> Counter[str]:
    """What is left of the GPUs of nodes beside all pods that have one or are to get it."""
    free = Counter(nodes)
    for sight in sights:
        for pod in sight.pods:
            node = pinned_to(pod)
            if node is not None and node in free:
                free[node] -= gpus_of(sight, pod)
    return free


def has_remedy(sight: Sight, free: Mapping[str, int], places: Places, closed: Collection[str]) -> bool:
    """Whether the rest of a partial gang has room beside the part that is bound.

    `free` has the nodes that are there, `closed` those where its rules let none of its pods be. The largest
    pods are tried first: of unlike ones there may be room where this finds none.
    """
    level = sight.gang.level
    homes = {places[pod.node_name][:level] for pod in sight.bound if pod.node_name}
    left = {
        node: amount for node, amount in free.items() if places[node][:level] in homes and node not in closed
    }
    missing = [pod for pod in sight.pods if not pod.node_name]
    lacking = sight.needed - len(sight.bound)
    for pod in missing:
        node = pinned_to(pod)
        if node is not None and node in left:
            left[node] += gpus_of(sight, pod)
    for amount in sorted((gpus_of(sight, pod) for pod in missing), reverse=True)[:lacking]:
        node = next((node for node, room in left.items() if room >= amount), None)
        if node is None:
            return False
        left[node] = 0 if sight.gang.is_apart else left[node] - amount
    return True


@dataclass
class Judge:
    """Collects for how long each gang was partial while there was a remedy, and a simple one waited.

    `partial` and `waits` count the time in which somebody led, `partial_in_all` all of it. `hot` are the
    nodes of that pool.
    """

    places: Places
    hot: Collection[str] = frozenset()
    partial: defaultdict[str, Streak] = field(default_factory=lambda: defaultdict(Streak))
    partial_in_all: defaultdict[str, Streak] = field(default_factory=lambda: defaultdict(Streak))
    waits: defaultdict[str, Streak] = field(default_factory=lambda: defaultdict(Streak))

    def look(
        self, sights: Sequence[Sight], nodes: Mapping[str, int], passed_s: float, *, is_led: bool
    ) -> None:
        """The gangs that are there, the GPUs of the nodes that are, since the last look."""
        led_s = passed_s if is_led else 0.0
        free = free_gpus(sights, nodes)
        ported = _nodes_of(sight for sight in sights if sight.gang.kind == "ported")
        for sight in sights:
            name, closed = sight.gang.name, set[str]()
            if sight.gang.is_apart:
                closed |= ported if sight.gang.kind == "ported" else _nodes_of([sight])
            if sight.gang.is_hot:
                closed |= self.places.keys() - self.hot
            is_stuck = sight.is_partial and sight.is_made and has_remedy(sight, free, self.places, closed)
            self.partial[name].look(holds=is_stuck, passed_s=led_s)
            self.partial_in_all[name].look(holds=is_stuck, passed_s=passed_s)
            if sight.gang.kind == "simple":
                self.waits[name].look(holds=sight.waits, passed_s=led_s)


def _nodes_of(sights: Iterable[Sight]) -> set[str]:
    return {node for sight in sights for pod in sight.pods if (node := pinned_to(pod))}


def worst(streaks: Mapping[str, Streak]) -> tuple[float, str]:
    """The longest of all streaks, and whose it was."""
    return max(((one.worst_s, name) for name, one in streaks.items()), default=(0.0, "nobody"))
