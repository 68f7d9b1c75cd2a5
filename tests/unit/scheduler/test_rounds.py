"""Rounds of planning one after the other: what is remembered, who is planned first, what is kept free."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from accelet.kube.objects import Owner
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.cluster import Cluster, Snapshot
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX, Gang, find_gangs
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.gangs.workload import parse_workload
from accelet.scheduler.placement.backlog import Backlog
from accelet.scheduler.placement.plan import Plan, plan_gang
from accelet.scheduler.placement.refusals import Refusals
from accelet.scheduler.placement.reservation import Patience, Reservation
from accelet.scheduler.state import SchedulerState
from tests.fakes.nodes import node
from tests.unit.scheduler.values import pod


def _nodes(count: int = 4):  # type: ignore[no-untyped-def]  # nodes
    return [node(f"n{number}", f"b/s{number // 2}/h{number}") for number in range(count)]


def _gang(name: str, count: int, **more):  # type: ignore[no-untyped-def]  # a gang
    (gang,) = find_gangs(pod(f"{name}-{rank}", labels={"job-name": name}, **more) for rank in range(count))
    return gang


class _Rounds:
    """Rounds of one scheduler, with how many gangs were really planned in the last one."""

    def __init__(self, cluster: Cluster, *, now_s: float = 0.0, reserved_for_s: float = float("inf")) -> None:
        self.cluster, self.refusals = cluster, Refusals()
        self.patience = Patience(now_s, 600.0, reserved_for_s=reserved_for_s)
        self.reservation: Reservation | None = None
        self.work = 0

    def plan(self, gangs: Sequence[Gang], snapshot: Snapshot | None = None) -> dict[str, Plan]:
        backlog = Backlog(
            gangs,
            snapshot or self.cluster.snapshot(),
            self.patience,
            self.refusals,
            before=self.reservation,
        )
        plans = list(backlog.plans())
        self.reservation = backlog.reservation
        self.order = [plan.gang.key.name for plan in plans]
        return {plan.gang.key.name: plan for plan in plans}


def _busy(name: str, on: str, gpus: int = 8) -> Pod:
    return replace(pod(name, on=on, gpus=gpus), restart_policy="Never")


def test_a_refusal_holds_until_a_node_that_the_gang_may_use_has_more_room() -> None:
    cluster = Cluster(Scheme(), [*_nodes(), node("cpu", "b/s9/h9", labels={"pool": "cpu"})])
    for number in range(4):
        cluster.set_pod(_busy(f"x{number}", f"n{number}"))
    cluster.set_pod(_busy("other", "cpu"))
    gang, rounds = _gang("g", 2, gpus=8, selector={"pool": ""}), _Rounds(cluster)
    gang = _gang("g", 2, gpus=8)
    first = rounds.plan([gang])["g"]
    assert first.nodes is None
    assert rounds.plan([gang])["g"] is first, "nothing has changed"
    cluster.set_pod(_busy("late", "n0", gpus=0))
    assert rounds.plan([gang])["g"] is first, "less room makes no refusal untrue"
    cluster.remove_pod(("ml", "x0"))
    second = rounds.plan([gang])["g"]
    assert second is not first
    assert second.nodes is None
    cluster.remove_pod(("ml", "x1"))
    assert rounds.plan([gang])["g"].nodes is not None


def test_room_on_a_node_that_the_gang_may_not_use_is_no_reason_to_plan_it_again() -> None:
    gang = _gang("g", 1, gpus=8, selector={"pool": "gpu"})
    cluster = Cluster(
        Scheme(), [node("a", "b/s/h0", labels={"pool": "gpu"}), node("b", "b/s/h1", labels={"pool": "cpu"})]
    )
    cluster.set_pod(_busy("x", "a"))
    cluster.set_pod(_busy("y", "b"))
    rounds = _Rounds(cluster)
    first = rounds.plan([gang])["g"]
    cluster.remove_pod(("ml", "y"))
    assert rounds.plan([gang])["g"] is first
    cluster.set_node(node("b", "b/s/h1", labels={"pool": "gpu"}))
    assert rounds.plan([gang])["g"].nodes == ("b",)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_remembered_never_hides_a_placement(seed: int) -> None:
    random = Random(seed)
    cluster = Cluster(Scheme(), _nodes(6))
    rounds = _Rounds(cluster)
    gangs = [
        _gang(
            f"g{number}",
            random.randint(1, 4),
            gpus=random.choice((1, 4, 8)),
            annotations={REQUIRED_LEVEL: "subblock"} if random.random() < 0.5 else {},
        )
        for number in range(6)
    ]
    there: list[str] = []
    for step in range(30):
        if there and random.random() < 0.4:
            cluster.remove_pod(("ml", there.pop(random.randrange(len(there)))))
        else:
            there.append(f"x{step}")
            cluster.set_pod(_busy(f"x{step}", f"n{random.randrange(6)}", gpus=random.choice((2, 8))))
        if random.random() < 0.2:
            cluster.set_node(node("n3", f"b/s{random.randrange(3)}/h3"))
        plans = rounds.plan(gangs)
        snapshot = cluster.snapshot()
        for gang in gangs:
            anew = plan_gang(gang, snapshot.layout, snapshot.room.copy())
            if anew.nodes is None:
                assert plans[gang.key.name].nodes is None
        first = plan_gang(gangs[0], snapshot.layout, snapshot.room.copy())
        assert (plans["g0"].nodes is None) == (first.nodes is None)


def test_simple_gangs_do_not_wait_for_those_that_take_much_work() -> None:
    cluster = Cluster(Scheme(), [node(f"n{n}", f"b{n % 3}/s{n % 7}/h{n}") for n in range(40)])
    random = Random(3)
    for number in range(40):
        cluster.set_pod(_busy(f"x{number}", f"n{number}", gpus=random.randint(0, 4)))
    hard = []
    for number in range(3):
        pods = [
            pod(f"h{number}-{rank}", labels={"job-name": f"h{number}"}, gpus=(3, 5, 2, 4)[rank % 4])
            for rank in range(24)
        ]
        hard += find_gangs(pods)
    rounds = _Rounds(cluster)
    rounds.plan([*hard, _gang("simple", 2, gpus=1)])
    assert rounds.order[0] == "simple"
    assert sorted(rounds.order) == ["h0", "h1", "h2", "simple"]


def test_a_round_ends_early_when_there_is_news_but_not_before_one_hard_gang_is_planned() -> None:
    cluster = Cluster(Scheme(), [node(f"n{n}", f"b{n % 3}/s{n % 7}/h{n}") for n in range(40)])
    random = Random(3)
    for number in range(40):
        cluster.set_pod(_busy(f"x{number}", f"n{number}", gpus=random.randint(0, 4)))
    hard = [
        gang
        for number in range(3)
        for gang in find_gangs(
            pod(f"h{number}-{rank}", labels={"job-name": f"h{number}"}, gpus=(3, 5, 2, 4)[rank % 4])
            for rank in range(24)
        )
    ]
    patience = Patience(now_s=0.0, starving_after_s=600.0)
    backlog = Backlog(hard, cluster.snapshot(), patience, Refusals())
    assert len(list(backlog.plans(lambda: True))) == 1


def test_a_repair_goes_before_gangs_that_have_waited_longer() -> None:
    peers = [pod(f"r-{rank}", labels={"job-name": "r"}, on="n0", gpus=1) for rank in range(2)]
    lost = pod("r-2", labels={"job-name": "r"}, created_s=99.0)
    old = pod("old-0", labels={"job-name": "old"}, created_s=1.0)
    urgent = pod("urgent-0", labels={"job-name": "urgent"}, created_s=98.0, priority=5)
    assert [gang.key.name for gang in find_gangs([*peers, lost, old, urgent])] == ["urgent", "r", "old"]


def test_a_starved_repair_keeps_nodes_free_where_its_gang_is() -> None:
    level = {REQUIRED_LEVEL: "subblock"}
    peers = [pod("r-0", labels={"job-name": "r"}, on="n2", gpus=8, annotations=level)]
    lost = pod("r-1", labels={"job-name": "r"}, gpus=8, annotations=level)
    # The other sub-block has more room in the end, but the gang is in this one.
    nodes = [*_nodes(4), node("n4", "b/s0/h4"), node("n5", "b/s0/h5")]
    cluster = Cluster(Scheme(), nodes, [*peers, _busy("x", "n3"), _busy("y", "n0")])
    (gang,) = find_gangs([*peers, lost])
    rounds = _Rounds(cluster, now_s=700.0)
    rounds.patience = replace(rounds.patience, waiting_since={gang.key: 0.0})
    assert rounds.plan([gang])["r"].nodes is None
    assert rounds.reservation == Reservation(gang.key, frozenset({"n3"}))


def test_nothing_is_kept_free_where_only_pods_without_an_end_would_have_to_go() -> None:
    cluster = Cluster(Scheme(), _nodes(4), [pod("web", on="n0", gpus=8), pod("db", on="n1", gpus=8)])
    gang = _gang("large", 4, gpus=8)
    rounds = _Rounds(cluster, now_s=700.0)
    rounds.patience = replace(rounds.patience, waiting_since={gang.key: 0.0})
    plans = rounds.plan([gang, _gang("small", 1, gpus=8)])
    assert rounds.reservation is None
    assert plans["small"].nodes is not None


def test_idle_nodes_beside_deployments_are_not_kept_for_a_gang_that_never_fits() -> None:
    nodes = _nodes(10)
    cluster = Cluster(Scheme(), nodes, [pod(f"web-{number}", on=f"n{number}", gpus=8) for number in range(6)])
    large, small = _gang("large", 8, gpus=8), _gang("small", 4, gpus=8)
    rounds = _Rounds(cluster, now_s=700.0)
    rounds.patience = replace(rounds.patience, waiting_since={large.key: 0.0})
    plans = rounds.plan([large, small])
    assert rounds.reservation is None
    assert set(plans["small"].nodes or ()) == {"n6", "n7", "n8", "n9"}


def _ending(name: str, on: str, *, started_s: float, deadline_s: int) -> Pod:
    return replace(_busy(name, on), started_s=started_s, deadline_s=deadline_s, ending_s=0)


def _brief(name: str, runs_s: int | None) -> Gang:
    (gang,) = find_gangs(
        [replace(pod(name, labels={"job-name": name}, gpus=8), deadline_s=runs_s, ending_s=30)]
    )
    return gang


@pytest.mark.parametrize(
    ("blockers_end_s", "runs_s", "is_let_in"),
    [(1000, 200, True), (1000, 211, False), (1000, None, False), (None, 1, False)],
)
def test_only_who_is_over_before_kept_nodes_come_free_is_let_onto_them(
    blockers_end_s: int | None, runs_s: int | None, is_let_in: bool
) -> None:
    """It may take 60 s to begin, and this one is given 30 s to end: 700 + 60 + 210 + 30 = 1000."""
    cluster = Cluster(Scheme(), _nodes(2))
    if blockers_end_s is None:
        cluster.set_pod(_busy("x", "n0"))
    else:
        cluster.set_pod(_ending("x", "n0", started_s=0.0, deadline_s=blockers_end_s))
    large, brief = _gang("large", 2, gpus=8), _brief("brief", runs_s)
    rounds = _Rounds(cluster, now_s=700.0)
    rounds.patience = replace(rounds.patience, waiting_since={large.key: 0.0})
    plans = rounds.plan([large, brief])
    assert rounds.reservation is not None
    assert rounds.reservation.nodes == {"n0", "n1"}
    assert (plans["brief"].nodes == ("n1",)) == is_let_in


def test_the_deadline_of_a_job_counts_for_its_pods_whichever_comes_first() -> None:
    job = {
        "kind": "Job",
        "metadata": {"name": "x", "namespace": "ml"},
        "spec": {"parallelism": 1, "activeDeadlineSeconds": 600},
        "status": {"startTime": "1970-01-01T00:01:40Z"},
    }
    owner = Owner("Job", "x", "u", is_controller=True)
    made = replace(_busy("x-0", "n0"), labels={"job-name": "x"}, owners=(owner,), ending_s=7)
    for is_job_first in (True, False):
        state = SchedulerState(Scheme(), GATE_PREFIX)
        state.set_node(_nodes(1)[0])
        for step in (is_job_first, not is_job_first):
            if step:
                state.set_workload(parse_workload(job))
            else:
                state.set_pod(made)
        assert state.cluster.snapshot().ends_s.tolist() == [100 + 600 + 7]
    gated = pod("x-1", labels={"job-name": "x"})
    (gang,) = find_gangs([gated], [parse_workload(job)])
    assert gang.runs_s == 630
    (gang,) = find_gangs([replace(gated, deadline_s=20)], [parse_workload(job)])
    assert gang.runs_s == 50


def test_who_was_let_in_does_not_put_off_the_end_for_those_who_come_after() -> None:
    cluster = Cluster(Scheme(), _nodes(2), [_ending("x", "n0", started_s=0.0, deadline_s=1000)])
    large = _gang("large", 2, gpus=8)
    rounds = _Rounds(cluster, now_s=700.0)
    rounds.patience = replace(rounds.patience, waiting_since={large.key: 0.0})
    rounds.plan([large])
    cluster.set_pod(_ending("late", "n1", started_s=750.0, deadline_s=500))
    rounds.plan([large])
    assert rounds.reservation is not None
    assert rounds.reservation.free_by_s == 1000.0
    cluster.remove_pod(("ml", "x"))
    cluster.remove_pod(("ml", "late"))
    cluster.set_pod(_ending("y", "n0", started_s=700.0, deadline_s=100))
    rounds.plan([large])
    assert rounds.reservation is not None
    assert rounds.reservation.free_by_s == 800.0


def test_a_reservation_ends_and_may_not_take_more_than_its_share() -> None:
    cluster = Cluster(Scheme(), _nodes(4), [_busy("x", "n0")])
    gang = _gang("large", 4, gpus=8)
    rounds = _Rounds(cluster, now_s=700.0, reserved_for_s=60.0)
    waiting = {gang.key: 0.0}
    rounds.patience = replace(rounds.patience, waiting_since=waiting)
    small = _gang("small", 1, gpus=8)
    assert rounds.plan([gang, small])["small"].nodes is None
    assert rounds.reservation is not None
    assert rounds.reservation.until_s == 760.0
    # Its time is over; the planner counts its waiting from then on.
    rounds.patience = replace(rounds.patience, now_s=760.0, waiting_since={gang.key: 760.0})
    assert rounds.plan([gang, small])["small"].nodes is not None
    assert rounds.reservation is None
    rounds.patience = replace(rounds.patience, now_s=1400.0, waiting_since=waiting, most_share=0.5)
    rounds.plan([gang])
    assert rounds.reservation is None
