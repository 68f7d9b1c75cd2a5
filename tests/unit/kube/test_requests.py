from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.kube.pods import Container, ContainerStatus, Pod
from accelet.kube.requests import pod_requests, pod_units, scheduling_units
from tests.fakes import pods as fakes


def test_containers_add_up() -> None:
    pod = fakes.pod("p", Container("a", {"cpu": Fraction(1, 2), "g": 1}), Container("b", {"cpu": 1}))
    assert pod_requests(pod) == {"cpu": Fraction(3, 2), "g": 1}
    assert pod_units(pod) == {"cpu": 1500, "g": 1, "pods": 1}


def test_largest_init_container_sets_the_floor() -> None:
    pod = fakes.pod("p", Container("a", {"g": 2}), init=(Container("i", {"g": 3}), Container("j", {"g": 1})))
    assert pod_requests(pod) == {"g": 3}


def test_sidecars_run_beside_later_init_containers_and_the_containers() -> None:
    sidecar = Container("s", {"g": 1}, is_sidecar=True)
    before = fakes.pod("p", Container("a", {"g": 2}), init=(Container("i", {"g": 3}), sidecar))
    after = fakes.pod("p", Container("a", {"g": 2}), init=(sidecar, Container("i", {"g": 3})))
    assert pod_requests(before) == {"g": 3}
    assert pod_requests(after) == {"g": 4}


def test_pod_level_requests_replace_and_overhead_adds() -> None:
    pod = Pod(
        "ml",
        "p",
        containers=(Container("a", {"cpu": 1, "g": 1}),),
        level_requests={"cpu": 3, "g": 9},
        overhead={"cpu": Fraction(1, 10)},
    )
    assert pod_requests(pod) == {"cpu": Fraction(31, 10), "g": 1}


def test_resize_counts_the_most_until_it_is_done() -> None:
    statuses = {"a": ContainerStatus("running", allocated={"cpu": 4}, actuated={"cpu": 3})}
    growing = Pod("ml", "p", containers=(Container("a", {"cpu": 5}),), statuses=statuses)
    assert pod_requests(growing) == {"cpu": 5}
    shrinking = Pod("ml", "p", containers=(Container("a", {"cpu": 1}),), statuses=statuses)
    assert pod_requests(shrinking) == {"cpu": 4}
    infeasible = Pod(
        "ml",
        "p",
        containers=(Container("a", {"cpu": 99}),),
        statuses=statuses,
        conditions=(Condition("PodResizePending", "True", "Infeasible"),),
    )
    assert pod_requests(infeasible) == {"cpu": 4}


def test_units_round_up_once_for_the_whole_pod() -> None:
    sliver = Fraction(1, 10)
    pod = fakes.pod("p", Container("a", {"memory": sliver}), Container("b", {"memory": sliver}))
    assert pod_units(pod) == {"memory": 1, "pods": 1}
    node = Node("n", allocatable={"cpu": Fraction(79, 10), "pods": 110})
    assert scheduling_units(node.allocatable) == {"cpu": 7900, "pods": 110}


CONTAINERS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=5)


@given(CONTAINERS, CONTAINERS)
def test_request_is_the_highest_moment_of_the_pods_life(
    init: list[tuple[int, bool]], main: list[tuple[int, bool]]
) -> None:
    pod = fakes.pod(
        "p",
        *(Container(f"m{n}", {"g": amount}) for n, (amount, _) in enumerate(main)),
        init=tuple(
            Container(f"i{n}", {"g": amount}, is_sidecar=side) for n, (amount, side) in enumerate(init)
        ),
    )
    moments, running = [0], 0
    for amount, is_sidecar in init:
        moments.append(running + amount)
        running += amount if is_sidecar else 0
    moments.append(running + sum(amount for amount, _ in main))
    assert pod_requests(pod).get("g", 0) == max(moments)
