from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import DeviceId
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid
from accelet.kubelet.checkpoint import CheckpointEntry
from accelet.kubelet.podresources import ContainerRecord, PodRecord
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.holdings.ledger import (
    ALLOCATION_ANNOTATION,
    PROOF_ANNOTATION,
    InFlight,
    Ledger,
)
from resourcemanager.holdings.reconcile import (
    AnswerOutcome,
    Reconciled,
    View,
    has_unasked,
    pods_to_ask,
    reconcile,
)
from tests.fakes import pods as fakes

R = "gpu.intel.com/i915"
EMPTY = Ledger(R)


def key(uid: str, container: str = "main") -> ContainerKey:
    return ContainerKey(PodUid(uid), container)


def ids(*names: str) -> frozenset[DeviceId]:
    return frozenset(DeviceId(name) for name in names)


def pod(uid: str, *, name: str | None = None, phase: str = "Running", mirror_of: str | None = None) -> Pod:
    annotations = {"kubernetes.io/config.mirror": mirror_of} if mirror_of else {}
    return fakes.pod(name or f"pod-{uid}", namespace="ns", uid=uid, phase=phase, annotations=annotations)


def written(
    uid: str, *devices: str, container: str = "main", resource: str = R, token: str | None = None
) -> CheckpointEntry:
    annotations = {ALLOCATION_ANNOTATION: token, PROOF_ANNOTATION: "visible"} if token else {}
    return CheckpointEntry(uid, container, resource, frozenset(devices), annotations)


def shown(name: str, *devices: str, container: str = "main") -> Mapping[ObjectKey, PodRecord]:
    held = {R: frozenset(devices)} if devices else {}
    return {("ns", name): PodRecord("ns", name, (ContainerRecord(container, held),))}


def hidden(name: str) -> Mapping[ObjectKey, None]:
    return {("ns", name): None}


def answer(token: str, *devices: str, uid: str | None = None, container: str = "main") -> InFlight:
    owner = None if uid is None else key(uid, container)
    return InFlight(token, ids(*devices), owner, None if uid is None else ("ns", f"pod-{uid}"), "visible")


def after(ledger: Ledger, *views: View) -> Reconciled:
    result = Reconciled(ledger)
    for view in views:
        result = reconcile(result.ledger, view)
    return result


def held_by(uid: str, *devices: str, **view: object) -> Ledger:
    return reconcile(EMPTY, View(checkpoint=[written(uid, *devices)], pods=[pod(uid)])).ledger


# What the records show is held.


def test_checkpoint_alone_says_who_holds_what() -> None:
    view = View(
        checkpoint=[written("1", "a", "b", token="t"), written("2", "x", resource="example.com/other")]
    )
    ledger = reconcile(EMPTY, view).ledger
    assert ledger.held == ids("a", "b")
    assert ledger.holders(DeviceId("a")) == (key("1"),)
    assert (ledger.holdings[key("1")].token, ledger.holdings[key("1")].proof) == ("t", "visible")


def test_podresources_alone_says_who_holds_what_by_name() -> None:
    ledger = reconcile(EMPTY, View(shown=shown("p", "a"))).ledger
    assert ledger.holders(DeviceId("a")) == (key("ns/p"),)


def test_podresources_and_pods_give_the_uid() -> None:
    ledger = reconcile(EMPTY, View(shown=shown("pod-1", "a"), pods=[pod("1")])).ledger
    assert ledger.holders(DeviceId("a")) == (key("1"),)


def test_podresources_names_the_pod_of_a_checkpoint_entry_with_the_same_ids() -> None:
    ledger = reconcile(EMPTY, View(checkpoint=[written("1", "a")], shown=shown("p", "a"))).ledger
    assert ledger.holdings[key("1")].pod == ("ns", "p")
    assert ledger.holders(DeviceId("a")) == (key("1"),)


def test_what_only_one_of_the_kubelets_records_shows_is_held() -> None:
    """Its disk is full: it knows of devices that its checkpoint has not."""
    view = View(checkpoint=[written("1", "a")], shown=shown("pod-1", "a", "b"), pods=[pod("1")])
    assert reconcile(EMPTY, view).ledger.containers_of(PodUid("1")) == {"main": ids("a", "b")}


def test_static_pod_is_one_holder_by_its_own_uid() -> None:
    mirror = pod("mirror", name="etcd-node", mirror_of="1")
    view = View(checkpoint=[written("1", "a")], shown=shown("etcd-node", "a"), pods=[mirror])
    assert reconcile(EMPTY, view).ledger.holders(DeviceId("a")) == (key("1"),)


def test_devices_of_a_former_pod_are_not_those_of_the_pod_that_has_its_name_now() -> None:
    former, new = pod("1", name="db-0"), pod("2", name="db-0", phase="Pending")
    held = after(EMPTY, View(checkpoint=[written("1", "a")], pods=[former])).ledger
    with_checkpoint = View(checkpoint=[written("1", "a")], shown=shown("db-0", "a"), pods=[new])
    without_checkpoint = View(shown=shown("db-0", "a"), pods=[new])
    for view in (with_checkpoint, without_checkpoint):
        ledger = after(held, view, view).ledger
        assert ledger.holders(DeviceId("a")) == (key("1"),)
        assert ledger.recorded(PodUid("2")) == {}
    assert after(EMPTY, without_checkpoint).ledger.holders(DeviceId("a")) == (key("ns/db-0"),)


def test_forged_mirror_takes_nobodys_place() -> None:
    victim, forged = pod("1"), pod("2", name="forged", mirror_of="1")
    view = View(checkpoint=[written("1", "a")], shown=hidden("forged"), pods=[victim, forged])
    assert after(EMPTY, view, view).ledger.holdings[key("1")].pod == ("ns", "pod-1")


def test_nothing_that_can_be_read_leaves_the_books_as_they_were() -> None:
    ledger = held_by("1", "a")
    assert after(ledger, View(), View(), View()).ledger.held == ids("a")


def test_id_given_twice_has_two_holders() -> None:
    ledger = reconcile(EMPTY, View(checkpoint=[written("1", "a"), written("2", "a")])).ledger
    assert set(ledger.holders(DeviceId("a"))) == {key("1"), key("2")}


def test_containers_of_one_pod_that_take_over_a_device_are_no_strangers() -> None:
    entries = [written("1", "a", container="init"), written("1", "a", container="main")]
    ledger = reconcile(EMPTY, View(checkpoint=entries)).ledger
    assert {holder.pod_uid for holder in ledger.holders(DeviceId("a")) if holder} == {"1"}


def test_checkpoint_replaces_the_ids_we_believed() -> None:
    ledger = after(held_by("1", "a"), View(checkpoint=[written("1", "b")], pods=[pod("1")])).ledger
    assert ledger.held == ids("b")


def test_device_stays_listed_while_the_checkpoint_has_it() -> None:
    view = View(checkpoint=[written("1", "a")], shown=hidden("pod-1"), pods=[pod("1", phase="Failed")])
    ledger = after(held_by("1", "a"), view, view).ledger
    assert ledger.held == frozenset()
    assert ledger.must_stay_listed == ids("a")
    assert after(ledger, View(checkpoint=[])).ledger.must_stay_listed == frozenset()


# Silence releases nothing.


def test_empty_podresources_after_a_kubelet_restart_releases_nothing() -> None:
    view = View(checkpoint=[written("1", "a")], shown=hidden("pod-1"), pods=[pod("1")])
    assert after(held_by("1", "a"), view, view, view).ledger.held == ids("a")


def test_empty_podresources_without_api_server_releases_nothing() -> None:
    view = View(checkpoint=[written("1", "a")], shown=hidden("pod-1"))
    assert after(held_by("1", "a"), view, view, view).ledger.held == ids("a")


def test_partial_podresources_releases_nothing() -> None:
    view = View(checkpoint=[written("1", "a")], shown=shown("pod-2"), pods=[pod("2")])
    assert after(held_by("1", "a"), view, view, view).ledger.held == ids("a")


def test_lost_checkpoint_does_not_release_what_a_running_pod_has() -> None:
    view = View(checkpoint=[], shown=shown("pod-1"), pods=[pod("1")])
    assert after(held_by("1", "a"), view, view, view).ledger.held == ids("a")


def test_podresources_alone_never_releases() -> None:
    ledger = reconcile(EMPTY, View(shown=shown("p", "a"))).ledger
    assert after(ledger, *[View(shown=hidden("p"))] * 5).ledger.held == ids("a")


# What everything denies twice is released.


def test_finished_pod_that_podresources_hides_is_released_at_the_second_view() -> None:
    view = View(checkpoint=[written("1", "a")], shown=hidden("pod-1"), pods=[pod("1", phase="Succeeded")])
    once = reconcile(held_by("1", "a"), view)
    assert once.ledger.held == ids("a")
    twice = reconcile(once.ledger, view)
    assert twice.ledger.held == frozenset()
    assert [one.owner for one in twice.released] == [key("1")]
    assert reconcile(twice.ledger, view).released == ()


def test_deleted_pod_that_podresources_hides_is_released() -> None:
    view = View(checkpoint=[], shown=hidden("pod-1"), pods=[])
    assert after(held_by("1", "a"), view, view).ledger.held == frozenset()


def test_deleted_pod_whose_containers_still_stop_keeps_its_devices() -> None:
    view = View(checkpoint=[written("1", "a")], shown=shown("pod-1", "a"), pods=[])
    assert after(held_by("1", "a"), view, view, view).ledger.held == ids("a")


def test_one_sign_of_life_starts_the_count_anew() -> None:
    gone = View(checkpoint=[], shown=hidden("pod-1"), pods=[])
    alive = View(checkpoint=[written("1", "a")], shown=shown("pod-1", "a"), pods=[pod("1")])
    assert after(held_by("1", "a"), gone, alive, gone).ledger.held == ids("a")


def test_pod_recreated_under_its_name_does_not_keep_the_old_ones_devices() -> None:
    new = pod("2", name="pod-1")
    view = View(checkpoint=[written("1", "a")], shown=shown("pod-1"), pods=[new])
    ledger = after(held_by("1", "a"), view, view).ledger
    assert ledger.held == frozenset()
    assert ledger.containers_of(PodUid("2")) == {}


def test_checkpoint_alone_releases_what_it_no_longer_has() -> None:
    ledger = reconcile(EMPTY, View(checkpoint=[written("1", "a")])).ledger
    assert after(ledger, View(checkpoint=[])).ledger.held == ids("a")
    assert after(ledger, View(checkpoint=[]), View(checkpoint=[])).ledger.held == frozenset()


def test_holder_known_by_name_is_not_counted_twice_once_its_uid_is_known() -> None:
    ledger = reconcile(EMPTY, View(shown=shown("pod-1", "a"))).ledger
    view = View(shown=shown("pod-1", "a"), pods=[pod("1")])
    assert after(ledger, view, view).ledger.holders(DeviceId("a")) == (key("1"),)


def test_holder_known_by_uid_alone_has_ended_when_newer_pods_are_without_it() -> None:
    ledger = reconcile(EMPTY, View(checkpoint=[written("1", "a"), written("2", "b")])).ledger
    view = View(checkpoint=[written("1", "a"), written("2", "b")], shown={}, pods=[pod("2")])
    assert after(ledger, view, view, view).ledger.held == ids("a", "b")
    newer = replace(view, are_pods_newer=True)
    assert after(ledger, newer).ledger.held == ids("a", "b")
    ended = after(ledger, newer, newer).ledger
    assert ended.held == ids("b")
    assert ended.must_stay_listed == ids("a", "b")
    assert after(ended, view, view).ledger.held == ids("b")


def test_view_that_has_no_say_neither_counts_nor_starts_the_count_anew() -> None:
    """The kubelet's records are followed between two questions to podresources, on a busy node always."""
    gone = View(checkpoint=[written("1", "a")], shown=hidden("pod-1"), pods=[])
    unasked = View(checkpoint=[written("1", "a")], shown={}, pods=[])
    assert after(held_by("1", "a"), gone, unasked, unasked).ledger.held == ids("a")
    ended = after(held_by("1", "a"), gone, unasked, gone).ledger
    assert ended.held == frozenset()
    assert after(ended, unasked).ledger.held == frozenset()


def test_where_podresources_cannot_be_asked_newer_pods_tell_who_has_ended() -> None:
    """Kubelets before 1.34 have no Get, and their checkpoint lists who is gone until another is admitted."""
    view = View(checkpoint=[written("1", "a")], shown=None, pods=[])
    assert after(held_by("1", "a"), view, view).ledger.held == ids("a")
    newer = replace(view, are_pods_newer=True)
    assert after(held_by("1", "a"), newer, newer).ledger.held == frozenset()
    alive = replace(newer, pods=[pod("1")])
    assert after(held_by("1", "a"), alive, alive).ledger.held == ids("a")


def test_the_api_server_is_asked_for_holders_for_which_podresources_was_not() -> None:
    nameless = reconcile(EMPTY, View(checkpoint=[written("1", "a")])).ledger
    assert has_unasked(nameless, {}, [])
    assert not has_unasked(nameless, {}, None)
    assert not has_unasked(nameless, {}, [pod("1")])
    named = held_by("1", "a")
    assert has_unasked(named, None, [])
    assert not has_unasked(named, hidden("pod-1"), [])
    newer = View(checkpoint=[written("1", "a")], shown={}, pods=[], are_pods_newer=True)
    assert not has_unasked(after(nameless, newer, newer).ledger, {}, [])


def test_only_holders_that_nothing_says_are_alive_are_asked_for() -> None:
    entries = [written("1", "a"), written("2", "b")]
    ledger = reconcile(EMPTY, View(checkpoint=entries, pods=[pod("1"), pod("2")])).ledger
    assert pods_to_ask(ledger, [pod("1"), pod("2", phase="Failed")]) == (("ns", "pod-2"),)
    assert set(pods_to_ask(ledger, None)) == {("ns", "pod-1"), ("ns", "pod-2")}


# Answers.


def test_answer_counts_as_held_from_the_moment_it_is_given() -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1"))
    assert ledger.held == ledger.must_stay_listed == ids("a")
    assert ledger.containers_of(PodUid("1")) == {"main": ids("a")}


def test_second_answer_for_a_container_replaces_the_first() -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1")).with_answer(answer("u", "b", uid="1"))
    assert ledger.held == ids("b")


def test_token_in_the_checkpoint_confirms() -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1"))
    result = reconcile(ledger, View(checkpoint=[written("1", "a", token="t")]))
    assert [one.outcome for one in result.settled] == [AnswerOutcome.CONFIRMED]
    assert result.ledger.in_flight == ()
    assert result.ledger.holders(DeviceId("a")) == (key("1"),)


def test_token_under_another_container_corrects() -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1"))
    result = reconcile(ledger, View(checkpoint=[written("2", "a", token="t")]))
    assert [(one.outcome, one.owner) for one in result.settled] == [(AnswerOutcome.CORRECTED, key("2"))]
    assert result.ledger.holders(DeviceId("a")) == (key("2"),)
    assert result.ledger.containers_of(PodUid("1")) == {}


def test_token_tells_the_owner_of_an_answer_that_had_none() -> None:
    ledger = EMPTY.with_answer(answer("t", "a"))
    assert ledger.holders(DeviceId("a")) == (None,)
    result = reconcile(ledger, View(checkpoint=[written("1", "a", token="t")]))
    assert [(one.outcome, one.owner) for one in result.settled] == [(AnswerOutcome.CONFIRMED, key("1"))]


def test_podresources_confirms_where_no_checkpoint_can_be_read() -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1"))
    result = reconcile(ledger, View(shown=shown("pod-1", "a"), pods=[pod("1")]))
    assert [one.outcome for one in result.settled] == [AnswerOutcome.CONFIRMED]


def test_answer_waits_for_its_checkpoint() -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1"))
    result = after(ledger, *[View(checkpoint=[], pods=[pod("1", phase="Pending")])] * 5)
    assert result.ledger.held == ids("a")
    assert result.settled == ()


def test_answer_to_a_pod_that_was_turned_away_is_dropped() -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1"))
    view = View(checkpoint=[], shown=hidden("pod-1"), pods=[pod("1", phase="Failed")])
    result = after(ledger, view, view)
    assert [one.outcome for one in result.settled] == [AnswerOutcome.DROPPED]
    assert result.ledger.held == frozenset()


def test_answer_the_kubelet_passed_over_is_dropped_at_the_second_view() -> None:
    ledger = EMPTY.with_answer(answer("t", "a")).with_answer(answer("u", "b", uid="2"))
    view = View(checkpoint=[written("2", "b", token="u")])
    once = reconcile(ledger, view)
    assert [one.outcome for one in once.settled] == [AnswerOutcome.CONFIRMED]
    assert once.ledger.held == ids("a", "b")
    twice = reconcile(once.ledger, view)
    assert [one.outcome for one in twice.settled] == [AnswerOutcome.DROPPED]
    assert twice.ledger.held == ids("b")


def test_answer_that_a_later_checkpoint_lacks_was_never_taken() -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1")).with_answer(answer("u", "b", uid="2"))
    view = View(checkpoint=[written("1", "a", token="t")], is_after_answers=True)
    result = reconcile(ledger, view)
    assert [one.outcome for one in result.settled] == [AnswerOutcome.CONFIRMED, AnswerOutcome.DROPPED]
    assert result.ledger.held == ids("a")


def test_what_the_kubelet_forgot_is_held_but_would_be_allocated_again() -> None:
    ledger = after(held_by("1", "a"), View(checkpoint=[], shown=shown("pod-1"), pods=[pod("1")])).ledger
    assert ledger.held == ids("a")
    assert ledger.containers_of(PodUid("1")) == {"main": ids("a")}
    assert ledger.allocated(PodUid("1")) == {}


# For all views.

UIDS = st.sampled_from(["1", "2", "3"])
ENTRIES = st.lists(
    st.builds(
        lambda uid, container, devices, token: written(uid, *devices, container=container, token=token),
        UIDS,
        st.sampled_from(["init", "main"]),
        st.sets(st.sampled_from("abc"), min_size=1),
        st.none() | st.sampled_from(["t", "u"]),
    ),
    max_size=4,
    unique_by=lambda entry: (entry.pod_uid, entry.container),
)
PODS = st.lists(
    st.builds(
        lambda uid, phase: pod(uid, phase=phase), UIDS, st.sampled_from(["Pending", "Running", "Failed"])
    ),
    max_size=3,
    unique_by=lambda one: one.uid,
)
ANSWERS = st.dictionaries(
    st.tuples(st.just("ns"), st.builds("pod-{}".format, UIDS)),
    st.none()
    | st.builds(
        lambda devices: PodRecord("ns", "", (ContainerRecord("main", {R: devices}),)),
        st.frozensets(st.sampled_from("abc")),
    ),
)
VIEWS = st.builds(
    View, st.none() | ENTRIES, st.none() | ANSWERS, st.none() | PODS, are_pods_newer=st.booleans()
)


@given(st.lists(VIEWS, max_size=6))
def test_a_living_pod_never_loses_what_the_checkpoint_gives_it(views: list[View]) -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1")).with_answer(answer("u", "b"))
    for view in views:
        ledger = reconcile(ledger, view).ledger
        for entry in view.checkpoint or ():
            assert frozenset(entry.device_ids) <= ledger.must_stay_listed
            if any(one.uid == entry.pod_uid and not one.is_terminal for one in view.pods or ()):
                assert ledger.containers_of(PodUid(entry.pod_uid))[entry.container] >= entry.device_ids


@given(st.lists(VIEWS, max_size=6))
def test_each_answer_is_settled_at_most_once(views: list[View]) -> None:
    ledger = EMPTY.with_answer(answer("t", "a", uid="1")).with_answer(answer("u", "b"))
    settled: list[str] = []
    for view in views:
        result = reconcile(ledger, view)
        settled += [one.answer.token for one in result.settled]
        ledger = result.ledger
    assert len(settled) == len(set(settled))
    assert {one.token for one in ledger.in_flight} == {"t", "u"} - set(settled)


@given(st.lists(VIEWS, max_size=4))
def test_books_rebuilt_from_one_view_hold_what_its_records_show(views: list[View]) -> None:
    for view in views:
        ledger = reconcile(EMPTY, view).ledger
        recorded = {device for entry in view.checkpoint or () for device in entry.device_ids}
        recorded |= {
            device
            for record in (view.shown or {}).values()
            for container in (record.containers if record else ())
            for device in container.devices.get(R, frozenset())
        }
        assert ledger.held == recorded


def test_pod_whose_devices_were_freed_is_remembered_for_as_long_as_it_is_asked_about() -> None:
    had = View(checkpoint=[written("1", "a")], shown={}, pods=[pod("1")], is_of_this_kubelet=True)
    gone = View(checkpoint=[], shown={}, pods=[], is_of_this_kubelet=True, former=frozenset({PodUid("1")}))
    denied = replace(gone, shown=hidden("pod-1"))
    ledger = after(EMPTY, had, gone, denied, denied, gone).ledger
    assert ledger.freed == {"1": {"main"}}
    assert after(ledger, replace(gone, former=frozenset())).ledger.freed == {}
