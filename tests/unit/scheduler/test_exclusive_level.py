"""A domain for one gang alone: beside placing by trying every place, however a plan comes about."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.gputask import TaskMoves
from accelet.kube.objects import Condition, Owner
from accelet.kube.pods import Pod
from accelet.kube.selection import NodeTerm, Requirement
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.residents import Occupant
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.exclusive import occupant_of
from accelet.scheduler.gangs.grouping import GANG_MIN, GATE_PREFIX, Gang, GangKey, find_gangs
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL, KUEUE_REQUIRED, PREFERRED_LEVEL
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS
from accelet.scheduler.gangs.rank import JOBSET_GROUP
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.moves.finding.letsin import LetsInTerms, find_lets_in
from accelet.scheduler.moves.movable import running_task
from accelet.scheduler.moves.tasks import TaskTerms
from accelet.scheduler.placement.backlog import Backlog, plan_backlog
from accelet.scheduler.placement.checking.promises import find_broken_promise
from accelet.scheduler.placement.plan import Plan, find_places, plan_gang
from accelet.scheduler.placement.refusals import Refusals
from accelet.scheduler.placement.reservation import Patience
from accelet.scheduler.placement.unlike import QUICK_EFFORT, Effort
from accelet.scheduler.preemption.search import PreemptionTerms, find_preemption
from accelet.scheduler.preemption.victims import Victim, pod_keys
from accelet.scheduler.state import SchedulerState
from tests.fakes.nodes import node
from tests.unit.scheduler.moving_instances import as_task, running
from tests.unit.scheduler.values import pod

_LEVELS = Scheme().levels
JOBSET = "jobset.sigs.k8s.io/jobset-name"
_PLACES = ("x/p/1", "x/p/2", "x/q/1", "y/p/1", "y/p/2")
_NODES = tuple(node(f"n{number}", place, gpus=2) for number, place in enumerate(_PLACES))
_WHERE = {one.name: tuple(place.split("/")) for one, place in zip(_NODES, _PLACES, strict=True)}
_PATIENCE = Patience(now_s=0, starving_after_s=60)


def _pinned(one: Pod, on: str) -> Pod:
    """As this scheduler has placed it."""
    term = NodeTerm((), (Requirement("metadata.name", "In", (on,)),))
    return replace(one, node_name=on, phase="Running", gates=(), required_terms=(term,))


def _rank(job: str, rank: int, level: str = "", gpus: int = 1, **fields: Any) -> Pod:
    said = {EXCLUSIVE_LEVEL: level} if level else {}
    said |= fields.pop("said", {})
    return pod(f"{job}-{rank}", labels={"job-name": job}, annotations=said, gpus=gpus, **fields)


def _gang(job: str, count: int, level: str = "", **fields: Any) -> list[Pod]:
    return [_rank(job, rank, level, **fields) for rank in range(count)]


def _cluster(pods: Sequence[Pod] = (), nodes: Sequence[Any] = _NODES) -> Cluster:
    return Cluster(Scheme(), nodes, pods, occupant_of=occupant_of)


def _plan(gated: Sequence[Pod], there: Sequence[Pod] = ()) -> Plan:
    cluster = _cluster(there)
    (gang,) = find_gangs([*gated, *(one for one in there if one.labels == gated[0].labels)])
    return plan_gang(gang, cluster.layout, cluster.room())


_KINDS: Mapping[str, tuple[bool, str]] = {
    "devices": (True, ""),
    "nothing": (False, ""),
    "daemon": (False, ""),
    "system": (False, ""),
    "claims": (True, ""),
    "placed": (True, ""),
    "subblock": (True, "subblock"),
    "block": (True, "block"),
    "pretends": (False, ""),
}
"""Kinds of pods that are there: whether they count, and of which level their gang has a domain to itself."""


def _there(number: int, kind: str, on: str) -> Pod:
    name = f"{kind}-{number}"
    alone = _pinned(_rank(f"other{number}", 0, kind if kind in _LEVELS else "", gpus=0), on)
    daemon = Owner("DaemonSet", "d", "u", is_controller=True)
    made = {
        "devices": pod(name, on=on),
        "nothing": pod(name, gpus=0, on=on),
        "daemon": _pinned(pod(name, owner=daemon), on),
        "system": pod(name, on=on, namespace="kube-system"),
        "claims": replace(pod(name, gpus=0, on=on), has_resource_claims=True),
        "pretends": pod(name, gpus=0, on=on, annotations={EXCLUSIVE_LEVEL: "block"}),
    }
    return made.get(kind, alone)


@dataclass(frozen=True)
class _World:
    """Kinds of pods by node, the GPUs that each pod of a gang asks for, and what the gang asks for."""

    there: tuple[tuple[str, str], ...]
    gpus: tuple[int, ...]
    level: str
    kept: str | None = None

    def shares(self, one: str, other: str, level: str) -> bool:
        depth = _LEVELS.index(level) + 1
        return _WHERE[one][:depth] == _WHERE[other][:depth]

    def obeys(self, places: Sequence[str]) -> bool:
        used = defaultdict[str, int](int)
        for on, kind in self.there:
            used[on] += kind in ("devices", "daemon", "system")
        for at, gpus in zip(places, self.gpus, strict=True):
            used[at] += gpus
        if any(used[at] > 2 for at in places):
            return False
        all_of = [*places, *([self.kept] if self.kept else [])]
        if self.level and not all(self.shares(all_of[0], at, self.level) for at in all_of):
            return False
        for on, kind in self.there:
            counts, theirs = _KINDS[kind]
            if theirs and any(self.shares(on, at, theirs) for at in places):
                return False
            if self.level and counts and any(self.shares(on, at, self.level) for at in places):
                return False
        return True

    @property
    def pods(self) -> list[Pod]:
        there = [_there(number, kind, on) for number, (on, kind) in enumerate(self.there)]
        kept = [_pinned(_rank("j", 0, self.level, gpus=0), self.kept)] if self.kept else []
        return there + kept

    @property
    def gated(self) -> list[Pod]:
        return [_rank("j", rank + 1, self.level, gpus) for rank, gpus in enumerate(self.gpus)]

    def least(self) -> int | None:
        layout = _cluster().layout
        lengths = [
            layout.tree.length(np.array([layout.leaf_of[at] for at in (*kept, *places)]))
            for kept in [[self.kept] if self.kept else []]
            for places in product(_WHERE, repeat=len(self.gpus))
            if self.obeys(places)
        ]
        return min(lengths, default=None)


_SOME = st.lists(st.tuples(st.sampled_from(sorted(_WHERE)), st.sampled_from(sorted(_KINDS))), max_size=4)
_WORLDS = st.builds(
    _World,
    there=_SOME.map(tuple),
    gpus=st.lists(st.integers(1, 2), min_size=1, max_size=4).map(tuple),
    level=st.sampled_from(("", "host", "subblock", "block")),
    kept=st.sampled_from((None, None, None, *sorted(_WHERE))),
)


@given(_WORLDS)
def test_a_gang_gets_the_best_place_that_it_may_have_or_none(world: _World) -> None:
    plan = _plan(world.gated, world.pods)
    least = world.least()
    if plan.nodes is None:
        assert least is None or not plan.is_settled
        return
    assert world.obeys(plan.nodes)
    assert least is not None
    assert plan.lower_bound <= least <= (plan.distance or 0)
    if plan.is_optimal:
        assert plan.distance == least


@given(_WORLDS, st.data())
def test_the_check_of_finished_plans_tells_who_breaks_it(world: _World, data: st.DataObject) -> None:
    places = [data.draw(st.sampled_from(sorted(_WHERE))) for _ in world.gpus]
    cluster = _cluster(world.pods)
    (gang,) = find_gangs([*world.gated, *(one for one in world.pods if one.name == "j-0")])
    given_none = (None,) * len(places)
    broken = find_broken_promise(gang, places, given_none, cluster.layout, cluster.residents())
    assert (broken is None) == world.obeys(places)


@given(
    st.lists(
        st.tuples(st.sampled_from(("", "host", "subblock", "block")), st.integers(1, 3), st.booleans()),
        min_size=2,
        max_size=5,
    ),
    _SOME,
)
def test_gangs_planned_after_each_other_never_share_what_one_has_alone(
    asked: list[tuple[str, int, bool]], there: list[tuple[str, str]]
) -> None:
    """Some of them may begin with one pod."""
    gated = [
        _rank(f"j{number}", rank, level, said={GANG_MIN: "1"} if has_least else {}, created_s=float(number))
        for number, (level, count, has_least) in enumerate(asked)
        for rank in range(count)
    ]
    bound = [_there(number, kind, on) for number, (on, kind) in enumerate(there)]
    found = plan_backlog(find_gangs(gated), _cluster(bound).snapshot(), _PATIENCE)
    placed = [(plan, set(plan.nodes)) for plan in found.plans if plan.nodes is not None]
    world = _World(tuple(there), (), "")
    assert not [plan.fault for plan in found.plans if plan.fault is not None]
    for (one, nodes), (other, others) in combinations(placed, 2):
        for level in {one.gang.exclusive_level, other.gang.exclusive_level} - {None}:
            assert level is not None
            assert not any(world.shares(a, b, level.text) for a in nodes for b in others)
    for plan, nodes in placed:
        of_one = replace(world, level=plan.gang.exclusive_level.text if plan.gang.exclusive_level else "")
        assert replace(of_one, gpus=(0,) * len(nodes)).obeys(sorted(nodes))


_JOBS = st.lists(
    st.tuples(
        st.sampled_from(("", "subblock", "block")), st.lists(st.sampled_from(sorted(_WHERE)), max_size=2)
    ),
    max_size=4,
)


_AT = ("n0", "n2", "n2", "n3")
_PREEMPTING = (PreemptionTerms(), PreemptionTerms(most_victims=0))
"""Every set of up to three victims is looked at; or none, so that others are spared one by one."""


@given(
    _JOBS,
    st.sampled_from(("", "subblock", "block")),
    st.integers(1, 4),
    st.sets(st.integers(0, 3)),
    st.sampled_from(_PREEMPTING),
)
def test_who_is_evicted_leaves_a_domain_that_the_gang_may_have(
    jobs: list[tuple[str, list[str]]], level: str, count: int, ending: set[int], terms: PreemptionTerms
) -> None:
    """Some of the others end in any case: those that are in the way are awaited."""
    running = {
        number: [_pinned(_rank(f"r{number}", at, theirs, gpus=0), on) for at, on in enumerate(nodes)]
        for number, (theirs, nodes) in enumerate(jobs)
        if nodes
    }
    victims = [
        Victim(GangKey("ml", f"r{number}", "Job"), 1, tuple(pods))
        for number, pods in running.items()
        if number not in ending
    ]
    ends = [one.key for number in ending for one in running.get(number, ())]
    all_of = [one for pods in running.values() for one in pods]
    cluster = _cluster(all_of)
    (gang,) = find_gangs(_gang("j", count, level, gpus=2, priority=5))
    supposed = cluster.suppose(cluster.snapshot(), [*pod_keys(victims), *ends])
    found = find_preemption(gang, victims, supposed, ending=ends, terms=terms)

    def is_good(gone: set[tuple[str, str]]) -> bool:
        left = _cluster([one for one in all_of if one.key not in gone])
        return plan_gang(gang, left.layout, left.room()).nodes is not None

    if found.plan is None:
        assert is_good(set(ends)) or not is_good({*ends, *pod_keys(victims)}) or not found.is_settled
        return
    gone = {*pod_keys(found.victims), *found.awaited}
    left = _cluster([one for one in all_of if one.key not in gone])
    nodes = found.plan.nodes or ()
    broken = find_broken_promise(gang, nodes, found.plan.assignments, left.layout, left.residents())
    assert broken is None
    for spared in found.victims:
        assert not is_good({*gone, *ends} - set(pod_keys([spared]))) or not found.is_settled


@pytest.mark.parametrize("terms", _PREEMPTING)
def test_others_in_the_domain_are_evicted_or_awaited_though_they_are_on_other_nodes(
    terms: PreemptionTerms,
) -> None:
    near, far, other, stays = (
        _pinned(_rank(job, 0, gpus=0), at) for job, at in zip("abcd", _AT, strict=True)
    )
    cluster = _cluster([near, far, other, stays])
    (gang,) = find_gangs(_gang("j", 2, "block", gpus=2, priority=5))
    victims = [Victim(GangKey("ml", one.name[0], "Job"), 1, (one,)) for one in (near, far)]
    supposed = cluster.suppose(cluster.snapshot(), [near.key, far.key, other.key])
    found = find_preemption(gang, victims, supposed, ending=[other.key], terms=terms)
    assert found.plan is not None
    assert (found.plan.nodes, found.victims, found.awaited) == (("n0", "n1"), tuple(victims), (other.key,))


@pytest.mark.parametrize("terms", _PREEMPTING)
def test_who_has_a_domain_alone_is_evicted_for_a_gang_that_goes_elsewhere_in_it(
    terms: PreemptionTerms,
) -> None:
    holder, ending = (_pinned(_rank(job, 0, "block", gpus=0), "n0") for job in "ab")
    cluster = _cluster([holder, ending, *(_there(number, "block", "n3") for number in range(2))])
    (gang,) = find_gangs(_gang("j", 1, gpus=2, priority=5))
    victim = Victim(GangKey("ml", "a", "Job"), 1, (holder,))
    supposed = cluster.suppose(cluster.snapshot(), [holder.key, ending.key])
    found = find_preemption(gang, [victim], supposed, ending=[ending.key], terms=terms)
    assert found.plan is not None
    assert (found.plan.nodes, found.victims, found.awaited) == (("n2",), (victim,), (ending.key,))


def test_who_waits_is_told_the_annotation_the_level_and_who_is_in_the_nearest_domain() -> None:
    there = [pod("web-0", on="n0", labels={"job-name": "web"}), pod("db-0", on="n3", gpus=1)]
    there += [pod("db-1", on="n4", gpus=1, labels={"job-name": "more"})]
    plan = _plan(_gang("j", 4, "subblock"), there)
    assert plan.reason == (
        "needs room for 4 pods in one sub-block, best has 2 (x/q); of 5 nodes: 4 in a subblock that has pods "
        f"of others ({EXCLUSIVE_LEVEL}); {EXCLUSIVE_LEVEL} is subblock: nearest is x/p, where ml/web has pods"
    )


def test_whom_another_gang_keeps_out_is_told_which() -> None:
    alone = [_pinned(_rank("train", rank, "block", gpus=0), f"n{2 * rank}") for rank in range(2)]
    plan = _plan(_gang("j", 5), alone)
    assert plan.reason == (
        "needs 5 nodes, the cluster has 4; of 5 nodes: 3 in a domain that ml/train has to itself "
        f"({EXCLUSIVE_LEVEL})"
    ).replace("5 nodes, ", "room for 5 pods, ")


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ([_rank("j", 0, "rack")], f'{EXCLUSIVE_LEVEL} is "rack", but the levels are block, subblock, host'),
        ([_rank("j", 0, "block"), _rank("j", 1)], "is for all pods of a gang, but pod j-1 has it not"),
        ([_rank("j", 0, "block"), _rank("j", 1, "host")], "the pods of a gang must agree"),
        ([pod("p", annotations={EXCLUSIVE_LEVEL: "block"})], "that an owner or a label makes a gang"),
    ],
)
def test_what_cannot_be_is_said(pods: Sequence[Pod], says: str) -> None:
    assert says in (_plan(pods).reason or "")


def test_a_preferred_level_within_the_domain_is_kept() -> None:
    plan = _plan(_gang("j", 2, "block", said={PREFERRED_LEVEL: "host"}), [pod("o", on="n0")])
    assert plan.nodes in (("n3", "n3"), ("n4", "n4"))


def test_whose_own_pods_are_there_it_is_no_stranger_to() -> None:
    """Those of an attempt before, say, that end."""
    ending = replace(pod("old", on="n3", labels={"job-name": "j"}), deleted_s=1.0)
    others = [pod("o", on="n0", gpus=1), pod("p", on="n2", gpus=1)]
    assert set(_plan(_gang("j", 3, "block"), [ending, *others]).nodes or ()) == {"n3", "n4"}


def test_one_that_is_refused_says_nothing_of_another_whose_own_pods_are_there() -> None:
    there = [pod("old", on="n3", gpus=1, labels={"job-name": "k"}), pod("o", on="n0", gpus=1)]
    there += [pod("p", on="n2", gpus=1)]
    gated = [*_gang("j", 1, "block"), *_gang("k", 1, "block", created_s=1.0)]
    gangs = [replace(gang, members=gang.pods) for gang in find_gangs(gated)]
    found = plan_backlog(gangs, _cluster(there).snapshot(), _PATIENCE)
    assert [plan.nodes is not None for plan in found.plans] == [False, True]


def _round(gangs: Sequence[Gang], cluster: Cluster, refusals: Refusals) -> list[bool]:
    backlog = Backlog(gangs, cluster.snapshot(), _PATIENCE, refusals)
    return [plan.nodes is not None for plan in backlog.plans()]


@pytest.mark.parametrize(
    ("level", "other"), [("block", _there(0, "placed", "n0")), ("", _there(0, "block", "n0"))]
)
def test_who_waits_for_a_domain_is_planned_once_its_occupant_leaves_a_node_that_is_not_for_it(
    level: str, other: Pod
) -> None:
    cluster, refusals = _cluster([other]), Refusals()
    selecting = [replace(one, node_selector={"kubernetes.io/hostname": "n1"}) for one in _gang("j", 1, level)]
    gangs = find_gangs(selecting)
    assert _round(gangs, cluster, refusals) == [False]
    cluster.remove_pod(other.key)
    assert _round(gangs, cluster, refusals) == [True]


def test_whose_annotation_is_taken_away_has_no_domain_any_more() -> None:
    other = _there(0, "block", "n0")
    cluster, refusals = _cluster([other]), Refusals()
    selecting = [replace(one, node_selector={"kubernetes.io/hostname": "n1"}) for one in _gang("j", 1)]
    gangs = find_gangs(selecting)
    assert _round(gangs, cluster, refusals) == [False]
    cluster.set_pod(replace(other, annotations={}))
    assert _round(gangs, cluster, refusals) == [True]


def _starved(*jobs: str) -> Patience:
    return replace(_PATIENCE, now_s=100.0, waiting_since={GangKey("ml", job, "Job"): 0.0 for job in jobs})


def _ending(one: Pod) -> Pod:
    return replace(one, restart_policy="Never")


def test_the_whole_domain_is_kept_free_for_a_gang_that_has_starved() -> None:
    running = [pod("o", on="n0", gpus=1), _ending(pod("p", on="n3", gpus=1))]
    gated = [*_gang("j", 1, "block"), *_gang("small", 6, created_s=1.0, gpus=1)]
    found = plan_backlog(find_gangs(gated), _cluster(running).snapshot(), _starved("j"))
    assert found.reservation is not None
    assert found.reservation.nodes == {"n3", "n4"}, "in x somebody runs for good"
    assert found.plans[1].nodes is None


def test_nobody_gets_a_domain_alone_in_which_nodes_are_kept_for_another() -> None:
    running = [_ending(pod("o", on="n0", gpus=2)), pod("p", on="n3", gpus=2), pod("q", on="n4", gpus=2)]
    large = [replace(one, node_selector={"kubernetes.io/hostname": "n0"}) for one in _gang("large", 1)]
    gated = [*large, *_gang("j", 1, "subblock", created_s=1.0), *_gang("k", 1, "block", created_s=2.0)]
    found = plan_backlog(find_gangs(gated), _cluster(running).snapshot(), _starved("large"))
    assert found.reservation is not None
    assert [plan.nodes for plan in found.plans] == [None, ("n2",), None]


def test_what_is_planned_and_not_begun_yet_keeps_others_out() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for one in _NODES:
        state.set_node(one)
    state.set_workload(Workload("Job", "ml", "j", 1))
    gated = _rank("j", 0, "block")
    state.set_pod(gated)
    state.cluster.hold(gated, "n0")
    (gang,) = find_gangs(_gang("k", 5))
    plan = find_places(gang, state.cluster.layout, state.cluster.room())
    assert plan.nodes is None
    assert "ml/j has to itself" in (plan.reason or "")


@pytest.mark.parametrize(("kind", "counts"), [(kind, counts) for kind, (counts, _) in _KINDS.items()])
def test_whose_pods_count(kind: str, counts: bool) -> None:
    occupant = occupant_of(_there(1, kind, "n0"))
    assert (occupant is not None) == counts
    if occupant is not None:
        assert occupant == Occupant(occupant.gang, _KINDS[kind][1])


def test_gangs_of_very_many_kinds_and_of_a_short_budget_keep_out_too() -> None:
    nodes = [node(f"n{number}", f"b/s{number // 3}/h{number}", gpus=40) for number in range(9)]
    there = [_pinned(_rank("a", 0, "subblock", gpus=0), "n0"), pod("web", on="n3")]
    cluster = _cluster(there, nodes)
    (gang,) = find_gangs([_rank("j", rank, "subblock", 1, more={"memory": rank + 1}) for rank in range(32)])
    assert len(set(gang.shapes)) > 24
    for effort in (QUICK_EFFORT, Effort(units=3_000, restarts=1, tries=10)):
        plan = find_places(gang, cluster.layout, cluster.room(), effort)
        assert set(plan.nodes or ("n6",)) <= {"n6", "n7", "n8"}
    assert plan_gang(gang, cluster.layout, cluster.room()).nodes is not None


@pytest.mark.parametrize("other", ["devices", "block"])
def test_pod_sets_with_levels_of_their_own_stay_in_the_domain_of_their_gang(other: str) -> None:
    """In `x` somebody is, or has the block alone: `y` is left, and has room for both sets there only."""
    nodes = [*_NODES, node("n5", "y/q/1", gpus=2)]
    cluster = _cluster([_there(0, other, "n0")], nodes)
    label = Scheme().label_sets[0][1]
    said = {EXCLUSIVE_LEVEL: "block", KUEUE_REQUIRED: label}
    sets = [(name, rank) for name, count in (("a", 2), ("b", 4)) for rank in range(count)]
    gated = [
        pod(f"m-{name}-0-{rank}", labels={JOBSET: "m", JOBSET_GROUP: name}, annotations=said)
        for name, rank in sets
    ]
    (gang,) = find_gangs(gated)
    assert len(gang.pod_sets) == 2
    plan = plan_gang(gang, cluster.layout, cluster.room())
    assert plan.nodes is not None
    assert (set(plan.nodes[:2]), set(plan.nodes[2:])) == ({"n5"}, {"n3", "n4"})


def test_placeholders_of_a_workload_get_a_domain_alone_and_have_it_until_its_pods_come() -> None:
    owner = Owner(PLACEHOLDERS, "w", "u")
    said = {EXCLUSIVE_LEVEL: "block"}
    stands = [pod(f"w/{rank}", owner=owner, annotations=said, gpus=2) for rank in range(2)]
    there = [pod("web", on="n0", gpus=1)]
    cluster = _cluster(there)
    (gang,) = find_gangs(stands)
    plan = plan_gang(gang, cluster.layout, cluster.room())
    assert set(plan.nodes or ()) == {"n3", "n4"}
    for one, at in zip(stands, plan.nodes or (), strict=True):
        cluster.hold(one, at)
    (other,) = find_gangs(_gang("k", 6))
    assert "ml/w has to itself" in (plan_gang(other, cluster.layout, cluster.room()).reason or "")


def test_tasks_move_out_of_a_domain_for_a_gang_that_is_to_have_it_alone() -> None:
    """Though nodes without them take all of its pods; and not into a domain that another has alone."""
    alone = _pinned(_rank("a", 0, "host", gpus=0), "n0")
    tasks = [running("t", ["n3"]), running("u", ["n1"])]
    pods = [alone, *(one for task in tasks for one in task)]
    cluster = _cluster(pods)
    (gang,) = find_gangs(
        replace(one, node_selector={"kubernetes.io/hostname": "n4"}) for one in _gang("j", 2, "block")
    )
    supposed = cluster.suppose(cluster.snapshot(), [one.key for one in pods])
    found = find_lets_in(gang, [as_task(task) for task in tasks], supposed, LetsInTerms(factor=1.0))
    assert found.plan is not None
    assert set(found.plan.nodes or ()) == {"n4"}
    assert [(move.task.terms.name, set(move.nodes) <= {"n1", "n2"}) for move in found.moves] == [("t", True)]


def test_a_task_that_has_a_domain_alone_is_not_moved() -> None:
    ready = (Condition("Ready", "True"),)
    for level, is_movable in (("block", False), ("", True)):
        state = SchedulerState(Scheme(), GATE_PREFIX)
        said = {"batch.kubernetes.io/job-completion-index": "0"} | ({EXCLUSIVE_LEVEL: level} if level else {})
        one = pod("t-1-0", on="n0", labels={"job-name": "t-1"}, annotations=said)
        state.set_pod(replace(one, conditions=ready))
        task = running_task(TaskTerms("ml", "t", "uid", 1, TaskMoves()), state)
        assert (task is not None) == is_movable
