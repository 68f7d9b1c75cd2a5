"""Places for a gang some of whose Jobs, or groups, are each to have a domain to themselves.

A domain is the nodes that have one value of a label. As no two Jobs share one, each of them is placed by
itself once it has its domain, and who gets which is a matching.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from accelet.kube.pods import Pod
from accelet.runtime.excerpts import excerpt
from accelet.scheduler.budget import BudgetSpentError
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.gangs.exclusive import with_others
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.placement.identical import Shortfall, place_identical, work_to_place
from accelet.scheduler.placement.podsets.placing import SetsOutcome
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.repairs.gaps import length_of_known, repair
from accelet.scheduler.placement.unlike import Effort, place_unlike
from accelet.scheduler.placement.why import list_refusals

_MOST_SCOPES = 16
"""Of each level but the widest so many domains are looked at."""

_SCOPE, _NUMBERS_A_UNIT = 60, 200
"""What a scope costs of the gang's budget, and how many numbers are looked at for one unit."""

_ELSEWHERE = "in another domain than they are to have"
_OWNED = "in a domain that others of the gang have to themselves"


def place_in_own_domains(
    gang: Gang,
    problem: PlacementProblem,
    layout: Layout,
    places: Sequence[tuple[Pod, int | None]],
    effort: Effort,
) -> SetsOutcome:
    """The pods of the gang, those of each of its `own_domains` in one that is theirs alone.

    `places` has the members by rank, and the leaf of each that stays. The nearest domains of the network
    come first. Whether like pods have a place is decided exactly; of unlike pods, and of those that have no
    domain to themselves, it is searched.

    Raises:
        BudgetSpentError: it takes too much work even to begin.
    """
    return _Placing(gang, problem, layout, places, effort).place()


def match(wanted: Sequence[Sequence[int]]) -> list[int] | None:
    """A different one of those that each wants, the first ones first; None where there are too few.

    By augmenting paths: time in proportion to the wishes, times the number of those who wish.
    """
    holder: dict[int, int] = {}
    held: dict[int, int] = {}
    for who in range(len(wanted)):
        came_from: dict[int, int] = {}
        queue = deque([who])
        free: int | None = None
        while queue and free is None:
            asking = queue.popleft()
            for one in wanted[asking]:
                if one in came_from:
                    continue
                came_from[one] = asking
                if one not in holder:
                    free = one
                    break
                queue.append(holder[one])
        if free is None:
            return None
        while free is not None:  # everybody on the way gets the next one, up to `who`, who had none
            asking = came_from[free]
            before = held.get(asking)
            holder[free], held[asking] = asking, free
            free = before
    return [held[who] for who in range(len(wanted))]


@dataclass(frozen=True, eq=False)
class _Job:
    """Pods that are to have a domain alone: the ranks to be placed, and by member, the leaf of who stays.

    `needs` has how many of each kind there are; `homes` are the domains of those that stay, the leader's
    first.
    """

    title: str
    ranks: tuple[int, ...]
    kept: tuple[int | None, ...]
    needs: tuple[int, ...]
    homes: tuple[int, ...] = ()

    @property
    def home(self) -> int | None:
        return self.homes[0] if self.homes else None


class _Placing:
    def __init__(
        self,
        gang: Gang,
        problem: PlacementProblem,
        layout: Layout,
        places: Sequence[tuple[Pod, int | None]],
        effort: Effort,
    ) -> None:
        self._gang, self._problem, self._effort = gang, problem, effort
        self._tree, self._places = problem.tree, places
        own = gang.own_domains[0]
        self._annotation, self._label = own.annotation, own.label
        self._codes = layout.values(own.label)
        self._strange = with_others(own, gang, layout, problem.room.residents, problem.budget)
        self._count = int(self._codes.max(initial=-1)) + 1
        self._is_sure = problem.is_decided
        jobs, self._rest, self._rest_kept = self._divide()
        self._jobs = [job for job in jobs if job.ranks]
        self._open = np.ones(self._count, dtype=bool)
        self._homes = homes = [home for job in jobs for home in job.homes]
        taken = [self._codes[leaf] for leaf in self._rest_kept if leaf is not None]
        self._open[[code for code in (*homes, *taken) if code >= 0]] = False
        self._open[np.unique(self._codes[self._strange & (self._codes >= 0)])] = False
        self._refused: set[tuple[tuple[int, ...], int]] = set()

    def place(self) -> SetsOutcome:
        stays = [leaf for _, leaf in self._places]
        is_begun = any(leaf is not None for leaf in stays)
        bound, best = self._bound(stays), None
        narrow = () if is_begun else range(self._tree.lowest, self._problem.within, -1)
        for level in (*narrow, self._problem.within):
            for inside in self._scopes(level):
                leaves = self._find(inside)
                if leaves is not None:
                    left = iter(leaves.tolist())
                    whole = [next(left) if leaf is None else leaf for leaf in stays]
                    distance = self._tree.length(np.array(whole, dtype=np.int64))
                    if best is None or distance < best[0]:
                        best = distance, leaves
            if best is not None:
                distance, leaves = best
                return SetsOutcome(leaves, distance, min(distance, bound), is_settled=distance <= bound)
        return SetsOutcome(None, is_settled=self._is_sure, reason=self._explain())

    def _divide(self) -> tuple[Sequence[_Job], tuple[int, ...], tuple[int | None, ...]]:
        """The Jobs, and what is of none of them: the ranks to be placed, and who stays where."""
        number = {key: at for at, own in enumerate(self._gang.own_domains) for key in own.members}
        some: list[list[tuple[int | None, int | None]]] = [[] for _ in self._gang.own_domains]
        rest: list[tuple[int | None, int | None]] = []
        rank = 0
        for pod, leaf in self._places:
            at = number.get(pod.key)
            (rest if at is None else some[at]).append((rank if leaf is None else None, leaf))
            rank += leaf is None
        jobs = [self._job(own.title, seats) for own, seats in zip(self._gang.own_domains, some, strict=True)]
        left = tuple(rank for rank, _ in rest if rank is not None)
        return jobs, left, tuple(leaf for _, leaf in rest)

    def _job(self, title: str, seats: Sequence[tuple[int | None, int | None]]) -> _Job:
        ranks = tuple(rank for rank, _ in seats if rank is not None)
        kinds = self._problem.demand.kinds[list(ranks)]
        needs = np.bincount(kinds, minlength=len(self._problem.kinds)) if ranks else ()
        homes = [int(self._codes[leaf]) for _, leaf in seats if leaf is not None and self._codes[leaf] >= 0]
        kept = tuple(leaf for _, leaf in seats)
        return _Job(title, ranks, kept, tuple(int(n) for n in needs), tuple(dict.fromkeys(homes)))

    def _scopes(self, level: int) -> Iterator[slice]:
        """The domains of a level of the network with room for all, by sums."""
        scopes = self._problem.demand.scopes(self._tree, level)
        return scopes if level == self._problem.within else islice(scopes, _MOST_SCOPES)

    def _find(self, inside: slice) -> Ints | None:
        """Places for all in one scope."""
        budget = self._problem.budget
        classes = len({job.needs for job in self._jobs})
        budget.spend(_SCOPE + classes * (inside.stop - inside.start) // _NUMBERS_A_UNIT)
        while (domains := self._choose(inside)) is not None:
            refused = len(self._refused)
            leaves = self._fill(domains, inside)
            if leaves is not None:
                return leaves
            if len(self._refused) == refused:
                return None  # not for want of another choice
            budget.spend(_SCOPE + classes * (inside.stop - inside.start) // _NUMBERS_A_UNIT)
        return None

    def _choose(self, inside: slice) -> Sequence[int] | None:
        """A domain for each Job, all of which have room by sums."""
        fitting = {job.needs: self._fitting(job.needs, inside) for job in self._jobs}
        free = [job for job in self._jobs if job.home is None]
        for job in self._jobs:
            if job.home is not None and not fitting[job.needs][job.home]:
                return None
        order = self._in_order(inside)
        wanted = {
            needs: [one for one in order if fits[one] and self._open[one]] for needs, fits in fitting.items()
        }
        if len({job.needs for job in free}) < 2:
            chosen = self._nearest(wanted[free[0].needs], len(free)) if free else []
        else:
            self._problem.budget.spend(len(free) * sum(map(len, wanted.values())) // _NUMBERS_A_UNIT)
            scarce = sorted(range(len(free)), key=lambda at: len(wanted[free[at].needs]))
            matched = match([wanted[free[at].needs] for at in scarce])
            chosen = None
            if matched is not None:
                by_job = dict(zip(scarce, matched, strict=True))
                chosen = [by_job[at] for at in range(len(free))]
        if chosen is None:
            return None
        left = iter(chosen)
        return [job.home if job.home is not None else next(left) for job in self._jobs]

    def _fitting(self, needs: tuple[int, ...], inside: slice) -> Mask:
        """The domains with room for so many of each kind."""
        codes = self._codes[inside]
        has_one, demand = codes >= 0, self._problem.demand
        fits = np.ones(self._count, dtype=bool)
        for slots, need in zip(demand.slots, needs, strict=True):
            if need:
                found = np.bincount(codes[has_one], slots[inside][has_one], minlength=self._count)
                fits &= found >= need
        if sum(need > 0 for need in needs) > 1:
            for free, each in demand.measures:
                found = np.bincount(codes[has_one], free[inside][has_one], minlength=self._count)
                fits &= found >= sum(need * amount for need, amount in zip(needs, each, strict=True))
        fits[[domain for of, domain in self._refused if of == needs]] = False
        return fits

    def _in_order(self, inside: slice) -> Sequence[int]:
        """The domains in a scope, in the order of the tree's leaves."""
        codes = self._codes[inside]
        found, first = np.unique(codes, return_index=True)
        return [int(one) for one in found[np.argsort(first)] if one >= 0]

    def _nearest(self, domains: Sequence[int], count: int) -> Sequence[int] | None:
        """So many that follow each other and are nearest; of those, the first."""
        if len(domains) < count:
            return None
        if count < 2:
            return domains[:count]
        codes, first = np.unique(self._codes, return_index=True)
        leaves = first[np.searchsorted(codes, domains)]
        gaps = np.zeros(len(leaves) - 1, dtype=np.int64)
        for of_level, step in zip(self._tree.codes, self._tree.scheme.steps, strict=True):
            gaps += step * (np.diff(of_level[leaves]) != 0)
        sums = np.convolve(gaps, np.ones(count - 1, dtype=np.int64), mode="valid")
        at = int(np.argmin(sums))
        return domains[at : at + count]

    def _fill(self, domains: Sequence[int], inside: slice) -> Ints | None:
        """A leaf for each rank, once each Job has a domain."""
        found = np.full(len(self._problem.shapes), -1, dtype=np.int64)
        within = np.zeros(len(self._codes), dtype=bool)
        within[inside] = True
        self._problem.budget.spend(len(found) + len(self._jobs) * (1 + len(within) // _NUMBERS_A_UNIT))
        is_quick = len(self._jobs) * work_to_place(self._tree) * 2 > self._problem.budget.left
        for job, domain in zip(self._jobs, domains, strict=True):
            leaves = self._fill_one(job, within & (self._codes == domain), is_quick=is_quick)
            if leaves is None:
                self._is_sure = False
                if job.home is None:
                    self._refused.add((job.needs, domain))
                return None
            found[list(job.ranks)] = leaves
        if self._rest:
            mine = np.isin(self._codes, [*domains, *self._homes]) & (self._codes >= 0)
            leaves = self._place_some(self._rest, self._rest_kept, within & ~mine, _OWNED)
            if leaves is None:
                self._is_sure = False
                return None
            found[list(self._rest)] = leaves
        return found

    def _fill_one(self, job: _Job, mine: Mask, *, is_quick: bool) -> Ints | None:
        problem = self._problem
        if any(leaf is not None for leaf in job.kept) or sum(need > 0 for need in job.needs) > 1:
            return self._place_some(job.ranks, job.kept, mine, _ELSEWHERE)
        kind = next(at for at, need in enumerate(job.needs) if need)
        slots = np.where(mine, problem.slots[kind], 0)
        if is_quick:
            leaves = np.flatnonzero(slots)
            return np.repeat(leaves, np.minimum(slots[leaves], len(job.ranks)))[: len(job.ranks)]
        problem.budget.spend(work_to_place(self._tree))
        placed = place_identical(self._tree, slots, len(job.ranks))
        return None if isinstance(placed, Shortfall) else placed

    def _place_some(
        self, ranks: Sequence[int], kept: Sequence[int | None], mine: Mask, why: str
    ) -> Ints | None:
        """Some of the pods on some of the leaves, beside those of theirs that stay."""
        problem = self._problem
        shapes = tuple(problem.shapes[rank] for rank in ranks)
        some = replace(problem, room=problem.room.without(~mine, why), shapes=shapes, within=ROOT)
        if any(leaf is not None for leaf in kept):
            repaired = repair(some, kept, self._effort)
            return None if repaired is None else repaired.leaves
        if len(some.kinds) > 1:
            return place_unlike(some, self._effort).leaves
        some.budget.spend(work_to_place(self._tree))
        placed = place_identical(self._tree, some.slots[0], len(shapes))
        return None if isinstance(placed, Shortfall) else placed

    def _bound(self, stays: Sequence[int | None]) -> int:
        """What the gang costs at least, even if nobody had a domain alone."""
        problem = self._problem
        if any(leaf is not None for leaf in stays):
            return length_of_known(problem, stays)
        if len(problem.kinds) > 1:
            return 0
        with suppress(BudgetSpentError):
            problem.budget.spend(work_to_place(self._tree))
            found = place_identical(self._tree, problem.slots_at_most[0], len(problem.shapes), problem.within)
            return 0 if isinstance(found, Shortfall) else self._tree.length(found)
        return 0

    def _explain(self) -> str:
        """Which Jobs find too few domains, or that it is all of them together."""
        inside = slice(0, len(self._codes))
        what = f"one {excerpt(self._label)} to itself ({self._annotation})"
        if self._jobs and not self._count:
            return f"{self._jobs[0].title} is to have {what}, but no node has that label"
        waiting: dict[tuple[int, ...], list[_Job]] = {}
        for job in self._jobs:
            waiting.setdefault(job.needs, []).append(job)
        for needs, jobs in waiting.items():
            fits = self._fitting(needs, inside)
            free = int(np.count_nonzero(fits & self._open))
            free += sum(job.home is not None and bool(fits[job.home]) for job in jobs)
            if free >= len(jobs):
                continue
            others = len(np.unique(self._codes[self._strange & (self._codes >= 0)]))
            whose = jobs[0].title if len(jobs) == 1 else f"each of {len(jobs)} Jobs as {jobs[0].title}"
            kind = next(at for at, need in enumerate(needs) if need)
            return (
                f"{whose} is to have {what}, with room for {sum(needs)} pods: "
                f"{free} of {self._count} can be had"
                + (f", {others} have pods of others" if others else "")
                + list_refusals(self._problem, kind)
            )
        if self._rest:
            return (
                f"there is no place for its {len(self._rest)} other pods beside Jobs of which each has {what}"
            )
        if not self._is_sure:
            return (
                f"no place was found in which {self._jobs[0].title} has {what}; that is not proven impossible"
            )
        return f"each of its {len(self._jobs)} Jobs could have {what}, but not all of them at once"
