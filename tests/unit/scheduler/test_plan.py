from dataclasses import replace
from random import Random

import pytest

from accelet.kube.nodes import Node
from accelet.kube.podparser import parse_pod
from accelet.kube.selection import Taint, Toleration
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.shape import shape_of
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import EXCLUSIVE, GATE_PREFIX, find_gangs
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.placement.certificate import lower_bound
from accelet.scheduler.placement.plan import plan_gang, plan_gangs
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.unlike import Effort, place_unlike
from tests.fakes.manifests import raw_pod
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.instances import random_instance
from tests.unit.scheduler.values import plan, plan_one, pod

_GATE = f"{GATE_PREFIX}j"


def _rack(block: int, subblock: int, hosts: int, **more):  # type: ignore[no-untyped-def]  # nodes
    return [
        node(f"n{block}{subblock}{host}", f"b{block}/s{block}{subblock}/h{host}", **more)
        for host in range(hosts)
    ]


def _gang(name: str, count: int, **more):  # type: ignore[no-untyped-def]  # pods
    labels = {"job-name": name}
    return [pod(f"{name}-{rank}", labels=labels, **more) for rank in range(count)]


def test_ranks_that_are_neighbours_sit_together() -> None:
    decided = plan_one([*_rack(0, 0, 2), *_rack(0, 1, 2)], _gang("j", 24))
    assert decided.nodes == ("n000",) * 8 + ("n001",) * 8 + ("n010",) * 8
    assert (decided.distance, decided.lower_bound, decided.is_optimal) == (10_100, 10_100, True)


def test_exclusive_pods_have_a_node_each() -> None:
    decided = plan_one(_rack(0, 0, 3), _gang("j", 3, annotations={EXCLUSIVE: "true"}))
    assert decided.nodes == ("n000", "n001", "n002")


def test_a_required_level_is_kept_or_waited_for_with_the_reason() -> None:
    nodes = [*_rack(0, 0, 6), *_rack(0, 1, 4)]
    decided = plan_one(nodes, _gang("j", 8, gpus=8, annotations={REQUIRED_LEVEL: "subblock"}))
    assert decided.nodes is None
    assert decided.reason == "needs 8 nodes in one sub-block, best has 6 (b0/s00)"


def test_a_reason_says_what_nodes_lack() -> None:
    nodes = [
        node("small", gpus=4),
        node("tainted", taints=[Taint("spot", "NoSchedule")]),
        node("cordoned", is_cordoned=True),
        node("down", ready="Unknown"),
        node("good"),
    ]
    decided = plan_one(nodes, _gang("j", 2, gpus=8))
    assert decided.reason is not None
    start, _, rest = decided.reason.partition("; of 5 nodes: ")
    assert start == "needs 2 nodes, the cluster has 1"
    assert set(rest.split(", ")) == {
        f"1 short of {GPU}",
        "1 tainted spot:NoSchedule",
        "1 cordoned",
        "1 not ready",
    }


def test_nodes_that_serve_their_devices_through_dra_take_no_gang_and_the_reason_says_so() -> None:
    nodes = [node("claims", gpus=0, labels={"accelet.dev/serve": "dra"}), node("bare", gpus=0), node("good")]
    decided = plan_one(nodes, _gang("j", 2, gpus=8))
    assert decided.reason is not None
    start, _, rest = decided.reason.partition("; of 3 nodes: ")
    assert start == "needs 2 nodes, the cluster has 1"
    assert set(rest.split(", ")) == {f"1 short of {GPU} (devices served through DRA)", f"1 short of {GPU}"}


def test_an_unknown_level_is_named_with_those_there_are() -> None:
    decided = plan_one(_rack(0, 0, 1), _gang("j", 1, annotations={REQUIRED_LEVEL: "rack"}))
    assert decided.reason == f'{REQUIRED_LEVEL} is "rack", but the levels are block, subblock, host'


def test_an_incomplete_gang_waits_for_its_pods() -> None:
    decided = plan_one(_rack(0, 0, 1), _gang("j", 3), [Workload("Job", "ml", "j", 8)])
    assert decided.reason == "waits for 5 of its 8 pods to be created"


def test_unlike_pods_say_which_of_them_has_no_room() -> None:
    pods = [*_gang("j", 1, gpus=0), pod("j-1", labels={"job-name": "j"}, gpus=16)]
    decided = plan_one(_rack(0, 0, 2), pods)
    assert decided.reason == (
        f"for pods like that of rank 1, needs 1 node, the cluster has 0; of 2 nodes: 2 short of {GPU}"
    )


def test_unlike_pods_that_only_fit_one_at_a_time_are_refused_with_proof() -> None:
    pods = [pod("j-0", labels={"job-name": "j"}, gpus=5), pod("j-1", labels={"job-name": "j"}, gpus=4)]
    decided = plan_one(_rack(0, 0, 1), pods)
    assert decided.reason == "each of its 2 unlike pods fits alone, but not all together in the cluster"


def test_a_gang_that_must_wait_takes_nothing_and_stops_nobody() -> None:
    broken = [pod("x-0", labels={"job-name": "x"}, annotations={EXCLUSIVE: "maybe"}, priority=9)]
    large, small = _gang("large", 5, gpus=8, priority=5), _gang("small", 2, gpus=8)
    decided = plan(_rack(0, 0, 3), [*small, *large, *broken])
    assert [(str(p.gang.key), p.nodes is not None) for p in decided] == [
        ("ml/x", False),
        ("ml/large", False),
        ("ml/small", True),
    ]


def test_what_one_gang_gets_the_next_does_not() -> None:
    first, second = plan(_rack(0, 0, 2), [*_gang("a", 2, gpus=5), *_gang("b", 2, gpus=3)])
    assert first.nodes == second.nodes == ("n000", "n001")
    assert plan(_rack(0, 0, 2), [*_gang("a", 2, gpus=5), *_gang("b", 2, gpus=4)])[1].nodes is None


def test_a_launcher_without_gpus_joins_its_workers() -> None:
    cpu_nodes = [node("c0", "b0/s00/c0", gpus=0), node("c1", "b1/s10/c1", gpus=0)]
    launcher = pod("j-0", labels={"job-name": "j"}, gpus=0, more={"cpu": 60})
    workers = [pod(f"j-{rank}", labels={"job-name": "j"}, gpus=8, more={"cpu": 8}) for rank in (1, 2, 3)]
    decided = plan_one([*_rack(1, 0, 3), *_rack(0, 0, 2), *cpu_nodes], [launcher, *workers])
    assert decided.nodes == ("c1", "n100", "n101", "n102")
    assert decided.is_optimal


def test_an_empty_cluster_and_no_gang_at_all_are_planned() -> None:
    assert plan([], []) == []
    assert plan_one([], _gang("j", 2)).reason == "needs 2 nodes, the cluster has 0"
    required = _gang("j", 2, annotations={REQUIRED_LEVEL: "host"})
    assert plan_one([], required).reason == "needs 2 nodes in one host, best has 0"
    assert plan_one([], [*_gang("j", 1), pod("j-9", gpus=2, labels={"job-name": "j"})]).nodes is None


def test_pods_that_ask_for_nothing_fit_on_nodes_that_say_nothing() -> None:
    nodes = [Node(f"n{number:05}") for number in range(20_000)]
    raw = raw_pod("j-0", gates=(_GATE,), labels={})
    alike = [replace(parse_pod(raw), name=f"j-{rank}") for rank in range(50)]
    assert plan_one(nodes, alike).distance == 0
    unlike = [replace(one, tolerations=(Toleration(f"k{rank % 2}"),)) for rank, one in enumerate(alike)]
    assert plan_one(nodes, unlike).distance == 0


@pytest.mark.parametrize("seed", range(200))
def test_a_bound_is_right_however_little_is_searched(seed: int) -> None:
    instance = random_instance(Random(seed))
    cluster = Cluster(instance.scheme, instance.nodes, instance.bound)
    shapes = tuple(shape_of(of) for of in instance.gated)
    within = -1 if instance.level is None else instance.level
    problem = PlacementProblem(cluster.layout.tree, cluster.room(), shapes, within, instance.is_exclusive)
    least = instance.least_distance()
    bound = lower_bound(problem.tree, problem.demand, Budget())
    assert least is None or (not bound.is_hopeless and bound.distance <= least)
    for effort in (Effort(restarts=0, tries=0), Effort(restarts=1, tries=0), Effort(tries=30)):
        outcome = place_unlike(problem, effort)
        if outcome.leaves is None:
            assert least is None or not outcome.is_settled
        else:
            assert least is not None
            assert outcome.lower_bound <= least <= problem.tree.length(outcome.leaves)
            assert not outcome.is_settled or problem.tree.length(outcome.leaves) == least


def test_one_pod_a_node_is_never_refused_falsely() -> None:
    """A chain of kinds each of which can make way for the one before needs a true matching."""
    random = Random(7)
    for _ in range(100):
        kinds = 5
        nodes = [
            node(f"n{number}", f"b{number % 3}/s{number}/h{number}", labels={f"k{kind}": "y" for kind in of})
            for number in range(kinds)
            for of in [[number, (number + 1) % kinds]]
        ]
        random.shuffle(nodes)
        pods = [
            pod(
                f"j-{kind}",
                labels={"job-name": "j"},
                annotations={EXCLUSIVE: "true"},
                selector={f"k{kind}": "y"},
            )
            for kind in range(kinds)
        ]
        cluster = Cluster(Scheme(), nodes)
        (gang,) = find_gangs(pods)
        decided = plan_gang(gang, cluster.layout, cluster.room(), Effort(restarts=0, tries=0))
        assert decided.nodes is not None


def test_the_same_input_gives_the_same_plan() -> None:
    for seed in range(50):
        instance = random_instance(Random(seed))
        cluster = Cluster(instance.scheme, instance.nodes, instance.bound)
        gangs = find_gangs(instance.gated)
        once, again = (plan_gangs(gangs, cluster.layout, cluster.room()) for _ in range(2))
        assert once == again
