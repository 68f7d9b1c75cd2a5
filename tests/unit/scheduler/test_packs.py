"""When a running task leaves whole nodes or cards to nobody, against what is counted on small clusters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.assignments.annotations import read_assignment
from accelet.assignments.assignment import Assignment, Naming, Piece
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.moves.finding.nearer import NearerTerms, find_nearer
from accelet.scheduler.moves.finding.packs import Packs, PacksTerms, find_packs
from accelet.scheduler.moves.movable import Relocation, distance_of
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.card_values import I915, card, card_container, card_node, card_pod
from tests.unit.scheduler.moving_instances import as_task, running, suppose

_TERMS = PacksTerms(factor=1.0)
_TILES = 2
_Tasks = list[list[Pod]]


def _on(name: str, rank: int, where: str, number: int, tile: int) -> Pod:
    """A task's pod that runs on one tile of a card."""
    piece = Piece(Naming.UNIT, UnitId(f"0000-{number:02x}-00.0"), frozenset((tile,)))
    said = {"batch.kubernetes.io/job-completion-index": str(rank)}
    said[ASSIGNMENT_ANNOTATION] = render_own(Assignment({"main": {I915: (piece,)}}))
    labels = {"job-name": name}
    one = card_pod(f"{name}-{rank}", card_container(tiles=1), labels=labels, said=said, gates=())
    return replace(one, node_name=where, phase="Running")


def _fragments(random: Random) -> tuple[list[Node], _Tasks]:
    """Two to four nodes of one to three cards of two tiles, tasks of one or two ranks of a tile."""
    sizes = [random.randint(1, 3) for _ in range(random.randint(2, 4))]
    nodes = [
        card_node(f"n{number}", *(card(index) for index in range(size)), where=f"b{number % 2}/s0/h{number}")
        for number, size in enumerate(sizes)
    ]
    tiles = [
        (number, index, tile)
        for number, size in enumerate(sizes)
        for index in range(size)
        for tile in range(_TILES)
    ]
    random.shuffle(tiles)
    tasks: _Tasks = []
    for task in range(random.randint(1, 4)):
        places = [tiles.pop() for _ in range(random.randint(1, 2)) if tiles]
        if places:
            tasks.append([_on(f"t{task}", rank, f"n{at[0]}", *at[1:]) for rank, at in enumerate(places)])
    return nodes, tasks


def _held(pods: Sequence[Pod]) -> set[tuple[str, str, int]]:
    """Each tile that one of these has, by node and card; an error where two have the same one."""
    found = []
    for one in pods:
        assignment = read_assignment(one)
        assert assignment is not None
        ((piece,),) = assignment.containers["main"].values()
        found += [(one.node_name or "", piece.name, tile) for tile in piece.tiles]
    assert len(found) == len(set(found)), "a tile is held twice"
    return set(found)


def _in_use(pods: Sequence[Pod]) -> tuple[int, int]:
    held = _held(pods)
    return len({where for where, _, _ in held}), len({(where, name) for where, name, _ in held})


def _find(nodes: Sequence[Node], tasks: _Tasks, number: int, terms: PacksTerms = _TERMS) -> Packs:
    pods = [one for each in tasks for one in each]
    return find_packs(as_task(tasks[number]), suppose(nodes, pods), terms)


def _moved(pods: Sequence[Pod], move: Relocation) -> list[Pod]:
    return [
        one if given is None else _put(one, to, given)
        for one, to, given in zip(pods, move.nodes, move.assignments, strict=True)
    ]


def _put(one: Pod, to: str, given: Assignment) -> Pod:
    said = {**one.annotations, ASSIGNMENT_ANNOTATION: render_own(given)}
    return replace(one, node_name=to, annotations=said)


def _all(tasks: _Tasks) -> list[Pod]:
    return [one for pods in tasks for one in pods]


@given(st.integers(0, 2**32).map(Random), st.sampled_from((1.0, 2.0)))
def test_a_move_leaves_fewer_nodes_or_cards_in_use_and_no_more_of_either(
    random: Random, factor: float
) -> None:
    nodes, tasks = _fragments(random)
    layout = Cluster(Scheme(), nodes).layout
    for number, pods in enumerate(tasks):
        found = _find(nodes, tasks, number, PacksTerms(factor=factor))
        if found.move is None:
            continue
        after = [*tasks[:number], _moved(pods, found.move), *tasks[number + 1 :]]
        was, will_be = _in_use(_all(tasks)), _in_use(_all(after))
        assert (was[0] - will_be[0], was[1] - will_be[1]) == (found.nodes, found.cards)
        assert min(found.nodes, found.cards) >= 0 < found.nodes + found.cards
        before = distance_of([one.node_name or "" for one in pods], layout)
        assert distance_of(found.move.nodes, layout) <= before, "no farther apart"
        moving = [one for rank, one in enumerate(after[number]) if rank not in found.move.kept]
        assert not _held(moving) & _held(_all(tasks)), "the new places are free beside the old ones"
        assert {(where, name) for where, name, _ in _held(moving)} <= {
            (where, name) for where, name, _ in _held(_all(tasks))
        } or found.nodes, "nobody begins to use a card, unless a node comes free for it"


@given(st.integers(0, 2**32).map(Random))
def test_moves_to_better_places_come_to_an_end_whichever_are_carried_out(random: Random) -> None:
    """Each makes tasks nearer to themselves; or no farther, and fewer nodes and cards are in use."""
    nodes, tasks = _fragments(random)
    layout = Cluster(Scheme(), nodes).layout

    def measure() -> tuple[int, int, int]:
        apart = [distance_of([one.node_name or "" for one in pods], layout) for pods in tasks]
        return sum(apart), *_in_use(_all(tasks))

    for _ in range(40):
        before, moves = measure(), list[tuple[int, Relocation]]()
        for number, pods in enumerate(tasks):
            nearer = find_nearer(as_task(pods), suppose(nodes, _all(tasks)), NearerTerms(factor=1.0)).move
            moves += [(number, one) for one in (nearer, _find(nodes, tasks, number).move) if one is not None]
        if not moves:
            return
        number, move = random.choice(moves)
        tasks[number] = _moved(tasks[number], move)
        assert measure() < before
    raise AssertionError("40 moves, and still others are proposed")


def test_few_lone_ranks_that_leave_a_card_or_node_free_are_missed() -> None:
    """Tasks of one rank: every tile that is free is tried."""
    seen = Counter[str]()
    for seed in range(300):
        nodes, tasks = _fragments(Random(seed))
        held = _held(_all(tasks))
        cards = {(one.name, UnitId(f"0000-{at:02x}-00.0")) for one in nodes for at in range(_cards_of(one))}
        free = [(*of, tile) for of, tile in product(sorted(cards), range(_TILES)) if (*of, tile) not in held]
        for number in [number for number, pods in enumerate(tasks) if len(pods) == 1]:
            others = held - _held(tasks[number])
            was = _counts(held)
            better = [_counts(others | {place}) for place in free]
            is_possible = any(one != was and one[0] <= was[0] and one[1] <= was[1] for one in better)
            is_found = _find(nodes, tasks, number).move is not None
            seen[("missed", "found")[is_found] if is_possible else ("none", "wrong")[is_found]] += 1
    assert not seen["wrong"], seen
    assert seen["found"] >= 0.2 * seen.total(), seen
    assert not seen["missed"], seen


def _cards_of(one: Node) -> int:
    return int(one.allocatable[I915]) // 300


def _counts(held: set[tuple[str, str, int]]) -> tuple[int, int]:
    return len({where for where, _, _ in held}), len({(where, name) for where, name, _ in held})


def test_a_lone_tile_joins_another_and_leaves_a_card_free() -> None:
    nodes = [card_node("a", card(0), card(1))]
    pods = [_on("t0", 0, "a", 0, 0), _on("t1", 0, "a", 1, 0)]
    found = find_packs(as_task(pods[:1]), suppose(nodes, pods), PacksTerms())

    assert found.move is not None
    assert (found.nodes, found.cards) == (0, 1)
    assert _in_use(_moved(pods[:1], found.move) + pods[1:]) == (1, 1)


def test_whole_gpus_leave_a_node_free_whatever_kind_they_are() -> None:
    nodes = [node(f"n{number}", f"b0/s0/h{number}", gpus=4) for number in range(3)]
    pods = [*running("t0", ["n0"]), *running("t1", ["n1"], gpus=2)]
    task, supposed = as_task(pods[:1]), suppose(nodes, pods)
    found = find_packs(task, supposed, PacksTerms(factor=4.0))

    assert found.move is not None
    assert (found.move.nodes, found.nodes, found.cards) == (("n1",), 1, 0)
    assert find_packs(task, supposed, PacksTerms(factor=4.1)).move is None, "one node is not worth it"


def test_who_shares_its_node_with_others_leaves_nothing_free_and_stays() -> None:
    nodes = [node(f"n{number}", f"b0/s0/h{number}", gpus=4) for number in range(2)]
    pods = [*running("t0", ["n0"]), *running("t1", ["n0"]), *running("t2", ["n1"])]
    assert find_packs(as_task(pods[:1]), suppose(nodes, pods), PacksTerms()).move is None
    assert int(nodes[0].allocatable[GPU]) == 4


def test_a_task_without_accelerators_is_left_alone() -> None:
    nodes = [node(f"n{number}", f"b0/s0/h{number}") for number in range(2)]
    pods = [*running("t0", ["n0"], gpus=0), *running("t1", ["n1"])]
    found = find_packs(as_task(pods[:1]), suppose(nodes, pods), PacksTerms())
    assert (found.move, found.reason) == (None, "it asks for no accelerators")
