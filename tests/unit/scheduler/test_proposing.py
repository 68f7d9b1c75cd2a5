"""Which moves are proposed, and how often."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.assignments.assignment import Assignment, Naming, Piece
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.kinds.gputask import TaskMoves
from accelet.kinds.move import Move, MoveStatus
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod
from accelet.scheduler.moves.budgets import FormerMove, MoveBounds, MoveHistory
from accelet.scheduler.moves.finding.letsin import LetsInTerms
from accelet.scheduler.moves.finding.nearer import NearerTerms
from accelet.scheduler.moves.finding.packs import PacksTerms
from accelet.scheduler.moves.finding.relocating import Drained
from accelet.scheduler.moves.movable import Relocation
from accelet.scheduler.moves.proposing import (
    lets_in_key,
    move_spec,
    propose_drain,
    propose_lets_in,
    propose_nearer,
    propose_packs,
    propose_wish,
)
from tests.fakes.nodes import node
from tests.unit.scheduler.card_values import I915, card, card_container, card_node, card_pod
from tests.unit.scheduler.moving_instances import as_task, running, suppose, waiting_gang

_NOW_S = 1_000_000.0
_UNTIL = datetime(2030, 1, 1, tzinfo=UTC)
_TERMS = LetsInTerms(factor=1.0)
_DRAINED = Drained(frozenset(("n0",)))


def _cluster() -> tuple[list[Node], list[Pod]]:
    nodes = [node(f"n{i}", f"b0/s0/h{i}", gpus=2) for i in range(3)]
    return nodes, [*running("t0", ["n0"]), *running("t1", ["n1"]), *running("t2", ["n2"])]


def _former(move: Relocation, at_s: float, *, phase: str = "Done", lets_in: str = "") -> FormerMove:
    return FormerMove(
        task_uid=move.task.uid,
        kind="LetsIn",
        phase=phase,  # type: ignore[arg-type]  # of the phases
        begun_s=at_s,
        lets_in=lets_in,
        left=frozenset(move.task.nodes),
        nodes=frozenset(move.nodes),
    )


def test_a_proposal_says_what_it_is_good_for_and_not_for_whom() -> None:
    nodes, pods = _cluster()
    gang = waiting_gang(1, gpus=2)
    tasks = [as_task([one]) for one in pods]
    proposal = propose_lets_in([gang], tasks, suppose(nodes, pods), MoveHistory(_NOW_S), _TERMS)

    assert proposal is not None
    assert proposal.gain.lets_in == lets_in_key(gang.key)
    assert gang.key.name not in proposal.gain.lets_in
    assert proposal.gain.text == "would let in a gang of 1 pod that waits, by moving 1 rank of 1 task"


def test_a_proposal_is_written_as_the_kind_has_it() -> None:
    nodes, pods = _cluster()
    (proposal,) = [
        propose_lets_in(
            [waiting_gang(1, gpus=2)],
            [as_task(pods[:1])],
            suppose(nodes, pods),
            MoveHistory(_NOW_S),
            _TERMS,
        )
    ]
    assert proposal is not None
    spec = move_spec(proposal.moves[0], proposal.gain, _UNTIL)

    (place,) = spec.places
    assert (place.rank, place.pod_uid, place.from_node) == (0, "uid-t0-0", "n0")
    assert place.to_node in ("n1", "n2")
    assert spec.takes["pods"] == 1
    assert Move("ml", "t0-1", "uid", "1", 0.0, spec, MoveStatus()).pod_uids == {"uid-t0-0"}


def test_a_drain_that_came_to_nothing_is_not_proposed_again_at_once() -> None:
    nodes, pods = _cluster()
    task, supposed = as_task(pods[:1]), suppose(nodes, pods)
    before = FormerMove(task.uid, "Drain", "Withdrawn", _NOW_S, left=frozenset(("n0",)))

    why = propose_drain(task, _DRAINED, supposed, MoveHistory(_NOW_S + 599, [before])).reason
    assert why == "it was to be moved away a moment ago, which came to nothing"
    assert propose_drain(task, _DRAINED, supposed, MoveHistory(_NOW_S + 600, [before])).move is not None


@given(lasted_s=st.integers(0, 8000), after_s=st.integers(0, 20_000), save_s=st.integers(0, 3600))
def test_who_wishes_again_and_again_has_two_places_for_a_task_at_most_half_of_the_time(
    lasted_s: int, after_s: int, save_s: int
) -> None:
    """Its owner may write other times into the task once it was moved."""
    nodes, pods = _cluster()
    supposed, task = suppose(nodes, pods), as_task(pods[:1])
    task = replace(task, terms=replace(task.terms, moves=TaskMoves(save_seconds=save_s)))
    ended_s = _NOW_S + lasted_s
    before = FormerMove(task.uid, "Person", "Withdrawn", _NOW_S, was_held=True, ended_s=ended_s)

    found = propose_wish(task, None, supposed, MoveHistory(ended_s + after_s, [before]))
    assert (found.move is not None) == (after_s >= lasted_s)
    assert found.move is not None or "ask again in" in found.reason
    never_held = replace(before, was_held=False)
    assert propose_wish(task, None, supposed, MoveHistory(ended_s + after_s, [never_held])).move is not None


def test_who_deletes_a_task_that_was_moved_by_a_wish_has_no_other_one_moved_so_meanwhile() -> None:
    nodes, pods = _cluster()
    supposed, task = suppose(nodes, pods), as_task(pods[:1])
    gone = FormerMove("former", "Person", "Done", _NOW_S - 600, was_held=True, ended_s=_NOW_S - 100)
    gone = replace(gone, of_gone=task.terms.namespace)

    why = propose_wish(task, None, supposed, MoveHistory(_NOW_S, [gone])).reason
    assert why.endswith("was deleted had two places by a person's wish: ask again in 400 s")
    assert propose_wish(task, None, supposed, MoveHistory(_NOW_S + 400, [gone])).move is not None
    elsewhere = replace(gone, of_gone="elsewhere")
    assert propose_wish(task, None, supposed, MoveHistory(_NOW_S, [elsewhere])).move is not None
    assert propose_drain(task, _DRAINED, supposed, MoveHistory(_NOW_S, [gone])).move is not None


def test_places_are_not_held_for_a_day_for_programs_that_take_that_long_to_end() -> None:
    nodes, pods = _cluster()
    gangs, supposed = [waiting_gang(1, gpus=2)], suppose(nodes, pods)
    history = MoveHistory(_NOW_S)
    for ending_s, is_moved in ((3600, True), (3601, False)):
        tasks = [as_task([replace(one, ending_s=ending_s)]) for one in pods]
        assert (propose_lets_in(gangs, tasks, supposed, history, _TERMS) is not None) is is_moved
        assert (propose_drain(tasks[0], _DRAINED, supposed, history).move is not None) is is_moved
        asked = propose_wish(tasks[0], "n1", supposed, history)
        assert (asked.move is not None) is is_moved
    assert asked.reason == "its pods are given 3601 s to end: with more than 3600 s none is moved"


def test_a_task_has_run_a_while_before_it_is_moved() -> None:
    nodes, pods = _cluster()
    tasks = [as_task([one], since_s=_NOW_S - 599) for one in pods]
    gangs, supposed = [waiting_gang(1, gpus=2)], suppose(nodes, pods)

    assert propose_lets_in(gangs, tasks, supposed, MoveHistory(_NOW_S), _TERMS) is None
    assert propose_lets_in(gangs, tasks, supposed, MoveHistory(_NOW_S + 1), _TERMS) is not None


def test_a_task_is_asked_for_one_gang_once_an_hour() -> None:
    """What a Move came to nothing for may have passed: a rank that was not ready, a budget of that time."""
    nodes, pods = _cluster()
    gang, tasks = waiting_gang(1, gpus=2), [as_task([one]) for one in pods]
    supposed = suppose(nodes, pods)
    first = propose_lets_in([gang], tasks, supposed, MoveHistory(_NOW_S), _TERMS)
    assert first is not None
    asked = [
        _former(Relocation(task, ("n1",), (None,)), _NOW_S, phase="Withdrawn", lets_in=lets_in_key(gang.key))
        for task in tasks
    ]
    for after_s, is_proposed in ((3599, False), (3600, True)):
        found = propose_lets_in([gang], tasks, supposed, MoveHistory(_NOW_S + after_s, asked), _TERMS)
        assert (found is not None) is is_proposed


def test_a_task_does_not_return_to_where_it_made_room_before() -> None:
    nodes = [node(f"n{i}", f"b0/s0/h{i}", gpus=2) for i in range(2)]
    pods = [*running("t0", ["n1"]), *running("x", ["n0"])]
    task, gangs, supposed = as_task(pods[:1]), [waiting_gang(1, gpus=2)], suppose(nodes, pods)
    left = FormerMove(task.uid, "LetsIn", "Done", _NOW_S - 80_000, left=frozenset(("n0",)))

    assert propose_lets_in(gangs, [task], supposed, MoveHistory(_NOW_S), _TERMS) is not None
    assert propose_lets_in(gangs, [task], supposed, MoveHistory(_NOW_S, [left]), _TERMS) is None
    assert propose_lets_in(gangs, [task], supposed, MoveHistory(_NOW_S + 10_000, [left]), _TERMS) is not None


def test_moves_that_touch_one_node_go_one_after_the_other() -> None:
    nodes, pods = _cluster()
    other = FormerMove("another", "Drain", "Held", _NOW_S, left=frozenset(("n1",)), nodes=frozenset(("n2",)))
    history = MoveHistory(_NOW_S, [other])
    tasks = [as_task([one]) for one in pods]

    assert propose_lets_in([waiting_gang(1, gpus=2)], tasks, suppose(nodes, pods), history, _TERMS) is None
    why = propose_drain(tasks[0], _DRAINED, suppose(nodes, pods), history).reason
    assert why == "another Move touches one of these nodes, and goes first"


def test_a_drained_node_is_left_by_the_ranks_that_are_there() -> None:
    nodes = [node(f"n{i}", f"b0/s0/h{i}", gpus=2) for i in range(3)]
    pods = running("t0", ["n0", "n1"], gpus=2)
    found = propose_drain(as_task(pods), _DRAINED, suppose(nodes, pods), MoveHistory(_NOW_S))

    assert found.move is not None
    assert (found.move.nodes, found.move.kept) == (("n2", "n1"), frozenset({1}))


def _on_card(name: str, number: int) -> Pod:
    """A task's pod that runs on a tile of a card of the node `a`."""
    piece = Piece(Naming.UNIT, UnitId(f"0000-{number:02x}-00.0"), frozenset((0,)))
    said = {"batch.kubernetes.io/job-completion-index": "0"}
    said[ASSIGNMENT_ANNOTATION] = render_own(Assignment({"main": {I915: (piece,)}}))
    waiting = card_pod(name, card_container(tiles=1), labels={"job-name": name}, said=said, gates=())
    return replace(waiting, node_name="a", phase="Running")


@pytest.mark.parametrize("ill", [None, "too hot"])
def test_cards_out_of_service_are_left_and_the_other_cards_of_their_node_are_not(ill: str | None) -> None:
    labels = {} if ill else {"gpu.intel.com/gas-disable-card0": "true"}
    nodes = [card_node("a", card(0, ill=ill), card(1), card(2), labels=labels)]
    pods = [_on_card("t0", 0), _on_card("t1", 1)]
    first, second = (as_task([one]) for one in pods)
    supposed, history = suppose(nodes, pods), MoveHistory(_NOW_S)
    cards = Drained(cards_of=frozenset(("a",)))

    found = propose_drain(first, cards, supposed, history).move
    assert found is not None
    (assigned,) = found.assignments
    assert assigned is not None
    assert "0000-00-00.0" not in render_own(assigned)
    assert propose_drain(second, cards, supposed, history).reason == "none of its ranks is there"
    elsewhere = Drained(cards_of=frozenset(("b",)))
    assert propose_drain(first, elsewhere, supposed, history).move is None


def test_a_person_is_told_why_a_task_cannot_be_where_it_is_wanted() -> None:
    nodes, _ = _cluster()
    pods = [*running("t0", ["n0"]), *running("t1", ["n1"], gpus=2)]
    task, supposed, history = as_task(pods[:1]), suppose(nodes, pods), MoveHistory(_NOW_S)

    assert propose_wish(task, "n9", supposed, history).reason == "there is no node n9"
    assert propose_wish(task, "n0", supposed, history).reason == "it is on n0 already"
    assert "short of nvidia.com/gpu" in propose_wish(task, "n1", supposed, history).reason
    found = propose_wish(task, None, supposed, history).move
    assert found is not None
    assert found.nodes == ("n2",)


@given(st.integers(0, 2**32).map(Random), st.integers(1, 3), st.integers(0, 3))
def test_over_many_rounds_the_budgets_hold_and_nobody_comes_back(
    chance: Random, most_moves: int, most_an_hour: int
) -> None:
    """Gangs come at random, every proposal is carried out at once or withdrawn, and time goes on."""
    nodes, pods = _cluster()
    bounds, former, now_s = MoveBounds(most_an_hour), list[FormerMove](), _NOW_S
    since_s = {one.key: 0.0 for one in pods}
    for turn in range(8):
        now_s += chance.choice((60, 700, 4000))
        gang = waiting_gang(1, gpus=2)
        gang = replace(gang, key=replace(gang.key, name=f"w-{turn % 4}"))
        tasks = [as_task([one], since_s=since_s[one.key], most_moves=most_moves) for one in pods]
        history = MoveHistory(now_s, former, bounds=bounds)
        proposal = propose_lets_in([gang], tasks, suppose(nodes, pods), history, _TERMS)
        for move in proposal.moves if proposal else ():
            phase = chance.choice(("Done", "Done", "Withdrawn"))
            former.append(_former(move, now_s, phase=phase, lets_in=lets_in_key(gang.key)))
            if phase == "Done":
                (key,) = move.task.pods
                pods = [replace(one, node_name=move.nodes[0]) if one.key == key else one for one in pods]
                since_s[key] = now_s

    done = [one for one in former if one.phase == "Done"]
    for one in done:
        hour = [other for other in done if 0 <= other.begun_s - one.begun_s < 3600]
        assert len(hour) <= most_an_hour
        assert len([other for other in hour if other.task_uid == one.task_uid]) <= most_moves
        later = [other for other in done if other.task_uid == one.task_uid and other.begun_s > one.begun_s]
        assert not any(other.nodes & one.left for other in later), "it came back within a day"
    asked = Counter((one.task_uid, one.lets_in) for one in former)
    assert max(asked.values(), default=1) == 1


def _improvable() -> tuple[list[Node], list[Pod]]:
    """Two ranks apart, for which there are two places near each other, and one who uses a node of these."""
    nodes = [node(f"n{i}", f"b{i}/s0/h0", gpus=4) for i in range(3)]
    return nodes, [*running("t0", ["n0", "n1"]), *running("x", ["n2"])]


def test_a_better_place_is_proposed_once_an_hour_and_not_against_a_person() -> None:
    nodes, pods = _improvable()
    task, supposed = as_task(pods[:2]), suppose(nodes, pods)

    def proposed(*former: FormerMove) -> set[str]:
        history = MoveHistory(_NOW_S, former)
        nearer = propose_nearer(task, supposed, history, NearerTerms())
        packs = propose_packs(task, supposed, history, PacksTerms(factor=1.0))
        return {one.proposal.gain.kind for one in (nearer, packs) if one.proposal is not None}

    both = {"Nearer", "Packs"}
    assert proposed() == both
    for kind in both:
        before = FormerMove(task.uid, kind, "Withdrawn", _NOW_S - 3599)  # type: ignore[arg-type]  # of kinds
        assert proposed(before) == set(), "withdrawn, as a disruption budget has it"
        assert proposed(replace(before, begun_s=_NOW_S - 3600)) == both
    wished = FormerMove(task.uid, "Person", "Done", _NOW_S - 86_399)
    assert proposed(wished) == set()
    assert proposed(replace(wished, phase="Withdrawn")) == both
    assert proposed(replace(wished, begun_s=_NOW_S - 86_400)) == both
    assert proposed(FormerMove(task.uid, "Drain", "Done", _NOW_S - 60)) == set(), "maxMoves is 1 an hour"
    left = FormerMove("other", "Drain", "Held", _NOW_S, left=frozenset(("n1",)))
    assert proposed(left) == set(), "another Move touches its node"


def test_no_more_tasks_are_brought_to_better_places_than_are_allowed_in_an_hour() -> None:
    nodes, pods = _improvable()
    task, supposed = as_task(pods[:2]), suppose(nodes, pods)
    others = [FormerMove(f"o{at}", "Packs", "Done", _NOW_S - 60) for at in range(3)]
    assert propose_nearer(task, supposed, MoveHistory(_NOW_S, others[:2]), NearerTerms()).proposal is not None
    found = propose_nearer(task, supposed, MoveHistory(_NOW_S, others), NearerTerms())
    assert found.reason == "as many tasks as may be have been moved to better places within an hour"
    asked = [replace(one, phase="Proposed") for one in others]
    assert propose_nearer(task, supposed, MoveHistory(_NOW_S, asked), NearerTerms()).proposal is not None
    for save_s, is_moved in ((890, True), (891, False)):
        slow = as_task([replace(one, ending_s=10) for one in pods[:2]])
        slow = replace(slow, terms=replace(slow.terms, moves=TaskMoves(save_seconds=save_s)))
        found = propose_nearer(slow, supposed, MoveHistory(_NOW_S), NearerTerms())
        assert (found.proposal is not None) is is_moved
    young = as_task(pods[:2], since_s=_NOW_S - 599)
    assert (
        "has run in this place" in propose_nearer(young, supposed, MoveHistory(_NOW_S), NearerTerms()).reason
    )
