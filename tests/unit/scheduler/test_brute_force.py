"""Plans against the best of all placements, on many random small clusters."""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.gangs.grouping import find_gangs
from accelet.scheduler.placement.plan import Plan, plan_gangs
from tests.unit.scheduler.instances import Instance, random_instance

INSTANCES = 10_000 if os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak" else 1_000


def _plan(instance: Instance) -> Plan:
    cluster = Cluster(instance.scheme, instance.nodes, (*instance.bound, *instance.gated))
    (plan,) = plan_gangs(find_gangs(instance.gated), cluster.layout, cluster.room())
    return plan


def _judged(seed: int) -> Iterator[str]:
    """Checks one instance and says what it shows."""
    instance = random_instance(Random(seed))
    plan, least = _plan(instance), instance.least_distance()
    assert plan.fault is None, f"{seed}: {plan.reason}"
    yield "exclusive" if instance.is_exclusive else "shared"
    yield "identical" if instance.is_identical else "unlike"
    if least is None:
        yield "infeasible"
        assert plan.nodes is None, seed
        assert plan.reason, seed
        return
    window = instance.window_distance()
    if window is None or window > least:
        yield "the window is worse"
    assert plan.lower_bound <= least, seed
    assert plan.nodes is not None or not instance.is_identical, f"{seed}: like pods are placed if they can be"
    if plan.nodes is None:
        yield "refused, but possible"
        return
    at = {node.name: number for number, node in enumerate(instance.nodes)}
    leaves = [at[name] for name in plan.nodes]
    assert instance.obeys(leaves), seed
    assert plan.distance == instance.length(leaves), seed
    if plan.is_optimal:
        yield "proven optimal"
        assert plan.distance == least == plan.lower_bound, seed
    if plan.distance == least:
        yield "optimal"
    assert plan.is_optimal or not instance.is_identical, f"{seed}: like pods are always placed optimally"


def test_plans_agree_with_brute_force(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Counter(fact for seed in range(INSTANCES) for fact in _judged(seed))
    with capsys.disabled():
        shares = ", ".join(f"{fact} {count / INSTANCES:.1%}" for fact, count in seen.most_common())
        print(f"\n{INSTANCES} random clusters: {shares}")  # noqa: T201 - the shares are to be seen
    feasible = INSTANCES - seen["infeasible"]
    assert seen["the window is worse"] >= 0.3 * feasible
    assert seen["infeasible"] >= 0.1 * INSTANCES
    assert seen["optimal"] >= 0.99 * feasible
    assert seen["refused, but possible"] == 0
