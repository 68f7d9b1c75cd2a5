"""By counting alone: which tasks, once gone, can leave room for a waiting gang whose pods are alike."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import combinations, zip_longest

import numpy as np

from accelet.kube.objects import ObjectKey
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.gangs.exclusive import find_kept_out
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.moves.finding.options import Option, Some, in_order, most_gained
from accelet.scheduler.moves.movable import MovableTask
from accelet.scheduler.placement.gangproblems import required_level

_ROOM, _QUESTION = 1_000, 60
"""What it costs of a budget to suppose a room, and for each leaf of it that is asked about."""


_UNION = 6
_NOBODY: Some = frozenset()


class Gains:
    """How many more of the gang's pods leaves take at most, once some of `tasks` are gone.

    `freed` is the room once all of them are. Nothing is said of where they are to go, and where counting is
    undecided there may be room: what is impossible by these numbers is impossible. `allowed` says which
    tasks may go together; every part of what it allows is allowed too. `is_exact` says that all that was
    counted until now was decided.

    Raises:
        BudgetSpentError: by any method, once nothing is left.
    """

    def __init__(
        self,
        waiting: Gang,
        tasks: Sequence[MovableTask],
        supposed: Supposition,
        freed: CardRoom,
        *,
        allowed: Callable[[Some], bool],
        budget: Budget,
    ) -> None:
        self._waiting, self._tasks, self._supposed = waiting, tasks, supposed
        self._allowed, self._budget = allowed, budget
        self.is_exact = True
        self._now, self._most = self._slots(supposed.now), self._slots(freed)
        level = required_level(waiting, supposed.layout)
        whole = np.zeros_like(self._now)
        self._domains: Ints = supposed.layout.tree.codes[level] if level != ROOT else whole
        self._pods = self._pods_by_leaf()
        self._leaves_of = defaultdict[int, list[int]](list)
        for leaf, by_task in self._pods.items():
            for number in by_task:
                self._leaves_of[number].append(leaf)
        self._known = defaultdict[int, dict[Some, int]](dict)
        self._short = self._lacking()

    def _pods_by_leaf(self) -> Mapping[int, Mapping[int, list[ObjectKey]]]:
        """The pods of each task, by its number, on each leaf that takes more once all tasks are gone."""
        leaf_of, found = self._supposed.layout.leaf_of, dict[int, dict[int, list[ObjectKey]]]()
        for number, task in enumerate(self._tasks):
            for pod, node in zip(task.pods, task.nodes, strict=True):
                leaf = leaf_of.get(node)
                if leaf is not None and self._most[leaf] > self._now[leaf]:
                    found.setdefault(leaf, {}).setdefault(number, []).append(pod)
        return found

    @property
    def useful(self) -> Sequence[int]:
        """Tasks on leaves that take more without them: those of few ranks first, then the least crowded."""
        return sorted(self._leaves_of, key=self._order)

    def _order(self, number: int) -> tuple[int, int, int]:
        crowd = min(len(self._pods[leaf]) for leaf in self._leaves_of[number])
        return len(self._tasks[number].nodes), crowd, number

    @property
    def is_complete(self) -> bool:
        """Whether every set that is enough has a part that `sets` has: if no task makes room on two leaves.

        As far as is known until now.
        """
        is_apart = all(len(leaves) == 1 for leaves in self._leaves_of.values())
        return self.is_exact and is_apart and all(lacking > 0 for _, lacking in self._short)

    def is_enough(self, some: Some) -> bool:
        """Whether by these numbers the gang gets in once these tasks are gone."""
        self._ask(self._parts_of(some))
        return any(self._gain(some, domain) >= lacking for domain, lacking in self._short)

    def look_at(self, candidates: Collection[int], most: int) -> None:
        """Asks at once what `is_enough` needs to know of sets of up to `most` of the candidates."""
        self._ask(
            (leaf, frozenset(some))
            for leaf, by_task in self._pods.items()
            for size in range(1, most + 1)
            for some in combinations(sorted(by_task.keys() & set(candidates)), size)
        )

    def sets(self, most: int) -> Iterator[Some]:
        """Sets of up to `most` allowed tasks that are enough, those of the fewest ranks first."""
        sizes = range(1, min(most, len(self._leaves_of)) + 1)
        seen = {_NOBODY}
        for _, some in merge(*map(self._of_size, sizes), key=lambda found: found[0]):
            self._budget.spend(_UNION)
            if some not in seen and self._allowed(some) and self.is_enough(some):
                seen.add(some)
                yield some

    def _of_size(self, size: int) -> Iterator[tuple[int, Some]]:
        """Sets of so many tasks, by ranks; before that nobody, with as few ranks as there can be.

        So nothing is asked until all sets of fewer ranks have been looked at.
        """
        yield size * min(len(self._tasks[number].nodes) for number in self._leaves_of), _NOBODY
        orders = [
            in_order(self._options(domain, lacking, size), lacking, size) for domain, lacking in self._short
        ]
        for ranks, some in merge(*orders, key=lambda found: found[0]):
            if len(some) == size:
                yield ranks, some

    def _lacking(self) -> Sequence[tuple[int, int]]:
        """The domains that take the gang once all tasks are gone, and how many of its pods each lacks."""
        count = len(self._waiting.pods)
        most, now = (np.bincount(self._domains, slots) for slots in (self._most, self._now))
        return [(int(domain), count - int(now[domain])) for domain in np.flatnonzero(most >= count)]

    def _options(self, domain: int, lacking: int, most: int) -> list[Option]:
        """Sets of tasks of which no part makes as much room on a leaf of this domain.

        A leaf is left out where, by what is known so far, so many tasks on it are in no set that is enough.
        """
        leaves = [leaf for leaf in sorted(self._pods) if self._domains[leaf] == domain]
        reach = {leaf: [0, *[self._top(leaf)] * most] for leaf in leaves}
        steps = sum(sorted(map(len, self._leaves_of.values()), reverse=True)[:most])
        found = set[Some]()
        for size in range(1, most + 1):
            gained = most_gained(reach.values(), steps)
            if gained[-1] < lacking:
                return []
            matter = [leaf for leaf in leaves if reach[leaf][size] + gained[steps - size] >= lacking]
            asked = {leaf: self._parts(leaf, size) for leaf in matter}
            self._ask((leaf, some) for leaf, parts in asked.items() for some in parts)
            for leaf, parts in asked.items():
                gains = (self._known[leaf][some] - int(self._now[leaf]) for some in parts)
                reach[leaf][size] = max(reach[leaf][size - 1], *gains, 0)
                found.update(some for some in parts if self._is_critical(leaf, some))
        if most_gained(reach.values(), steps)[-1] < lacking:
            return []
        self._ask(part for some in found for part in self._parts_of(some))
        return [Option(some, self._ranks(some), self._gain(some, domain)) for some in found]

    def _top(self, leaf: int) -> int:
        return int(self._most[leaf] - self._now[leaf])

    def _parts(self, leaf: int, size: int) -> list[Some]:
        """Sets of so many tasks on a leaf, without those of which a part makes all the room there is."""
        full = [some for some, slots in self._known[leaf].items() if slots == self._most[leaf]]
        parts = (frozenset(some) for some in combinations(self._pods[leaf], size))
        return [some for some in parts if self._allowed(some) and not any(part < some for part in full)]

    def _is_critical(self, leaf: int, some: Some) -> bool:
        """Whether without any of these a leaf takes fewer, as far as that has been asked."""
        known = self._known[leaf]
        return all(known.get(some - {one}, int(self._now[leaf])) < known[some] for one in some)

    def _parts_of(self, some: Some) -> list[tuple[int, Some]]:
        """Which of these tasks are on which leaf."""
        leaves = {leaf for number in some for leaf in self._leaves_of.get(number, ())}
        return [(leaf, some.intersection(self._pods[leaf])) for leaf in leaves]

    def _ranks(self, some: Some) -> int:
        return sum(len(self._tasks[number].nodes) for number in some)

    def _gain(self, some: Some, domain: int) -> int:
        """How many more a domain takes without these, which has been asked of all leaves."""
        return sum(
            self._known[leaf][part] - int(self._now[leaf])
            for leaf, part in self._parts_of(some)
            if self._domains[leaf] == domain
        )

    def _ask(self, questions: Iterable[tuple[int, Some]]) -> None:
        """How many each leaf takes without some tasks.

        Leaves know nothing of each other, so that one room answers for one set of each.
        """
        by_leaf = defaultdict[int, list[Some]](list)
        for leaf, some in questions:
            if some not in self._known[leaf]:
                by_leaf[leaf].append(some)
        for at_once in zip_longest(*by_leaf.values()):
            asked = [(leaf, some) for leaf, some in zip(by_leaf, at_once, strict=True) if some is not None]
            self._budget.spend(_ROOM + _QUESTION * len(asked))
            gone = [pod for leaf, some in asked for one in some for pod in self._pods[leaf][one]]
            slots = self._slots(self._supposed.room(gone))
            for leaf, some in asked:
                self._known[leaf][some] = int(slots[leaf])

    def _slots(self, room: CardRoom) -> Ints:
        free, layout = room.metered(Budget()), self._supposed.layout
        for kept_out in find_kept_out(self._waiting, layout, room.residents, self._budget):
            free = free.without(kept_out.closed, kept_out.reason)
        sure, most = free.slots_between(self._waiting.shapes[0], len(self._waiting.pods))
        self.is_exact &= bool((sure == most).all())
        return most
