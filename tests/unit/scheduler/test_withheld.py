"""A gang whose controller makes no more pods before the first has a node names the annotation."""

import pytest

from accelet.scheduler.gangs.grouping import GANG_SIZE
from tests.fakes.nodes import node
from tests.unit.scheduler.values import plan_one, pod

_JOB_SET = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({}, None),
        ({_JOB_SET: "rack"}, _JOB_SET),
        ({_JOB_SET: "rack", _SELECTOR: "true"}, None),
        ({_GROUPS: "rack"}, _GROUPS),
    ],
)
def test_the_annotation_that_keeps_pods_from_being_made_is_named(
    said: dict[str, str], named: str | None
) -> None:
    first = pod("train-0", labels={"job-name": "train"}, annotations={GANG_SIZE: "4", **said})
    reason = plan_one([node("a"), node("b")], [first]).reason or ""
    assert reason.startswith("waits for 3 of its 4 pods to be created")
    if named is None:
        assert reason.endswith("created")
    else:
        assert f"by the annotation {named} they are created only once the first has a node" in reason
        assert reason.endswith("accelet.dev/exclusive-level gives them a domain of their own")


def test_a_gang_that_is_complete_is_placed_whatever_it_says() -> None:
    pods = [
        pod(f"train-{rank}", labels={"job-name": "train"}, annotations={GANG_SIZE: "2", _JOB_SET: "rack"})
        for rank in range(2)
    ]
    assert plan_one([node("a")], pods).nodes == ("a", "a")
