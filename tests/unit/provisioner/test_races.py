"""What must come of races between the provisioner, the provider and people, one by one.

| race | test |
|---|---|
| a crash after the create, before anything is written | test_a_pool_that_is_there_is_gone_on_with |
| a crash after the status, before the create | test_what_is_written_is_asked_for_by_that_name |
| the answer to a create is lost; a list lags | test_an_answer_that_is_lost_leaves_it_to_the_list |
| two leaders for a moment | test_deciding, with two leaders |
| the old pool is still being deleted | test_a_pool_that_goes_holds_up_no_other |
| the owner goes while the pool is made | test_an_owner_that_goes_early_leaves_nothing |
| an owner is made anew under its name | integration: test_a_job_set_made_anew_under_its_name_… |
| an owner is back between release and deletion | test_an_owner_that_is_back_has_its_nodes_opened_again |
| the provider repairs or upgrades a pool | test_a_pool_at_which_the_provider_works_is_not_lost |
| a list lacks a pool, or says for a moment that it failed | test_one_list_that_speaks_against_a_pool_… |
| a lost machine comes back after its time | test_a_lost_machine_that_comes_back_while_pods_run_… |
| somebody deletes a pool, takes machines or its marks | test_what_somebody_takes_away_is_replaced |
| somebody edits a Node's labels | test_labels_are_put_back_on_that_node, and only a few times a minute |
| the pool's name is taken by another's | test_a_name_that_another_pool_has_is_told_and_another_is_taken |
| two JobSets make a Job of one name | integration: test_of_two_job_sets_that_make_a_job_of_one_name_… |
| a Node's name is another machine's | test_a_new_machine_under_an_old_name_is_closed_first |
| a booking goes while nodes join, or after a week | integration: test_bookings |
| the clock jumps | test_deciding: test_clocks_that_jump_…, test_what_a_slice_waits_for_is_not_put_off_… |
| accelet is gone, its finalizer is not | integration: test_a_slice_can_be_forgotten_and_its_pool_stays |
| the cloud forbids a pool for a while | test_a_refusal_that_… |
| the cloud forbids the deletion of a pool | test_a_pool_that_the_provider_does_not_delete_… |
| the cloud makes or deletes a pool without end | test_a_provider_that_… |
| the provider hangs for an hour | test_operations, test_deciding, integration: test_gke |
"""

import random
from dataclasses import replace
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.control.errors import UnkeptStatusError
from accelet.control.writer import FencedWriter
from accelet.kinds.slicerequest import Phase
from accelet.kube.apiresources import ObjectApi
from accelet.kube.client import Client
from accelet.kube.nodes import Node, parse_node
from accelet.provisioner.deciding.attempts import after_create
from accelet.provisioner.deciding.decide import decide
from accelet.provisioner.deciding.losing import judge_pool
from accelet.provisioner.deciding.retire import after_delete
from accelet.provisioner.deciding.view import (
    Close,
    Create,
    Delete,
    Open,
    SliceNode,
    SliceRecord,
    SlicesView,
)
from accelet.provisioner.demand.owners import parse_job
from accelet.provisioner.demand.requests import spec_of
from accelet.provisioner.demand.slices import derive_slices
from accelet.provisioner.nodes import REBINDINGS, Rebindings, is_stuck
from accelet.provisioner.pools.pool import Failure, NodePool, PoolList, PoolState, Trouble
from accelet.provisioner.record import parse_request
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState
from accelet.provisioner.writer import SliceWriter
from tests.unit.provisioner.manifests import job
from tests.unit.provisioner.world import HOSTS, TIMES, SimPool, World

UID, LAG_S = "one-0", 60.0


def _turn(world: World, seconds: float = 0.0) -> None:
    for uid in list(world.requests):
        for _ in range(3):
            if uid in world.requests:
                world.act(world.think(uid))
    world.pass_time(seconds)


def _world(phase: str) -> World:
    """One slice, run until it is in this phase."""
    world = World(random.Random(3))
    world.ask("one")
    for _ in range(1000):
        if world.requests[UID].record.phase == phase:
            return world
        world.act(world.think(UID))
        world.pass_time(1.0)
    raise AssertionError(f"it never was {phase}")


def _view(world: World) -> SlicesView:
    return world.view(world.requests[UID])


def _pool(world: World) -> SimPool:
    return world.pools[world.requests[UID].record.pool]


def test_a_pool_that_is_there_is_gone_on_with() -> None:
    world = _world("Creating")
    request = world.requests[UID]
    assert not request.record.sent
    world.create(request, request.record)
    while request.record.phase != "Ready":
        _turn(world, 10.0)
    assert request.record.attempt == 1
    assert [pool.mark for pool in world.pools.values() if pool.mark] == [UID]


def test_a_name_that_another_pool_has_is_told_and_another_is_taken() -> None:
    world = _world("Creating")
    taken = world.requests[UID].record.pool
    view = replace(_view(world), listed=PoolList((), world.now_s, foreign=frozenset((taken,))))
    failed = decide(view).record
    assert (failed.phase, failed.why) == ("Failing", f"the pool's name {taken} is taken by another")
    later = replace(view, record=failed, now_s=world.now_s + LAG_S)
    after = decide(replace(later, listed=replace(view.listed, asked_s=later.now_s))).record
    assert after.phase == "Creating"
    assert after.pool != taken


def test_what_is_written_is_asked_for_by_that_name() -> None:
    world = _world("Creating")
    step = decide(_view(world))
    assert step.action == Create()
    assert step.record == world.requests[UID].record
    assert step.record.pool


@pytest.mark.parametrize("trouble", [Trouble.UNKNOWN, Trouble.EXISTS])
def test_an_answer_that_is_lost_leaves_it_to_the_list(trouble: Trouble) -> None:
    view = _view(_world("Creating"))
    asked = after_create(view, view.record, Failure(trouble, "it says nothing of the pool"))
    assert (asked.phase, asked.attempt, asked.pool) == ("Creating", 1, view.record.pool)

    def step_after(seconds: float) -> SlicesView:
        listed = PoolList((), view.now_s + seconds)
        return replace(view, record=asked, listed=listed, now_s=view.now_s + seconds)

    young = decide(step_after(LAG_S - 1.0))
    assert (young.record, young.action) == (asked, None)
    late = decide(step_after(LAG_S))
    again = decide(replace(step_after(LAG_S), record=late.record))
    assert (again.action, again.record.pool, again.record.attempt) == (Create(), asked.pool, 1)


def test_a_pool_that_goes_holds_up_no_other() -> None:
    world = _world("Ready")
    former = _pool(world)
    former.state, former.gone_s = "deleting", world.now_s + 1e6
    for node in world.nodes.values():
        node.pods, node.ready = 0, False
    for _ in range(4):
        world.act(world.think(UID))
        world.pass_time(LAG_S / 2)
    record = world.requests[UID].record
    assert (record.phase, record.attempt) == ("Creating", 2)
    assert record.pool != former.name
    assert former.name in world.pools


def test_an_owner_that_goes_early_leaves_nothing() -> None:
    world = _world("Creating")
    while not world.requests[UID].record.sent:
        world.act(world.think(UID))
    world.requests[UID].unwanted, world.requests[UID].ended = "its owner is gone", True
    states = set[PoolState]()
    for _ in range(1000):
        if not world.requests:
            break
        states.update(pool.state for pool in world.pools.values() if pool.mark)
        _turn(world, 5.0)
    assert states >= {"creating", "deleting"}, "deletion was refused while it was made"
    assert set(world.pools) == {"foreign"}


def test_an_owner_that_is_back_has_its_nodes_opened_again() -> None:
    world = _world("Ready")
    pool = _pool(world).name
    world.requests[UID].unwanted = "it is suspended"
    for node in world.nodes.values():
        node.pods = 0
    while not all(node.closed_s for node in world.nodes.values() if node.pool == pool):
        _turn(world, 1.0)
    world.requests[UID].unwanted = None
    while world.requests[UID].record.phase != "Ready":
        _turn(world, 1.0)
    assert world.requests[UID].record.pool == pool
    assert all(node.open and node.closed_s is None for node in world.nodes.values() if node.pool == pool)
    assert world.creates == 1


@pytest.mark.parametrize("phase", ["Creating", "Joining", "Ready"])
def test_a_pool_at_which_the_provider_works_is_not_lost(phase: str) -> None:
    world = _world(phase)
    while not any(pool.mark for pool in world.listed()):
        _turn(world, 1.0)
    before = world.requests[UID].record
    _pool(world).state = "busy"
    step = decide(_view(world))
    assert (step.record.pool, step.record.attempt) == (before.pool, before.attempt)
    assert step.record.phase not in ("Failing", "Releasing")


def _decide_until(view: SlicesView, listed: PoolList, seconds: float) -> SliceRecord:
    """What is decided once the lists have said this for so long."""
    until_s = view.now_s + seconds
    while True:
        seen = replace(view, listed=replace(listed, asked_s=view.now_s))
        view = replace(seen, record=decide(seen).record)
        if view.now_s >= until_s:
            return view.record
        view = replace(view, now_s=min(until_s, view.now_s + 10.0))


_AGAINST = ("absent", "failed", "deleting")


def _saying(view: SlicesView, word: str) -> PoolList:
    """A list that speaks against the slice's pool in this way."""
    assert view.pool is not None
    states: dict[str, PoolState] = {"failed": "failed", "deleting": "deleting"}
    return PoolList(() if word == "absent" else (replace(view.pool, state=states[word]),), view.now_s)


@pytest.mark.parametrize("word", _AGAINST)
@pytest.mark.parametrize("phase", ["Joining", "Joined", "Ready", "Repairing"])
def test_one_list_that_speaks_against_a_pool_ends_nothing(phase: Phase, word: str) -> None:
    view = _view(_world("Ready"))
    view = replace(view, record=view.record.enter(phase, "as it may be", view.now_s, tried=1))
    nodes = view.nodes if phase != "Repairing" else view.nodes[1:]
    against = decide(replace(view, listed=_saying(view, word), nodes=nodes))
    assert (against.record.phase, against.record.pool) == (phase, view.record.pool)
    assert against.record.doubted_s == view.now_s
    again = replace(view, record=against.record, now_s=view.now_s + 10.0, nodes=nodes)
    healed = _decide_until(again, view.listed, 10.0)
    assert healed.doubted_s == 0.0
    assert healed.phase not in ("Failing", "Releasing")


@pytest.mark.parametrize("word", _AGAINST)
def test_a_pool_is_not_lost_while_all_of_its_machines_are_ready(word: str) -> None:
    view = _view(_world("Ready"))
    kept = _decide_until(view, _saying(view, word), 86_400.0)
    assert (kept.phase, kept.pool, kept.attempt) == ("Ready", view.record.pool, 1)
    assert kept.doubt.endswith("; all of its machines are Ready, so that it is kept")
    lost = replace(view.nodes[0], is_ready=False)
    later = replace(view, record=kept, now_s=view.now_s + 86_400.0, nodes=(lost, *view.nodes[1:]))
    gone = _decide_until(later, _saying(view, word), 0.0)
    assert gone.phase == "Failing"


@pytest.mark.parametrize("phase", ["Joining", "Joined"])
def test_a_slice_whose_pool_is_never_listed_again_is_not_held_for_ever(phase: Phase) -> None:
    view = _view(_world("Ready"))
    view = replace(view, record=view.record.enter(phase, "as it may be", view.now_s, tried=1))
    ended = _decide_until(view, PoolList((), 0.0), 3600.0)
    assert ended.phase not in ("Joining", "Joined", "Ready")


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0.0, 100.0)), max_size=40))
def test_a_pool_is_lost_only_after_the_lists_have_said_so_for_the_lag(
    said: list[tuple[bool, bool, float]],
) -> None:
    view = _view(_world("Ready"))
    against_since_s: float | None = None
    for is_against, is_ready, pause_s in said:
        listed = replace(_saying(view, "absent") if is_against else view.listed, asked_s=view.now_s)
        against_since_s = (against_since_s or view.now_s) if is_against else None
        nodes = tuple(replace(node, is_ready=is_ready) for node in view.nodes)
        seen = replace(view, listed=listed, nodes=nodes)
        record, lost = judge_pool(seen)
        is_old = against_since_s is not None and view.now_s - against_since_s >= LAG_S
        assert bool(lost) == (is_old and not is_ready)
        view = replace(view, record=record, now_s=view.now_s + pause_s)


def test_what_somebody_takes_away_is_replaced() -> None:
    world = _world("Ready")
    view = _view(world)
    pool = view.record.pool
    gone = _decide_until(replace(view, nodes=()), PoolList((), 0.0), LAG_S)
    assert (gone.phase, gone.why) == ("Failing", f"the pool {pool} is gone")
    fewer = decide(replace(view, nodes=view.nodes[1:]))
    assert (fewer.record.phase, fewer.record.why) == (
        "Repairing",
        f"{HOSTS - 1}/{HOSTS} of its machines are there",
    )
    unmarked = PoolList((), view.now_s, frozenset({pool}))
    view = replace(view, listed=unmarked, nodes=())
    for _ in range(5):
        step = decide(view)
        assert not isinstance(step.action, Delete), "it is not ours any more"
        view = replace(
            view,
            record=step.record,
            now_s=view.now_s + LAG_S,
            listed=replace(unmarked, asked_s=view.now_s + LAG_S),
        )
    assert (view.record.phase, view.record.attempt) == ("Creating", 2)
    assert view.record.pool != pool


def _lost(world: World) -> SliceNode:
    """Has a machine of the running slice lost for longer than it may; its pods run on at the others."""
    lost = next(iter(world.nodes.values()))
    lost.ready = False
    while world.requests[UID].record.phase != "Failing":
        _turn(world, 60.0)
    return next(node for node in _view(world).nodes if node.name == lost.name)


def test_a_lost_machine_that_comes_back_while_pods_run_has_its_slice_taken_back() -> None:
    world = _world("Ready")
    _turn(world, 1.0)
    lost, before = _lost(world), world.requests[UID].record
    _turn(world, 600.0)
    assert not any(node.open for node in world.nodes.values())

    world.nodes[lost.name].ready = True
    _turn(world, 1.0)

    record = world.requests[UID].record
    assert (record.phase, record.pool, record.attempt) == ("Ready", before.pool, 1)
    assert all(node.open and node.pods for node in world.nodes.values())


def test_a_slice_is_not_taken_back_that_was_given_up_for_its_set() -> None:
    view = _view(_world("Ready"))
    for why in ("its set found no spot capacity and goes on", "its set came no nearer to being whole"):
        joined = view.record.enter("Joined", "waits for its set", view.now_s)
        record = joined.enter("Failing", why, view.now_s)
        assert decide(replace(view, record=record)).record.phase == "Failing"


def test_nor_is_one_whose_pool_the_provider_may_be_deleting_already() -> None:
    view = _view(_world("Ready"))
    closed = tuple(replace(node, is_open=False, closed_s=view.now_s - 60.0, pods=()) for node in view.nodes)
    asked = view.record.enter("Failing", "a machine was lost", view.now_s, tried=0, asked_end_s=view.now_s)
    step = decide(replace(view, record=asked, nodes=closed))
    assert (step.record.phase, step.action) == ("Failing", Delete(asked.pool, tuple(n.name for n in closed)))
    wanted_again = replace(asked, phase="Releasing")
    assert decide(replace(view, record=wanted_again, nodes=closed)).record.phase == "Releasing"
    later = replace(view, now_s=view.now_s + 2 * LAG_S, record=wanted_again, nodes=closed)
    taken_back = decide(replace(later, listed=replace(view.listed, asked_s=later.now_s)))
    assert taken_back.record.phase == "Creating", "the deletion was refused, and it is there still"


def test_the_pods_that_keep_a_lost_slice_are_named() -> None:
    world = _world("Ready")
    _turn(world, 1.0)
    _lost(world)
    _turn(world, 61.0)
    _turn(world)
    record = world.requests[UID].record
    assert record.staying == "waits for pods to end: ns/p, ns/p"
    many = tuple(f"ml/p-{number}" for number in range(7))
    view = _view(world)
    nodes = (replace(view.nodes[0], pods=many), *(replace(node, pods=()) for node in view.nodes[1:]))
    told = decide(replace(view, nodes=nodes)).record.staying
    assert told == "waits for pods to end: ml/p-0, ml/p-1, ml/p-2 and 4 more"
    for node in world.nodes.values():
        node.pods = 0
    _turn(world)
    assert world.requests[UID].record.staying == ""


@pytest.mark.parametrize("evict_s", [None, 0.0, 600.0])
def test_pods_on_a_lost_slice_are_evicted_only_as_the_settings_say(evict_s: float | None) -> None:
    world = _world("Ready")
    _turn(world, 1.0)
    world.times = replace(world.times, evict_s=evict_s)
    _lost(world)
    lost_s = world.requests[UID].record.since_s
    while any(node.pods for node in world.nodes.values()) and world.now_s < lost_s + 7200.0:
        _turn(world, 30.0)
    if evict_s is None:
        assert world.now_s >= lost_s + 7200.0
        return
    assert evict_s <= world.now_s - lost_s <= evict_s + 120.0
    while world.requests[UID].record.phase != "Ready":
        assert world.now_s < lost_s + 7200.0
        _turn(world, 30.0)
    assert world.requests[UID].record.attempt == 2


def test_the_pods_of_a_slice_that_nobody_wants_are_not_evicted() -> None:
    world = _world("Ready")
    _turn(world, 1.0)
    world.times = replace(world.times, evict_s=0.0)
    world.requests[UID].unwanted = "its owner is gone"
    for _ in range(100):
        _turn(world, 60.0)
    assert all(node.pods for node in world.nodes.values())


@given(
    st.none() | st.floats(0.0, 2e9), st.sampled_from(("True", "False", "Unknown", "gone")), st.floats(0, 2e9)
)
def test_a_pod_keeps_its_node_unless_it_is_past_its_grace_where_no_kubelet_is(
    end_s: float | None, ready: str, now_s: float
) -> None:
    node = None
    if ready != "gone":
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        node = parse_node({"metadata": {"name": "n"}, "spec": {}, "status": status})
    if is_stuck(end_s, node, now_s):
        assert end_s is not None
        assert now_s > end_s
        assert ready != "True"
    elif end_s is not None and now_s > end_s + 60.0:
        assert ready == "True"


_MAY_PASS = (
    Failure(Trouble.FORBIDDEN, 'GKE: Required "container.clusters.update" permission(s)'),
    Failure(Trouble.ADDRESSES, "GKE: Cannot find pod range with enough available IPs"),
)


@given(st.sampled_from(_MAY_PASS), st.floats(0.0, TIMES.refused_s - 120.0))
def test_a_refusal_that_passes_moves_a_slice_nowhere(refusal: Failure, lasts_s: float) -> None:
    world = _world("Creating")
    world.refusal, until_s = refusal, world.now_s + lasts_s
    while world.now_s <= until_s:
        _turn(world, 30.0)
        assert (world.phase(UID), world.requests[UID].record.tier) == ("Creating", "spot")
        assert world.requests[UID].record.why == refusal.sentence
    world.refusal = None
    while world.phase(UID) != "Ready":
        assert world.now_s < until_s + 900.0
        _turn(world, 10.0)
    record = world.requests[UID].record
    assert (record.attempt, record.tier, record.zone, record.refused_s) == (1, "spot", "a", 0.0)


@pytest.mark.parametrize("refusal", _MAY_PASS, ids=["forbidden", "addresses"])
def test_a_refusal_that_lasts_moves_a_slice_on(refusal: Failure) -> None:
    world = _world("Creating")
    world.refusal, began_s, places = refusal, world.now_s, list[tuple[str, str]]()
    while world.phase(UID) != "BackingOff":
        assert world.now_s < began_s + 6 * TIMES.refused_s
        _turn(world, 30.0)
        place = world.requests[UID].record.tier, world.requests[UID].record.zone
        if place not in places:
            assert world.now_s - began_s >= len(places) * TIMES.refused_s
            places.append(place)
    assert places == [("spot", "a"), ("spot", "b"), ("on-demand", "a"), ("on-demand", "b")]
    assert world.creates < 4 * 40, "it is not asked without end"


@pytest.mark.parametrize("refusal", _MAY_PASS, ids=["forbidden", "addresses"])
def test_a_pool_that_failed_by_what_may_pass_is_tried_in_its_place_again(refusal: Failure) -> None:
    view, refused = _view(_world("Creating")), False
    for _ in range(3):
        record = replace(view.record, sent=True, sent_s=view.now_s)
        pool = NodePool(record.pool, UID, "failed", "", record.tier, record.zone, refusal)
        failed = decide(replace(view, record=record, listed=PoolList((pool,), view.now_s))).record
        assert (failed.phase, failed.why) == ("Failing", refusal.sentence)
        now_s = view.now_s + TIMES.refused_s * 0.6
        later = replace(view, record=failed, now_s=now_s, listed=PoolList((), now_s))
        view = replace(later, record=decide(later).record)
        refused = view.record.zone == "b"
        if refused:
            break
        assert (view.record.tier, view.record.zone) == ("spot", "a")
    assert refused, "what lasts is believed"


def _releasing() -> World:
    world = _world("Ready")
    world.requests[UID].unwanted, world.requests[UID].ended = "its owner is gone", True
    for node in world.nodes.values():
        node.pods = 0
    return world


def test_a_pool_that_the_provider_does_not_delete_is_reported_until_it_does() -> None:
    world, forbidden = _releasing(), _MAY_PASS[0]
    world.delete_refusal, asked = forbidden, 0
    for _ in range(600):
        asked += decide(_view(world)).action is not None
        world.act(world.think(UID))
        world.pass_time(1.0)
    record = world.requests[UID].record
    assert (record.phase, record.undeletable) == ("Releasing", forbidden.sentence)
    world.delete_refusal = None
    while _pool(world).state != "deleting":
        _turn(world, 1.0)
    _turn(world)
    assert world.requests[UID].record.undeletable == ""
    for _ in range(200):
        if world.requests:
            _turn(world, 5.0)
    assert set(world.pools) == {"foreign"}


def test_a_refused_deletion_is_asked_for_once_a_minute() -> None:
    view = _view(_world("Ready"))
    closed = tuple(replace(node, is_open=False, closed_s=view.now_s - 60.0, pods=()) for node in view.nodes)
    record = replace(view.record, phase="Releasing", asked_end_s=view.now_s, since_s=view.now_s - 600.0)
    for undeletable, again_s in (("", 10.0), ("GKE: no", 60.0)):
        told = replace(record, undeletable=undeletable)
        step = decide(replace(view, record=told, nodes=closed, unwanted="its owner is gone"))
        assert (type(step.action), step.again_s) == (Delete, again_s)


@given(
    st.none() | st.builds(Failure, st.sampled_from(Trouble), st.just("no")),
    st.floats(0.0, 2 * TIMES.slow_s),
    st.sampled_from(("", "as before")),
)
def test_what_comes_of_a_deletion_is_reported_unless_it_is_soon_over(
    failure: Failure | None, since_s: float, before: str
) -> None:
    view = _view(_world("Ready"))
    record = replace(view.record, phase="Releasing", since_s=view.now_s - since_s, undeletable=before)
    after = after_delete(view, record, failure)
    assert replace(after, undeletable=before) == record
    if failure is None or failure.trouble is Trouble.GONE:
        assert after.undeletable == ""
    elif before:
        assert after.undeletable == before
    elif failure.trouble in (Trouble.BUSY, Trouble.UNKNOWN):
        assert bool(after.undeletable) == (since_s >= TIMES.slow_s)
    else:
        assert after.undeletable == "no"


@pytest.mark.parametrize(("state", "word"), [("creating", "made"), ("busy", "made"), (None, "taken up")])
def test_a_provider_that_makes_a_pool_without_end_is_reported(state: PoolState | None, word: str) -> None:
    view = _view(_world("Creating"))
    record = replace(view.record, sent=True, sent_s=view.now_s, since_s=view.now_s)
    pools = (NodePool(record.pool, UID, state),) if state is not None else ()
    for seconds, is_slow in ((TIMES.slow_s - 1.0, False), (TIMES.slow_s, True), (86_400.0, True)):
        now_s = view.now_s + seconds
        seen = replace(view, record=record, now_s=now_s, listed=PoolList(pools, now_s))
        told = decide(seen).record.slow
        assert bool(told) == is_slow
        if is_slow:
            assert told == f"the provider has not {word} the pool {record.pool} within 30 min"
    runs = PoolList((NodePool(record.pool, UID, "running"),), view.now_s + 86_400.0)
    later = replace(view, record=replace(record, slow="so"), now_s=view.now_s + 86_400.0, listed=runs)
    assert decide(later).record.slow == ""


def test_a_provider_that_deletes_a_pool_without_end_is_reported() -> None:
    world = _releasing()
    while _pool(world).state != "deleting":
        _turn(world, 1.0)
    _pool(world).gone_s = world.now_s + 86_400.0
    pool = _pool(world).name
    _turn(world, TIMES.slow_s)
    _turn(world)
    assert world.requests[UID].record.slow == f"the provider has not deleted the pool {pool} within 30 min"


def test_labels_are_put_back_on_that_node() -> None:
    view = _view(_world("Ready"))
    stripped = replace(view.nodes[0], is_bound=False)
    step = decide(replace(view, nodes=(stripped, *view.nodes[1:])))
    assert (step.record, step.action) == (view.record, Open((stripped.name,)))


@given(st.lists(st.floats(0.0, 30.0), max_size=60))
def test_nodes_are_bound_anew_a_few_times_a_minute(pauses: list[float]) -> None:
    rebindings, now_s, bound = Rebindings(), 0.0, list[float]()
    for pause_s in pauses:
        now_s += pause_s
        wait_s = rebindings.wait_s("a-uid", now_s)
        assert 0.0 <= wait_s <= 60.0
        if wait_s == 0.0:
            rebindings.note("a-uid", now_s)
            bound.append(now_s)
        assert rebindings.wait_s("another", now_s) == 0.0
    assert all(later - former >= 60.0 for former, later in zip(bound, bound[REBINDINGS:], strict=False))


def test_a_new_machine_under_an_old_name_is_closed_first() -> None:
    view = _view(_world("Ready"))
    closed = tuple(replace(node, is_open=False, closed_s=view.now_s - 60.0, pods=()) for node in view.nodes)
    record = replace(
        view.record, phase="Releasing", since_s=view.now_s - 3600.0, asked_end_s=view.now_s - 1.0
    )
    view = replace(view, record=record, unwanted="its owner is gone", nodes=closed)
    assert decide(view).action == Delete(view.record.pool, tuple(node.name for node in closed))
    new = replace(closed[0], closed_s=None)
    assert decide(replace(view, nodes=(new, *closed[1:]))).action == Close((new.name,))


def test_an_answer_about_a_node_takes_nothing_back_that_the_watch_has_told_meanwhile() -> None:
    """A machine that dies while its Node is written: no later news of it may come."""

    def seen(version: str, ready: str) -> Node:
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        metadata = {"name": "n", "uid": "u", "resourceVersion": version, "labels": {"pool": "p"}}
        return parse_node({"metadata": metadata, "spec": {}, "status": status})

    state = ProvisionerState(ProvisionerSettings(version="v1"), "pool")
    state.set_node(seen("9", "True"))
    state.renew_node(seen("10", "True"))
    assert state.nodes["n"].resource_version == "10"
    state.set_node(seen("11", "False"))
    state.renew_node(seen("10", "True"))
    assert not state.nodes["n"].is_ready


async def test_a_status_of_which_the_kind_keeps_only_a_part_is_an_error_and_is_tried_again_later() -> None:
    """The provisioner was brought up to date, and its kind was not."""
    spec = msgspec.to_builtins(spec_of(derive_slices(parse_job(job())).slices[0]))
    metadata = {"name": "one", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
    request = parse_request({"metadata": metadata, "spec": spec})

    class OldKind:
        async def patch(self, *_: object, **__: object) -> bytes:
            later = {**metadata, "resourceVersion": "2"}
            return msgspec.json.encode({"metadata": later, "spec": spec, "status": {"phase": "Pending"}})

    api = OldKind()
    state = ProvisionerState(ProvisionerSettings(version="v1"), "pool")
    state.set_request(request)
    fenced = FencedWriter(cast(ObjectApi, api), lambda: True)
    writer = SliceWriter(cast(Client, api), fenced, state)
    with pytest.raises(UnkeptStatusError, match=r"keeps no .*noRoom.* of the status"):
        await writer.write(request, replace(request.record, why="waits", since_s=1.0, no_room=True), "")
    assert state.requests["ml", "one"].resource_version == "2"
