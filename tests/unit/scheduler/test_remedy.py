"""What is done for released pods that cannot be where they were sent: never at a cost nobody agreed to."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import Owner
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.exclusions import EXCLUDED_FOR_S, MOST_EXCLUDED, Exclusions
from accelet.scheduler.gangs.grouping import GangKey, find_gangs
from accelet.scheduler.gangs.jobs import MAY_SUSPEND, SUSPENDED, JobTerms
from accelet.scheduler.gangs.workload import parse_workload
from accelet.scheduler.placement.plan import plan_gang
from accelet.scheduler.remedy import remedy_for
from tests.fakes.nodes import node
from tests.unit.scheduler.values import pod

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
COUNT = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FAIL_UNBOUND = {"action": "FailJob", "onPodConditions": [{"type": "PodScheduled", "status": "False"}]}
EXIT_CODES = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
NOT_TARGET = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]}


def _terms(said: dict[str, Any] | None = None, **spec: Any) -> JobTerms:
    metadata = {"name": "j", "namespace": "ml", **(said or {})}
    status = {"failed": 2, "active": 3, "terminating": 1}
    terms = parse_workload(
        {"kind": "Job", "metadata": metadata, "spec": {"parallelism": 1, **spec}, "status": status}
    ).job_terms
    assert terms is not None
    return terms


@pytest.mark.parametrize(
    ("rules", "is_forgiving"),
    [
        ([IGNORE], True),
        ([EXIT_CODES, IGNORE], True),
        ([COUNT, IGNORE], False),
        ([FAIL_UNBOUND, IGNORE], False),
        ([NOT_TARGET], False),
        ([], False),
        (None, False),
    ],
)
def test_the_first_rule_that_an_evicted_pod_meets_says_whether_it_counts(
    rules: list[Any] | None, is_forgiving: bool
) -> None:
    policy = None if rules is None else {"rules": rules}
    assert _terms(podFailurePolicy=policy).forgives_disruption == is_forgiving


@pytest.mark.parametrize(
    ("spec", "failures", "has_retries"),
    [
        ({}, "", True),
        ({"backoffLimit": 0}, "", False),
        ({"backoffLimit": 2}, "", False),
        ({"backoffLimit": 3}, "", True),
        ({"backoffLimitPerIndex": 0}, "", False),
        ({"backoffLimitPerIndex": 2}, "1", True),
        ({"backoffLimitPerIndex": 2}, "2", False),
        ({"backoffLimitPerIndex": 2}, "9" * 5000, False),
        ({"backoffLimitPerIndex": 2}, "²", False),
    ],
)
def test_a_stranded_pod_is_evicted_only_while_its_job_has_retries_left(
    spec: dict[str, Any], failures: str, has_retries: bool
) -> None:
    notes = {"batch.kubernetes.io/job-index-failure-count": failures} if failures else {}
    made = replace(pod("j-0", annotations=notes), owners=(Owner("Job", "j", "u", is_controller=True),))
    found = remedy_for(made, _terms(**spec), may_cost_a_retry=True)
    assert found == ("evict" if has_retries else "tell")
    assert remedy_for(made, _terms(**spec), may_cost_a_retry=False) == "tell"


_OWNERS = st.sampled_from(["Job", "StatefulSet", "PyTorchJob", None])
_JOBS = st.builds(
    JobTerms,
    forgives_disruption=st.booleans(),
    retries_left=st.integers(0, 2),
    retries_each=st.none() | st.integers(0, 2),
    may_suspend=st.booleans(),
)


@given(_OWNERS, st.none() | _JOBS, st.booleans())
def test_what_may_cost_nothing_costs_nothing(kind: str | None, job: JobTerms | None, may_cost: bool) -> None:
    owners = (Owner(kind, "j", "u", is_controller=True),) if kind else ()
    terms = job if kind == "Job" else None
    found = remedy_for(replace(pod("j-0"), owners=owners), terms, may_cost_a_retry=may_cost)
    if kind is None:
        assert found == "tell", "nobody would make it anew"
    elif kind != "Job":
        assert found == "evict"
    elif not may_cost:
        assert (found == "evict") == (terms is not None and terms.forgives_disruption)
    if found == "suspend":
        assert terms is not None
        assert terms.may_suspend
        assert not terms.forgives_disruption


def test_who_is_suspended_by_others_is_theirs() -> None:
    yes = {"annotations": {MAY_SUSPEND: "true"}}
    assert _terms(yes).may_suspend
    assert not _terms({"annotations": {MAY_SUSPEND: "yes"}}).may_suspend
    assert not _terms({**yes, "labels": {"kueue.x-k8s.io/queue-name": "q"}}).may_suspend
    assert not _terms({**yes, "ownerReferences": [{"kind": "JobSet", "name": "s", "uid": "u"}]}).may_suspend
    ours = {"annotations": {SUSPENDED: "true"}}
    assert (_terms(ours, suspend=True).is_suspended_by_us, _terms(ours, suspend=True).pods_left) == (True, 4)
    assert not _terms(ours).is_suspended_by_us
    assert not _terms(suspend=True).is_suspended_by_us


_STEPS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 20), st.sampled_from([0.0, 1.0, EXCLUDED_FOR_S / 2])),
    max_size=60,
)


@given(_STEPS)
def test_nodes_are_avoided_for_a_while_and_no_more_of_them_than_the_most(
    steps: list[tuple[str, int, float]],
) -> None:
    exclusions, now_s = Exclusions(), 0.0
    until_s: dict[str, dict[str, float]] = {"a": {}, "b": {}}
    for name, number, wait_s in steps:
        now_s += wait_s
        ended = {gang.name for gang in exclusions.end(now_s)}
        for one, nodes in until_s.items():
            over = [at for at, end_s in nodes.items() if end_s <= now_s]
            assert (one in ended) == bool(over)
            for at in over:
                del nodes[at]
        mine, at = until_s[name], f"n{number}"
        is_added = exclusions.add(GangKey("ml", name, "Job"), at, now_s)
        assert is_added == (at in mine or len(mine) < MOST_EXCLUDED)
        if is_added:
            mine[at] = now_s + EXCLUDED_FOR_S
        assert exclusions.of(GangKey("ml", name, "Job")) == set(mine)
        soonest_s = min(end_s for nodes in until_s.values() for end_s in nodes.values())
        assert exclusions.next_end_s(now_s) == soonest_s - now_s


def test_a_gang_is_placed_on_no_node_that_it_avoids_and_says_so() -> None:
    nodes = [node(f"n{number}", f"b/s/h{number}") for number in range(3)]
    pods: list[Pod] = [pod(f"j-{rank}", labels={"job-name": "j"}, gpus=8) for rank in range(2)]
    (gang,) = find_gangs(pods)
    cluster = Cluster(Scheme(), nodes, ())
    found = plan_gang(replace(gang, excluded=frozenset({"n0", "gone"})), cluster.layout, cluster.room())
    assert set(found.nodes or ()) == {"n1", "n2"}
    found = plan_gang(replace(gang, excluded=frozenset({"n0", "n1"})), cluster.layout, cluster.room())
    assert found.nodes is None
    assert "2 where one of its pods was refused" in (found.reason or "")
