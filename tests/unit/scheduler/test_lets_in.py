"""Which moves let a waiting gang in, against all that there are on many small clusters."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import find_gangs
from accelet.scheduler.moves.finding.letsin import LetsIn, LetsInTerms, find_lets_in
from accelet.scheduler.moves.movable import Relocation, distance_of
from accelet.scheduler.placement.plan import plan_gang
from tests.fakes.nodes import node
from tests.unit.scheduler.card_values import card, card_container, card_node, card_pod
from tests.unit.scheduler.moving_instances import (
    MovingInstance,
    as_task,
    random_moving_instance,
    running,
    suppose,
    waiting_gang,
)

INSTANCES = 5_000 if os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak" else 200
_RANK_0 = {"batch.kubernetes.io/job-completion-index": "0"}
_TERMS = LetsInTerms(factor=1.0)


def _moved(pods: Sequence[Pod], moves: Sequence[Relocation]) -> list[Pod]:
    """The pods once the tasks are where they are to be."""
    where = {
        one.key: (place, given)
        for move in moves
        for one, place, given in zip(move.task.gang.pods, move.nodes, move.assignments, strict=True)
    }
    return [_put(one, *where[one.key]) if one.key in where else one for one in pods]


def _put(one: Pod, place: str, given: object) -> Pod:
    said = {ASSIGNMENT_ANNOTATION: render_own(given)} if given is not None else {}  # type: ignore[arg-type]
    return replace(one, node_name=place, annotations={**one.annotations, **said})


def _answer(instance: MovingInstance) -> LetsIn:
    gang = waiting_gang(instance.wanted, gpus=instance.gpus, level=instance.level)
    tasks = [as_task(pods) for pods in instance.tasks]
    return find_lets_in(gang, tasks, suppose(instance.nodes, instance.pods), _TERMS)


def _judged(seed: int) -> Iterator[str]:
    instance = random_moving_instance(Random(seed))
    answer, gang = _answer(instance), waiting_gang(instance.wanted, gpus=instance.gpus, level=instance.level)
    if instance.gets_in(instance.free()):
        assert not answer.moves, f"{seed}: it gets in without"
        return
    yield "waits"
    yield "settled" if answer.is_settled else "unsettled"
    possible = instance.fewest_ranks(_TERMS.most_tasks, _TERMS.factor)
    yield "possible" if possible is not None else "impossible"
    if not answer.moves:
        assert possible is None or not answer.is_settled, f"{seed}: {possible} ranks do it"
        if possible is not None:
            yield "missed"
        return
    yield "found"
    ranks = sum(len(move.nodes) for move in answer.moves)
    assert possible is not None, seed
    assert ranks >= possible, seed
    assert ranks == possible or not answer.is_settled, f"{seed}: {possible} ranks are enough"
    layout = suppose(instance.nodes, instance.pods).layout
    for move in answer.moves:
        assert distance_of(move.nodes, layout) <= (move.task.distance(layout) or 0), seed
    # The new places are free beside the old ones, and afterwards the gang gets in: by events, not supposed.
    beside = [replace(one, name=f"{one.name}-new") for one in _moved(instance.pods, answer.moves)]
    moving = {one.key for move in answer.moves for one in move.task.gang.pods}
    both = [new for old, new in zip(instance.pods, beside, strict=True) if old.key in moving]
    cluster = Cluster(Scheme(), instance.nodes, [*instance.pods, *both])
    assert (cluster.room().amounts.free >= 0).all(), seed  # type: ignore[attr-defined]  # a CardRoom
    after = Cluster(Scheme(), instance.nodes, _moved(instance.pods, answer.moves))
    assert plan_gang(gang, after.layout, after.room()).nodes is not None, seed


def test_answers_agree_with_brute_force(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Counter(fact for seed in range(INSTANCES) for fact in _judged(seed))
    with capsys.disabled():
        print(f"\n{INSTANCES} small clusters: {dict(seen)}")  # noqa: T201 - the shares are to be seen
    assert seen["found"] >= 0.05 * INSTANCES
    assert seen["impossible"] >= 0.05 * INSTANCES
    assert seen["settled"] >= 0.95 * seen["waits"]


def _fragments() -> tuple[list, list[Pod]]:  # type: ignore[type-arg]  # nodes
    nodes = [node(f"n{i}", f"b0/s0/h{i}", gpus=2) for i in range(2)]
    return nodes, [*running("t0", ["n0"]), *running("t1", ["n1"])]


def test_the_smallest_task_makes_room_for_a_whole_node() -> None:
    nodes, pods = _fragments()
    gang = waiting_gang(1, gpus=2)
    answer = find_lets_in(gang, [as_task(pods[:1])], suppose(nodes, pods), LetsInTerms())

    (move,) = answer.moves
    assert (move.task.terms.name, move.nodes) == ("t0", ("n1",))
    assert answer.plan is not None
    assert answer.plan.nodes == ("n0",)


def test_a_task_of_higher_priority_is_not_moved() -> None:
    nodes, _ = _fragments()
    pods = [*running("t0", ["n0"], priority=7), *running("t1", ["n1"], priority=7)]
    tasks = [as_task(pods[:1]), as_task(pods[1:])]
    supposed = suppose(nodes, pods)

    assert not find_lets_in(waiting_gang(1, gpus=2, priority=6), tasks, supposed, LetsInTerms()).moves
    assert find_lets_in(waiting_gang(1, gpus=2, priority=7), tasks, supposed, LetsInTerms()).moves


def test_what_gets_in_is_worth_what_is_moved() -> None:
    nodes, pods = _fragments()
    tasks = [as_task(pods[:1])]
    supposed = suppose(nodes, pods)

    assert not find_lets_in(waiting_gang(1, gpus=2), tasks, supposed, LetsInTerms(factor=2.5)).moves


def test_a_task_is_not_moved_apart() -> None:
    nodes = [node("n0", "b0/s0/h0", gpus=2), node("n1", "b0/s1/h1", gpus=1), node("n2", "b1/s2/h2", gpus=1)]
    pods = running("t0", ["n0", "n0"])
    answer = find_lets_in(
        waiting_gang(1, gpus=2), [as_task(pods)], suppose(nodes, pods), LetsInTerms(factor=1.0)
    )

    assert (answer.moves, answer.is_settled) == ((), True)


def test_without_enough_work_nothing_is_proven() -> None:
    nodes, pods = _fragments()
    answer = find_lets_in(
        waiting_gang(1, gpus=2), [as_task(pods[:1])], suppose(nodes, pods), LetsInTerms(units=1)
    )

    assert (answer.moves, answer.is_settled) == ((), False)


def test_tiles_move_within_their_node_to_leave_a_whole_card() -> None:
    nodes = [card_node("a", card(0), card(1))]
    labels = [{"job-name": f"t{i}"} for i in range(2)]
    alone = [card_pod(f"t{i}-0", card_container(tiles=1), labels=labels[i], said=_RANK_0) for i in range(2)]
    apart = []
    for index, one in enumerate(alone):
        only = [card_node("a", card(index))]
        cluster = Cluster(Scheme(), only, [])
        (gang,) = find_gangs([one])
        plan = plan_gang(gang, cluster.layout, cluster.room())
        apart.append(replace(_put(one, "a", plan.assignments[0]), gates=(), phase="Running"))
    (gang,) = find_gangs([card_pod("w", card_container(tiles=2))])
    tasks = [as_task([one]) for one in apart]
    answer = find_lets_in(gang, tasks, suppose(nodes, apart), LetsInTerms())

    (move,) = answer.moves
    assert move.nodes == ("a",)
    after = Cluster(Scheme(), nodes, _moved(apart, answer.moves))
    assert plan_gang(gang, after.layout, after.room()).nodes == ("a",)
