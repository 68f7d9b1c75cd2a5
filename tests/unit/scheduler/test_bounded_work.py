"""One gang takes no more than its work, and what was left undecided for that is never called settled."""

from functools import partial
from random import Random
from time import process_time

import pytest

from accelet.scheduler.cards.choice import fit_pods, most_pods
from accelet.scheduler.cards.needs import read_needs
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX, Gang, find_gangs
from accelet.scheduler.placement.plan import Plan, find_places, plan_gang
from accelet.scheduler.placement.unlike import USUAL_EFFORT, Effort
from benches.scheduler.worst import CASES, TWO_CONTAINERS, two_containers
from tests.unit.scheduler.card_values import card, card_container, card_node, card_pod

# With all its holders the one takes twenty seconds to be set up.
_CASES = {**CASES, TWO_CONTAINERS: partial(two_containers, holders=20)}


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES.keys())
def test_what_once_took_minutes_ends(case) -> None:  # type: ignore[no-untyped-def]
    cluster, gangs = case()
    layout, room = cluster.layout, cluster.room()
    began_s = process_time()
    plan_gang(gangs[0], layout, room)
    assert process_time() - began_s < 5, "it took 40 s and more"


def _odd_cluster(random: Random) -> Cluster:
    """Nodes with cards of unlike memory, some of it in use."""
    nodes = [
        card_node(
            f"n{number}",
            *(card(index, memory=random.randrange(4, 14)) for index in range(random.randint(2, 4))),
            where=f"b{number % 2}/s{number % 3}/h{number}",
        )
        for number in range(6)
    ]
    return Cluster(Scheme(), nodes)


def _gang(random: Random) -> Gang:
    containers = [
        card_container(f"c{number}", memory=random.randrange(2, 7)) for number in range(random.randint(2, 3))
    ]
    pods = [
        card_pod(f"g-{rank}", *containers, gates=(CARDS_GATE, f"{GATE_PREFIX}g"), labels={"job-name": "g"})
        for rank in range(random.randint(2, 6))
    ]
    (gang,) = find_gangs(pods)
    return gang


def _plan(gang: Gang, seed: int, units: int) -> Plan:
    # A cluster of its own, since what was counted once is known for good.
    cluster = _odd_cluster(Random(seed))
    return find_places(gang, cluster.layout, cluster.room(), Effort(units=units))


@pytest.mark.parametrize("seed", range(60))
def test_little_work_never_gives_a_false_proof(seed: int) -> None:
    gang = _gang(Random(seed))
    best = _plan(gang, seed, 10**9)
    assert best.is_settled
    for units in (300, 1_000, 3_000, 10_000, 30_000):
        plan = _plan(gang, seed, units)
        assert plan.lower_bound <= (best.distance or 0) or best.nodes is None
        if plan.nodes is not None:
            assert best.distance is not None
            assert plan.distance is not None
            assert plan.distance >= best.distance
            assert not plan.is_optimal or plan.distance == best.distance
        elif plan.is_settled:
            assert best.nodes is None
        else:
            assert plan.reason is not None
            assert "undecided" in plan.reason or "not proven" in plan.reason


@pytest.mark.parametrize("seed", range(100))
def test_no_more_pods_fit_than_the_sums_say(seed: int) -> None:
    random = Random(seed)
    cluster, gang = _odd_cluster(random), _gang(random)
    needs = read_needs(gang.pods[0])
    assert needs is not None
    for number in range(6):
        states = cluster.cards.states(f"n{number}")
        assert states is not None
        most = most_pods(states, needs)
        assert fit_pods(states, [needs] * (most + 1), tries=10**6).holds is None


def test_a_gang_in_a_hurry_is_told_that_nothing_is_proven() -> None:
    pods = [card_pod(f"p-{n}", gates=(CARDS_GATE, f"{GATE_PREFIX}j"), labels={"job-name": "j"}) for n in "01"]
    cluster = Cluster(Scheme(), [card_node("a", card(0))])
    (gang,) = find_gangs(pods)
    plan = find_places(gang, cluster.layout, cluster.room(), Effort(units=1))
    assert (plan.nodes, plan.is_settled) == (None, False)
    assert plan.reason is not None
    assert "not proven impossible" in plan.reason
    assert find_places(gang, cluster.layout, cluster.room(), USUAL_EFFORT).nodes == ("a", "a")
