"""What nodes offer and pods have taken: with events as counted anew, and no larger than what is offered."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import ObjectKey
from accelet.scheduler.cluster.usage import MOST_RESOURCES, UNLIMITED, Usage

NODES = st.sampled_from(["n0", "n1", "n2", "nowhere"])
UNITS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "x.y/a", "x.y/b"]), st.integers(-5, 10**40), max_size=4
)
PODS = st.sampled_from([("ml", f"p{number}") for number in range(4)])
ENDS_S = st.sampled_from([0.0, 5.0, 9.0, float("inf")])
EVENTS: st.SearchStrategy[list[tuple[str, Any, dict[str, int]]]] = st.lists(
    st.tuples(st.just("offer"), NODES.filter(lambda name: name != "nowhere"), UNITS)
    | st.tuples(st.just("withdraw"), NODES, st.just({}))
    | st.tuples(st.just("take"), st.tuples(PODS, NODES, st.booleans(), ENDS_S), UNITS)
    | st.tuples(st.just("give back"), PODS, st.just({})),
    max_size=25,
)


def bounded(amount: int) -> int:
    return max(0, min(amount, UNLIMITED))


@given(EVENTS)
def test_what_is_free_is_what_is_offered_less_what_is_taken(
    events: list[tuple[str, Any, dict[str, int]]],
) -> None:
    usage = Usage()
    offers: dict[str, dict[str, int]] = {}
    rows: dict[str, int] = {}
    charges: dict[ObjectKey, tuple[str, dict[str, int], bool, float]] = {}
    for kind, what, units in events:
        if kind == "offer":
            offers[what], rows[what] = units, usage.offer(str(what), units)
        elif kind == "withdraw":
            usage.withdraw(str(what))
            offers.pop(what, None)
            rows.pop(what, None)
        elif kind == "take":
            pod, node, is_lasting, until_s = what
            usage.take(pod, node, units, is_lasting=is_lasting, until_s=until_s)
            charges[pod] = node, units, is_lasting, until_s
        else:
            usage.give_back(what)
            charges.pop(what, None)
    assert len(set(rows.values())) == len(rows)
    for node, row in rows.items():
        now, in_the_end = (free(np.array([row]))[0] for free in (usage.free, usage.free_in_the_end))
        ends_s = [until_s for at, _, lasts, until_s in charges.values() if at == node and not lasts]
        assert usage.ends_s(np.array([row]))[0] == max(ends_s, default=0.0)
        for resource, column in usage.columns.items():
            offered = offers[node].get(resource, UNLIMITED if resource == "pods" else 0)
            mine = [(units, lasts) for at, units, lasts, _ in charges.values() if at == node]
            taken = [bounded(units.get(resource, 0)) for units, _ in mine]
            lasting = [bounded(units.get(resource, 0)) for units, lasts in mine if lasts]
            assert now[column] == bounded(offered) - sum(taken)
            assert in_the_end[column] == bounded(offered) - sum(lasting)


def test_names_that_only_pods_say_take_no_space() -> None:
    usage = Usage()
    usage.offer("n0", {"cpu": 1})
    before = usage.cells
    for number in range(1000):
        usage.take(("ml", f"p{number}"), f"nowhere-{number}", {f"x.y/{number}-{i}": 1 for i in range(50)})
    assert usage.cells == before
    assert set(usage.columns) == {"pods", "cpu"}


def test_nodes_that_come_and_go_under_ever_new_names_take_the_same_space() -> None:
    usage = Usage()
    for number in range(1000):
        usage.offer(f"n{number}", {"cpu": 1, f"x.y/{number}": 1})
        usage.withdraw(f"n{number}")
    assert usage.cells <= 16 * 2 * MOST_RESOURCES
    assert len(usage.columns) <= MOST_RESOURCES


def test_names_beyond_the_most_are_offered_to_nobody_and_leave_the_others_alone() -> None:
    usage = Usage()
    usage.take(("ml", "p"), "n0", {"cpu": 3, "x.y/9999": 1})
    row = usage.offer("n0", {"cpu": 8})
    usage.offer("evil", {f"x.y/{number}": 1 for number in range(10_000)})
    assert len(usage.columns) == MOST_RESOURCES
    assert "x.y/9999" not in usage.columns
    usage.withdraw("evil")
    usage.offer("good", {"example.com/gpu": 4})
    assert set(usage.columns) >= {"cpu", "example.com/gpu"}
    assert usage.free(np.array([row]))[0][usage.columns["cpu"]] == 5
