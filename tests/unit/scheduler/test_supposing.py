"""What is supposed of pods that go and come is what their events make of the cluster."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.supposing import Arrival
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import find_gangs
from accelet.scheduler.placement.plan import Plan, plan_gang
from tests.unit.scheduler.card_values import card, card_container, card_node, card_pod

_NODES = [card_node("a", card(0), card(1)), card_node("b", card(0, tiles=1)), card_node("c", card(0))]


def _placed(cluster: Cluster, pod: Pod) -> tuple[Pod, Plan] | None:
    (gang,) = find_gangs([pod])
    plan = plan_gang(gang, cluster.layout, cluster.room())
    if plan.nodes is None:
        return None
    (given_cards,) = plan.assignments
    said = {ASSIGNMENT_ANNOTATION: render_own(given_cards)} if given_cards else {}
    return replace(pod, node_name=plan.nodes[0], gates=(), phase="Running", annotations=said), plan


def _cards(room: CardRoom) -> list[object]:
    return [room.catalog.states(int(code)) for code in room.codes]


@given(st.integers(0, 2**32).map(Random))
def test_supposed_events_are_as_exact_as_real_ones(chance: Random) -> None:
    cluster = Cluster(Scheme(), _NODES)
    running: list[Pod] = []
    for number in range(6):
        asked = chance.choice(
            (card_container(tiles=1), card_container(tiles=2), card_container(millicores=300))
        )
        if (found := _placed(cluster, card_pod(f"p{number}", asked))) is not None:
            running.append(found[0])
            cluster.set_pod(found[0])
    supposed = cluster.suppose(cluster.snapshot(), [one.key for one in running])
    untouched = cluster.room()
    gone = [one for one in running if chance.random() < 0.5]
    for one in gone:
        cluster.remove_pod(one.key)
    comer = _placed(cluster, card_pod("new"))
    come = []
    if comer is not None:
        pod, plan = comer
        cluster.set_pod(pod)
        come = [Arrival(pod.key, plan.gang.shapes[0], pod.node_name or "", plan.assignments[0])]
    room, real = supposed.room([one.key for one in gone], come), cluster.room()

    assert isinstance(real, CardRoom)
    assert isinstance(untouched, CardRoom)
    assert np.array_equal(room.amounts.free, real.amounts.free)
    assert _cards(room) == _cards(real)
    assert np.array_equal(supposed.room().amounts.free, untouched.amounts.free), "it was changed by asking"
    assert _cards(supposed.room()) == _cards(untouched)
