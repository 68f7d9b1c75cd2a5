"""What is remembered of deleted pods has an end, whatever tenants write."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.assignments.gas import CARDS_ANNOTATION, TIME_ANNOTATION
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kube.objects import Owner
from accelet.kube.pods import Container, ContainerStatus, Pod
from accelet.kube.poduid import index_pods, leave_out_forged
from accelet.node.pods.former import ENDED_S, KEPT_S, MOST_PARTS, MOST_PARTS_OF_POD, FormerPods
from accelet.node.pods.gap import WatchGap
from accelet.node.pods.remains import count_parts, strip_pod

MIRROR = "kubernetes.io/config.mirror"


def pod(name: str, size: int = 1, annotations: dict[str, str] | None = None) -> Pod:
    containers = tuple(Container(f"c{index}", limits={"example.com/gpu": 1}) for index in range(size))
    return Pod("ns", name, uid=f"uid-{name}", annotations=annotations or {}, containers=containers)


def begun(name: str) -> Pod:
    return replace(pod(name), statuses={"c0": ContainerStatus()})


def ended(name: str) -> Pod:
    return replace(begun(name), phase="Succeeded")


def names(former: FormerPods, now_s: float) -> list[str]:
    return [one.name for one in former.pods(now_s)]


def test_deleted_pod_is_forgotten_after_its_time() -> None:
    former = FormerPods()
    former.note(ended("a"), 0.0)
    former.note(ended("b"), 1.0)
    assert names(former, ENDED_S - 0.1) == ["a", "b"]
    assert names(former, ENDED_S) == ["b"]


def test_pod_of_whose_end_the_kubelet_may_not_have_heard_is_remembered_longer() -> None:
    former = FormerPods()
    former.note(pod("a"), 0.0)
    former.note(begun("b"), 1.0)
    former.note(ended("c"), 1.0)
    assert names(former, ENDED_S + 1.0) == ["a", "b"]
    assert names(former, KEPT_S) == ["b"]
    assert names(former, KEPT_S + 1.0) == []


def test_pod_that_is_deleted_again_stands_last_and_once() -> None:
    former = FormerPods()
    for name, now_s in (("a", 0.0), ("b", 1.0), ("a", 2.0)):
        former.note(pod(name), now_s)
    assert names(former, 3.0) == ["b", "a"]


def test_of_more_pods_than_there_is_room_for_the_last_are_remembered() -> None:
    former = FormerPods()
    for index in range(MOST_PARTS):
        former.note(pod(str(index)), 0.0)
    kept = MOST_PARTS // count_parts(pod("a"))
    assert names(former, 0.0) == [str(index) for index in range(MOST_PARTS - kept, MOST_PARTS)]


def test_end_of_a_pod_is_known_once_it_was_noted_as_such_and_while_it_is_remembered() -> None:
    former = FormerPods()
    former.note(pod("a"), 0.0)
    assert not former.has_end("uid-a")
    former.note(pod("a"), 1.0, is_end=True)
    assert former.has_end("uid-a")
    former.note(pod("b"), 1.0 + KEPT_S)
    assert not former.has_end("uid-a")


def test_huge_pod_takes_no_others_place() -> None:
    former = FormerPods()
    former.note(pod("small"), 0.0)
    former.note(pod("huge", size=MOST_PARTS_OF_POD), 0.0)
    assert names(former, 0.0) == ["small"]


def test_annotations_and_environment_of_a_tenant_are_not_kept() -> None:
    written = Pod(
        "ns",
        "a",
        labels={"l": "v"},
        annotations={"note": "x" * 262_144, ASSIGNMENT_ANNOTATION: "short"},
        containers=(Container("c", {"r/x": 1}, {"r/x": 1}, {"A": "x"}, frozenset({"B"})),),
        statuses={"c": ContainerStatus("running", has_run=True, allocated={"cpu": 1})},
    )
    assert strip_pod(written) == Pod(
        "ns",
        "a",
        annotations={ASSIGNMENT_ANNOTATION: "short"},
        containers=(Container("c", {"r/x": 1}, {"r/x": 1}),),
        statuses={"c": ContainerStatus("running", has_run=True)},
    )


def test_assignment_that_is_too_long_is_dropped_whole() -> None:
    written = pod("a", annotations={CARDS_ANNOTATION: "x" * 262_144, TIME_ANNOTATION: "1"})
    assert strip_pod(written).annotations == {}


def test_mirror_stays_one_however_long_it_says_of_what() -> None:
    kept = strip_pod(pod("a", annotations={MIRROR: "x" * 262_144}))
    assert kept.is_mirror
    assert len(kept.annotations[MIRROR]) == 256


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.booleans(), st.integers(0, 40)), max_size=12))
def test_index_is_that_of_all_that_are_remembered(acts: list[tuple[str, bool, int]]) -> None:
    former, now_s = FormerPods(), 0.0
    node = Owner("Node", "node-1", "node-uid", is_controller=True)
    for name, is_mirror, waited_s in acts:
        now_s += waited_s
        mirror = pod(name, annotations={MIRROR: f"static-{name}"})
        mirrored = replace(mirror, owners=(node,) if waited_s % 2 else ())
        former.note(mirrored if is_mirror else pod(name), now_s)
        expected = index_pods(leave_out_forged(list(former.pods(now_s)), "node-uid"))
        assert list(former.index(now_s, "node-uid").items()) == list(expected.items())


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 600), st.integers(0, 40), st.booleans())))
def test_room_is_kept_and_nothing_is_older_than_its_time(acts: list[tuple[str, int, int, bool]]) -> None:
    former, now_s, until_s = FormerPods(), 0.0, dict[str, float]()
    for name, size, waited_s, has_ended in acts:
        now_s += waited_s
        deleted = replace(pod(name, size), phase="Failed" if has_ended else "Pending")
        former.note(deleted, now_s)
        until_s[name] = now_s + (ENDED_S if has_ended else KEPT_S)
        kept = list(former.pods(now_s))
        assert sum(map(count_parts, kept)) <= MOST_PARTS
        assert all(until_s[one.name] > now_s for one in kept)
        assert (name in {one.name for one in kept}) == (count_parts(deleted) <= MOST_PARTS_OF_POD)


def test_those_that_may_still_be_admitted_under_a_name_are_listed_with_their_age() -> None:
    former = FormerPods()
    former.note(pod("a"), 0.0, is_end=True)
    former.note(pod("b"), 1.0)  # not as it was at its end
    former.note(ended("c"), 2.0, is_end=True)
    former.note(pod("d", annotations={"kubernetes.io/config.mirror": "x"}), 3.0, is_end=True)
    former.note(begun("e"), 4.0, is_end=True)
    assert [(one.name, age_s) for one, age_s in former.list_recurring(10.0)] == [("a", 10.0), ("e", 6.0)]
    assert all(not one.statuses for one, _ in former.list_recurring(10.0))  # what it had is not known then
    assert [one.name for one, _ in former.list_recurring(KEPT_S)] == ["e"]
    former.note_binding("uid-f")
    former.note_living(begun("f"))
    assert list(former.list_recurring(10.0)) == []


def test_kubelet_has_heard_of_all_that_was_deleted_before_a_pod_was_bound_that_it_has_begun() -> None:
    former = FormerPods()
    former.note(pod("listed"), 0.0)  # no list tells when it was deleted
    former.note(pod("first"), 0.0, is_end=True)
    former.note_binding("uid-a")
    former.note(pod("second"), 0.0, is_end=True)
    former.note_living(begun("found"))  # bound before the watch began
    former.note_living(pod("a"))
    assert former.heard() == frozenset()
    former.note_living(begun("a"))
    assert former.heard() == {"uid-first"}
    former.note_binding("uid-b")
    former.note_living(replace(begun("b"), annotations={"kubernetes.io/config.mirror": "x"}))
    assert former.heard() == {"uid-first"}
    former.note_living(replace(pod("b"), phase="Failed"))
    assert former.heard() == {"uid-first", "uid-second"}
    former.note(pod("third"), 0.0, is_end=True)
    former.note(begun("b"), 0.0, is_end=True)  # what was known of it goes with it
    former.note_living(begun("b"))
    assert former.heard() == {"uid-first", "uid-second"}


def test_order_of_bindings_and_deletions_is_that_of_the_watch() -> None:
    former = FormerPods()
    former.note(pod("listed"), 0.0)  # no list tells when it was deleted
    former.note_binding("uid-a")
    former.note(pod("first"), 0.0, is_end=True)
    former.note_binding("uid-b")
    assert former.deletions() == {"uid-first": 1}
    assert former.deleted_before() == {"uid-a": 0, "uid-b": 1}
    former.note(pod("a"), 0.0, is_end=True)
    assert former.deletions() == {"uid-first": 1, "uid-a": 2}
    assert former.deleted_before() == {"uid-b": 1}


def test_pod_that_was_bound_and_is_in_no_list_has_vanished_until_its_end_is_shown() -> None:
    former = FormerPods()
    former.note_binding("uid-a")
    former.note_binding("uid-b")
    assert former.find_vanished({"uid-b"}) == {"uid-a"}
    former.note(pod("a"), 0.0, is_end=True)
    assert former.find_vanished({"uid-b"}) == frozenset()
    former.forget_vanished(())  # a watch that begins anew does not show it
    assert former.find_vanished(()) == frozenset()


def test_pod_that_lived_before_the_watch_went_on_and_is_in_no_list_has_vanished() -> None:
    former = FormerPods()
    former.note_expected(["uid-a", "uid-b"])
    assert former.find_vanished({"uid-b"}) == {"uid-a"}
    assert former.deleted_before() == {}  # whether it was bound before others were deleted is not known
    former.note(pod("a"), 0.0, is_end=True)
    assert former.find_vanished({"uid-b"}) == frozenset()


def test_gap_is_none_where_nobody_waits() -> None:
    mirror = pod("m", annotations={"kubernetes.io/config.mirror": "x"})
    assert WatchGap().is_over(0.0)
    assert WatchGap.among([], 0.0).is_over(0.0)
    assert WatchGap.among([begun("a"), replace(pod("b"), phase="Failed"), mirror], 0.0).is_over(0.0)


def test_gap_is_over_once_all_who_waited_were_begun() -> None:
    gap = WatchGap.among([pod("a"), pod("b"), begun("c")], 0.0)
    for one in (begun("a"), begun("c"), pod("b"), pod("new")):
        gap.note(one)
        assert not gap.is_over(1.0)
    gap.note(replace(pod("b"), phase="Failed"))
    assert gap.is_over(1.0)


def test_gap_is_over_once_one_that_came_later_was_begun_but_not_by_who_says_to_mirror_one() -> None:
    gap = WatchGap.among([pod("a"), pod("b")], 0.0)
    gap.note(replace(begun("forged"), annotations={"kubernetes.io/config.mirror": "x"}))
    assert not gap.is_over(1.0)
    gap.note(begun("new"))
    assert gap.is_over(1.0)


def test_gap_is_over_after_the_time_that_the_kubelet_may_take() -> None:
    gap = WatchGap.among([pod("a")], 7.0)
    assert not gap.is_over(7.0 + KEPT_S - 0.1)
    assert gap.is_over(7.0 + KEPT_S)
