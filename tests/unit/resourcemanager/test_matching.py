from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import DeviceId
from accelet.kube.objects import ObjectKey, Owner
from accelet.kube.pods import Container, ContainerStatus, Pod
from accelet.kube.poduid import PodUid, index_pods
from accelet.kubelet.checkpoint import CheckpointEntry
from accelet.kubelet.podresources import ContainerRecord, PodRecord
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.holdings.ledger import InFlight, Ledger
from resourcemanager.holdings.reconcile import View, reconcile
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.answered import note_answer
from resourcemanager.matching.caller import GETS_BEFORE_READ, next_step
from resourcemanager.matching.inquiry import (
    AskAllShown,
    AskCheckpoint,
    AskShown,
    CallFacts,
    Doubt,
    FollowEnd,
    FollowWatch,
    Match,
    NoProof,
    Podresources,
    Proof,
    ReadPod,
    ReadPods,
    Step,
)
from resourcemanager.matching.screening import Screening
from tests.fakes import pods as fakes

R = "gpu.intel.com/i915"
OTHER = "gpu.intel.com/monitoring"
RUNNING = ContainerStatus("running", has_run=True)
REPLICA_SET = Owner("ReplicaSet", "web", "r", is_controller=True)
STATEFUL_SET = Owner("StatefulSet", "db", "s", is_controller=True)


def container(name: str, size: int = 1, *, sidecar: bool = False) -> Container:
    return Container(name, limits={R: size} if size else {}, is_sidecar=sidecar)


def pod(
    name: str,
    *containers: Container,
    init: Sequence[Container] = (),
    version: int = 1,
    uid: str | None = None,
    owner: Owner | None = None,
) -> Pod:
    """A pod whose container asks for a device."""
    asking = containers or (container("main"),)
    made = fakes.pod(name, *asking, init=init, namespace="ns", version=version, uid=uid, owner=owner)
    return replace(made, mounts_token=True)


def running(one: Pod) -> Pod:
    return replace(one, phase="Running", statuses={c.name: RUNNING for c in one.all_containers})


def record(one: Pod, **given: str) -> PodRecord:
    """What podresources shows of the pod, its containers having the ids `given` by container name."""
    shown = [c for c in one.init_containers if c.is_sidecar] + list(one.containers)
    return PodRecord(
        "ns",
        one.name,
        tuple(
            ContainerRecord(c.name, {R: frozenset(given[c.name].split())} if c.name in given else {})
            for c in shown
        ),
    )


def books(*entries: tuple[str, str, str], has_checkpoint: bool = True) -> Ledger:
    """Books that know these (uid, container, ids)."""
    if not has_checkpoint:
        return Ledger(R)
    view = View(
        checkpoint=[CheckpointEntry(uid, name, R, frozenset(ids.split())) for uid, name, ids in entries]
    )
    return reconcile(Ledger(R), view).ledger


@dataclass
class World:
    """What can be asked, and how often each was."""

    shown: Mapping[ObjectKey, PodRecord] = field(default_factory=dict)
    api: Sequence[Pod] | None = ()
    later: Sequence[Sequence[Pod]] = ()
    """What further reads of all pods find."""
    watch: Sequence[Pod] | None = ()
    """The pods that it shows to be deleted once it has been followed; None where it stays behind."""
    checkpointed: Ledger | None = None
    asked: list[Step] = field(default_factory=list)

    def resolve(self, evidence: CallFacts) -> Match | NoProof:
        reads = [self.api, *self.later]
        for _ in range(50):
            step = next_step(evidence)
            if isinstance(step, Match | NoProof):
                return step
            self.asked.append(step)
            match step:
                case AskShown(name):
                    evidence = evidence.with_shown(name, self.shown.get(name))
                case AskAllShown():
                    evidence = evidence.with_all_shown(list(self.shown.values()))
                case AskCheckpoint():
                    evidence = evidence.with_ledger(self.checkpointed or evidence.ledger)
                case ReadPod(name):
                    found = [one for one in self.api or () if one.key == name]
                    evidence = (
                        evidence.without_api_server()
                        if self.api is None
                        else evidence.with_pod(name, found[0] if found else None)
                    )
                case FollowWatch(one):
                    evidence = (
                        evidence.without_watch()
                        if self.watch is None
                        else evidence.with_followed(one, index_pods(self.watch))
                    )
                case FollowEnd(uid):
                    evidence = (
                        evidence.without_watch()
                        if self.watch is None
                        else evidence.with_end(uid, index_pods(self.watch))
                    )
                case ReadPods():
                    pods = reads.pop(0) if len(reads) > 1 else reads[0]
                    evidence = evidence.without_api_server() if pods is None else evidence.with_pods(pods)
        raise AssertionError("it never ends")


def shows(*records: PodRecord) -> Mapping[ObjectKey, PodRecord]:
    return {("ns", one.name): one for one in records}


def evidence(*pods: Pod, size: int = 1, ledger: Ledger | None = None) -> CallFacts:
    return CallFacts(size, ledger or books(), index_pods(pods))


def before_134(*pods: Pod, size: int = 1, ledger: Ledger | None = None) -> CallFacts:
    return replace(evidence(*pods, size=size, ledger=ledger), podresources=Podresources.LIST_ALL)


def owner_of(step: Step) -> tuple[str, str]:
    assert isinstance(step, Match), step
    return step.owner.pod_uid, step.owner.container


def doubt_of(step: Step) -> Doubt:
    assert isinstance(step, NoProof), step
    assert step.reason.endswith(".")
    return step.doubt


# Kubernetes from 1.34: the pod that is shown without its devices.


def test_pod_that_is_shown_without_its_devices_is_the_one() -> None:
    one = pod("p")
    step = World(shows(record(one))).resolve(evidence(one))
    assert owner_of(step) == ("uid-p", "main")
    assert isinstance(step, Match)
    assert (step.proof, step.pod) == (Proof.VISIBLE, one)


def test_first_is_asked_for_first_and_the_first_proof_ends_the_search() -> None:
    first, second = pod("first", version=9), pod("second", version=8)
    world = World(shows(record(first)))
    assert owner_of(world.resolve(evidence(first, second))) == ("uid-first", "main")
    assert world.asked == [AskShown(("ns", "first"))]


def test_order_is_that_of_binding_from_the_last_one_on() -> None:
    pods = index_pods([pod("a"), pod("b"), pod("c")])
    assert list(Admissions().put_in_order(pods)) == ["uid-a", "uid-b", "uid-c"]
    assert list(Admissions().came_to(PodUid("uid-b")).put_in_order(pods)) == ["uid-b", "uid-c", "uid-a"]


def test_pods_of_the_kubelets_list_come_before_others_the_oldest_first() -> None:
    pods = index_pods([pod("late"), replace(pod("young"), created_s=2.0), replace(pod("old"), created_s=1.0)])
    listed = Admissions(listed=frozenset({PodUid("uid-young"), PodUid("uid-old")}))
    assert list(listed.put_in_order(pods)) == ["uid-old", "uid-young", "uid-late"]


@given(
    st.lists(st.integers(0, 20), unique=True),
    st.frozensets(st.integers(0, 20)),
    st.none() | st.integers(0, 20),
)
def test_order_loses_nobody_and_begins_with_the_last(
    numbers: list[int], listed: frozenset[int], last: int | None
) -> None:
    pods = index_pods([pod(str(number)) for number in numbers])
    made = Admissions(
        frozenset(PodUid(f"uid-{one}") for one in listed), None if last is None else PodUid(f"uid-{last}")
    )
    ordered = list(made.put_in_order(pods))
    assert sorted(ordered) == sorted(pods)
    if last in numbers:
        assert ordered[0] == f"uid-{last}"


# Names that come again after somebody deleted their pod by force: the kubelet may be behind.


def test_former_pod_that_has_all_is_not_taken_for_the_new_one() -> None:
    former = pod("db-0", container("main", 0), uid="former")
    new, caller = pod("db-0", uid="new"), pod("b")
    world = World(shows(record(former), record(caller)), api=[new, caller])
    known = replace(evidence(new, caller), deleted=index_pods([former]))
    assert owner_of(world.resolve(known)) == ("uid-b", "main")  # who is shown for certain


def test_new_pod_is_not_told_from_a_former_one_that_asks_for_nothing() -> None:
    former, new = pod("db-0", container("main", 0), uid="former"), pod("db-0", uid="new")
    known = replace(evidence(new, pod("b")), deleted=index_pods([former]))
    world = World(shows(record(new)), api=[new, pod("b")])
    assert doubt_of(world.resolve(known)) is Doubt.SEVERAL  # a static pod may be meant


def test_new_pod_is_told_from_a_former_one_by_its_sidecars() -> None:
    former = pod("db-0", container("main", 0), uid="former")
    new = pod("db-0", uid="new", init=[container("side", 0, sidecar=True)])
    known = replace(evidence(new), deleted=index_pods([former]))
    assert owner_of(World(shows(record(new))).resolve(known)) == ("new", "main")
    assert doubt_of(World(shows(record(former)), api=[new]).resolve(known)) is Doubt.NOBODY


def test_former_pod_that_may_be_in_admission_is_a_doubt_until_the_kubelet_has_heard_of_its_deletion() -> None:
    former, new = pod("db-0", uid="former"), pod("db-0", uid="new")
    known = replace(evidence(new), deleted=index_pods([former]))
    step = World(shows(record(former)), api=[new]).resolve(known)
    assert doubt_of(step) is Doubt.SEVERAL
    assert isinstance(step, NoProof)
    after = note_answer(known.admissions, step, is_refused=True, known={PodUid("former")})
    # The kubelet shows again whom it has turned away once it finds the name to be another pod's.
    refused = replace(known, admissions=after)
    assert doubt_of(World(shows(record(former)), api=[new]).resolve(refused)) is Doubt.SEVERAL
    heard = replace(refused, heard=frozenset({PodUid("former")}))
    assert owner_of(World(shows(record(new))).resolve(heard)) == ("new", "main")
    assert note_answer(known.admissions, step, is_refused=False, known=set()) == known.admissions


def test_nobody_whose_name_may_recur_is_believed_while_former_pods_are_not_known() -> None:
    new, other = pod("db-0", uid="new"), pod("web-7d9c5-x2bqt", owner=REPLICA_SET)
    known = replace(evidence(new, other), knows_former=False)
    step = World(shows(record(new)), api=[new, other]).resolve(known)
    assert isinstance(step, NoProof)
    assert (step.doubt, step.former) == (Doubt.UNVERIFIED, None)
    assert "It is not known which pods were deleted" in step.reason
    assert owner_of(World(shows(record(new), record(other)), api=[new, other]).resolve(known))[0] == other.uid


def test_former_pod_that_was_turned_away_and_is_shown_again_is_not_taken_for_who_has_its_name() -> None:
    """What the call asks for is not what the former one asked for: it is for whoever is admitted now."""
    former, new = pod("db-0", uid="former"), pod("db-0", container("main", 2), uid="new")
    other = pod("other", container("main", 2))
    known = replace(evidence(new, other, size=2), deleted=index_pods([former]))
    world = World(shows(record(former), record(other)), api=[new, other])
    assert owner_of(world.resolve(known)) == ("uid-other", "main")
    assert doubt_of(World(shows(record(former)), api=[new, other]).resolve(known)) is Doubt.SEVERAL


def test_former_pod_that_was_turned_away_may_be_shown_without_the_devices_it_had_by_then() -> None:
    former = pod("db-0", container("main0", 2), container("main1"), uid="former")
    new = pod("db-0", container("main0"), container("main1", 0), uid="new")
    known = replace(evidence(new, ledger=books(("former", "main0", "d0 d1"))), deleted=index_pods([former]))
    assert doubt_of(World(shows(record(former)), api=[new]).resolve(known)) is Doubt.SEVERAL
    had_all = books(("former", "main0", "d0 d1"), ("former", "main1", "d2"))
    begun = replace(known, ledger=had_all, deleted=index_pods([running(former)]))
    assert owner_of(World(shows(record(new))).resolve(begun)) == ("new", "main0")


def test_of_several_former_pods_a_refusal_rules_out_the_first_alone() -> None:
    first, second, new = pod("db-0", uid="first"), pod("db-0", uid="second"), pod("db-0", uid="new")
    known = replace(evidence(new), deleted=index_pods([first, second]))
    uids = {PodUid("first"), PodUid("second")}
    for shown in (first, second):  # the kubelet comes to one after the other
        step = World(shows(record(shown)), api=[new]).resolve(known)
        assert doubt_of(step) is Doubt.SEVERAL
        assert isinstance(step, NoProof)
        assert step.former == shown.uid
        known = replace(known, admissions=note_answer(known.admissions, step, is_refused=True, known=uids))
    assert owner_of(World(shows(record(new))).resolve(replace(known, heard=frozenset(uids)))) == (
        "new",
        "main",
    )


def test_former_pod_that_had_its_devices_is_no_doubt() -> None:
    former, new = running(pod("db-0", uid="former")), pod("db-0", uid="new")
    known = replace(evidence(new, ledger=books(("former", "main", "d0"))), deleted=index_pods([former]))
    world = World(shows(record(new)))
    assert owner_of(world.resolve(known)) == ("new", "main")
    assert world.asked == [AskShown(("ns", "db-0"))]


def test_former_pod_that_ran_without_its_devices_is_a_rival() -> None:
    former, new = running(pod("db-0", uid="former")), pod("db-0", uid="new")
    known = replace(evidence(new), deleted=index_pods([former]))
    assert isinstance(World(shows(record(new))).resolve(known), NoProof)


def test_pod_that_podresources_hides_is_a_rival_only_if_the_api_server_has_it_no_longer() -> None:
    rival, one = running(pod("r")), pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    known, shown = evidence(one, rival), shows(record(one))
    world = World(shown, api=[one, rival])
    assert owner_of(world.resolve(known)) == ("uid-web-5d9f-x7k2p", "main")
    assert world.asked[-1] == ReadPod(("ns", "r"))
    assert doubt_of(World(shown, api=None).resolve(known)) is Doubt.RIVAL
    gone = World(shown, api=[one], watch=[rival])
    assert doubt_of(gone.resolve(known)) is Doubt.RIVAL
    assert gone.asked[-2:] == [ReadPod(("ns", "r")), FollowEnd(PodUid("uid-r"))]
    assert doubt_of(World(shown, api=[one], watch=None).resolve(known)) is Doubt.RIVAL


def test_pod_that_is_gone_is_no_rival_once_the_watch_has_shown_that_it_ended() -> None:
    rival, one = running(pod("r")), pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    world = World(shows(record(one)), api=[one], watch=[replace(rival, phase="Succeeded")])
    assert owner_of(world.resolve(evidence(one, rival))) == ("uid-web-5d9f-x7k2p", "main")


def test_read_before_podresources_was_asked_does_not_tell_that_a_hidden_pod_is_no_rival() -> None:
    rival, one = running(pod("r")), pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    read = evidence(rival).with_pods([one, rival])
    world = World(shows(record(one)), api=[one], watch=None)
    assert doubt_of(world.resolve(read)) is Doubt.RIVAL


def test_former_pod_whose_devices_the_kubelet_has_taken_back_is_no_doubt() -> None:
    former, new = running(pod("db-0", uid="former")), pod("db-0", uid="new")
    ledger = replace(books(), freed={PodUid("former"): frozenset({"main"})})
    known = replace(evidence(new, ledger=ledger), deleted=index_pods([former]))
    assert owner_of(World(shows(record(new))).resolve(known)) == ("new", "main")


def test_former_pod_that_ended_is_no_doubt() -> None:
    former, new = replace(pod("db-0", uid="former"), phase="Failed"), pod("db-0", uid="new")
    known = replace(evidence(new), deleted=index_pods([former]))
    assert owner_of(World(shows(record(new))).resolve(known)) == ("new", "main")


# Pods that the kubelet admitted before it knew the resource.


def screen(begun: Screening, *asked: tuple[Pod, PodRecord | None], after: bool = False) -> Screening:
    for one, shown in asked:
        begun = begun.with_after(one, shown, books()) if after else begun.with_before(one, shown, books())
    return begun


def test_pod_shown_without_devices_before_a_registration_was_skipped() -> None:
    one, other = pod("p"), pod("q")
    screening = screen(Screening(), (one, record(one)), (other, None))
    assert screening.skipped == {"uid-p"}


def test_pod_that_alone_lacks_devices_during_a_call_is_the_caller() -> None:
    one, other = pod("p"), pod("q")
    before = screen(Screening(), (one, None), (other, None)).again(is_during_call=True)
    assert screen(before, (one, record(one)), (other, None), after=True).skipped == frozenset()
    both = screen(before, (one, record(one)), (other, record(other)), after=True)
    assert both.skipped == {"uid-p", "uid-q"}


def test_pod_that_was_deleted_by_force_before_it_could_be_asked_for_may_have_been_skipped() -> None:
    one, lost = pod("p"), pod("lost")
    begun = Screening().again(is_during_call=True).with_after(one, record(one), books())
    ended = replace(pod("e"), phase="Succeeded")
    assert begun.with_lost([lost, ended], books()).skipped == {"uid-p", "uid-lost"}
    assert Screening(is_known=True).with_lost([lost], books()).skipped == frozenset()


def test_pod_that_is_gone_is_not_taken_for_the_caller_of_a_screening() -> None:
    """It was not shown at the registration; the kubelet may have admitted it without devices after that."""
    lost = pod("lost")
    before = screen(Screening(), (lost, None)).again(is_during_call=True)
    assert before.with_lost([lost], books()).skipped == {"uid-lost"}


def test_pod_that_came_and_went_before_the_list_of_a_screening_may_have_been_skipped() -> None:
    asked, early, late = (
        replace(pod(name), resource_version=at) for name, at in zip("pqr", "457", strict=True)
    )
    screening = Screening().again(is_during_call=False, as_of="5").with_after(asked, None, books())
    assert screening.with_late([asked, early, late], books()).skipped == {"uid-q"}
    known = Screening(is_known=True).again(is_during_call=False, as_of="5")
    assert known.with_late([early], books()).skipped == frozenset()


def test_pod_that_lacks_devices_while_nobody_calls_may_have_been_skipped() -> None:
    one = pod("p")
    begun = Screening().again(is_during_call=False)
    assert screen(begun, (one, record(one)), after=True).skipped == {"uid-p"}


def test_kubelet_that_knew_the_resource_need_not_be_asked_twice() -> None:
    one, ended, served = pod("p"), replace(pod("e"), phase="Failed"), pod("s")
    pods = index_pods([one, ended, served])
    ledger = replace(books(("uid-s", "main", "d")), checkpointed_pods={PodUid("uid-s"): frozenset({"main"})})
    assert list(Screening().list_unasked(pods, ledger)) == [one]
    assert list(screen(Screening(), (one, None)).list_unasked(pods, ledger)) == [one]
    assert list(screen(Screening(is_known=True), (one, None)).list_unasked(pods, ledger)) == []


def test_devices_that_another_kubelet_recorded_do_not_tell_that_a_pod_was_not_skipped() -> None:
    one, rejected = pod("p"), books(("uid-p", "main", "d"))
    assert list(Screening().list_unasked(index_pods([one]), rejected)) == [one]
    assert Screening().with_before(one, record(one), rejected).skipped == {"uid-p"}
    assert Screening().with_before(one, record(one, main="d"), rejected).skipped == frozenset()


def test_pod_that_is_shown_with_some_of_its_devices_was_not_skipped() -> None:
    one = pod("p", container("first"), container("second"))
    assert Screening().with_before(one, record(one, first="d"), books()).skipped == frozenset()


def test_pod_with_statuses_need_not_be_asked_for() -> None:
    pulling = replace(pod("p"), statuses={"main": ContainerStatus("waiting")})
    assert list(Screening().list_unasked(index_pods([pulling]), books())) == []


def test_pod_that_the_kubelet_has_not_reached_is_passed_over() -> None:
    old, new = pod("old", version=1), pod("new", version=2)
    world = World(shows(record(old)))
    assert owner_of(world.resolve(evidence(old, new))) == ("uid-old", "main")


def test_pod_being_deleted_is_admitted_too_but_asked_for_last() -> None:
    doomed, other = replace(pod("doomed", version=9), deleted_s=1.0), pod("other")
    world = World(shows(record(doomed)))
    assert owner_of(world.resolve(evidence(doomed, other))) == ("uid-doomed", "main")
    assert world.asked == [AskShown(("ns", "other")), AskShown(("ns", "doomed"))]


def test_another_number_of_devices_is_another_pod() -> None:
    one, two = pod("one", container("main", 1), version=2), pod("two", container("main", 2))
    world = World(shows(record(two)))
    assert owner_of(world.resolve(evidence(one, two, size=2))) == ("uid-two", "main")
    assert world.asked == [AskShown(("ns", "two"))]


def test_containers_are_served_in_the_order_of_the_spec() -> None:
    one = pod("p", container("a"), container("b"), init=[container("init"), container("side", sidecar=True)])
    given: dict[str, str] = {}
    entries: list[tuple[str, str, str]] = []
    for name in ("init", "side", "a", "b"):
        step = World(shows(record(one, **given))).resolve(evidence(one, ledger=books(*entries)))
        assert owner_of(step) == ("uid-p", name)
        entries.append(("uid-p", name, f"d-{name}"))
        if name != "init":
            given[name] = f"d-{name}"


def test_container_that_asks_for_nothing_is_passed_over() -> None:
    one = pod("p", container("a", 0), container("b"))
    assert owner_of(World(shows(record(one))).resolve(evidence(one))) == ("uid-p", "b")


def test_devices_of_another_resource_do_not_count() -> None:
    one = pod("p", Container("main", limits={R: 1, OTHER: 1}))
    shown = PodRecord("ns", "p", (ContainerRecord("main", {OTHER: frozenset({"all"})}),))
    assert owner_of(World(shows(shown)).resolve(evidence(one))) == ("uid-p", "main")


def test_answer_the_kubelet_did_not_take_is_given_again() -> None:
    one = pod("p")
    ledger = books().with_answer(
        InFlight("t", frozenset({DeviceId("d")}), ContainerKey(PodUid("uid-p"), "main"), one.key)
    )
    assert owner_of(World(shows(record(one))).resolve(evidence(one, ledger=ledger))) == ("uid-p", "main")


def test_pod_with_all_its_devices_is_nobodys_question() -> None:
    one = pod("p")
    world = World(shows(record(one, main="d")), api=[one])
    assert doubt_of(world.resolve(evidence(one))) is Doubt.NOBODY


def test_running_pod_with_all_its_devices_is_not_even_asked_for() -> None:
    old, new = running(pod("old")), pod("new", version=2)
    world = World(shows(record(new)))
    step = world.resolve(evidence(old, new, ledger=books(("uid-old", "main", "d"))))
    assert owner_of(step) == ("uid-new", "main")
    assert world.asked == [AskShown(("ns", "new"))]


def test_restart_in_place_and_resize_make_no_candidate() -> None:
    restarted = running(pod("r"))
    resized = replace(
        running(pod("z")),
        statuses={"main": replace(RUNNING, restarts=3, allocated={"cpu": 2}, actuated={"cpu": 1})},
    )
    ledger = books(("uid-r", "main", "d"), ("uid-z", "main", "e"))
    world = World(api=[restarted, resized])
    assert doubt_of(world.resolve(evidence(restarted, resized, ledger=ledger))) is Doubt.NOBODY
    assert world.asked == [ReadPods(after_s=0)]


def test_ended_pod_is_no_candidate() -> None:
    one = replace(pod("p"), phase="Failed")
    world = World(shows(record(one)), api=[one])
    assert doubt_of(world.resolve(evidence(one))) is Doubt.NOBODY


def test_pod_we_turned_away_is_no_candidate() -> None:
    one = pod("p")
    known = replace(evidence(one), admissions=Admissions(turned_away=frozenset({PodUid("uid-p")})))
    assert doubt_of(World(shows(record(one)), api=[one]).resolve(known)) is Doubt.NOBODY


def test_id_that_another_pod_holds_does_not_disturb() -> None:
    one = pod("p")
    ledger = books(("uid-q", "main", "d"), ("uid-r", "main", "d"))
    assert owner_of(World(shows(record(one))).resolve(evidence(one, ledger=ledger))) == ("uid-p", "main")


# A watch that lags, names that come again, an API server that is away.


def test_pod_the_watch_has_not_delivered_is_read() -> None:
    one = pod("p")
    world = World(shows(record(one)), api=[one])
    assert owner_of(world.resolve(replace(evidence(), is_watch_current=False))) == ("uid-p", "main")
    assert world.asked == [ReadPods(after_s=0), AskShown(("ns", "p")), FollowWatch(one)]


def test_of_many_that_wait_few_are_asked_for_before_the_watch_is_doubted() -> None:
    waiting = [pod(f"w{number}") for number in range(40)]
    first = pod("first")
    world = World(shows(record(first)), api=[*waiting, first])
    asked = [AskShown(("ns", f"w{number}")) for number in range(GETS_BEFORE_READ)]
    assert owner_of(world.resolve(evidence(*waiting))) == ("uid-first", "main")
    assert world.asked == [*asked, ReadPods(after_s=0), AskShown(("ns", "first")), FollowWatch(first)]


def test_all_that_wait_are_asked_for_where_nobody_can_be_read() -> None:
    waiting = [pod(f"w{number}") for number in range(40)]
    world = World(shows(record(waiting[-1])), api=None)
    assert owner_of(world.resolve(evidence(*waiting))) == ("uid-w39", "main")
    assert Counter(map(type, world.asked)) == {AskShown: 40, ReadPods: 1}


def test_newer_pod_of_the_same_name_is_not_taken_for_the_one_we_know() -> None:
    old = pod("db-0", uid="old", owner=STATEFUL_SET)
    new = replace(old, uid="new")
    world = World(shows(record(new)), api=[new], watch=[replace(old, phase="Succeeded")])
    assert owner_of(world.resolve(replace(evidence(old), is_watch_current=False))) == ("new", "main")
    assert world.asked == [AskShown(("ns", "db-0")), ReadPod(("ns", "db-0")), FollowWatch(new)]


def test_pod_that_was_read_is_believed_once_the_watch_has_shown_who_had_its_name() -> None:
    former, new = pod("db-0", uid="former"), pod("db-0", uid="new")
    unknown = replace(evidence(), is_watch_current=False)
    shown = shows(record(former))
    assert doubt_of(World(shown, api=[new], watch=None).resolve(unknown)) is Doubt.UNVERIFIED
    assert doubt_of(World(shown, api=[new], watch=[former]).resolve(unknown)) is Doubt.SEVERAL
    ended = replace(former, phase="Failed")
    assert owner_of(World(shown, api=[new], watch=[ended]).resolve(unknown)) == ("new", "main")
    assert owner_of(World(shown, api=[new], watch=[]).resolve(unknown)) == ("new", "main")


def test_pod_whose_name_does_not_recur_is_believed_though_the_watch_is_behind() -> None:
    one = pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    world = World(shows(record(one)), api=[one], watch=None)
    step = world.resolve(replace(evidence(), is_watch_current=False))
    assert owner_of(step) == ("uid-web-5d9f-x7k2p", "main")


def test_pod_that_nobody_can_verify_does_not_hide_one_that_is_shown_for_certain() -> None:
    one, other = pod("db-0"), pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    world = World(shows(record(one), record(other)), api=None)
    step = world.resolve(replace(evidence(one, other), is_watch_current=False))
    assert owner_of(step) == ("uid-web-5d9f-x7k2p", "main")


def test_mirror_is_not_taken_for_the_pod_that_the_watch_shows_to_be_deleted() -> None:
    former, new = pod("db-0", uid="former"), pod("db-0", uid="new")
    said = {"kubernetes.io/config.mirror": "former"}
    forged = replace(pod("forged"), annotations=said)
    world = World(shows(record(former)), api=[new, forged], watch=[former])
    assert doubt_of(world.resolve(evidence())) is Doubt.SEVERAL


def test_deleted_pod_that_lacks_devices_may_be_starting_still() -> None:
    gone, new = running(pod("gone")), pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    known = replace(evidence(new), deleted=index_pods([gone]))
    step = World(shows(record(new)), api=[new]).resolve(known)
    assert doubt_of(step) is Doubt.RIVAL
    assert isinstance(step, NoProof)
    assert "gone or ending" in step.reason


@pytest.mark.parametrize(
    "gone",
    [
        replace(running(pod("gone")), phase="Succeeded"),
        running(pod("gone", container("main", 2))),
        pod("gone"),
    ],
)
def test_deleted_pod_that_ended_or_asks_another_number_or_was_not_admitted_is_no_rival(gone: Pod) -> None:
    new = pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    known = replace(evidence(new), deleted=index_pods([gone]))
    assert owner_of(World(shows(record(new)), api=[new]).resolve(known)) == ("uid-web-5d9f-x7k2p", "main")


def test_deleted_pod_whose_devices_were_freed_is_a_rival_by_what_it_never_had() -> None:
    gone, new = running(pod("gone", container("a"), container("b"))), pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    uid = PodUid("uid-gone")
    part = replace(
        evidence(new), deleted=index_pods([gone]), ledger=replace(books(), freed={uid: frozenset({"a"})})
    )
    whole = replace(part, ledger=replace(books(), freed={uid: frozenset({"a", "b"})}))
    assert doubt_of(World(shows(record(new)), api=[new]).resolve(part)) is Doubt.RIVAL
    assert owner_of(World(shows(record(new)), api=[new]).resolve(whole)) == ("uid-web-5d9f-x7k2p", "main")


def test_current_watch_needs_no_read() -> None:
    one = pod("db-0", owner=STATEFUL_SET)
    world = World(shows(record(one)), api=None)
    assert owner_of(world.resolve(evidence(one))) == ("uid-db-0", "main")


def test_generated_name_needs_no_read() -> None:
    one = pod("web-5d9f-x7k2p", owner=REPLICA_SET)
    world = World(shows(record(one)), api=None)
    step = world.resolve(replace(evidence(one), is_watch_current=False))
    assert owner_of(step) == ("uid-web-5d9f-x7k2p", "main")


@pytest.mark.parametrize("name", ["db-22224", "web-abcde", "web"])
def test_name_that_only_looks_generated_is_read(name: str) -> None:
    one = pod(name, owner=STATEFUL_SET)
    world = World(shows(record(one)), api=[one])
    world.resolve(replace(evidence(one), is_watch_current=False))
    assert ReadPod(("ns", name)) in world.asked


def test_name_that_cannot_be_verified_is_no_proof() -> None:
    one = pod("db-0", owner=STATEFUL_SET)
    world = World(shows(record(one)), api=None)
    assert doubt_of(world.resolve(replace(evidence(one), is_watch_current=False))) is Doubt.UNVERIFIED


def test_nobody_is_found_while_the_api_server_is_away() -> None:
    assert doubt_of(World(api=None).resolve(evidence())) is Doubt.NOBODY


def test_what_is_shown_under_the_name_may_be_another_pod_by_its_containers() -> None:
    known, real = pod("p", container("main")), pod("p", container("worker"), uid="new")
    world = World(shows(record(real)), api=[real])
    assert owner_of(world.resolve(evidence(known))) == ("new", "worker")


def test_what_is_shown_under_the_name_may_be_another_pod_by_its_devices() -> None:
    known = pod("p", container("a"), container("b"))
    real = replace(known, uid="new")
    world = World(shows(record(real)), api=[real], watch=[replace(known, phase="Succeeded")])
    step = world.resolve(evidence(known, ledger=books(("uid-p", "a", "d"))))
    assert owner_of(step) == ("new", "a")


# What plain init containers have is in the books or nowhere.


def test_checkpoint_is_read_where_an_answer_was_given_to_nobody_known() -> None:
    one = pod("p", container("main"), init=[container("init")])
    ledger = books().with_answer(InFlight("t", frozenset({DeviceId("d")})))
    world = World(shows(record(one)), checkpointed=books(("uid-p", "init", "d")))
    assert owner_of(world.resolve(evidence(one, ledger=ledger))) == ("uid-p", "main")
    assert world.asked[0] == AskCheckpoint()


def test_checkpoint_is_not_read_where_nobody_has_init_containers() -> None:
    one = pod("p")
    world = World(shows(record(one)))
    assert owner_of(world.resolve(evidence(one, ledger=books(has_checkpoint=False)))) == ("uid-p", "main")
    assert AskCheckpoint() not in world.asked


def test_unreadable_checkpoint_leaves_containers_of_one_size_in_doubt() -> None:
    one = pod("p", container("main"), init=[container("init")])
    world = World(shows(record(one)))
    assert doubt_of(world.resolve(evidence(one, ledger=books(has_checkpoint=False)))) is Doubt.CONTAINER


def test_unreadable_checkpoint_does_not_matter_where_sizes_differ() -> None:
    one = pod("p", container("main", 2), init=[container("init", 1)])
    world = World(shows(record(one)))
    step = world.resolve(evidence(one, size=2, ledger=books(has_checkpoint=False)))
    assert owner_of(step) == ("uid-p", "main")


def test_agent_that_restarted_in_the_middle_of_a_pod_goes_on_from_the_checkpoint() -> None:
    one = pod("p", container("main"), init=[container("init")])
    world = World(shows(record(one)))
    assert owner_of(world.resolve(evidence(one, ledger=books(("uid-p", "init", "d"))))) == ("uid-p", "main")


# Calls that belong to no admission.


def test_started_container_the_kubelet_has_no_devices_for_is_found_by_exclusion() -> None:
    one = running(pod("p", container("a"), container("b")))
    world = World(shows(record(one, a="d")), api=[one])
    step = world.resolve(evidence(one, ledger=books(("uid-p", "a", "d"))))
    assert owner_of(step) == ("uid-p", "b")
    assert isinstance(step, Match)
    assert not step.proof.is_exact


def test_forgotten_pod_is_a_rival_of_every_pod_that_asks_the_same() -> None:
    forgotten, new = running(pod("forgotten")), pod("new", version=2)
    world = World(shows(record(forgotten), record(new)))
    step = world.resolve(evidence(forgotten, new))
    assert doubt_of(step) is Doubt.RIVAL
    assert isinstance(step, NoProof)
    assert "ns/forgotten" in step.reason


def test_forgotten_pod_of_another_size_is_no_rival() -> None:
    forgotten, new = running(pod("forgotten", container("main", 2))), pod("new", version=2)
    world = World(shows(record(forgotten), record(new)))
    assert owner_of(world.resolve(evidence(forgotten, new))) == ("uid-new", "main")


def test_pod_that_has_gone_is_no_rival_by_the_name_another_has_now() -> None:
    init = [container("init")]
    gone, heir = running(pod("db-0", init=init, uid="gone")), running(pod("db-0", init=init, uid="heir"))
    new = pod("web-5d9f-x7k2p", version=2, owner=REPLICA_SET)
    ledger = books(("heir", "init", "d"), ("heir", "main", "d"))
    ended = replace(gone, phase="Failed")
    world = World(shows(record(heir, main="d"), record(new)), api=[heir, new], watch=[ended])
    step = world.resolve(replace(evidence(gone, new, ledger=ledger), is_watch_current=False))
    assert owner_of(step) == ("uid-web-5d9f-x7k2p", "main")


def test_pod_older_than_the_resource_is_a_rival_though_it_has_not_started() -> None:
    old, new = pod("old"), pod("new", version=2)
    known = replace(evidence(old, new), admissions=Admissions(skipped=frozenset({PodUid("uid-old")})))
    assert doubt_of(World(shows(record(old), record(new))).resolve(known)) is Doubt.RIVAL


def test_what_a_resource_claim_serves_is_never_asked_for_here() -> None:
    claimed = replace(pod("claimed"), claimed_resources=frozenset({("main", R)}))
    other = pod("other", version=2)
    world = World(shows(record(claimed), record(other)), api=[claimed, other])
    assert owner_of(world.resolve(evidence(claimed, other))) == ("uid-other", "main")
    assert world.asked == [AskShown(("ns", "other"))]
    assert doubt_of(World(shows(record(claimed)), api=[claimed]).resolve(evidence(claimed))) is Doubt.NOBODY


def test_claim_for_another_container_does_not_count() -> None:
    one = replace(pod("p", container("a"), container("b")), claimed_resources=frozenset({("a", R)}))
    assert owner_of(World(shows(record(one))).resolve(evidence(one))) == ("uid-p", "b")


def test_pod_whose_containers_have_statuses_is_past_its_admission() -> None:
    pulling = replace(pod("pulling"), statuses={"main": ContainerStatus("waiting")})
    new = pod("new")
    assert doubt_of(World(shows(record(pulling), record(new))).resolve(evidence(pulling, new))) is Doubt.RIVAL


def test_static_pod_is_not_provable() -> None:
    mirror = replace(pod("etcd-node"), annotations={"kubernetes.io/config.mirror": "hash"})
    assert doubt_of(World(shows(record(mirror)), api=[]).resolve(evidence())) is Doubt.NOBODY
    assert doubt_of(World(shows(record(mirror)), api=[mirror]).resolve(evidence(mirror))) is Doubt.STATIC


# Kubernetes before 1.34: pods that were turned away stay visible.


def test_only_pod_that_lacks_devices_is_the_one() -> None:
    full, one = running(pod("full")), pod("p")
    world = World(shows(record(full, main="d"), record(one)), api=[full, one])
    step = world.resolve(before_134(ledger=books(("uid-full", "main", "d"))))
    assert owner_of(step) == ("uid-p", "main")
    assert isinstance(step, Match)
    assert step.proof is Proof.SOLE
    assert world.asked == [AskAllShown(), ReadPods(after_s=0)]


def test_pod_that_was_turned_away_drops_out_once_the_api_server_knows() -> None:
    turned_away, one = pod("t"), pod("p")
    ended = replace(turned_away, phase="Failed")
    world = World(
        shows(record(turned_away), record(one)), [turned_away, one], [[turned_away, one], [ended, one]]
    )
    assert owner_of(world.resolve(before_134())) == ("uid-p", "main")
    assert world.asked[1:] == [ReadPods(0), ReadPods(0.05), ReadPods(0.15)]


def test_two_pods_that_lack_devices_for_long_are_no_proof() -> None:
    one, two = pod("one"), pod("two")
    world = World(shows(record(one), record(two)), [one, two])
    step = world.resolve(before_134())
    assert doubt_of(step) is Doubt.SEVERAL
    assert len(world.asked) == 5
    assert isinstance(step, NoProof)
    assert "ns/one, ns/two" in step.reason


def test_refusals_of_another_kubelet_would_prove_the_wrong_one_before_134() -> None:
    again, other = pod("again"), pod("other")
    world = World(shows(record(again), record(other)), [again, other])
    of_this_kubelet = Admissions(turned_away=frozenset({PodUid("uid-again")}))
    step = world.resolve(replace(before_134(), admissions=of_this_kubelet))
    assert owner_of(step) == ("uid-other", "main")
    assert isinstance(step, Match)
    assert step.proof is Proof.SOLE
    # A kubelet that starts asks for both anew, if the API server had not learnt of the refusal.
    begun_anew = Admissions(listed=frozenset({PodUid("uid-again"), PodUid("uid-other")}))
    assert doubt_of(world.resolve(replace(before_134(), admissions=begun_anew))) is Doubt.SEVERAL


def test_pod_only_the_kubelet_knows_is_no_proof_for_another() -> None:
    one, stranger = pod("p"), pod("static-node")
    world = World(shows(record(one), record(stranger)), [one])
    assert doubt_of(world.resolve(before_134())) is Doubt.STRANGER


def test_deleted_pod_the_kubelet_still_shows_is_judged_by_what_it_was() -> None:
    one, gone = pod("p"), pod("gone", container("main", 2))
    world = World(shows(record(one), record(gone)), [one])
    assert owner_of(world.resolve(before_134(gone))) == ("uid-p", "main")
    same = pod("gone")
    world = World(shows(record(one), record(same)), [one])
    assert doubt_of(world.resolve(before_134(same))) is Doubt.SEVERAL


def test_sidecar_that_old_kubelets_do_not_list_does_not_make_it_another_pod() -> None:
    one = pod("p", container("main"), init=[container("side", 0, sidecar=True)])
    shown = PodRecord("ns", "p", (ContainerRecord("main", {}),))
    assert owner_of(World(shows(shown), [one]).resolve(before_134())) == ("uid-p", "main")


def test_api_server_that_is_away_is_no_proof_before_134() -> None:
    one = pod("p")
    assert doubt_of(World(shows(record(one)), None).resolve(before_134(one))) is Doubt.UNVERIFIED


def test_get_that_shows_turned_away_pods_gives_no_exact_proof() -> None:
    one = pod("p")
    world = World(shows(record(one)), [one])
    step = world.resolve(replace(evidence(one), podresources=Podresources.GET_ALL))
    assert owner_of(step) == ("uid-p", "main")
    assert isinstance(step, Match)
    assert not step.proof.is_exact
    assert AskAllShown() not in world.asked
