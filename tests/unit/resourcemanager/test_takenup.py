"""A pod that the kubelet turned away and takes up again may be whose call it is."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.objects import Owner
from accelet.kube.pods import ContainerStatus, Pod
from accelet.kube.poduid import PodUid, index_pods
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.inquiry import CallFacts, Doubt, FollowEnd, FollowWatch, Match, NoProof
from tests.unit.resourcemanager.test_matching import (
    REPLICA_SET,
    World,
    books,
    container,
    doubt_of,
    evidence,
    owner_of,
    pod,
    record,
    running,
    shows,
)

GONE, CALLER = PodUid("gone"), PodUid("uid-web-5d9f-x7k2p")


def bare(name: str = "db-0", uid: str = "gone", size: int = 1, owner: Owner | None = None) -> Pod:
    """A pod that mounts no token and that the kubelet has not begun for all that is known."""
    return replace(pod(name, container("main", size), uid=uid, owner=owner), mounts_token=False)


def caller(name: str = "web-5d9f-x7k2p") -> Pod:
    """A pod whose name does not come again."""
    return pod(name, owner=REPLICA_SET)


def after_deletion(gone: Pod, new: Pod) -> CallFacts:
    """`gone` was deleted by force; the watch has shown it, and `new` to be bound after that."""
    return replace(evidence(new), deleted=index_pods([gone]), deletions={GONE: 1}, deleted_before={CALLER: 1})


def before_deletion(gone: Pod, new: Pod) -> CallFacts:
    return replace(after_deletion(gone, new), deleted_before={CALLER: 0})


def resolve(known: CallFacts, *shown: Pod, api: Pod | None = None) -> Match | NoProof:
    return World(shows(*map(record, shown)), api=[api or caller()]).resolve(known)


def test_pod_without_a_token_that_was_deleted_by_force_is_a_rival_of_who_was_bound_later() -> None:
    new = caller()
    assert doubt_of(resolve(after_deletion(bare(), new), new)) is Doubt.RIVAL
    sentence = resolve(after_deletion(bare(), new), new)
    assert isinstance(sentence, NoProof)
    assert "ns/db-0" in sentence.reason
    assert "token" in sentence.reason


def test_pod_with_a_token_is_none() -> None:
    new = caller()
    step = resolve(after_deletion(replace(bare(), mounts_token=True), new), new)
    assert owner_of(step) == (CALLER, "main")


def test_it_is_none_once_the_kubelet_had_heard_of_its_deletion_when_the_call_came() -> None:
    new, known = caller(), after_deletion(bare(), caller())
    assert owner_of(resolve(replace(known, heard_before=frozenset({GONE})), new)) == (CALLER, "main")
    # What was heard since tells nothing of a call that had been sent before.
    assert doubt_of(resolve(replace(known, heard=frozenset({GONE})), new)) is Doubt.RIVAL


def test_of_who_was_bound_before_it_is_a_rival_only_while_it_is_shown_without_devices() -> None:
    new, gone = caller(), bare()
    known = before_deletion(gone, new)
    assert owner_of(resolve(known, new)) == (CALLER, "main")
    assert doubt_of(resolve(known, new, gone)) is Doubt.RIVAL
    served = World(shows(record(new), record(gone, main="d1")), api=[new])
    assert owner_of(served.resolve(known)) == (CALLER, "main")


def test_whose_order_is_not_known_it_is_a_rival_of() -> None:
    new = caller()
    assert doubt_of(resolve(replace(before_deletion(bare(), new), deleted_before={}), new)) is Doubt.RIVAL
    assert doubt_of(resolve(replace(before_deletion(bare(), new), deletions={}), new)) is Doubt.RIVAL


def test_pod_that_ended_or_asks_another_number_is_none() -> None:
    new = caller()
    for gone in (replace(bare(), phase="Failed"), bare(size=2)):
        assert owner_of(resolve(after_deletion(gone, new), new)) == (CALLER, "main")


def test_checkpoint_does_not_tell_that_it_has_its_devices_still() -> None:
    """The kubelet takes them back at a call, and writes that only once it takes the answer."""
    new, gone, ledger = caller(), bare(), books(("gone", "main", "d1"))
    assert doubt_of(resolve(replace(after_deletion(gone, new), ledger=ledger), new)) is Doubt.RIVAL
    assert doubt_of(resolve(replace(before_deletion(gone, new), ledger=ledger), new, gone)) is Doubt.RIVAL


def test_init_container_of_a_pod_that_is_there_has_what_the_checkpoint_says() -> None:
    new = caller()
    one = replace(pod("db-0", container("main"), init=[container("init")], uid="gone"), mounts_token=False)
    known = replace(evidence(new, one), passed=frozenset({GONE}))
    world = World(shows(record(new), record(one, main="d1")), api=[new, one])
    recorded = replace(known, ledger=books(("gone", "init", "d2")))
    assert owner_of(world.resolve(recorded)) == (CALLER, "main")
    assert doubt_of(world.resolve(known)) is Doubt.RIVAL


def test_pod_that_has_begun_without_devices_is_a_rival_as_before() -> None:
    new = caller()
    assert doubt_of(resolve(after_deletion(running(bare()), new), new)) is Doubt.RIVAL


def test_pod_whose_name_does_not_come_again_is_a_rival_once_somebody_has_its_name() -> None:
    gone, new = bare("web-5d9f-aaaaa".replace("a", "b"), owner=REPLICA_SET), caller()
    known = after_deletion(gone, new)
    assert owner_of(resolve(known, new)) == (CALLER, "main")
    successor = running(pod(gone.name, container("main", 2), uid="by-hand"))
    both = replace(known, pods=index_pods([new, successor]))
    assert doubt_of(resolve(both, new)) is Doubt.RIVAL


def test_pod_that_the_kubelet_has_passed_is_a_rival_while_it_is_shown_without_devices() -> None:
    """The watch may not have shown yet that it was deleted."""
    new, gone = caller(), bare()
    known = replace(evidence(new, gone), passed=frozenset({GONE}), is_watch_current=False)
    assert doubt_of(resolve(known, new, gone)) is Doubt.RIVAL
    assert owner_of(resolve(known, new)) == (CALLER, "main")
    assert owner_of(resolve(replace(known, passed=frozenset()), new, gone)) == (CALLER, "main")


def test_end_of_a_pod_that_vanished_is_waited_for() -> None:
    new = caller()
    known = replace(evidence(new), vanished=frozenset({GONE}))
    world = World(shows(record(new)), api=[new], watch=[replace(bare(), mounts_token=True)])
    assert owner_of(world.resolve(known)) == (CALLER, "main")
    assert FollowEnd(GONE) in world.asked
    assert doubt_of(World(shows(record(new)), api=[new], watch=[bare()]).resolve(known)) is Doubt.RIVAL
    assert doubt_of(World(shows(record(new)), api=[new], watch=None).resolve(known)) is Doubt.UNVERIFIED


def test_end_of_a_pod_of_which_a_list_alone_has_told_is_waited_for() -> None:
    """As it was last, it had not begun; as it was at its end, it had ended by itself."""
    new = caller()
    known = replace(evidence(new), deleted=index_pods([bare()]))
    world = World(shows(record(new)), api=[new], watch=[replace(bare(), phase="Succeeded")])
    assert owner_of(world.resolve(known)) == (CALLER, "main")
    assert world.asked.count(FollowEnd(GONE)) == 1
    forced = World(shows(record(new)), api=[new], watch=[bare()])
    assert doubt_of(forced.resolve(known)) is Doubt.RIVAL
    assert forced.asked.count(FollowEnd(GONE)) == 1


def test_pod_that_has_ended_by_the_time_the_watch_has_come_so_far_is_none() -> None:
    new, gone = caller(), bare()
    known = replace(evidence(new, gone), passed=frozenset({GONE}), unwatched=frozenset({CALLER}))
    ended = World(shows(record(new)), api=[new, gone], watch=[replace(gone, phase="Failed")])
    assert owner_of(ended.resolve(known)) == (CALLER, "main")
    forced = World(shows(record(new), record(gone)), api=[new, gone], watch=[gone])
    assert doubt_of(forced.resolve(known)) is Doubt.RIVAL


def test_pod_is_no_rival_of_itself() -> None:
    """A kubelet that starts takes pods of one second in any order; it may seem to have come to it before."""
    new = bare("db-1", uid="new")
    known = replace(evidence(new), passed=frozenset({PodUid("new")}))
    assert owner_of(World(shows(record(new)), api=[new]).resolve(known)) == ("new", "main")


def test_watch_is_followed_to_a_pod_that_it_has_not_shown_for_who_was_deleted_before() -> None:
    new = caller()
    known = replace(evidence(new), unwatched=frozenset({CALLER}))
    world = World(shows(record(new)), api=[new], watch=[bare()])
    assert doubt_of(world.resolve(known)) is Doubt.RIVAL
    assert FollowWatch(new) in world.asked


def test_pod_that_the_watch_shows_meanwhile_is_asked_for() -> None:
    new, gone = caller(), bare()
    followed = evidence(new).with_followed(new, {}, index_pods([new, gone]))
    assert doubt_of(resolve(followed, new, gone)) is Doubt.RIVAL
    assert owner_of(resolve(followed, new)) == (CALLER, "main")


def test_of_two_that_are_shown_without_devices_one_without_a_token_is_a_rival_of_the_other() -> None:
    """Nobody can say whether it is the pod that has its name by now."""
    new, unsure = caller(), bare()
    known = replace(evidence(unsure, new), is_watch_current=False, can_read=False)
    assert doubt_of(resolve(known, new, unsure)) is Doubt.RIVAL
    assert owner_of(resolve(known, new)) == (CALLER, "main")


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.sampled_from("abcdef"))
def test_passed_are_those_that_are_asked_for_last(names: list[str], last: str) -> None:
    pods: Mapping[PodUid, Pod] = index_pods([pod(name) for name in names])
    admissions = Admissions(last=PodUid(f"uid-{last}"))
    passed = admissions.list_passed(pods)
    order = list(admissions.put_in_order(pods))
    assert set(order[len(order) - len(passed) :]) == passed
    assert set(names[: names.index(last)] if last in names else ()) == {uid[4:] for uid in passed}


@given(st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0, 1]))
def test_who_may_be_starting_is_never_overlooked(
    mounts_token: bool, has_begun: bool, is_shown: bool, bound_after: int
) -> None:
    """Whatever else is so, a pod that is shown without its devices keeps another from being proven."""
    new, gone = caller(), replace(bare(), mounts_token=mounts_token)
    if has_begun:
        gone = replace(gone, statuses={"main": ContainerStatus("waiting")})
    known = replace(after_deletion(gone, new), deleted_before={CALLER: bound_after})
    step = resolve(known, *([new, gone] if is_shown else [new]))
    may_start = has_begun or (not mounts_token and (is_shown or bound_after == 1))
    assert isinstance(step, NoProof) == may_start
