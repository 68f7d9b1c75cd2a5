"""Moves of a task, through crashes of its controller and of the scheduler at any moment."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.deciding.decide import decide
from accelet.gputask.deciding.moving import MOST_ENDED
from accelet.gputask.deciding.status import record_of
from accelet.gputask.deciding.view import AdvanceMove
from accelet.kinds.move import Move, MoveGain
from tests.unit.gputask.moving_world import MovingWorld, movable
from tests.unit.gputask.world import TaskThought, failure, make_task

_SLOTS = {"a": 2, "b": 2, "c": 2, "d": 1}
_CHANCES = st.integers(0, 2**32).map(random.Random)
_SPECS = st.fixed_dictionaries(
    {
        "replicas": st.integers(1, 3),
        "on_failure": st.builds(failure, restart=st.sampled_from([None, "All", "Rank"]), retries=st.just(3)),
        "move": st.builds(
            movable, st.sampled_from(["WhenItHelps", "Ask"]), save_seconds=st.sampled_from([0, 60])
        ),
    }
)


def _world(spec: dict[str, Any], chance: random.Random) -> MovingWorld:
    world = MovingWorld(chance, make_task(spec=spec), dict(_SLOTS))
    _until(world, lambda: _all_run(world))
    return world


def _all_run(world: MovingWorld) -> bool:
    live = [pod for pod in world.pods if pod.phase == "Running" and not pod.deleted]
    return len(live) == world.task.spec.replicas


def _turn(world: MovingWorld) -> None:
    """Everybody works once."""
    world.act(world.think())
    world.run_jobs()
    world.known = dict(world.moves)
    world.run_scheduler()
    world.run_pod()
    world.check()
    world.now_s += 1.0


def _until(world: MovingWorld, is_so: Callable[[], bool], most: int = 1000) -> None:
    for _ in range(most):
        if is_so():
            return
        _turn(world)
    raise AssertionError(f"does not come to it: {world.task.status}, {world.moves}, {world.pods}")


def _change(world: MovingWorld, **changes: Any) -> None:
    spec = msgspec.structs.replace(world.task.spec, **changes)
    world.task = replace(world.task, spec=spec, generation=world.task.generation + 1)
    world.version += 1


def _late_thought(world: MovingWorld) -> TaskThought:
    view = world.late_view()
    return TaskThought(view, decide(view), world.version)


def _disturb(world: MovingWorld, chance: random.Random, steps: int, *, faults: bool) -> None:
    stale: list[TaskThought] = []
    deeds: list[Callable[[], object]] = [
        lambda: world.act(world.think()),
        lambda: world.act(world.think()),
        lambda: world.act(_late_thought(world)),
        lambda: stale.append(world.think()),  # a leader that dies now, or writes much later
        lambda: world.act(stale.pop(chance.randrange(len(stale)))) if stale else None,
        world.run_jobs,
        world.run_pod,
        world.run_pod,
        world.run_scheduler,
        world.restart_scheduler,
        world.propose,
        world.add_stranger,
        world.remove_stranger,
        lambda: _approve(world, chance),
        *([lambda: _hurt(world, chance)] if faults else []),
    ]
    for _ in range(steps):
        chance.choice(deeds)()
        world.now_s += chance.choice((0.0, 1.0, 30.0))
        world.check()


def _approve(world: MovingWorld, chance: random.Random) -> None:
    if world.moves:
        world.task = replace(world.task, approves=chance.choice(list(world.moves)))


def _hurt(world: MovingWorld, chance: random.Random) -> None:
    match chance.randrange(6):
        case 0:
            world.evict()
        case 4:
            terms = world.task.spec.move or movable()
            policy = chance.choice(("Never", "Ask", "WhenItHelps"))
            _change(world, move=msgspec.structs.replace(terms, policy=policy))
        case 1:
            _change(world, suspend=not world.task.spec.suspend)
        case 2:
            running = [pod for pod in world.pods if pod.phase == "Running" and not pod.deleted]
            if running and record_of(world.task.status).incidents < 2:
                world.end(chance.choice(running), 1)
        case 3:
            world.forbidden = "" if world.forbidden else "the budget one-at-a-time allows no disruption"
        case _:
            world.moves.pop(chance.choice(["", *world.moves]), None)  # by a person


def _finish(world: MovingWorld) -> None:
    """Strangers end; whoever was down is up; then the program comes to its end."""
    world.strangers = dict.fromkeys(world.slots, 0)
    world.forbidden = ""
    _change(world, suspend=False)
    _until(world, lambda: _all_run(world) or bool(record_of(world.task.status).outcome))
    # Nobody approves what is still proposed: it ends with its time.
    _until(world, lambda: all(move.has_ended for move in world.moves.values()), 2000)
    world.finishes = 1.0
    _until(world, lambda: bool(record_of(world.task.status).outcome))


@given(_SPECS, _CHANCES, st.integers(0, 100))
def test_moves_and_crashes_alone_never_cost_a_task_anything(
    spec: dict[str, Any], chance: random.Random, steps: int
) -> None:
    world = _world(spec, chance)
    _disturb(world, chance, steps, faults=False)
    _finish(world)

    record = record_of(world.task.status)
    assert (record.outcome, record.attempt) == ("Completed", 1)
    assert (record.incidents, record.disruptions) == (0, 0)


@given(_SPECS, _CHANCES, st.integers(0, 100))
def test_through_faults_too_a_moved_task_ends_as_its_program_says(
    spec: dict[str, Any], chance: random.Random, steps: int
) -> None:
    world = _world(spec, chance)
    _disturb(world, chance, steps, faults=True)
    _finish(world)

    record = record_of(world.task.status)
    assert record.outcome == "Completed" or record.reason == "RetriesUsed"


@given(_SPECS, _CHANCES, st.integers(1, 40))
def test_a_controller_that_dies_anywhere_is_followed_by_one_that_finishes_the_move(
    spec: dict[str, Any], chance: random.Random, dies_after: int
) -> None:
    world = _world(spec, chance)
    move = _proposed(world)
    world.task = replace(world.task, approves=move.name)
    for _ in range(dies_after):
        _turn(world)
    world.restart_scheduler()
    while chance.random() < 0.8:  # the controller is down, everybody else goes on
        world.run_jobs()
        world.run_pod()
        world.run_scheduler()
        world.add_stranger()
        world.now_s += 5.0
        world.check()
    _until(world, lambda: world.moves[move.name].has_ended and _all_run(world))

    done = world.moves[move.name]
    assert (done.phase, done.status.reason) == ("Done", "Arrived")
    assert {pod.rank: pod.node for pod in world.pods if pod.phase == "Running"} == {
        place.rank: place.to_node for place in move.spec.places
    }


def _proposed(world: MovingWorld) -> Move:
    world.act(world.think())
    world.propose()
    (move,) = world.moves.values()
    return move


@pytest.fixture
def world() -> MovingWorld:
    return _world({"replicas": 2, "move": movable()}, random.Random(7))


def test_a_move_goes_through_its_phases_in_order(world: MovingWorld) -> None:
    move = _proposed(world)
    _until(world, lambda: world.moves[move.name].has_ended)

    phases = [one.type for one in world.moves[move.name].status.conditions]
    assert phases == ["Approved", "Held", "Leaving", "Arriving", "Done"]


@given(_SPECS, _CHANCES)
def test_a_task_that_is_moved_says_so_until_its_ranks_run_again(
    spec: dict[str, Any], chance: random.Random
) -> None:
    """Nobody has suspended it, and programs that end with 0 when they are told to are not done."""
    world = _world(spec, chance)
    world.stubborn = 1.0
    move = _proposed(world)
    world.task = replace(world.task, approves=move.name)
    said = list[tuple[str, str]]()

    def has_arrived() -> bool:
        status = world.task.status
        if world.moves[move.name].is_under_way:
            said.append((status.phase, status.why))
        return world.moves[move.name].has_ended and status.phase == "Running"

    _until(world, has_arrived)
    left = said.index(("Waiting", f"its ranks go to other places by the Move {move.name}"))
    assert {phase for phase, _ in said[:left]} <= {"Running"}, "as it was before"
    assert {phase for phase, _ in said[left:]} <= {"Waiting", "Starting"}


@given(_SPECS, _CHANCES, st.floats(0, 30))
def test_pods_that_the_scheduler_has_seen_sooner_withdraw_no_move(
    spec: dict[str, Any], chance: random.Random, after_s: float
) -> None:
    """Their watches are told at different times: after 10 s what the controller sees is what there is."""
    world = _world(spec, chance)
    move = _proposed(world)
    seen = replace(world.view(), now_s=move.created_s + after_s)
    late = replace(seen, pods=seen.pods[1:])
    unready = replace(seen, pods=(replace(seen.pods[0], is_ready=False), *seen.pods[1:]))
    for view, reason in ((late, "TaskChanged"), (unready, "NotReady")):
        step = decide(view)
        if after_s < 10:
            assert step.action is None
            assert 0 < (step.again_s or 0) <= 10
        else:
            assert isinstance(step.action, AdvanceMove)
            assert (step.action.phase, step.action.reason) == ("Withdrawn", reason)


def test_a_rank_that_is_seen_to_have_ended_withdraws_a_move_at_once(world: MovingWorld) -> None:
    _proposed(world)
    view = world.view()
    ended = replace(view, pods=(replace(view.pods[0], phase="Failed", is_ready=False), *view.pods[1:]))
    action = decide(ended).action
    assert isinstance(action, AdvanceMove)
    assert (action.phase, action.reason) == ("Withdrawn", "TaskChanged")


def test_nobody_else_gets_the_new_place_from_when_it_is_held(world: MovingWorld) -> None:
    move = _proposed(world)
    _until(world, lambda: world.moves[move.name].phase == "Held")
    for _ in range(20):
        world.add_stranger()
    _until(world, lambda: world.moves[move.name].has_ended)

    assert world.moves[move.name].status.reason == "Arrived"


def test_a_place_that_is_gone_before_it_is_held_withdraws_the_move(world: MovingWorld) -> None:
    move = _proposed(world)
    for _ in range(20):
        world.add_stranger()
    _until(world, lambda: world.moves[move.name].has_ended)

    assert world.moves[move.name].status.reason == "PlaceLost"
    assert _all_run(world)


def test_a_place_that_is_lost_under_way_leaves_the_old_one(world: MovingWorld) -> None:
    move = _proposed(world)
    _until(world, lambda: world.moves[move.name].phase == "Arriving")
    assert not [pod for pod in world.pods if pod.phase == "Running"], "nothing but the Move keeps the places"
    for place in move.spec.places:
        world.slots[place.to_node] = 0
    for _ in range(20):
        world.add_stranger()
    _until(world, lambda: world.moves[move.name].has_ended and _all_run(world))

    assert world.moves[move.name].status.reason == "ArrivedElsewhere"
    assert {pod.node for pod in world.pods if pod.phase == "Running"} <= {
        place.from_node for place in move.spec.places
    }


def test_a_budget_that_forbids_it_withdraws_the_move_with_its_sentence(world: MovingWorld) -> None:
    move = _proposed(world)
    world.forbidden = "the budget one-at-a-time allows no disruption"
    _until(world, lambda: world.moves[move.name].has_ended)

    assert world.moves[move.name].status.why == world.forbidden
    assert _all_run(world)
    assert world.task.status.attempt == 1


def test_a_person_approves_by_name_and_nobody_else_does() -> None:
    world = _world({"replicas": 1, "move": movable("Ask")}, random.Random(3))
    move = _proposed(world)
    for _ in range(50):
        _turn(world)
    assert world.moves[move.name].phase == "Proposed"
    world.task = replace(world.task, approves=move.name)
    _until(world, lambda: world.moves[move.name].phase == "Done")


def _only(world: MovingWorld) -> Move:
    (move,) = world.moves.values()
    return move


_UNTIL_LEFT = ("Proposed", "Approved", "Held", "Saving")


@pytest.mark.parametrize("phase", _UNTIL_LEFT)
@pytest.mark.parametrize("policy", ["Never", "Ask"])
def test_an_owner_who_takes_the_permission_back_is_heeded_until_the_ranks_leave(
    phase: str, policy: str
) -> None:
    spec = {"replicas": 2, "move": movable(save_seconds=60)}
    world = _world(spec, random.Random(1))
    world.propose()
    if phase == "Approved":
        while _only(world).phase == "Proposed":
            world.act(world.think())  # the scheduler does not look yet
    _until(world, lambda: _only(world).phase == phase)
    _change(world, move=movable(policy, save_seconds=60))
    before = {pod.uid for pod in world.pods}
    if (policy, phase) == ("Ask", "Proposed"):
        world.act(world.think())
        assert _only(world).phase == "Proposed"
        return
    _until(world, lambda: _only(world).has_ended)

    assert (_only(world).phase, _only(world).status.reason) == ("Withdrawn", "NotAllowed")
    assert f"move.policy of the task is {policy}" in _only(world).status.why
    assert {pod.uid for pod in world.pods if not pod.deleted} == before


def test_what_a_person_approved_needs_no_other_permission_but_the_owners() -> None:
    world = _world({"replicas": 1, "move": movable("Ask", save_seconds=60)}, random.Random(1))
    world.propose()
    world.task = replace(world.task, approves=_only(world).name)
    _until(world, lambda: _only(world).phase == "Saving")
    world.task = replace(world.task, approves="")
    _until(world, lambda: _only(world).phase == "Done")


def test_a_move_that_a_person_asked_for_needs_no_policy() -> None:
    world = _world({"replicas": 1, "move": movable("Never")}, random.Random(1))
    world.propose()
    (name,) = world.moves
    gain = MoveGain(kind="Person")
    asked = replace(_only(world), spec=msgspec.structs.replace(_only(world).spec, gain=gain))
    world.moves[name] = world.known[name] = asked
    _until(world, lambda: _only(world).phase == "Done")
    assert _only(world).status.reason == "Arrived"


def test_without_an_approval_it_ends_with_its_time() -> None:
    world = _world({"replicas": 1, "move": movable("Ask")}, random.Random(3))
    move = _proposed(world)
    world.now_s += 601
    _until(world, lambda: world.moves[move.name].has_ended)

    assert (world.moves[move.name].phase, world.moves[move.name].status.reason) == ("Withdrawn", "Expired")


def test_while_no_scheduler_holds_its_places_a_move_comes_to_nothing_and_the_task_runs_on(
    world: MovingWorld,
) -> None:
    move = _proposed(world)
    for _ in range(700):
        world.act(world.think())
        world.run_jobs()
        world.known = dict(world.moves)
        world.now_s += 1.0
    status = world.moves[move.name].status
    assert (status.phase, status.reason) == ("Withdrawn", "Expired")
    assert [one.type for one in status.conditions] == ["Approved", "Withdrawn"]
    assert not any(job.suspended for job in world.jobs.values())
    assert _all_run(world)


def test_a_program_that_has_time_is_asked_and_its_answer_is_waited_for() -> None:
    world = _world({"replicas": 2, "move": movable(save_seconds=3600)}, random.Random(5))
    move = _proposed(world)
    begun_s = world.now_s
    _until(world, lambda: world.moves[move.name].phase == "Leaving")

    assert {pod.saved_for for pod in world.pods if pod.node} == {move.uid}
    assert world.now_s < begun_s + 3600
    _until(world, lambda: world.moves[move.name].phase == "Done")


def test_a_task_that_ends_while_it_leaves_ends_its_move(world: MovingWorld) -> None:
    move = _proposed(world)
    _until(world, lambda: world.moves[move.name].phase == "Leaving")
    (job,) = world.jobs.values()
    job.completed = set(range(job.ranks))
    for pod in world.pods:
        pod.phase = "Succeeded"
    job.complete = True
    _until(world, lambda: world.moves[move.name].has_ended)

    assert (world.moves[move.name].phase, world.moves[move.name].status.reason) == ("Done", "TaskEnded")
    assert record_of(world.task.status).outcome == "Completed"


def test_a_job_that_is_suspended_already_is_not_written_again(world: MovingWorld) -> None:
    move = _proposed(world)
    _until(world, lambda: any(job.suspended for job in world.jobs.values()))

    assert world.moves[move.name].phase == "Leaving"
    assert decide(world.view()).action is None


def test_a_rank_that_fails_before_it_begins_withdraws_the_move() -> None:
    spec = {"replicas": 2, "move": movable(save_seconds=600), "on_failure": failure(retries=1)}
    world = _world(spec, random.Random(7))
    move = _proposed(world)
    _until(world, lambda: world.moves[move.name].phase == "Saving")
    world.end(next(pod for pod in world.pods if pod.phase == "Running"), 1)
    _until(world, lambda: world.task.status.attempt == 2 and _all_run(world))

    withdrawn = world.moves[move.name]
    assert (withdrawn.phase, withdrawn.status.reason) == ("Withdrawn", "TaskChanged")
    assert not any(job.suspended for job in world.jobs.values())


def test_of_two_moves_one_is_carried_out(world: MovingWorld) -> None:
    first = _proposed(world)
    world.propose()
    _until(world, lambda: all(move.has_ended for move in world.moves.values()))

    ends = {name: (move.phase, move.status.reason) for name, move in world.moves.items()}
    assert ends[first.name] == ("Done", "Arrived")
    assert ends["train-2"] == ("Withdrawn", "Overtaken")


def test_a_person_who_suspends_the_task_meanwhile_ends_its_hold(world: MovingWorld) -> None:
    move = _proposed(world)
    _until(world, lambda: world.moves[move.name].phase == "Leaving")
    _change(world, suspend=True)
    _until(world, lambda: world.moves[move.name].has_ended)

    assert (world.moves[move.name].phase, world.moves[move.name].status.reason) == ("Done", "Suspended")
    assert all(job.suspended for job in world.jobs.values())


def test_a_job_that_is_suspended_with_no_live_move_is_resumed(world: MovingWorld) -> None:
    move = _proposed(world)
    _until(world, lambda: any(job.suspended for job in world.jobs.values()))
    del world.moves[move.name]
    _until(world, lambda: _all_run(world))

    assert not any(job.suspended for job in world.jobs.values())


def test_of_the_moves_that_have_ended_the_newest_are_kept(world: MovingWorld) -> None:
    move = _proposed(world)
    _until(world, lambda: world.moves[move.name].has_ended)
    ended = world.moves[move.name]
    for number in range(MOST_ENDED + 3):
        name = f"former-{number}"
        world.moves[name] = replace(ended, name=name, uid=name, created_s=float(number))
    for _ in range(20):
        _turn(world)

    assert len(world.moves) == MOST_ENDED
    assert move.name in world.moves
    assert "former-0" not in world.moves
