"""What must hold of every decision, whatever happens between any two writes."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.kinds.slicerequest import Phase
from accelet.provisioner.deciding.attempts import after_create
from accelet.provisioner.deciding.decide import decide
from accelet.provisioner.deciding.room import Limits
from accelet.provisioner.deciding.view import Create, SliceNode, SliceRecord
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.pool import NodePool, Original, PoolList, PoolState
from accelet.provisioner.pools.tiers import Attempt, Order, Tier
from tests.unit.provisioner.world import HOSTS, MACHINES, TIMES, World

_MODEL = settings(max_examples=15) if settings().max_examples <= 100 else settings()
"""Each example is hours of a world; `make soak` runs them in full."""

_FEW = settings(max_examples=6) if settings().max_examples <= 100 else settings()
"""For those of which each example is longer still."""

_CHANCES = st.builds(random.Random, st.integers(0, 2**32))


def _turn(world: World, *, leaders: int = 1) -> None:
    """Every request is looked at once; two leaders may have seen it at different times."""
    for uid in list(world.requests):
        if uid not in world.requests:
            continue
        thoughts = [world.think(uid) for _ in range(leaders)]
        world.chance.shuffle(thoughts)
        for thought in thoughts:
            world.act(thought)
        world.check_limits()


def _run(world: World, seconds: float, *, leaders: int = 1) -> None:
    until_s = world.now_s + seconds
    while world.now_s < until_s:
        _turn(world, leaders=leaders)
        _turn(world, leaders=leaders)
        world.pass_time(world.chance.uniform(1.0, 60.0))


def _is_ready(world: World) -> bool:
    return all(one.record.phase == "Ready" for one in world.requests.values() if one.unwanted is None)


def _run_until_ready(world: World, within_s: float, *, leaders: int = 1) -> None:
    until_s = world.now_s + within_s
    while not _is_ready(world):
        assert world.now_s < until_s, {uid: one.record for uid, one in world.requests.items()}
        _run(world, 60.0, leaders=leaders)
        for request in list(world.requests.values()):
            if request.record.phase == "Failing":
                world.end_pods(request.set_name)  # a job fails with its slice


def _end_all(world: World) -> None:
    """All owners end, and their pods with them; then nothing may be left."""
    for request in world.requests.values():
        request.unwanted, request.ended = "its owner has finished", True
    for name in {request.set_name for request in world.requests.values()}:
        world.end_pods(name)
    until_s = world.now_s + 6 * 3600.0
    while world.requests:
        assert world.now_s < until_s, {uid: one.record for uid, one in world.requests.items()}
        _run(world, 60.0)
    world.pass_time(200.0)
    assert set(world.pools) == {"foreign"}


@_MODEL
@given(_CHANCES)
def test_a_set_is_made_used_and_given_back(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    world.ask("two", 3)

    _run_until_ready(world, 1200.0)
    assert all(node.pods for node in world.nodes.values())
    assert world.creates == 4
    _end_all(world)


@_MODEL
@given(_CHANCES, st.sampled_from((1, 2)))
def test_faults_crashes_and_leaders_neither_leak_nor_double_nor_kill(
    chance: random.Random, leaders: int
) -> None:
    world = World(chance, faults=0.3, crashes=0.3)
    world.ask("one")
    world.ask("two", 2)
    world.capacity = {("spot", "a"): 1, ("spot", "b"): chance.choice((0, 1))}

    for _ in range(8):
        _run(world, 120.0, leaders=leaders)
        _disturb(world)
    world.faults = world.crashes = 0.1
    world.capacity = {}
    for request in world.requests.values():
        request.unwanted = None
    for node in world.nodes.values():
        node.ready = True
    for pool in world.pools.values():
        pool.state = "running" if pool.state == "busy" else pool.state
    _run_until_ready(world, 4 * 3600.0, leaders=leaders)
    _end_all(world)


def _disturb(world: World) -> None:
    """One thing that may happen at any time."""
    chance = world.chance
    match chance.randrange(7):
        case 0 if world.nodes:
            node = chance.choice(list(world.nodes.values()))
            node.ready = not node.ready
        case 1:
            running = [pool for pool in world.pools.values() if pool.mark and pool.state == "running"]
            for pool in running[:1]:
                pool.state = chance.choice(("failed", "busy", "running"))
        case 2:
            request = chance.choice(list(world.requests.values()))
            request.unwanted = None if request.unwanted else "it is suspended"
            world.end_pods(request.set_name)
        case 3 if world.nodes:
            node = chance.choice(list(world.nodes.values()))
            node.bound = node.open = False
        case 6:
            request = chance.choice(list(world.requests.values()))
            request.no_service = "" if request.no_service else "there is no Service"
            request.fingerprint = chance.choice(("now", "another", ""))
        case 4:
            for pool in world.pools.values():
                if pool.mark and pool.state == "busy":
                    pool.state = "running"
        case _:
            world.end_pods(chance.choice(list(world.requests.values())).set_name)


@_MODEL
@given(_CHANCES)
def test_capacity_that_comes_late_is_found(chance: random.Random) -> None:
    world = World(chance, faults=0.2)
    world.ask("two", 2)
    world.default_capacity = 0

    _run(world, 3600.0)
    assert not any(node.pods for node in world.nodes.values())
    assert all(one.record.why for one in world.requests.values())
    world.default_capacity = 1000
    _run_until_ready(world, 3 * 3600.0)


@_FEW
@given(_CHANCES)
def test_a_provider_that_is_silent_for_an_hour_harms_nothing(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    pool, creates = world.requests["one-0"].record.pool, world.creates
    world.ask("two", 2)
    world.fall_silent()
    _run(world, 3600.0)

    assert (world.requests["one-0"].record.phase, world.requests["one-0"].record.pool) == ("Ready", pool)
    assert world.requests["one-0"].record.silent == ""
    assert all(node.pods for node in world.nodes.values() if node.pool == pool)
    assert {one.record.silent for one in world.of_set("two")} == {"it does not answer"}
    assert world.creates - creates <= 2 * 80, "asked again now and then"
    world.answer_again()
    _run_until_ready(world, 3600.0)
    assert {one.record.silent for one in world.requests.values()} == {""}
    _end_all(world)


@_FEW
@given(_CHANCES)
def test_a_provider_that_takes_nothing_is_not_asked_without_end(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    while world.requests["one-0"].record.phase != "Creating":
        _turn(world)
    request, world.faults = world.requests["one-0"], 1.0
    for _ in range(720):
        thought = world.think("one-0")
        if isinstance(thought.step.action, Create):
            failure = world.create(request, thought.view.record)
            request.record = after_create(thought.view, thought.view.record, failure)
        else:
            request.record = thought.step.record
        world.pass_time(5.0)
    assert world.creates <= 80


@_MODEL
@given(_CHANCES)
def test_a_set_is_of_one_tier(chance: random.Random) -> None:
    world = World(chance)
    world.ask("two", 2)
    world.capacity = {("spot", "a"): 1, ("spot", "b"): 0}

    _run_until_ready(world, 2 * 3600.0)

    assert {one.record.tier for one in world.requests.values()} == {"on-demand"}


@_MODEL
@given(_CHANCES, st.integers(1, 4))
def test_limits_hold_at_every_instant(chance: random.Random, slices: int) -> None:
    world = World(chance, faults=0.2)
    world.limits = Limits(slices=slices)
    world.ask("one")
    world.ask("two", 2)
    world.ask("three", 3)

    for _ in range(6):
        _disturb(world)
        _run(world, 300.0)
    for request in world.requests.values():
        if request.set_size > slices and request.unwanted is None:
            assert "more than there ever may be" in request.record.why


@pytest.mark.parametrize("size", [20, 50])
def test_a_large_set_is_ready_in_one_round_where_few_pools_are_made_at_a_time(size: int) -> None:
    """GKE makes five pools at a time by default, each in about four minutes."""
    world = World(random.Random(size))
    world.ask("large", size)
    world.most_operations, world.create_s = 5, (240.0, 250.0)
    began_s, whole = world.now_s, 0

    while not _is_ready(world):
        assert world.now_s - began_s < size / 5 * 420.0, [one.record for one in world.requests.values()]
        _turn(world)
        world.pass_time(size * 1.0)
        phases = [one.record.phase for one in world.requests.values()]
        assert not {"Failing", "BackingOff"} & set(phases), "a slice that was made is taken down"
        assert sum(phase in ("Joined", "Ready") for phase in phases) >= whole
        whole = sum(phase in ("Joined", "Ready") for phase in phases)
    assert len([pool for pool in world.pools.values() if pool.mark]) == size
    assert {one.record.attempt for one in world.requests.values()} == {1}


@pytest.mark.parametrize("size", [2, 20])
def test_a_set_that_comes_no_nearer_to_being_whole_is_given_back(size: int) -> None:
    world = World(random.Random(size))
    world.ask("large", size)
    world.create_s, world.most_operations = (60.0, 60.0), 5
    world.capacity = {(tier, zone): 0 for tier in ("spot", "on-demand") for zone in ("a", "b")}
    world.capacity["on-demand", "b"] = size - 1
    held = _hold_of_all_but_one(world, size)

    while any(pool.mark for pool in world.pools.values()):
        assert world.now_s - held < TIMES.hold_s + TIMES.longest_rest_s, "it is held for ever"
        _turn(world)
        world.pass_time(15.0)
    assert not any(node.pods for node in world.nodes.values())


def _hold_of_all_but_one(world: World, size: int) -> float:
    """Runs until all slices but one are whole; when that was."""
    until_s = world.now_s + 4 * 3600.0
    while sum(one.record.phase == "Joined" for one in world.requests.values()) < size - 1:
        assert world.now_s < until_s
        _turn(world)
        world.pass_time(15.0)
    return world.now_s


@_MODEL
@given(_CHANCES, st.integers(2, 5))
def test_a_hold_has_an_end_whatever_the_others_do(chance: random.Random, size: int) -> None:
    """The others of the set come and go without end, and each time that looks like progress."""
    world = World(chance)
    world.ask("one", size)
    request = world.requests["one-0"]
    while request.record.phase != "Joined":
        _turn(world)
        world.pass_time(5.0)
        for other in world.of_set("one")[1:]:
            other.record = other.record.enter("Creating", "begins again", world.now_s)
    until_s = world.now_s + size * TIMES.hold_s + 120.0
    while request.record.phase == "Joined":
        assert world.now_s <= until_s
        for other in world.of_set("one")[1:]:
            other.record = other.record.enter("Creating", "begins again", world.now_s)
        world.act(world.think("one-0"))
        world.pass_time(60.0)
    assert "came no nearer to being whole" in request.record.why


@_MODEL
@given(_CHANCES)
def test_a_slice_without_room_is_tried_again_while_its_set_is_held(chance: random.Random) -> None:
    """There is no other tier to go on to: to take the others down would gain nothing."""
    world = World(chance)
    world.ask("two", 2)
    world.create_s = (60.0, 60.0)
    world.capacity = {(tier, zone): 0 for tier in ("spot", "on-demand") for zone in ("a", "b")}
    world.capacity["on-demand", "b"] = 1
    _hold_of_all_but_one(world, 2)
    (pool,) = {one.record.pool for one in world.of_set("two") if one.record.phase == "Joined"}

    world.default_capacity, world.capacity = 1000, {}
    _run_until_ready(world, 2 * TIMES.hold_s)

    assert pool in {one.record.pool for one in world.of_set("two")}


@_MODEL
@given(_CHANCES)
def test_machines_that_come_one_by_one_have_time_after_each(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    request = world.requests["one-0"]
    while request.record.phase != "Joining":
        _turn(world)
        world.pass_time(5.0)
    nodes = [node for node in world.nodes.values() if node.pool == request.record.pool]
    for node in nodes:
        node.ready = False
    for node in nodes:
        _run(world, TIMES.join_s * 0.8)
        assert world.phase("one-0") == "Joining"
        node.ready = True
    _run_until_ready(world, 120.0)
    assert request.record.attempt == 1

    for node in nodes:
        node.ready = False
    for node in nodes:
        _run(world, TIMES.repair_s * 0.8)
        assert world.phase("one-0") == "Repairing"
        node.ready = True
    _run_until_ready(world, 120.0)
    assert request.record.attempt == 1


@_MODEL
@given(_CHANCES)
def test_a_machine_that_comes_and_goes_ends_the_wait(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    request = world.requests["one-0"]
    while request.record.phase != "Joining":
        _turn(world)
        world.pass_time(5.0)
    one, other = (node for node in world.nodes.values() if node.pool == request.record.pool)
    other.ready, until_s = False, world.now_s + 2 * TIMES.join_s + 240.0
    while request.record.phase == "Joining":
        assert world.now_s < until_s
        one.ready = not one.ready
        _run(world, 60.0)


@_MODEL
@given(_CHANCES)
def test_a_pool_of_somebody_else_is_never_touched(chance: random.Random) -> None:
    world = World(chance, faults=0.2)
    world.ask("one")
    foreign = replace(world.pools["foreign"])

    _run_until_ready(world, 3600.0)
    _end_all(world)

    assert world.pools == {"foreign": foreign}


@_MODEL
@given(_CHANCES)
def test_a_lost_machine_is_waited_for_and_then_replaced(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    first = world.requests["one-0"].record.pool
    next(iter(world.nodes.values())).ready = False

    _run(world, TIMES.repair_s / 2)
    assert world.requests["one-0"].record.phase == "Repairing"
    assert world.requests["one-0"].record.pool == first
    _run(world, TIMES.repair_s)
    assert first in world.pools, "a pod still runs on its other machine"
    world.end_pods("one")
    _run_until_ready(world, 1800.0)
    assert world.requests["one-0"].record.pool != first


@_MODEL
@given(_CHANCES)
def test_an_owner_that_comes_back_keeps_its_slice(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    pool = world.requests["one-0"].record.pool

    world.requests["one-0"].unwanted = "it is suspended"
    _run(world, TIMES.grace_s * 0.4)
    world.requests["one-0"].unwanted = None
    _run_until_ready(world, 1200.0)

    assert world.requests["one-0"].record.pool == pool
    assert world.creates == 1


@_MODEL
@given(_CHANCES, st.floats(-1e7, 1e7))
def test_clocks_that_jump_delay_nothing_for_long(chance: random.Random, jump_s: float) -> None:
    world = World(chance)
    world.ask("one")
    _run(world, 100.0)

    world.now_s += jump_s
    for pool in world.pools.values():
        pool.visible_s = pool.runs_s = min(pool.runs_s, world.now_s)
    _run_until_ready(world, 4000.0)
    _end_all(world)


@pytest.mark.parametrize("phase", ["BackingOff", "Creating", "Joining", "Repairing"])
def test_what_a_slice_waits_for_is_not_put_off_by_a_clock_that_is_set_back(phase: Phase) -> None:
    """The wait had begun a moment before; the slice is ready again about as soon as without that."""
    world = World(random.Random(1))
    world.ask("one")
    if phase in ("BackingOff", "Creating"):
        _turn(world)
        world.requests["one-0"].record = replace(
            world.requests["one-0"].record, phase=phase, retry_s=world.now_s + 60.0
        )
    else:
        _run_until_ready(world, 4000.0)
        record = world.requests["one-0"].record
        world.requests["one-0"].record = record.enter(phase, "a machine is lost", world.now_s)
        next(node for node in world.nodes.values() if node.pool == record.pool).ready = False
    world.now_s -= 86_400.0
    for pool in world.pools.values():
        pool.visible_s = pool.runs_s = 0.0
    _run_until_ready(world, 4000.0)
    _end_all(world)


@_MODEL
@given(_CHANCES)
def test_a_missing_service_and_drift_are_noted_and_cleared(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    request = world.requests["one-0"]
    request.no_service = "there is no Service"
    _run_until_ready(world, 1200.0)
    request.fingerprint = "another"
    _run(world, 120.0)
    pool = request.record.pool
    assert request.record.no_service == "there is no Service"
    assert "would be made as another now" in request.record.drift

    request.no_service, request.fingerprint = "", "now"
    _run(world, 120.0)
    assert (request.record.no_service, request.record.drift) == ("", "")
    assert (request.record.phase, request.record.pool, world.creates) == ("Ready", pool, 1)
    _end_all(world)


@_MODEL
@given(_CHANCES)
def test_a_service_that_comes_soon_is_not_missed(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    request = world.requests["one-0"]
    request.no_service = "there is no Service"
    while request.record.phase != "Ready":
        _turn(world)
        world.pass_time(5.0)
    request.no_service = ""
    for _ in range(5):
        _turn(world)
        assert request.record.no_service == ""
        world.pass_time(5.0)


@_FEW
@given(_CHANCES)
def test_a_parked_slice_serves_the_next_job_without_another_pool(chance: random.Random) -> None:
    world = World(chance, park_s=900.0)
    world.ask("one", 2)
    _run_until_ready(world, 1200.0)
    pools = {one.record.pool for one in world.requests.values()}
    _end(world, "one")
    _run(world, 600.0)
    assert {one.record.phase for one in world.requests.values()} == {"Parked"}
    assert not any(node.open for node in world.nodes.values())

    world.ask("two", 2)
    _run_until_ready(world, 600.0)

    assert {one.record.pool for one in world.of_set("two")} == pools
    assert all(node.pods and node.owner.startswith("two") for node in world.nodes.values())
    assert (world.creates, world.of_set("one")) == (2, [])
    _end_all(world)


@_FEW
@given(_CHANCES, st.sampled_from((1, 2)))
def test_parked_slices_are_in_one_hand_through_faults_crashes_and_leaders(
    chance: random.Random, leaders: int
) -> None:
    world = World(chance, faults=0.3, crashes=0.3, park_s=chance.choice((60.0, 300.0, 900.0)))
    world.limits = Limits(slices=chance.choice((2, 3, 6)))
    for turn in range(5):
        world.ask(f"job-{turn}", chance.choice((1, 1, 2)))
        _run(world, 200.0, leaders=leaders)
        _disturb(world)
        if chance.random() < 0.7:
            _end(world, chance.choice(list(world.requests.values())).set_name)
    world.faults = world.crashes = 0.1
    for pool in world.pools.values():
        pool.state = "running" if pool.state == "busy" else pool.state
    for node in world.nodes.values():
        node.ready = True
    _end_all(world)


@_MODEL
@given(_CHANCES)
def test_a_slice_that_was_taken_over_and_fails_is_replaced_within_the_limits(chance: random.Random) -> None:
    world = World(chance, park_s=900.0)
    world.limits = Limits(slices=2)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    _end(world, "one")
    _run(world, 300.0)
    world.ask("two")
    _run_until_ready(world, 600.0)
    first = world.requests["two-0"].record
    assert first.mark == "one-0"

    world.pools[first.pool].state = "failed"
    for node in world.nodes.values():
        node.ready = False
    _run(world, TIMES.lag_s)
    world.end_pods("two")
    while world.requests["two-0"].record.mark:
        _run(world, 1.0)
    world.ask("three")
    _run_until_ready(world, 1800.0)

    assert world.requests["two-0"].record.pool != first.pool
    assert world.requests["two-0"].record.mark == ""


@_MODEL
@given(_CHANCES, st.floats(60.0, 900.0))
def test_parking_ends_at_its_deadline(chance: random.Random, park_s: float) -> None:
    world = World(chance, park_s=park_s)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    request = world.requests["one-0"]
    _end(world, "one")
    while request.record.phase != "Parked":
        _run(world, 10.0)
    parked_s = request.record.parked_s

    while request.record.phase == "Parked":
        assert world.now_s <= parked_s + park_s + 120.0
        _run(world, 1.0)
    assert world.now_s >= parked_s + park_s
    assert request.record.why == "no other job asked for it"
    _end_all(world)


@_FEW
@given(_CHANCES)
def test_a_parked_slice_makes_room_for_what_cannot_use_it(chance: random.Random) -> None:
    world = World(chance, park_s=10800.0)
    world.limits = Limits(slices=2)
    world.ask("one", 2)
    _run_until_ready(world, 1200.0)
    _end(world, "one")
    _run(world, 600.0)
    assert {one.record.phase for one in world.requests.values()} == {"Parked"}

    world.ask("other")
    world.requests["other-0"].fingerprint = "another"
    _run_until_ready(world, 1200.0)

    assert {one.record.phase for one in world.of_set("one")} == {"Parked"}, "one of the two was enough"
    assert len(world.of_set("one")) == 1


@_MODEL
@given(_CHANCES)
def test_a_slice_is_not_parked_for_what_it_is_no_use(chance: random.Random) -> None:
    world = World(chance, park_s=3600.0)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    request = world.requests["one-0"]
    match chance.randrange(3):
        case 0:
            request.deleted = True
        case 1:
            request.fingerprint = "another"
        case _:
            next(iter(world.nodes.values())).ready = False
    _end(world, "one")
    until_s = world.now_s + 1200.0
    while world.requests:
        assert request.record.phase != "Parked"
        assert world.now_s < until_s
        _run(world, 10.0)


@_FEW
@given(_CHANCES, st.booleans())
def test_a_job_that_is_made_again_takes_the_slices_that_are_being_given_back(
    chance: random.Random, is_deleted: bool
) -> None:
    """Nothing is parked, and there is capacity for these slices alone."""
    world = World(chance)
    world.ask("one", 2)
    _run_until_ready(world, 1200.0)
    places = [pool.place for pool in world.pools.values() if pool.mark]
    world.capacity = {(tier, zone): 0 for tier in ("spot", "on-demand") for zone in ("a", "b")}
    world.capacity |= {place: places.count(place) for place in places}
    pools, began_s = {one.record.pool for one in world.requests.values()}, world.now_s
    _end(world, "one")
    for request in world.of_set("one"):
        request.deleted = is_deleted
    _turn(world)

    world.ask("two", 2)
    while not _is_ready(world):
        assert world.now_s - began_s < 60.0, {uid: one.record for uid, one in world.requests.items()}
        _turn(world)
        world.pass_time(2.0)

    assert ({one.record.pool for one in world.of_set("two")}, world.creates) == (pools, 2)
    _end_all(world)


@_FEW
@given(_CHANCES)
def test_a_slice_whose_pods_do_not_end_is_not_waited_for_without_end(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    request = world.requests["one-0"]
    request.unwanted, request.ended = "its owner has finished", True
    _turn(world)
    world.ask("two")
    began_s = world.now_s
    _run_until_ready(world, 1200.0)
    assert world.now_s - began_s >= 300.0
    assert world.requests["two-0"].record.pool != request.record.pool
    _end_all(world)


@_FEW
@given(_CHANCES)
def test_a_slice_that_rests_takes_one_that_is_given_back_meanwhile(chance: random.Random) -> None:
    world = World(chance)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    pool = world.requests["one-0"].record.pool
    world.capacity = {(tier, zone): 0 for tier in ("spot", "on-demand") for zone in ("a", "b")}
    world.capacity[world.pools[pool].place] = 1
    world.ask("two")
    while world.phase("two-0") != "BackingOff":
        _run(world, 1.0)
    began_s = world.now_s
    _end(world, "one")
    while world.phase("two-0") != "Ready":
        assert world.now_s - began_s < 240.0
        _turn(world)
        world.pass_time(5.0)
    assert world.requests["two-0"].record.pool == pool


@_FEW
@given(_CHANCES)
def test_a_job_that_is_wanted_again_takes_its_parked_slice_back(chance: random.Random) -> None:
    world = World(chance, park_s=900.0)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    request, pool = world.requests["one-0"], world.requests["one-0"].record.pool
    request.unwanted = "it is suspended"
    world.end_pods("one")
    _run(world, 600.0)
    assert request.record.phase == "Parked"

    request.unwanted = None
    _run_until_ready(world, 600.0)

    assert (request.record.pool, world.creates) == (pool, 1)
    _end_all(world)


@_FEW
@given(_CHANCES)
def test_a_job_takes_a_slice_back_that_another_has_had_meanwhile(chance: random.Random) -> None:
    world = World(chance, park_s=7200.0)
    world.ask("one")
    _run_until_ready(world, 1200.0)
    request, pool = world.requests["one-0"], world.requests["one-0"].record.pool
    request.unwanted = "it is suspended"
    world.end_pods("one")
    _run(world, 600.0)
    world.ask("two")
    _run_until_ready(world, 600.0)
    assert world.requests["two-0"].record.pool == pool
    _end(world, "two")
    _run(world, 600.0)

    request.unwanted = None
    _run_until_ready(world, 1200.0)

    assert (request.record.pool, world.creates) == (pool, 1)
    _end_all(world)


def _end(world: World, set_name: str) -> None:
    """The owner of a set ends, and its pods with it."""
    for request in world.of_set(set_name):
        request.unwanted, request.ended = "its owner has finished", True
    world.end_pods(set_name)


_ORIGINALS = st.builds(
    Original,
    namespace=st.just("ns"),
    job=st.just("one-0"),
    machine_type=st.sampled_from((MACHINES.machine_type, "ct6e-standard-8t", "")),
    hosts=st.sampled_from((HOSTS, 1, 0)),
    topology=st.sampled_from((MACHINES.topology, "", "4x4")),
)
_STATES: tuple[PoolState, ...] = ("creating", "running", "busy", "failed", "deleting")


@given(
    _ORIGINALS,
    st.sampled_from(_STATES),
    st.sampled_from(("spot", "on-demand", "reservation:r")),
    st.sampled_from(("a", "z")),
    st.booleans(),
)
def test_only_a_pool_of_just_these_machines_is_adopted(
    original: Original, state: PoolState, tier: str, zone: str, has_room: bool
) -> None:
    world = World(random.Random(0))
    world.ask("one")
    pool = NodePool("train-a1b2c", "tpu-provisioner.train-a1b2c", state, "", tier, zone, None, original)
    view = world.view(world.requests["one-0"])
    listed = replace(view.listed, originals=(pool,))
    step = decide(replace(view, listed=listed, original=pool, no_room=None if has_room else "waits for room"))

    is_same = (original.machine_type, original.hosts) == (MACHINES.machine_type, HOSTS)
    is_same &= original.topology in ("", MACHINES.topology)
    is_place = tier != "reservation:r" and zone == "a"
    if is_same and is_place and state == "running" and has_room:
        assert (step.record.phase, step.record.pool, step.record.mark) == ("Joining", pool.name, pool.mark)
        adopted = replace(view, record=step.record, listed=listed)
        assert adopted.pool == pool
        for left_alone in (view.record, replace(step.record, pool="another"), replace(step.record, mark="")):
            assert pool not in replace(adopted, record=left_alone).pools
    else:
        assert step.record.mark == ""
        assert pool not in replace(view, record=step.record, listed=listed).pools


def _one_ready(**times: float) -> World:
    """A world with one slice that is ready, on which no pod starts."""
    world = World(random.Random(1))
    world.times = replace(TIMES, **times)
    world.ask("one")
    world.is_idle = True
    _run_until_ready(world, 1200.0)
    return world


def test_a_ready_slice_that_nobody_uses_is_told_and_no_more_once_a_pod_runs() -> None:
    world = _one_ready()
    (request,) = world.requests.values()
    _run(world, TIMES.unused_s - 120.0)
    assert request.record.unused == ""
    _run(world, 240.0)
    assert request.record.unused.startswith("no pod has run on it for 15 min: its pods may select")
    _run(world, 24 * 3600.0)
    assert request.record.phase == "Ready", "it is not given back unless the settings say so"
    world.is_idle = False
    _run(world, 120.0)
    assert (request.record.unused, request.record.idle_s) == ("", 0.0)


def test_flex_start_machines_are_waited_for_as_long_as_that_takes_and_then_come_all_at_once() -> None:
    world = _one_ready()
    view = world.view(*world.requests.values())
    record = replace(view.record, pool="p", tier="flex-start", sent=True).enter("Creating", "", view.now_s)
    flex = Order((Attempt(Tier("flex-start"), "a"),))
    view = replace(view, record=replace(record, pool="p"), order=flex, nodes=(), now_s=view.now_s)

    def look(seconds: float, record: SliceRecord, count: int = 0) -> SliceRecord:
        now_s = view.now_s + seconds
        listed = PoolList((NodePool("p", view.uid, "running", tier="flex-start", zone="a"),), now_s)
        nodes = tuple(SliceNode(f"n{index}", "p", is_ready=True, chips=4) for index in range(count))
        seen = replace(view, record=record, now_s=now_s, listed=listed, nodes=nodes)
        return decide(seen).record

    waiting = look(0.0, view.record)
    assert (waiting.phase, waiting.why) == (
        "Joining",
        "waits for flex-start machines: GKE makes them once its autoscaler sees the job's pods unschedulable",
    )
    assert look(TIMES.flex_start_s - 1.0, waiting) == waiting
    tried = look(TIMES.flex_start_s, waiting)
    assert (tried.phase, tried.why) == ("Failing", "0/2 machines came, and no other within 1440 min")

    some = look(3600.0, waiting, 1)
    assert (some.phase, some.came) == ("Joining", 1)
    assert look(3600.0 + TIMES.join_s - 1.0, some, 1) == some
    assert look(3600.0 + TIMES.join_s, some, 1).phase == "Failing", "a part serves nobody"
    assert look(3600.0, waiting, 2).phase == "Joined"


def test_an_unused_slice_is_given_back_once_and_not_made_anew() -> None:
    world = _one_ready(release_unused_s=3600.0)
    (request,) = world.requests.values()
    _run(world, 3000.0)
    assert request.record.phase == "Ready"
    _run(world, 2400.0)
    assert (request.record.phase, request.record.is_lapsed, set(world.pools)) == (
        "Pending",
        True,
        {"foreign"},
    )
    assert request.record.why == (
        "no pod ran on it for 60 min, so it is given back: delete this SliceRequest to have it made again"
    )
    creates = world.creates
    _run(world, 24 * 3600.0)
    assert world.creates == creates


def test_of_a_set_that_is_used_no_slice_is_given_back() -> None:
    world = World(random.Random(1))
    world.times = replace(TIMES, release_unused_s=3600.0)
    world.ask("two", 2)
    _run_until_ready(world, 2400.0)
    first, second = world.requests.values()
    world.is_idle = True
    for node in world.nodes.values():
        if node.pool == second.record.pool:
            node.pods = 0
    _run(world, 6 * 3600.0)
    assert [one.record.phase for one in (first, second)] == ["Ready", "Ready"]
    assert (bool(first.record.unused), bool(second.record.unused)) == (False, True)


def test_a_pod_that_comes_before_the_pool_is_closed_keeps_an_unused_slice() -> None:
    world = _one_ready(release_unused_s=3600.0, grace_s=600.0)
    (request,) = world.requests.values()
    while request.record.phase == "Ready":
        _run(world, 60.0)
    assert (request.record.phase, request.record.is_lapsed) == ("Releasing", True)
    world.is_idle = False
    world.start_pods()
    _run_until_ready(world, 1200.0)
    assert (request.record.is_lapsed, world.creates) == (False, 1)


@pytest.mark.parametrize("is_gone", [False, True])
def test_pods_on_one_slice_of_a_set_that_was_given_back_unused_bring_all_of_it_back(*, is_gone: bool) -> None:
    """They were on their way when the set was given up; the other slice may be gone by then."""
    world = World(random.Random(1))
    world.times = replace(TIMES, release_unused_s=3600.0, grace_s=600.0)
    world.ask("two", 2)
    world.is_idle = True
    _run_until_ready(world, 2400.0)
    first, second = world.requests.values()
    while {first.record.phase, second.record.phase} != {"Releasing"}:
        _run(world, 60.0)
    if is_gone:
        del world.pools[second.record.pool]
        for name in [one.name for one in world.nodes.values() if one.pool == second.record.pool]:
            del world.nodes[name]
        second.record = SliceRecord(why="no pod ran on it", attempt=1, is_lapsed=True)
    for node in world.nodes.values():
        if node.pool == first.record.pool:
            node.pods = 1
    _run_until_ready(world, 4000.0)
    assert [one.record.is_lapsed for one in (first, second)] == [False, False]
    assert world.creates == 2 + is_gone


def test_what_is_wanted_again_waits_for_a_deletion_no_longer_where_the_clock_was_set_back() -> None:
    world = _one_ready()
    (request,) = world.requests.values()
    asked = request.record.enter("Releasing", "nobody wants it", world.now_s)
    request.record = replace(asked, asked_end_s=world.now_s)
    world.now_s -= 86_400.0
    for pool in world.pools.values():
        pool.visible_s = 0.0
    _run_until_ready(world, 600.0)
    assert world.creates == 1


def test_a_request_that_was_refused_is_judged_anew_when_the_settings_are_mended() -> None:
    world = World(random.Random(1))
    world.ask("one")
    (request,) = world.requests.values()
    view = replace(world.view(request), order=Refusal("there is no class secure"))
    step = decide(view)
    assert (step.record.phase, step.record.why) == ("Refused", "there is no class secure")
    other = decide(replace(view, record=step.record, order=Refusal("there is no class secured")))
    assert (other.record.phase, other.record.why) == ("Refused", "there is no class secured")
    again = decide(replace(view, record=other.record, order=world.view(request).order))
    assert (again.record.phase, again.record.why) == ("Pending", "")
