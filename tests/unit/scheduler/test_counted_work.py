"""What a gang says is looked at as often as it must be, and is charged to its work."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from accelet.kube.pods import Pod
from accelet.kube.selection import PodTerm, Requirement
from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cluster.apart import find_apart
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.shape import NodeRules, PodShape, share_shapes
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import find_gangs
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.placement.plan import find_places, plan_gangs
from accelet.scheduler.placement.unlike import QUICK_EFFORT, USUAL_EFFORT
from benches.climb import Input, measure
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.values import pod


class _CountedTerm:
    """Stands for a term of node affinity, and counts how often somebody needs its hash."""

    hashed = 0

    def __hash__(self) -> int:
        _CountedTerm.hashed += 1
        return 1


def test_what_a_pod_says_of_nodes_is_hashed_once() -> None:
    _CountedTerm.hashed = 0
    shape = PodShape(frozenset(), NodeRules(required_terms=(_CountedTerm(),)))  # type: ignore[arg-type]
    assert len({hash(shape) for _ in range(100)}) == 1
    assert _CountedTerm.hashed == 1


def test_equal_shapes_of_a_gang_are_one_object() -> None:
    shapes = share_shapes(PodShape(frozenset((("cpu", 1 + at % 2),))) for at in range(10))
    assert len({id(shape) for shape in shapes}) == 2


def _terms(number: int, requirements: int, **labels: str) -> frozenset[PodTerm]:
    said = [Requirement(key, "In", (value,)) for key, value in labels.items()]
    fill = [Requirement(f"k{at}", "DoesNotExist") for at in range(requirements)]
    some = ((*said, *fill, Requirement(f"n{at}", "DoesNotExist")) for at in range(number))
    return frozenset(PodTerm(frozenset(("ml",)), frozenset(one)) for one in some)


def _pods(number: int, terms: frozenset[PodTerm], **labels: str) -> list[Pod]:
    first = pod("p", labels={"job-name": "j", **labels})
    return [
        replace(
            first, name=f"p-{at}", uid=f"u{at}", labels={**first.labels, "index": str(at)}, apart_from=terms
        )
        for at in range(number)
    ]


def test_terms_are_asked_of_like_pods_once() -> None:
    layout = Cluster(Scheme(), [node("a")]).layout
    budget = Budget(USUAL_EFFORT.units)
    found = find_apart(_pods(8_000, _terms(16, 15, **{"job-name": "j"})), (), layout, budget)
    assert len(found.limits) == 1
    assert budget.spent < 20_000


def test_terms_that_tell_all_pods_apart_are_charged_for_each() -> None:
    layout = Cluster(Scheme(), [node("a")]).layout
    budget = Budget(USUAL_EFFORT.units)
    terms = frozenset(
        replace(term, requirements=term.requirements | {Requirement("index", "NotIn", (str(at),))})
        for at, term in enumerate(_terms(16, 14, **{"job-name": "j"}))
    )
    with pytest.raises(BudgetSpentError):
        find_apart(_pods(8_000, terms), [(one, 0) for one in _pods(10, terms)], layout, budget)


def test_distances_of_pairs_are_those_of_each_pair() -> None:
    tree = Cluster(
        Scheme(), [node(f"n{at}", f"b{at % 2}/s{at % 3}/h{at % 5}") for at in range(12)]
    ).layout.tree
    ones, others = np.arange(12), np.arange(12)[::-1] // 2
    pairs = zip(ones.tolist(), others.tolist(), strict=True)
    assert tree.sum_of_distances(ones, others) == sum(tree.length(np.array(pair)) for pair in pairs)


_WORST: Mapping[str, Input] = {
    "like pods, exclusive, 50 terms, 2 ports, spread, on 40 nodes": Input(
        pods=1024,
        blocks=2,
        subblocks=2,
        hosts=10,
        used_percent=0,
        kinds=1,
        gpus=0,
        roles=1,
        apart_terms=0,
        requirements=1,
        node_terms=50,
        values=64,
        ports=2,
        port_sets=1,
        spread=1,
        kept_percent=0,
        exclusive=1,
        least=2,
        required=0,
        preferred=0,
    ),
    "4,096 pods with 16 terms, 70 sets of ports, some placed": Input(
        pods=4096,
        blocks=5,
        subblocks=20,
        hosts=50,
        used_percent=50,
        kinds=16,
        gpus=4,
        roles=17,
        apart_terms=16,
        requirements=4,
        node_terms=50,
        values=64,
        ports=50,
        port_sets=70,
        spread=1,
        kept_percent=10,
        exclusive=1,
        least=0,
        required=0,
        preferred=2,
    ),
    "8,000 pods of 400 kinds and 17 roles with 16 terms, on 400 nodes": Input(
        pods=8000,
        blocks=2,
        subblocks=10,
        hosts=20,
        used_percent=50,
        kinds=400,
        gpus=8,
        roles=17,
        apart_terms=16,
        requirements=16,
        node_terms=50,
        values=8,
        ports=1,
        port_sets=2,
        spread=4,
        kept_percent=0,
        exclusive=0,
        least=2,
        required=0,
        preferred=1,
    ),
    "8,000 like pods with 16 terms": Input(
        pods=8000,
        blocks=10,
        subblocks=20,
        hosts=20,
        used_percent=0,
        kinds=1,
        gpus=0,
        roles=1,
        apart_terms=16,
        requirements=16,
        node_terms=0,
        values=1,
        ports=0,
        port_sets=1,
        spread=0,
        kept_percent=0,
        exclusive=0,
        least=2,
        required=0,
        preferred=0,
    ),
}


@pytest.mark.parametrize("asked", _WORST.values(), ids=_WORST.keys())
def test_what_the_climber_found_takes_no_more_than_a_gang_may(asked: Input) -> None:
    assert measure(asked).units < USUAL_EFFORT.units * 1.1


def test_of_many_gangs_that_take_all_they_may_the_last_are_searched_quickly() -> None:
    """All of them at once took as many times what one may take."""
    nodes = [node(f"n{at}", f"b{at // 8}/s{at // 4}/h{at}", gpus=5 + at % 3) for at in range(48)]
    pods = [
        replace(
            pod(f"g{number}-{rank}", labels={"job-name": f"g{number}"}, gpus=1 + rank % 4),
            annotations={REQUIRED_LEVEL: "block"},
        )
        for number in range(12)
        for rank in range(9)
    ]
    gangs, cluster = find_gangs(pods), Cluster(Scheme(), nodes)
    alone = Budget(USUAL_EFFORT.units)
    find_places(gangs[0], cluster.layout, cluster.room(), budget=alone)
    total = Budget(alone.spent)
    plans = plan_gangs(gangs, cluster.layout, cluster.room(), budget=total)
    assert len(plans) == 12
    assert total.left > -11 * QUICK_EFFORT.units * 1.1
    assert GPU in nodes[0].allocatable
