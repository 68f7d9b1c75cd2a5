import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.scheduler.cluster.topology import ROOT, Scheme, build_tree
from tests.fakes.nodes import place

_PATHS = st.lists(
    st.one_of(st.none(), st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), st.sampled_from("ab"))),
    min_size=1,
    max_size=8,
)


def _distance(scheme: Scheme, one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> int:
    if one is None or other is None:
        return scheme.weights[0]
    return next((w for w, a, b in zip(scheme.weights, one, other, strict=True) if a != b), 0)


@given(_PATHS)
def test_distance_is_that_of_the_first_level_at_which_nodes_differ(
    paths: list[tuple[str, ...] | None],
) -> None:
    scheme = Scheme()
    tree = build_tree(scheme, [f"n{i}" for i in range(len(paths))], paths)
    rows = tree.order.tolist()
    for leaf, row in enumerate(rows):
        others = np.array([other for other in range(len(rows)) if other != leaf], dtype=np.int64)
        wanted = [_distance(scheme, paths[row], paths[rows[other]]) for other in others]
        assert tree.distances(leaf, others).tolist() == wanted
        assert [tree.length(np.array([leaf, other])) for other in others] == wanted


@given(_PATHS)
def test_every_domain_is_one_range_of_leaves(paths: list[tuple[str, ...] | None]) -> None:
    tree = build_tree(Scheme(), [f"n{i}" for i in range(len(paths))], paths)
    for level in range(3):
        ranges = [tree.leaves(level, domain) for domain in range(tree.domain_count(level))]
        assert [leaf for s in ranges for leaf in range(s.start, s.stop)] == list(range(len(paths)))
        below = [list(tree.children(level - 1, d)) for d in range(tree.domain_count(level - 1))]
        assert [child for children in below for child in children] == list(range(tree.domain_count(level)))


def test_a_node_that_lacks_a_label_is_far_from_every_node_even_its_like() -> None:
    labels = place("b", "s", "h")
    del labels["cloud.google.com/gce-topology-host"]
    scheme = Scheme()
    paths = [scheme.path(labels), scheme.path({}), scheme.path(place("b", "s", "h"))]
    assert paths[:2] == [None, None]
    tree = build_tree(scheme, ["x", "y", "z"], paths)
    assert tree.length(np.array([0, 1, 2])) == 2_000_000
    assert tree.domain_name(0, 0) == "b"
    assert tree.domain_name(0, 1) == "unlabelled"
    assert tree.children(ROOT, 0) == range(3)


def test_the_first_complete_set_of_labels_counts() -> None:
    older = {"topology.gke.io/cluster": "c", "topology.gke.io/rack": "r", "topology.gke.io/host": "h"}
    assert Scheme().path({**older, **place("b", "s", "h")}) == ("b", "s", "h")
    assert Scheme().path({**older, "cloud.google.com/gce-topology-block": "b"}) == ("c", "r", "h")
    assert Scheme().path({**older, "topology.gke.io/rack": ""}) is None


def test_a_scheme_may_have_any_number_of_levels() -> None:
    scheme = Scheme(("zone", "row", "rack", "host"), (70, 50, 50, 0), (("z", "r", "k", "h"),))
    tree = build_tree(scheme, ["a", "b"], [("1", "1", "1", "1"), ("1", "1", "2", "1")])
    assert tree.length(np.array([0, 1])) == 50
    assert scheme.steps == (20, 0, 50, 0)


@pytest.mark.parametrize(
    ("levels", "weights", "labels", "sentence"),
    [
        ((), (), ((),), "one or more levels"),
        (("a", "a"), (2, 1), (("x", "y"),), "different names"),
        (("a", "b"), (2,), (("x", "y"),), "2 levels need as many weights, not 1"),
        (("a", "b"), (1, 2), (("x", "y"),), "do not rise"),
        (("a",), (-1,), (("x",),), "do not rise"),
        (("a",), (10**10,), (("x",),), "numbers from 1000000000"),
        (("a",), (1,), (("x", "y"),), "one label for each of 1 levels"),
        (("a",), (1,), (), "one label for each"),
    ],
)
def test_a_scheme_that_makes_no_sense_is_refused(
    levels: tuple[str, ...], weights: tuple[int, ...], labels: tuple[tuple[str, ...], ...], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        Scheme(levels, weights, labels)
