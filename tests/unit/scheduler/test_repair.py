from collections.abc import Mapping
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.shape import shape_of
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import EXCLUSIVE
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.repairs.gaps import repair
from accelet.scheduler.placement.unlike import USUAL_EFFORT
from tests.fakes.nodes import node
from tests.unit.scheduler.values import plan_one, pod


def _nodes(gpus: int = 8):  # type: ignore[no-untyped-def]  # two sub-blocks in each of two blocks
    return [
        node(f"n{b}{s}{h}", f"b{b}/s{b}{s}/h{b}{s}{h}", gpus=gpus) for b, s, h in product((0, 1), repeat=3)
    ]


def _member(  # type: ignore[no-untyped-def]  # a pod
    rank: int, on: str | None = None, *, gpus: int = 8, annotations: Mapping[str, str] | None = None
):
    return pod(f"j-{rank}", labels={"job-name": "j"}, on=on, gpus=gpus, annotations=annotations)


def test_a_lost_pod_comes_back_next_to_its_neighbours() -> None:
    decided = plan_one(_nodes(), [_member(0, "n100"), _member(1), _member(2, "n110")])
    assert decided.nodes is not None
    assert decided.nodes[0] in ("n101", "n111")
    assert (decided.distance, decided.is_optimal) == (10_100, True)


def test_a_lost_node_is_replaced_by_one_near_by() -> None:
    lost = [_member(rank, gpus=4) for rank in (2, 3)]
    kept = [_member(rank, "n000", gpus=4) for rank in (0, 1)] + [_member(4, "n010", gpus=4)]
    decided = plan_one(_nodes(), [*kept, *lost])
    assert decided.nodes is not None
    assert len(set(decided.nodes)) == 1
    assert decided.nodes[0] in ("n001", "n011", "n010")
    assert decided.distance == 10_000 + (0 if decided.nodes[0] == "n010" else 100)


def test_the_required_level_of_the_gang_binds_its_replacements() -> None:
    level = {REQUIRED_LEVEL: "subblock"}
    members = [
        _member(0, "n000", annotations=level),
        _member(1, "n001", annotations=level),
        _member(2, annotations=level),
    ]
    decided = plan_one(_nodes(), members)
    assert decided.nodes is None
    assert decided.reason is not None
    assert decided.reason.startswith("to join the 2 pods of the gang that are placed, ")
    assert "6 in another sub-block than the rest of the gang" in decided.reason


def test_a_replacement_of_an_exclusive_gang_has_a_node_of_its_own() -> None:
    members = [_member(0, "n000", gpus=1), _member(1, gpus=1, annotations={EXCLUSIVE: "true"})]
    assert plan_one(_nodes(), members).nodes == ("n001",)


_LEAVES = st.integers(0, 7)


@given(
    kept=st.lists(st.one_of(st.none(), _LEAVES), min_size=2, max_size=5),
    used=st.lists(st.integers(0, 2), min_size=8, max_size=8),
)
def test_bounds_of_repairs_are_right_and_one_lost_pod_gets_the_best_node(
    kept: list[int | None], used: list[int]
) -> None:
    if None not in kept or kept.count(None) == len(kept):
        return
    nodes = _nodes(gpus=2)
    busy = [pod(f"x{at}{i}", on=nodes[at].name) for at, count in enumerate(used) for i in range(count)]
    cluster = Cluster(Scheme(), nodes, busy)
    room, tree = cluster.room(), cluster.layout.tree
    lost = kept.count(None)
    shapes = (shape_of(_member(0, gpus=1)),) * lost
    slots = room.slots(shapes[0])
    best = None
    for ways in product(range(8), repeat=lost):
        if np.all(np.bincount(ways, minlength=8) <= slots):
            left = iter(ways)
            path = [next(left) if leaf is None else leaf for leaf in kept]
            length = tree.length(np.array(path))
            best = length if best is None else min(best, length)
    found = repair(PlacementProblem(tree, room, shapes), kept, USUAL_EFFORT)
    assert room.slots(shapes[0]).tolist() == slots.tolist(), "the caller's room is left alone"
    if found is None:
        assert best is None or lost > 1
        return
    assert best is not None
    assert np.all(np.bincount(found.leaves, minlength=8) <= slots)
    assert found.lower_bound <= best <= found.distance
    if lost == 1:
        assert found.lower_bound == best == found.distance
