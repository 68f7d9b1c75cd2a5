"""What one agent knew of pods the next one goes on from."""

from dataclasses import replace

from accelet.kube.objects import Owner
from accelet.kube.pods import Pod
from accelet.kube.watching.store import Change
from accelet.node.pods.known import KnownPods


def pod(name: str, version: int) -> Pod:
    return Pod("ns", name, uid=f"uid-{name}", resource_version=str(version))


def watch(known: KnownPods, *pods: Pod) -> None:
    """The watch shows these to be bound."""
    for one in pods:
        known.take_change(Change("added", one.key, None, one))
        known.take_position(one.resource_version, one.uid, None)


def test_pod_that_went_between_two_agents_is_missed_until_the_watch_shows_its_end() -> None:
    first, second = KnownPods(), KnownPods()
    stays, goes = pod("stays", 3), pod("goes", 4)
    first.begin_watch("1")
    watch(first, stays, goes)
    assert first.vanished() == frozenset()
    assert second.recall(first.make_record()) == ("4",)
    second.take_change(Change("added", stays.key, None, stays))
    second.begin_watch("4")
    assert second.vanished() == {"uid-goes"}
    second.take_position("5", "", goes, was_told=True)
    assert second.vanished() == frozenset()
    assert list(second.deleted(None)) == ["uid-goes"]


def test_pod_that_went_while_there_was_no_watch_is_not_waited_for() -> None:
    known = KnownPods()
    known.begin_watch("1")
    gone = pod("gone", 3)
    watch(known, gone)
    known.take_change(Change("deleted", gone.key, gone, None))
    known.begin_watch("9")
    assert known.vanished() == frozenset()
    assert list(known.deleted(None)) == ["uid-gone"]


def test_nothing_is_recorded_where_the_watch_has_a_gap() -> None:
    known = KnownPods()
    known.take_change(Change("added", ("ns", "waits"), None, pod("waits", 3)))
    known.begin_watch("5")
    assert not known.knows_former
    assert known.make_record() is None


def test_mirror_does_not_take_the_place_of_a_pod_whose_end_the_watch_has_not_shown() -> None:
    """A tenant can write the Node as the controlling owner of a pod that says to mirror any UID."""
    known, node = KnownPods(), Owner("Node", "node", "node-uid", is_controller=True)
    gone = pod("gone", 3)
    known.begin_watch("1")
    watch(known, gone)
    known.take_change(Change("deleted", gone.key, gone, None))
    known.take_position("4", "", gone)
    alive = pod("alive", 5)
    watch(known, alive)
    known.forget_living()  # a list without it; the watch is behind
    for uid in ("uid-gone", "uid-alive"):
        forged = replace(pod("forged", 6), annotations={"kubernetes.io/config.mirror": uid}, owners=(node,))
        known.take_change(Change("added", forged.key, None, forged))
        assert known.pods("node-uid") == {}
    assert known.vanished() == {"uid-alive"}
