"""Which gangs of lower priority are evicted so that one gets in: the lowest, then the fewest."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from accelet.kube.objects import ObjectKey
from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.residents import Occupant
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.errors import BrokenPlanError, UnknownLevelError
from accelet.scheduler.gangs.exclusive import as_occupant, whole_domains
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.placement.gangproblems import required_level
from accelet.scheduler.placement.plan import Plan, faulty_plan, find_places, take_places
from accelet.scheduler.placement.unlike import Effort
from accelet.scheduler.preemption.victims import Victim, pod_keys, rank_over

_ROOM, _NODES_A_UNIT = 200, 20
"""What a room of its own costs, in units of a budget: so much, and as much again for so many nodes."""

_SUMS = 20
"""What it costs to judge a set of victims by sums alone."""

_KEPT = 3
"""One part in so many of the work is kept for larger sets than those that are looked at one by one."""

_SCREEN_UNITS = 100_000
"""What it may cost to count how many pods each node takes."""

_NO_DOMAIN = Occupant("")

_EFFORT = Effort(units=60_000, restarts=4, tries=2_000)

Allows = Callable[[Sequence[Victim]], bool]


@dataclass(frozen=True, slots=True)
class PreemptionTerms:
    """How much is tried: of `most_candidates`, every set of up to `most_victims`, for `units` of work."""

    most_victims: int = 3
    most_candidates: int = 32
    units: int = 400_000
    effort: Effort = _EFFORT


@dataclass(frozen=True, slots=True)
class Preemption:
    """The answer. With `victims`, `plan` is the gang's once they are gone; a plan without them says a fault.

    So must the `awaited` pods be, of those that end in any case.

    `is_settled` says that no other set is better; without victims, that none does it at all, or that none
    is needed. It took `spent` units of work, without those of the first look at every node.
    """

    victims: tuple[Victim, ...] = ()
    plan: Plan | None = None
    awaited: tuple[ObjectKey, ...] = ()
    is_settled: bool = True
    spent: int = 0


def cost_of(victims: Sequence[Victim]) -> tuple[object, ...]:
    """By what sets of victims are compared, the least first.

    The highest priority among them, how many gangs, how many pods, and then those that have run for the
    shortest time.
    """
    return (
        max(victim.priority for victim in victims),
        len(victims),
        sum(len(victim.pods) for victim in victims),
        -min(victim.since_s for victim in victims),
        sorted(victim.key for victim in victims),
    )


def find_preemption(
    gang: Gang,
    victims: Sequence[Victim],
    supposed: Supposition,
    *,
    ending: Collection[ObjectKey] = (),
    allows: Allows = lambda _: True,
    terms: PreemptionTerms = PreemptionTerms(),
) -> Preemption:
    """The best set of `victims` without which the gang gets in, as few of it as may begin.

    Those of too high a priority are left out. Pods that are `ending` are counted as gone: where that is
    enough, nobody is evicted. Nobody is either where the planner cannot decide that.
    `allows` says of a set whether disruption budgets let it be evicted at once; what it forbids of a set it
    forbids of every larger one.
    """
    search = _Search(gang.least_part, supposed, tuple(ending), allows, terms)
    below = rank_over(gang.pods)
    try:
        found = search.run([victim for victim in victims if victim.priority < below and allows([victim])])
    except BrokenPlanError as fault:
        found = Preemption(plan=faulty_plan(gang, fault), is_settled=False)
    return replace(found, spent=search.spent)


class _Search:
    def __init__(
        self,
        gang: Gang,
        supposed: Supposition,
        ending: tuple[ObjectKey, ...],
        allows: Allows,
        terms: PreemptionTerms,
    ) -> None:
        self._gang, self._supposed, self._ending = gang, supposed, ending
        self._allows, self._terms = allows, terms
        self._budget = Budget(terms.units)
        self._kept = terms.units // _KEPT
        self._room_units = _ROOM + len(supposed.layout.nodes) // _NODES_A_UNIT
        self._is_settled = True
        self._screen: _Screen | None = None

    @property
    def spent(self) -> int:
        return self._budget.spent

    @property
    def _layout(self) -> Layout:
        return self._supposed.layout

    def run(self, victims: Sequence[Victim]) -> Preemption:
        now = self._find(())
        if now.nodes is not None or not now.is_settled:
            return Preemption(is_settled=now.nodes is not None)
        self._screen = self._make_screen(victims)
        useful = [victim for victim in victims if self._screen is None or self._screen.gains(victim)]
        priorities = sorted({victim.priority for victim in useful})

        def suffices(highest: int) -> bool:
            return self._find([victim for victim in useful if victim.priority <= highest]).nodes is not None

        enough = bisect_left(priorities, 1, key=suffices)
        if enough == len(priorities):
            return Preemption() if self._is_settled else self._reprieve(useful)
        among = [victim for victim in useful if victim.priority <= priorities[enough]]
        return self._fewest(among, priorities[enough])

    def _fewest(self, among: Sequence[Victim], highest: int) -> Preemption:
        """The best set of these, of which those below `highest` do not suffice."""
        candidates = sorted(among, key=lambda victim: (len(victim.pods), -victim.since_s, victim.key))
        few = candidates[: self._terms.most_candidates]
        self._is_settled &= len(few) == len(candidates)
        for some in self._sets(few, highest):
            if self._budget.left <= self._kept:
                self._is_settled = False
                break
            if not self._is_enough(some):
                continue
            if self._allows(some) and (plan := self._proof(some)) is not None:
                return Preemption(tuple(some), plan, self._awaited(plan), self._is_settled)
        # Larger sets are not looked at one by one.
        self._is_settled &= len(few) <= self._terms.most_victims
        return self._reprieve(among)

    def _sets(self, candidates: Sequence[Victim], highest: int) -> Iterator[tuple[Victim, ...]]:
        """Each set of few victims that has one of the priority that it takes, the best first."""
        sizes = range(1, self._terms.most_victims + 1)
        sets = [
            some
            for size in sizes
            for some in combinations(candidates, size)
            if any(victim.priority == highest for victim in some)
        ]
        return iter(sorted(sets, key=cost_of))

    def _reprieve(self, among: Sequence[Victim]) -> Preemption:
        """A set of which none can be spared, from those the planner needs when all of them are gone.

        Where the work is over before each was looked at, that is said to be unsettled.
        """
        self._kept = 0
        plan = self._proof(among)
        left = self._needed(among, plan)
        for victim in sorted(left, key=lambda one: (-one.priority, -len(one.pods), one.since_s, one.key)):
            if self._budget.left <= 0:
                self._is_settled = False
                break
            if victim not in left:
                continue
            spared = [one for one in left if one is not victim]
            if not spared or not self._is_enough(spared):
                continue
            if (fewer := self._proof(spared)) is not None:
                # On the nodes of the others nothing of it is placed: it is good without their end too.
                plan, left = fewer, self._needed(spared, fewer)
        if plan is None or not left or not self._allows(left):
            return Preemption(is_settled=False)
        victims = tuple(sorted(left, key=lambda one: one.key))
        return Preemption(victims, plan, self._awaited(plan), self._is_settled)

    def _needed(self, among: Sequence[Victim], plan: Plan | None) -> list[Victim]:
        """Of these, those on nodes of the plan, or in the way of whoever is to have a domain to itself."""
        if plan is None:
            return []
        return [victim for victim in among if self._is_in_the_way(victim.occupant, victim.nodes, plan)]

    def _awaited(self, plan: Plan) -> tuple[ObjectKey, ...]:
        """The pods that end in any case, and that are in the way of the plan until then."""
        found: list[ObjectKey] = []
        for pod in self._ending:
            node, _ = self._supposed.charges[pod]
            residents = self._supposed.now.residents.of(node)
            occupant = next((one.occupant for one in residents if one.pod == pod), None)
            if self._is_in_the_way(occupant, (node,), plan):
                found.append(pod)
        return tuple(found)

    def _is_in_the_way(self, occupant: Occupant | None, nodes: Collection[str], plan: Plan) -> bool:
        """Whether pods on these nodes are on one of the plan, or in a domain with it that one has alone."""
        used = set(plan.nodes or ())
        if occupant is None or not (occupant.has_domain or self._gang.is_alone):
            return not used.isdisjoint(nodes)
        mine = whole_domains(as_occupant(self._gang), self._layout, used)
        theirs = whole_domains(occupant, self._layout, nodes)
        return bool(np.any(mine & self._mask(nodes)) or np.any(theirs & self._mask(used)))

    def _mask(self, nodes: Iterable[str]) -> Mask:
        return whole_domains(_NO_DOMAIN, self._layout, nodes)

    def _is_enough(self, victims: Sequence[Victim]) -> bool:
        """Whether there can be room enough once these are gone, by sums alone."""
        if self._screen is None:
            return True
        self._budget.left -= _SUMS
        return self._screen.is_enough(victims, len(self._gang.pods))

    def _make_screen(self, victims: Sequence[Victim]) -> "_Screen | None":
        """How many pods of the gang each node takes, now and without all of these.

        None of unlike pods, and where amounts alone do not say what is free: where one has a domain alone.
        """
        has_domains = any(victim.occupant.has_domain for victim in victims)
        if len(set(self._gang.shapes)) > 1 or self._gang.is_alone or has_domains:
            return None
        shape, pods = self._gang.shapes[0], len(self._gang.pods)
        try:
            level = required_level(self._gang, self._layout)
            _, now = self._room(()).metered(Budget(_SCREEN_UNITS)).slots_between(shape, pods)
            _, most = self._room(victims).metered(Budget(_SCREEN_UNITS)).slots_between(shape, pods)
        except (UnknownLevelError, BudgetSpentError):
            return None
        if self._gang.is_exclusive:
            now, most = np.minimum(now, 1), np.minimum(most, 1)
        codes = self._layout.tree.codes[level] if level != ROOT else np.zeros(len(now), dtype=np.int64)
        leaf_of = self._layout.leaf_of
        leaves = {
            victim.key: np.array([leaf_of[node] for node in victim.nodes if node in leaf_of], dtype=np.int64)
            for victim in victims
        }
        return _Screen(now, most, np.asarray(codes), leaves)

    def _proof(self, victims: Sequence[Victim]) -> Plan | None:
        """The gang's plan once these are gone; None where the planner finds none."""
        room = self._room(victims)
        plan = take_places(self._ask(room), self._layout, room)
        self._is_settled &= plan.nodes is not None or plan.is_settled
        return plan if plan.nodes is not None else None

    def _find(self, victims: Sequence[Victim]) -> Plan:
        plan = self._ask(self._room(victims))
        self._is_settled &= plan.nodes is not None or plan.is_settled
        return plan

    def _ask(self, room: CardRoom) -> Plan:
        share = Budget(max(1, min(self._budget.left - self._kept, self._terms.effort.units)))
        try:
            return find_places(self._gang, self._layout, room, self._terms.effort, share)
        finally:
            self._budget.left -= share.spent

    def _room(self, victims: Sequence[Victim]) -> CardRoom:
        self._budget.left -= self._room_units
        return self._supposed.room((*self._ending, *pod_keys(victims)))


@dataclass(frozen=True, eq=False)
class _Screen:
    """How many pods of a gang of like ones each leaf takes at most, `now` and with all victims gone."""

    now: Ints
    most: Ints
    codes: Ints
    leaves: dict[GangKey, Ints]

    def gains(self, victim: Victim) -> bool:
        leaves = self.leaves[victim.key]
        return bool(np.any(self.most[leaves] > self.now[leaves]))

    def is_enough(self, victims: Sequence[Victim], pods: int) -> bool:
        """Whether some domain of the level that the gang must share can hold it without these."""
        freed: Mask = np.zeros(len(self.now), dtype=bool)
        for victim in victims:
            freed[self.leaves[victim.key]] = True
        slots = np.where(freed, self.most, self.now)
        return bool(np.bincount(self.codes, weights=slots).max(initial=0.0) >= pods)
