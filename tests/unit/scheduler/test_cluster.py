from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.nodes import Node
from accelet.kube.objects import Condition, Owner
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.layout import Mask
from accelet.scheduler.cluster.shape import NodeRules, shape_of
from accelet.scheduler.cluster.topology import Scheme
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.card_values import card
from tests.unit.scheduler.values import pod

_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("bind", "end", "delete", "hold", "node", "lose node")),
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(1, 4),
    ),
    max_size=30,
)


@given(_EVENTS)
def test_usage_kept_with_events_equals_usage_counted_anew(events: list[tuple[str, int, int, int]]) -> None:
    cluster = Cluster(Scheme())
    nodes: set[str] = set()
    holders: dict[str, tuple[str, int]] = {}
    for event, number, at, gpus in events:
        name, where = f"p{number}", f"n{at}"
        match event:
            case "bind":
                cluster.set_pod(pod(name, on=where, gpus=gpus))
                holders[name] = where, gpus
            case "hold":
                cluster.hold(pod(name, gpus=gpus), where)
                holders[name] = where, gpus
            case "end":
                cluster.set_pod(pod(name, on=where, gpus=gpus, phase="Succeeded"))
                holders.pop(name, None)
            case "delete":
                cluster.remove_pod(("ml", name))
                holders.pop(name, None)
            case "node":
                cluster.set_node(node(where))
                nodes.add(where)
            case _:
                cluster.remove_node(where)
                nodes.discard(where)
    used = Counter[str]()
    for where, gpus in holders.values():
        used[where] += gpus
    slots = cluster.room().slots(shape_of(pod("any")))
    free = {found.name: int(slots[leaf]) for leaf, found in enumerate(cluster.layout.nodes)}
    assert free == {name: max(0, 8 - used[name]) for name in nodes}


def test_a_bound_pod_that_does_not_run_yet_takes_its_place() -> None:
    bound = pod("a", on="n0", gpus=8, phase="Pending")
    cluster = Cluster(Scheme(), [node("n0")], [bound])
    assert cluster.room().slots(shape_of(pod("b"))).tolist() == [0]


def test_what_a_node_has_too_little_of_is_never_less_than_nothing() -> None:
    cluster = Cluster(Scheme(), [node("n0", gpus=2)], [pod("a", on="n0", gpus=4)])
    assert cluster.room().slots(shape_of(pod("b"))).tolist() == [0]
    assert cluster.room().slots(shape_of(pod("c", gpus=0))).tolist() == [63], "cores are left"


def test_the_number_of_pods_is_a_limit_where_a_node_says_one() -> None:
    cluster = Cluster(Scheme(), [node("n0", more={"pods": 2})])
    assert cluster.room().slots(shape_of(pod("a"))).tolist() == [2]


def test_a_resource_no_node_has_fits_nowhere() -> None:
    cluster = Cluster(Scheme(), [node("n0")])
    assert cluster.room().slots(shape_of(pod("a", more={"google.com/tpu": 4}))).tolist() == [0]


def test_a_heartbeat_does_not_make_the_tree_anew() -> None:
    cluster = Cluster(Scheme(), [node("n0")])
    layout = cluster.layout
    beating = node("n0")
    cluster.set_node(beating)
    assert cluster.layout is layout
    cluster.set_node(node("n0", ready="False"))
    assert cluster.layout is not layout
    assert beating.conditions == (Condition("Ready", "True"),)


def test_in_the_end_only_pods_of_which_no_end_is_in_sight_take_anything() -> None:
    daemon = pod("d", on="n0", gpus=1, owner=Owner("DaemonSet", "d", "u", is_controller=True))
    ending = [
        replace(pod("once", on="n0", gpus=2), restart_policy="OnFailure"),
        replace(pod("late", on="n0", gpus=1), deadline_s=60),
        replace(pod("going", on="n0", gpus=1), deleted_s=1.0),
    ]
    cluster = Cluster(Scheme(), [node("n0")], [daemon, *ending])
    shape = shape_of(pod("b"))
    assert cluster.room().slots(shape).tolist() == [3]
    assert cluster.snapshot().room_in_the_end.slots(shape).tolist() == [7]
    assert (GPU, 1) in shape.units


_LOOKS = st.builds(
    lambda name, where, gpus, unassigned, is_cordoned, label, features: node(
        name,
        where,
        gpus=gpus,
        cards=[card(0, unassigned=unassigned)] if unassigned is not None else (),
        is_cordoned=is_cordoned,
        labels={"colour": label},
        features=features,
    ),
    st.sampled_from(("n0", "n1")),
    st.sampled_from(("", "a/a/1", "a/a/2")),
    st.sampled_from((0, 8)),
    st.sampled_from((None, 0, 1)),
    st.booleans(),
    st.sampled_from(("red", "blue")),
    st.sampled_from(((), ("Restarts",))),
)


@given(st.lists(st.one_of(_LOOKS, st.sampled_from(("n0", "n1"))), max_size=12))
def test_the_layout_has_each_node_as_it_was_last_seen(events: list[Node | str]) -> None:
    """Finished plans are checked by these nodes, so none may lag behind what the planner counts."""
    cluster = Cluster(Scheme())
    expected: dict[str, Node] = {}
    for event in events:
        if isinstance(event, str):
            cluster.remove_node(event)
            expected.pop(event, None)
        else:
            cluster.set_node(event)
            expected[event.name] = event
        assert {found.name: found for found in cluster.layout.nodes} == expected


class _Forgetful(dict[NodeRules, Mask]):
    """Emptied by another thread as soon as anything is in it."""

    def __setitem__(self, rules: NodeRules, mask: Mask) -> None:
        pass


def test_rules_are_judged_though_another_thread_forgets_them() -> None:
    layout = replace(Cluster(Scheme(), [node("n")]).layout, _masks=_Forgetful())
    assert layout.eligible(NodeRules()).tolist() == [True]
