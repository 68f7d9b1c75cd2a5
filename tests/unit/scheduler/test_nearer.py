"""When a running task is brought nearer together, against all that there are on many small clusters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.moves.finding.nearer import Nearer, NearerTerms, find_nearer
from accelet.scheduler.moves.movable import Relocation, distance_of
from accelet.scheduler.placement.unlike import Effort
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.moving_instances import as_task, running, suppose

_STRICTLY = NearerTerms(factor=1.0)
_Tasks = list[list[Pod]]


def _scattered(random: Random) -> tuple[list[Node], _Tasks]:
    """Four to six nodes of 1 to 3 GPUs in two blocks, up to three tasks of one to three ranks anywhere."""
    nodes = [
        node(f"n{number}", f"b{number % 2}/s{random.randint(0, 1)}/h{number}", gpus=random.randint(1, 3))
        for number in range(random.randint(4, 6))
    ]
    free = {one.name: int(one.allocatable[GPU]) for one in nodes}
    tasks: _Tasks = []
    for number in range(random.randint(1, 3)):
        places = []
        for _ in range(random.randint(1, 3)):
            if open_nodes := [name for name, room in free.items() if room]:
                places.append(random.choice(open_nodes))
                free[places[-1]] -= 1
        if places:
            tasks.append(running(f"t{number}", places))
    return nodes, tasks


def _free(nodes: Sequence[Node], tasks: _Tasks) -> Counter[str]:
    free = Counter({one.name: int(one.allocatable[GPU]) for one in nodes})
    free.subtract(one.node_name or "" for pods in tasks for one in pods)
    return free


def _least(nodes: Sequence[Node], tasks: _Tasks, moved: Sequence[Pod]) -> int:
    """The least distance of one task, by trying each place for each rank: its own, or one that is free."""
    layout, free = Cluster(Scheme(), nodes).layout, _free(nodes, tasks)
    own = [one.node_name or "" for one in moved]
    ways = product(*([("", where), *(("new", name) for name in free)] for where in own))
    return min(
        distance_of([name for _, name in way], layout)
        for way in ways
        if not Counter(name for kind, name in way if kind) - free
    )


def _find(nodes: Sequence[Node], tasks: _Tasks, number: int, terms: NearerTerms = _STRICTLY) -> Nearer:
    pods = [one for each in tasks for one in each]
    return find_nearer(as_task(tasks[number]), suppose(nodes, pods), terms)


def _carry_out(tasks: _Tasks, number: int, move: Relocation) -> _Tasks:
    moved = [replace(one, node_name=to) for one, to in zip(tasks[number], move.nodes, strict=True)]
    return [*tasks[:number], moved, *tasks[number + 1 :]]


@given(st.integers(0, 2**32).map(Random), st.sampled_from((1.0, 2.0, 10.0)))
def test_a_move_is_proposed_where_there_is_a_place_that_is_so_much_nearer(
    random: Random, factor: float
) -> None:
    nodes, tasks = _scattered(random)
    layout = Cluster(Scheme(), nodes).layout
    for number, pods in enumerate(tasks):
        found, least = _find(nodes, tasks, number, NearerTerms(factor=factor)), _least(nodes, tasks, pods)
        before = distance_of([one.node_name or "" for one in pods], layout)
        is_worth = least < before and least * factor <= before
        if found.move is None:
            assert not (found.is_settled and is_worth), "it was said to be proven that there is none"
            continue
        after = distance_of(found.move.nodes, layout)
        assert is_worth
        assert (found.before, found.after) == (before, after)
        assert least <= after < before
        assert after * factor <= before
        new = Counter(name for rank, name in enumerate(found.move.nodes) if rank not in found.move.kept)
        assert not new - _free(nodes, tasks), "the new places are free beside the old ones"
        assert all(found.move.nodes[rank] == pods[rank].node_name for rank in found.move.kept)


@given(st.integers(0, 2**32).map(Random))
def test_moves_to_nearer_places_come_to_an_end_and_nobody_goes_back(random: Random) -> None:
    nodes, tasks = _scattered(random)
    layout = Cluster(Scheme(), nodes).layout
    been: set[tuple[str, ...]] = set()
    for _ in range(20):
        been.add(tuple(one.node_name or "" for pods in tasks for one in pods))
        order = random.sample(range(len(tasks)), len(tasks))
        proposed = ((number, _find(nodes, tasks, number).move) for number in order)
        number, move = next(((number, move) for number, move in proposed if move), (0, None))
        if move is None:
            return
        distances = [distance_of([one.node_name or "" for one in pods], layout) for pods in tasks]
        tasks = _carry_out(tasks, number, move)
        now = [distance_of([one.node_name or "" for one in pods], layout) for pods in tasks]
        assert sum(now) < sum(distances)
        assert tuple(one.node_name or "" for pods in tasks for one in pods) not in been
    raise AssertionError("20 moves, and still others are proposed")


def test_few_places_that_are_nearer_are_missed() -> None:
    seen = Counter[str]()
    for seed in range(300):
        nodes, tasks = _scattered(Random(seed))
        layout = Cluster(Scheme(), nodes).layout
        for number, pods in enumerate(tasks):
            is_possible = _least(nodes, tasks, pods) < distance_of(
                [one.node_name or "" for one in pods], layout
            )
            is_found = _find(nodes, tasks, number).move is not None
            seen[f"{'found' if is_found else 'missed'}" if is_possible else "none"] += 1
    assert seen["found"] >= 0.05 * seen.total(), seen
    assert seen["missed"] <= 0.05 * seen["found"], seen


def test_a_stray_rank_joins_the_others_which_keep_their_places() -> None:
    nodes = [node("n0", "b0/s0/h0", gpus=3), node("n1", "b1/s1/h1", gpus=1)]
    pods = running("t0", ["n0", "n0", "n1"])
    found = find_nearer(as_task(pods), suppose(nodes, pods), NearerTerms())

    assert found.move is not None
    assert (found.move.nodes, found.move.kept) == (("n0", "n0", "n0"), frozenset({0, 1}))
    assert (found.before, found.after) == (1_000_000, 0)


def test_a_place_that_is_hardly_nearer_is_not_worth_a_new_beginning() -> None:
    nodes = [node("n0", "b0/s0/h0", gpus=1), *(node(f"n{i}", f"b1/s1/h{i}", gpus=1) for i in (1, 2))]
    nodes += [node("n3", "b2/s2/h3", gpus=2)]
    pods = running("t0", ["n0", "n1", "n3", "n3"])
    task, supposed = as_task(pods), suppose(nodes, pods)
    assert task.distance(supposed.layout) == 2_000_000
    near = find_nearer(task, supposed, NearerTerms(factor=1.0))
    assert near.move is not None
    assert near.after == 1_000_100
    assert find_nearer(task, supposed, NearerTerms(factor=2.0)).move is None


def test_what_the_planner_leaves_undecided_is_no_move() -> None:
    nodes = [node("n0", "b0/s0/h0", gpus=1), node("n1", "b1/s1/h1", gpus=1), node("n2", "b0/s0/h2", gpus=1)]
    pods = running("t0", ["n0", "n1"])
    task, supposed = as_task(pods), suppose(nodes, pods)
    found = find_nearer(task, supposed, NearerTerms(effort=Effort(units=1, restarts=1, tries=1)))
    assert (found.move, found.is_settled) == (None, False)
    assert find_nearer(task, supposed, NearerTerms()).move is not None
