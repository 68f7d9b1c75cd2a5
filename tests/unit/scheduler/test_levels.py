"""Which level a gang must or had best share, in our annotations and in Kueue's."""

from dataclasses import replace
from random import Random

import pytest

from accelet.kube.nodes import Node
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import ROOT
from accelet.scheduler.gangs.grouping import find_gangs
from accelet.scheduler.gangs.levels import (
    KUEUE_PREFERRED,
    KUEUE_REQUIRED,
    PREFERRED_LEVEL,
    REQUIRED_LEVEL,
)
from accelet.scheduler.placement.plan import Plan, plan_gangs
from tests.fakes.nodes import node
from tests.unit.scheduler.instances import Instance, random_instance
from tests.unit.scheduler.values import plan_one, pod

_SUBBLOCK_LABEL = "cloud.google.com/gce-topology-subblock"


def _cluster() -> list[Node]:
    """Sub-block s0 has 6 hosts of 1 GPU; s1, in the same block, one host of 4; s2, in another, one of 8."""
    return [
        *(node(f"a{host}", f"b0/s0/a{host}", gpus=1) for host in range(6)),
        node("b0", "b0/s1/b0", gpus=4),
        node("c0", "b1/s2/c0", gpus=3),
    ]


def _said(count: int, name: str, value: str) -> Plan:
    pods = [pod(f"j-{rank}", labels={"job-name": "j"}, annotations={name: value}) for rank in range(count)]
    return plan_one(_cluster(), pods)


@pytest.mark.parametrize(
    ("name", "value"), [(PREFERRED_LEVEL, "subblock"), (KUEUE_PREFERRED, _SUBBLOCK_LABEL)]
)
def test_a_preferred_level_is_kept_where_that_can_be_and_else_the_next_wider_one(
    name: str, value: str
) -> None:
    fits = _said(6, name, value)
    assert fits.nodes is not None
    assert {node[0] for node in fits.nodes} == {"a"}
    wider = _said(10, name, value)
    assert wider.nodes is not None
    assert {node[0] for node in wider.nodes} == {"a", "b"}, "one block holds them"
    anywhere = _said(13, name, value)
    assert anywhere.nodes is not None
    assert _said(14, name, value).nodes is None


@pytest.mark.parametrize(("name", "value"), [(REQUIRED_LEVEL, "subblock"), (KUEUE_REQUIRED, _SUBBLOCK_LABEL)])
def test_a_level_that_is_required_in_our_words_or_in_kueues_is_kept_or_waited_for(
    name: str, value: str
) -> None:
    assert _said(6, name, value).nodes is not None
    assert _said(7, name, value).reason == "needs room for 7 pods in one sub-block, best has 6 (b0/s0)"


def test_our_annotation_counts_before_kueues() -> None:
    said = {REQUIRED_LEVEL: "block", KUEUE_REQUIRED: _SUBBLOCK_LABEL}
    pods = [pod(f"j-{rank}", labels={"job-name": "j"}, annotations=said) for rank in range(10)]
    assert plan_one(_cluster(), pods).nodes is not None


def test_a_label_that_is_of_no_level_is_named_with_those_that_are() -> None:
    reason = _said(2, KUEUE_REQUIRED, "cloud.provider.com/rack").reason or ""
    assert reason.startswith(
        f'{KUEUE_REQUIRED} is "cloud.provider.com/rack", but the labels of the levels are'
    )
    assert _SUBBLOCK_LABEL in reason


def _narrowest(instance: Instance, preferred: int) -> int | None:
    """The level within which the gang can be that comes first, by trying every placement."""
    required = ROOT if instance.level is None else instance.level
    levels: tuple[int, ...] = (*range(preferred, required, -1), required)
    for level in levels:
        within = replace(instance, level=None if level == ROOT else level)
        if within.least_distance() is not None:
            return level
    return None


@pytest.mark.parametrize("seed", range(150))
def test_a_preferred_level_agrees_with_brute_force(seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random)
    scheme = instance.scheme
    preferred = random.randrange(len(scheme.levels))
    said = {PREFERRED_LEVEL: scheme.levels[preferred]}
    gated = [replace(pod, annotations={**pod.annotations, **said}) for pod in instance.gated]
    cluster = Cluster(scheme, instance.nodes, (*instance.bound, *gated))
    (plan,) = plan_gangs(find_gangs(gated), cluster.layout, cluster.room())
    level = _narrowest(instance, preferred)
    assert (plan.nodes is None) == (level is None)
    if level is None:
        return
    within = replace(instance, level=None if level == ROOT else level)
    at = {node.name: number for number, node in enumerate(instance.nodes)}
    leaves = [at[name] for name in plan.nodes or ()]
    least = within.least_distance()
    assert least is not None
    assert within.obeys(leaves)
    assert plan.lower_bound <= least
    assert not plan.is_optimal or plan.distance == least
    assert plan.is_optimal or not instance.is_identical
