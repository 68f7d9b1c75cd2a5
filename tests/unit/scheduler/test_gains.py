"""Which tasks can leave room enough by counting, and how sets of them are put together."""

from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from accelet.scheduler.budget import Budget
from accelet.scheduler.moves.finding.gains import Gains
from accelet.scheduler.moves.finding.letsin import LetsInTerms, find_lets_in
from accelet.scheduler.moves.finding.options import Option, in_order, most_gained
from accelet.scheduler.moves.finding.together import Together
from tests.fakes.nodes import node
from tests.unit.scheduler.moving_instances import (
    MovingInstance,
    as_task,
    random_moving_instance,
    running,
    suppose,
    waiting_gang,
)

_MOST = 3


@st.composite
def _options(draw: st.DrawFn) -> list[Option]:
    """Options of tasks that no two have in common, as on leaves of their own."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=6))
    tasks = iter(range(100))
    return [
        Option(
            frozenset(next(tasks) for _ in range(size)), draw(st.integers(size, 9)), draw(st.integers(0, 3))
        )
        for size in sizes
    ]


@given(_options(), st.integers(1, 5))
def test_unions_come_by_ranks_and_none_is_missing(options: list[Option], lacking: int) -> None:
    found = list(in_order(options, lacking, _MOST))
    expected = {
        frozenset[int]().union(*(one.tasks for one in some)): sum(one.ranks for one in some)
        for count in range(1, _MOST + 1)
        for some in combinations([one for one in options if one.gain], count)
        if sum(len(one.tasks) for one in some) <= _MOST
        if 0 <= sum(one.gain for one in some) - lacking < min(one.gain for one in some)
    }

    assert [ranks for ranks, _ in found] == sorted(ranks for ranks, _ in found)
    assert {some: ranks for ranks, some in found} == expected
    assert len(found) == len(expected)


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), max_size=4), st.integers(0, 5))
def test_the_most_that_steps_gain_is_that_of_the_best_way_to_share_them(
    more: list[list[int]], steps: int
) -> None:
    reach = [[0, *gains] for gains in more]

    def best(left: int, leaves: list[list[int]]) -> int:
        if not leaves:
            return 0
        first, *others = leaves
        return max(gain + best(left - taken, others) for taken, gain in enumerate(first[: left + 1]))

    assert most_gained(reach, steps).tolist() == [best(left, reach) for left in range(steps + 1)]


def _gains(instance: MovingInstance, factor: float) -> tuple[Gains, Together, int]:
    gang = waiting_gang(instance.wanted, gpus=instance.gpus, level=instance.level)
    tasks = [as_task(pods) for pods in instance.tasks]
    supposed = suppose(instance.nodes, instance.pods)
    together = Together(gang, tasks, supposed.now, factor)
    freed = supposed.room([pod for task in tasks for pod in task.pods])
    gains = Gains(gang, tasks, supposed, freed, allowed=together.allows, budget=Budget())
    return gains, together, len(tasks)


@given(st.integers(0, 10**9), st.sampled_from((0.0, 1.0, 2.0)))
def test_every_set_that_leaves_room_enough_is_enough_by_counting(seed: int, factor: float) -> None:
    """What is left out is impossible, and of what is whole nothing is left out."""
    instance = random_moving_instance(Random(seed))
    gains, together, count = _gains(instance, factor)
    found = list(gains.sets(_MOST))
    for size in range(1, _MOST + 1):
        for some in combinations(range(count), size):
            tasks = [instance.tasks[number] for number in some]
            makes_room = instance.gets_in(instance.free_without(tasks))
            if makes_room:
                assert gains.is_enough(frozenset(some))
            if makes_room and together.allows(frozenset(some)) and gains.is_complete:
                assert any(part <= frozenset(some) for part in found), (seed, some, found)
    assert all(together.allows(some) and gains.is_enough(some) for some in found)


@given(st.integers(0, 10**9))
def test_what_may_not_move_together_cannot(seed: int) -> None:
    """No set with a refused part is allowed; one that could find places is never refused for their number."""
    instance = random_moving_instance(Random(seed))
    _, together, count = _gains(instance, 1.0)
    sets = [frozenset(some) for size in (1, 2, 3) for some in combinations(range(count), size)]
    for some in sets:
        if together.allows(some):
            assert all(together.allows(part) for part in sets if part < some)


@given(st.integers(0, 10**9))
def test_the_counted_search_of_many_candidates_agrees_with_brute_force(seed: int) -> None:
    instance = random_moving_instance(Random(seed))
    gang = waiting_gang(instance.wanted, gpus=instance.gpus, level=instance.level)
    tasks = [as_task(pods) for pods in instance.tasks]
    terms = LetsInTerms(factor=1.0, most_candidates=0)
    answer = find_lets_in(gang, tasks, suppose(instance.nodes, instance.pods), terms)
    if instance.gets_in(instance.free()):
        assert not answer.moves
        return
    possible = instance.fewest_ranks(terms.most_tasks, terms.factor)
    if answer.moves:
        assert possible is not None
        assert sum(len(move.nodes) for move in answer.moves) >= possible
        assert not answer.is_settled, "of many candidates the fewest ranks are not proven"
    elif answer.is_settled:
        assert possible is None


def test_among_many_tasks_the_two_that_leave_a_node_are_found_and_too_few_is_proven() -> None:
    """A hundred nodes of two GPUs, with a task on each GPU but for two; of one node alone both may move."""
    nodes = [node(f"n{number}", f"b0/s0/h{number}", gpus=2) for number in range(102)]
    pods = [running(f"t{number}-{gpu}", [f"n{number}"]) for number in range(100) for gpu in range(2)]
    pods += [running(f"u{number}", [f"n{number}"]) for number in (100, 101)]
    every = [one for of_task in pods for one in of_task]
    may = [as_task(of_task) for of_task in pods[:200:2]] + [as_task(pods[1])]
    supposed = suppose(nodes, every)

    answer = find_lets_in(waiting_gang(1, gpus=2), may, supposed, LetsInTerms(factor=1.0))
    assert sorted(move.task.terms.name for move in answer.moves) == ["t0-0", "t0-1"]

    none = find_lets_in(waiting_gang(1, gpus=2), may[1:-1], supposed, LetsInTerms(factor=1.0))
    assert (none.moves, none.is_settled) == ((), True)
    too_much = find_lets_in(waiting_gang(2, gpus=2), may, supposed, LetsInTerms(factor=1.0))
    assert (too_much.moves, too_much.is_settled) == ((), True)
