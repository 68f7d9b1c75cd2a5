from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.scheduler.cluster.topology import ROOT, Ints, Scheme, Tree, build_tree
from accelet.scheduler.placement.identical import Shortfall, place_identical


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Tree, Ints, int, int]:
    width = draw(st.integers(1, 3))
    weights = sorted(draw(st.lists(st.sampled_from((0, 1, 5, 50)), min_size=width, max_size=width)))
    scheme = Scheme(tuple("abc"[:width]), tuple(weights[::-1]), (tuple("abc"[:width]),))
    letters = st.sampled_from("xyz")
    path = st.one_of(st.none(), st.tuples(*([letters] * width))) if draw(st.booleans()) else None
    count = draw(st.integers(1, 6))
    paths = [draw(path if path is not None else st.tuples(*([letters] * width))) for _ in range(count)]
    tree = build_tree(scheme, [f"n{i}" for i in range(count)], paths)
    slots = np.array([draw(st.integers(0, 3)) for _ in range(count)], dtype=np.int64)
    return tree, slots, draw(st.integers(1, 6)), draw(st.integers(ROOT, width - 1))


def _spare(tree: Tree, slots: Ints, leaves: Ints) -> int:
    """The room in used domains, the lowest level left out."""
    return sum(
        int(slots[tree.leaves(level, int(domain))].sum())
        for level in range(tree.lowest)
        for domain in np.unique(tree.codes[level][leaves])
    )


def _best(tree: Tree, slots: Ints, demand: int, within: int) -> tuple[int, int] | None:
    best: tuple[int, int] | None = None
    for counts in product(*(range(min(demand, int(most)) + 1) for most in slots)):
        leaves = np.repeat(np.arange(len(slots)), counts)
        if len(leaves) != demand or (within != ROOT and len(set(tree.codes[within][leaves])) > 1):
            continue
        found = tree.length(leaves), _spare(tree, slots, leaves)
        best = min(best, found) if best else found
    return best


@settings(max_examples=400)
@given(_cases())
def test_distance_is_least_and_of_the_nearest_the_fullest_domains_are_used(
    case: tuple[Tree, Ints, int, int],
) -> None:
    tree, slots, demand, within = case
    best, found = _best(tree, slots, demand, within), place_identical(tree, slots, demand, within)
    if isinstance(found, Shortfall):
        assert best is None
        assert found.room < demand
        assert found.room == int(slots[tree.leaves(within, found.best)].sum())
        return
    assert np.all(np.bincount(found, minlength=len(slots)) <= slots)
    assert within == ROOT or len(set(tree.codes[within][found])) == 1
    assert best == (tree.length(found), _spare(tree, slots, found))


def _flat(rooms: list[int]) -> tuple[Tree, Ints]:
    scheme = Scheme(("rack", "host"), (10, 1), (("r", "h"),))
    tree = build_tree(
        scheme, [f"n{i}" for i in range(len(rooms))], [("r", f"h{i}") for i in range(len(rooms))]
    )
    return tree, np.array(rooms, dtype=np.int64)


def test_of_hosts_as_near_those_that_fit_tightest_are_taken() -> None:
    tree, slots = _flat([8, 3, 5, 4])
    found = place_identical(tree, slots, 9)
    assert not isinstance(found, Shortfall)
    assert sorted(np.unique(found).tolist()) == [2, 3], "5 + 4, and 8 stays whole"
    single = place_identical(tree, slots, 4)
    assert not isinstance(single, Shortfall)
    assert set(single.tolist()) == {3}


def test_what_is_left_over_is_left_in_one_piece() -> None:
    tree, slots = _flat([4, 4, 4])
    found = place_identical(tree, slots, 10)
    assert not isinstance(found, Shortfall)
    assert np.bincount(found).tolist() == [4, 4, 2]


def test_weights_too_large_for_ties_still_give_the_least_distance() -> None:
    scheme = Scheme(("a", "b"), (10**9, 10**9 - 1), (("a", "b"),))
    paths = [(f"a{i // 2}", f"b{i}") for i in range(6)]
    tree = build_tree(scheme, [f"n{i}" for i in range(6)], paths)
    slots = np.full(6, 2**40, dtype=np.int64)
    slots[:2] = 3
    found = place_identical(tree, slots, 6)
    assert not isinstance(found, Shortfall)
    assert tree.length(found) == 0
    assert set(found.tolist()) <= {2, 3, 4, 5}
