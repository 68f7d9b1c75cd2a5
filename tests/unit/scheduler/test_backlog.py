from collections.abc import Sequence
from dataclasses import replace

from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GangKey, find_gangs
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.placement.backlog import Round, plan_backlog
from accelet.scheduler.placement.reservation import Patience, Reservation
from tests.fakes.nodes import node
from tests.unit.scheduler.card_values import card, card_container, card_node, card_pod
from tests.unit.scheduler.values import pod

_LARGE = GangKey("ml", "large", "Job")


def _nodes() -> list[Node]:
    return [
        node(f"n{subblock}{host}", f"b0/s{subblock}/h{subblock}{host}") for subblock in "01" for host in "012"
    ]


def _gang(name: str, count: int, **more):  # type: ignore[no-untyped-def]  # pods
    return [pod(f"{name}-{rank}", labels={"job-name": name}, **more) for rank in range(count)]


def _round(
    bound: Sequence[Pod], gated: Sequence[Pod], *, waited_s: float, before: Reservation | None = None
) -> Round:
    cluster = Cluster(Scheme(), _nodes(), bound)
    patience = Patience(now_s=waited_s, starving_after_s=60, waiting_since={_LARGE: 0.0})
    return plan_backlog(find_gangs(gated), cluster.snapshot(), patience, before)


def _placed(found: Round) -> dict[str, bool]:
    return {plan.gang.key.name: plan.nodes is not None for plan in found.plans}


def _running(names: Sequence[str]) -> list[Pod]:
    return [replace(pod(f"r-{name}", on=name, gpus=8), restart_policy="Never") for name in names]


def test_a_small_gang_overtakes_a_large_one_that_has_not_starved() -> None:
    gated = [*_gang("large", 6, gpus=8), *_gang("small", 1, gpus=8, created_s=1.0)]
    found = _round(_running(["n00", "n01"]), gated, waited_s=59)
    assert _placed(found) == {"large": False, "small": True}
    assert found.reservation is None


def test_a_fault_of_ours_with_one_gang_stops_no_other() -> None:
    broken, good = find_gangs([*_gang("broken", 1), *_gang("good", 1, created_s=1.0)])
    snapshot = Cluster(Scheme(), _nodes(), []).snapshot()
    patience = Patience(now_s=99, starving_after_s=60, waiting_since={broken.key: 0.0})
    found = plan_backlog([replace(broken, shapes=()), good], snapshot, patience)
    assert _placed(found) == {"broken": False, "good": True}
    assert isinstance(found.plans[0].fault, IndexError)
    assert found.reservation is None


def test_nodes_are_kept_free_for_a_gang_that_has_starved() -> None:
    gated = [*_gang("large", 6, gpus=8), *_gang("small", 1, gpus=8, created_s=1.0)]
    found = _round(_running(["n00", "n01"]), gated, waited_s=60)
    assert _placed(found) == {"large": False, "small": False}
    assert found.plans[1].reason == ("needs 1 node, the cluster has 0; of 6 nodes: 6 kept free for ml/large")


def test_others_go_ahead_on_nodes_that_the_starved_gang_does_not_need() -> None:
    large = _gang("large", 3, gpus=8, annotations={REQUIRED_LEVEL: "subblock"})
    gated = [*large, *_gang("small", 1, gpus=8, created_s=1.0)]
    found = _round(_running(["n00", "n01", "n12"]), gated, waited_s=60)
    assert _placed(found) == {"large": False, "small": True}
    assert found.reservation == Reservation(_LARGE, frozenset({"n10", "n11", "n12"}))
    assert found.plans[1].nodes == ("n02",)


def test_a_reservation_stays_where_it_is_until_it_is_fulfilled() -> None:
    large = _gang("large", 3, gpus=8, annotations={REQUIRED_LEVEL: "subblock"})
    gated = [*large, *_gang("small", 1, gpus=8, created_s=1.0)]
    first = _round(_running(["n00", "n01", "n12"]), gated, waited_s=60)
    # Now the other sub-block looks as good, but what waited so long does not begin anew.
    second = _round(_running(["n00", "n12"]), gated, waited_s=61, before=first.reservation)
    assert second.reservation == first.reservation
    last = _round(_running(["n00"]), gated, waited_s=62, before=second.reservation)
    assert _placed(last)["large"]
    assert last.reservation is None


def test_the_starved_gang_starts_once_the_nodes_kept_for_it_are_free_though_small_ones_keep_coming() -> None:
    running, reservation = ["n00", "n01", "n02", "n10", "n11"], None
    for moment in range(60, 70):
        small = _gang(f"small{moment}", 1, gpus=8, created_s=float(moment))
        gated = [*_gang("large", 4, gpus=8), *small]
        found = _round(_running(running), gated, waited_s=moment, before=reservation)
        reservation = found.reservation
        if _placed(found)["large"]:
            break
        running += [name for plan in found.plans for name in plan.nodes or ()]
        running.pop(0)
    else:
        raise AssertionError("the large gang never started")
    assert moment < 66


def test_a_gang_ahead_may_use_what_is_kept_for_the_starved_one() -> None:
    gated = [*_gang("large", 6, gpus=8), *_gang("urgent", 1, gpus=8, priority=5)]
    found = _round(_running(["n00"]), gated, waited_s=100)
    assert _placed(found) == {"urgent": True, "large": False}


def test_nothing_is_kept_for_a_gang_that_can_never_fit() -> None:
    gated = [*_gang("large", 7, gpus=8), *_gang("small", 1, gpus=8, created_s=1.0)]
    found = _round(_running(["n00"]), gated, waited_s=100)
    assert _placed(found) == {"large": False, "small": True}
    assert found.reservation is None


def test_a_gang_that_starves_for_a_level_there_is_not_stops_nobody() -> None:
    large = _gang("large", 2, annotations={REQUIRED_LEVEL: "rack"})
    found = _round([], [*large, *_gang("small", 1, created_s=1.0)], waited_s=60)
    assert _placed(found) == {"large": False, "small": True}
    assert found.reservation is None


def test_nodes_are_kept_for_unlike_pods_too() -> None:
    large = [*_gang("large", 1, gpus=0, more={"cpu": 60}), *_gang("large", 5, gpus=8)[1:]]
    gated = [*large, *_gang("small", 1, gpus=8, created_s=1.0)]
    found = _round(_running(["n00", "n01", "n02", "n10"]), gated, waited_s=100)
    assert found.reservation is not None
    assert _placed(found)["large"] is False


def _starved(where: Node, *bound: Pod) -> Reservation | None:
    cluster = Cluster(Scheme(), [where], bound)
    gangs = find_gangs([card_pod("large", card_container(tiles=2))])
    patience = Patience(now_s=60, starving_after_s=60, waiting_since={gang.key: 0.0 for gang in gangs})
    return plan_backlog(gangs, cluster.snapshot(), patience).reservation


def test_nodes_are_kept_free_for_who_waits_for_a_card_that_the_kubelet_gave_away() -> None:
    assert _starved(card_node("a", card(0, unassigned=1))) == Reservation(
        GangKey("ml", "large", "pod"), frozenset({"a"})
    )


def test_nothing_is_kept_for_who_waits_for_cards_of_pods_that_stay_with_their_node() -> None:
    text = '{"version":1,"containers":{"main":{"gpu.intel.com/i915":[{"unit":"0000-00-00.0","tiles":[0]}]}}}'
    holder = replace(card_pod("holder", gates=(), said={ASSIGNMENT_ANNOTATION: text}), restart_policy="Never")
    where = card_node("a", card(0), card(1, tiles=1))
    assert _starved(where, replace(holder, node_name="a")) is not None
    stays = replace(holder, node_name="a", restart_policy="Always")
    assert _starved(where, stays) is None
