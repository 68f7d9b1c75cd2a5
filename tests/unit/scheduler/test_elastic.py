"""Gangs that may begin with fewer pods than all."""

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import Owner
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GANG_MIN, GANG_SIZE, find_gangs, in_order
from accelet.scheduler.gangs.workload import parse_workload
from accelet.scheduler.placement.backlog import plan_backlog
from accelet.scheduler.placement.plan import describe_plan, plan_gangs
from accelet.scheduler.placement.reservation import Patience
from tests.fakes.nodes import node
from tests.unit.scheduler.instances import Instance, random_instance
from tests.unit.scheduler.values import plan_one, pod


def _gang(count: int, least: str, size: str | None = None, *, on: dict[int, str] | None = None):  # type: ignore[no-untyped-def]  # pods
    said = {GANG_MIN: least, **({GANG_SIZE: size} if size else {})}
    return [
        pod(f"j-{rank}", labels={"job-name": "j"}, annotations=said, on=(on or {}).get(rank))
        for rank in range(count)
    ]


def _hosts(*gpus: int):  # type: ignore[no-untyped-def]  # nodes
    return [node(f"n{host}", f"b0/s0/h{host}", gpus=count) for host, count in enumerate(gpus)]


def test_all_pods_are_placed_where_there_is_room_for_all() -> None:
    assert plan_one(_hosts(4, 4), _gang(8, "2")).nodes == ("n0",) * 4 + ("n1",) * 4


def test_else_the_most_of_the_lowest_ranks_and_the_event_says_of_how_many() -> None:
    decided = plan_one(_hosts(4, 1), _gang(8, "2", "8"))
    assert [pod.name for pod, _ in decided.placements] == ["j-0", "j-1", "j-2", "j-3", "j-4"]
    assert describe_plan(decided) == "5 of 8 pods on 2 nodes, distance 100, optimal"


def test_fewer_than_the_least_are_not_placed_and_the_reason_says_so() -> None:
    decided = plan_one(_hosts(1), _gang(8, "2"))
    assert decided.nodes is None
    assert decided.reason == "for the 2 of its pods that it needs at least, needs 2 nodes, the cluster has 1"


def test_it_waits_for_the_least_to_be_created_not_for_all() -> None:
    assert plan_one(_hosts(8), _gang(1, "2", "8")).reason == "waits for 1 of its 8 pods to be created"
    assert plan_one(_hosts(8), _gang(2, "2", "8")).nodes == ("n0", "n0")


def test_late_ranks_come_next_to_their_peers_as_many_as_there_is_room_for() -> None:
    nodes = [*_hosts(3, 1), node("far", "b1/s1/h0", gpus=1)]
    pods = _gang(6, "2", on={0: "n0", 1: "n0"})
    decided = plan_one(nodes, pods)
    assert decided.nodes == ("n0", "n1", "far")
    assert [pod.name for pod, _ in decided.placements] == ["j-2", "j-3", "j-4"]


def test_late_ranks_do_not_go_before_gangs_that_wait_longer_but_a_repair_below_the_least_does() -> None:
    def order(placed: dict[int, str]) -> list[str]:
        elastic = [replace(pod, created_s=9.0) for pod in _gang(4, "2", on=placed)]
        other = [pod("k-0", labels={"job-name": "k"}, created_s=1.0)]
        return [gang.key.name for gang in in_order(find_gangs([*elastic, *other]))]

    assert order({0: "n0", 1: "n0"}) == ["k", "j"]
    assert order({0: "n0"}) == ["j", "k"]


def test_a_least_beyond_the_size_is_refused_with_a_sentence() -> None:
    assert plan_one(_hosts(9), _gang(3, "4", "3")).reason == f"{GANG_MIN} is 4, but the gang has 3 pods"
    assert "not a number of pods" in (plan_one(_hosts(9), _gang(3, "-1")).reason or "")


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 8), st.integers(1, 9), st.booleans())
def test_of_a_job_no_more_are_needed_than_are_not_done(
    parallelism: int, completions: int, done: int, least: int, is_group: bool
) -> None:
    """However many of its pods have ended: who was not refused with all of them is not with fewer."""
    whole = min(parallelism, completions)
    done = min(done, completions - 1)
    size = min(parallelism, completions - done)
    job = {
        "metadata": {"name": "j", "namespace": "ml"},
        "spec": {"parallelism": parallelism, "completions": completions},
        "status": {"succeeded": done},
    }
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}} if is_group else {}
    group = {"metadata": {"name": "g", "namespace": "ml"}, "spec": policy}
    workloads = [parse_workload(json.dumps(job).encode(), "Job")]
    workloads += [parse_workload(json.dumps(group).encode(), "PodGroup")] if is_group else []
    owner = Owner("Job", "j", "uid-j", is_controller=True)
    said = {} if is_group else {GANG_MIN: str(least)}
    labels, in_group = {"job-name": "j"}, "g" if is_group else None
    pods = [
        pod(
            f"j-{rank}",
            labels=labels,
            annotations=said,
            owner=owner,
            on="n0" if rank else None,
            pod_group=in_group,
        )
        for rank in range(size)
    ]
    (gang,) = find_gangs(pods, workloads)
    assert (gang.objection is not None) == (least > whole)
    if gang.objection is None:
        assert (gang.size, gang.lacking, gang.fewest) == (size, 0, 1)


def test_nodes_are_kept_for_the_least_alone_and_for_no_late_rank() -> None:
    busy = [pod(f"x{host}", on=f"n{host}", gpus=1, annotations={}, labels={}) for host in range(4)]
    busy = [replace(one, restart_policy="Never") for one in busy]
    gang = _gang(4, "2")
    cluster = Cluster(Scheme(), _hosts(1, 1, 1, 1), [*busy, *gang])
    gangs = find_gangs([*busy, *gang])
    starved = Patience(now_s=100.0, starving_after_s=0.0)
    reservation = plan_backlog(gangs, cluster.snapshot(), starved).reservation
    assert reservation is not None
    assert len(reservation.nodes) == 2
    begun = _gang(4, "2", on={0: "n0", 1: "n1"})
    cluster = Cluster(Scheme(), _hosts(1, 1, 1, 1), [*busy[2:], *begun])
    assert plan_backlog(find_gangs(begun), cluster.snapshot(), starved).reservation is None


def _most(instance: Instance, least: int) -> int | None:
    """How many of the lowest ranks can be placed, by trying every placement."""
    for count in range(len(instance.gated), least - 1, -1):
        if replace(instance, gated=instance.gated[:count]).least_distance() is not None:
            return count
    return None


@pytest.mark.parametrize("seed", range(200))
def test_the_most_of_the_lowest_ranks_agrees_with_brute_force(seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random)
    least = random.randint(1, len(instance.gated))
    gated = tuple(
        replace(pod, annotations={**pod.annotations, GANG_MIN: str(least)}) for pod in instance.gated
    )
    # Half of the clusters have less room than they had, so that many gangs do not fit as a whole.
    nodes = instance.nodes[: max(1, len(instance.nodes) // random.choice((1, 2)))]
    names = {node.name for node in nodes}
    bound = tuple(pod for pod in instance.bound if pod.node_name in names)
    instance = replace(instance, nodes=nodes, bound=bound, gated=gated)
    cluster = Cluster(instance.scheme, nodes, (*bound, *gated))
    (plan,) = plan_gangs(find_gangs(gated), cluster.layout, cluster.room())
    most = _most(instance, least)
    if most is None:
        assert plan.nodes is None
        return
    assert plan.nodes is not None
    assert len(plan.nodes) == most or (not plan.is_settled and not instance.is_identical)
    at = {node.name: number for number, node in enumerate(nodes)}
    part = replace(instance, gated=gated[: len(plan.nodes)])
    leaves = [at[name] for name in plan.nodes]
    assert part.obeys(leaves)
    assert [pod for pod, _ in plan.placements] == list(gated[: len(plan.nodes)])
    assert not plan.is_optimal or plan.distance == part.least_distance()
