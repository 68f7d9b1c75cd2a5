"""What is held for Moves is charged once: as long as none of the task's own pods has it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from time import process_time
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.control.writer import FencedWriter
from accelet.kinds.move import HOLDS, Move, MoveGain, MovePhase, MovePlace, MoveSpec, MoveStatus, MoveTask
from accelet.kube.apiresources import ObjectApi
from accelet.kube.errors import MalformedObjectError
from accelet.kube.pods import Pod
from accelet.kube.selection import NodeTerm, Requirement
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.holding import SLACK_S, MoveVerdict, held_until_s
from accelet.scheduler.moves.tasks import TaskTerms, parse_terms
from accelet.scheduler.moves.writer import MoveWriter
from accelet.scheduler.record import Awaited
from accelet.scheduler.release import unpinned_terms
from accelet.scheduler.state import SchedulerState
from tests.fakes.nodes import GPU, node
from tests.unit.scheduler.card_values import card, card_node
from tests.unit.scheduler.values import pod

_INDEX = "batch.kubernetes.io/job-completion-index"
_NODES = ("n0", "n1", "n2")
_UNTIL = datetime(2030, 1, 1, tzinfo=UTC)
_PHASES: tuple[MovePhase, ...] = (
    *("Proposed", "Approved", "Held", "Saving", "Leaving", "Arriving", "Done", "Withdrawn"),
)
_TAKES = {"pods": 1, "cpu": 1000, GPU: 1}


def _rank(number: int, name: str, *, on: str | None = None, gpus: int = 1) -> Pod:
    labels = {"job-name": "train-1", "batch.kubernetes.io/job-name": "train-1"}
    return pod(name, gpus=gpus, on=on, labels=labels, annotations={_INDEX: str(number)})


def _move(places: Sequence[tuple[str, str]], phase: MovePhase = "Held", *, version: int = 1) -> Move:
    spec = MoveSpec(
        task=MoveTask(name="train", uid="uid-train", attempt=1),
        takes=_TAKES,
        places=tuple(
            MovePlace(rank=rank, pod_uid=f"uid-old-{rank}", from_node=old, to_node=new)
            for rank, (old, new) in enumerate(places)
        ),
        gain=MoveGain(kind="LetsIn", lets_in="someone"),
        valid_until=_UNTIL,
    )
    return Move("ml", "train-m", "uid-m", str(version), 0.0, spec, MoveStatus(phase=phase))


def _world(places: Sequence[tuple[str, str]], gpus: int = 4) -> tuple[SchedulerState, MoveBook]:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    for number, name in enumerate(_NODES):
        state.set_node(node(name, f"b0/s0/h{number}", gpus=gpus))
    for rank, (old, _) in enumerate(places):
        state.set_pod(_rank(rank, f"old-{rank}", on=old))
    return state, MoveBook(state)


def _free(state: SchedulerState) -> dict[str, int]:
    room = state.cluster.snapshot().room.amounts
    column = room.columns[GPU]
    return {name: int(room.free[column, leaf]) for name, leaf in state.cluster.layout.leaf_of.items()}


@given(
    st.lists(st.tuples(st.sampled_from(_NODES), st.sampled_from(_NODES)), min_size=1, max_size=3),
    st.integers(0, 2**32).map(Random),
)
def test_at_any_moment_each_place_is_charged_once(places: list[tuple[str, str]], chance: Random) -> None:
    state, book = _world(places)
    there, arrived = set(range(len(places))), dict[int, str]()
    for version, phase in enumerate(chance.choices(_PHASES, k=8), start=1):
        book.set_move(_move(places, phase, version=version))
        for rank in [rank for rank in there if chance.random() < 0.2]:
            there.discard(rank)
            state.remove_pod(("ml", f"old-{rank}"), 0.0)
        for rank in [rank for rank in range(len(places)) if rank not in there | arrived.keys()]:
            if chance.random() < 0.3:
                arrived[rank] = chance.choice(_NODES)
                state.set_pod(_rank(rank, f"new-{rank}", on=arrived[rank]))
        book.settle()

        taken = Counter([places[rank][0] for rank in there]) + Counter(arrived.values())
        for rank, (old, new) in enumerate(places):
            if phase in HOLDS and rank not in arrived:
                taken.update({new} if rank not in there or new != old else ())
                taken.update({old} - {new} if rank not in there else ())
        assert _free(state) == {name: 4 - taken[name] for name in _NODES}


def test_an_older_version_of_a_move_changes_nothing() -> None:
    state, book = _world([("n0", "n1")])
    book.set_move(_move([("n0", "n1")], "Held", version=7))
    book.set_move(_move([("n0", "n1")], "Proposed", version=3))
    assert _free(state) == {"n0": 3, "n1": 3, "n2": 4}
    book.remove_move(("ml", "train-m"))
    assert _free(state) == {"n0": 3, "n1": 4, "n2": 4}


def test_an_answer_that_comes_after_the_end_of_a_move_holds_nothing_for_it() -> None:
    """Its task is deleted while the scheduler holds its places, and the watch is quicker than the answer."""
    state, book = _world([("n0", "n1")])
    book.set_move(_move([("n0", "n1")], "Approved"))
    book.renew_move(_move([("n0", "n1")], "Held", version=2))
    assert _free(state) == {"n0": 3, "n1": 3, "n2": 4}
    book.remove_move(("ml", "train-m"))
    book.renew_move(_move([("n0", "n1")], "Held", version=2))
    assert (_free(state), book.live) == ({"n0": 3, "n1": 4, "n2": 4}, [])


async def test_what_is_written_of_a_move_that_has_gone_meanwhile_is_not_kept() -> None:
    state, book = _world([("n0", "n1")])
    move = _move([("n0", "n1")], "Approved")
    book.set_move(move)

    class Quick:
        """The watch has told of the end of the Move before the answer is read."""

        async def patch(self, *_: object, **__: object) -> bytes:
            book.remove_move(move.key)
            metadata = {"name": move.name, "namespace": "ml", "uid": move.uid, "resourceVersion": "2"}
            spec = msgspec.to_builtins(move.spec)
            return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"phase": "Held"}})

    writer = MoveWriter(FencedWriter(cast(ObjectApi, Quick()), lambda: True), book)
    await writer.write(move, MoveVerdict("Held", "Held"), 0.0)
    assert (book.live, _free(state)["n1"]) == ([], 4)


def test_what_is_intended_is_held_if_it_is_free_and_only_then() -> None:
    state, book = _world([("n0", "n1")])
    move = _move([("n0", "n1")], "Approved")
    book.set_move(move)
    assert _free(state)["n1"] == 4
    assert book.intend(move)
    assert _free(state)["n1"] == 3
    book.let_go(move)
    state.set_pod(pod("other", gpus=4, on="n1"))
    assert not book.intend(move)
    assert _free(state) == {"n0": 3, "n1": 0, "n2": 4}


def test_a_running_rank_is_pinned_to_its_node_and_may_be_elsewhere_all_the_same() -> None:
    state, book = _world([])
    pin = NodeTerm((), (Requirement("metadata.name", "In", ("n0",)),))
    state.set_pod(replace(_rank(0, "old-0", on="n0"), required_terms=(pin,)))
    move = _move([("n0", "n1")], "Approved")
    book.set_move(move)
    assert book.is_open(move)
    assert book.intend(move)


def test_the_successors_get_exactly_the_new_places_while_these_are_free() -> None:
    places = [("n0", "n1"), ("n0", "n2")]
    state, book = _world(places)
    book.set_move(_move(places, "Arriving"))
    for rank in range(2):
        state.remove_pod(("ml", f"old-{rank}"), 0.0)
        state.set_pod(_rank(rank, f"new-{rank}"))
    (gang,) = state.gangs()
    move = book.arriving(gang)
    assert move is not None
    found = book.exact_places(move, gang)
    assert found is not None
    assert [one.node for one in found] == ["n1", "n2"]
    state.remove_node("n2")
    book.settle()
    assert book.exact_places(move, gang) is None
    book.give_up(move)
    assert _free(state) == {"n0": 4, "n1": 4}
    assert book.arriving(gang) is None


@pytest.mark.parametrize(("gpus", "is_given"), [(1, True), (2, False), (4, False)])
def test_a_successor_that_asks_for_more_than_is_held_does_not_get_it(gpus: int, is_given: bool) -> None:
    """Whoever may make pods may make one of the Job's name, and a suspended Job's template can be changed."""
    places = [("n0", "n1")]
    state, book = _world(places)
    book.set_move(_move(places, "Arriving"))
    state.set_pod(pod("other", gpus=3, on="n1"))
    state.remove_pod(("ml", "old-0"), 0.0)
    state.set_pod(_rank(0, "new-0", gpus=gpus))
    (gang,) = state.gangs()
    move = book.arriving(gang)
    assert move is not None
    assert (book.exact_places(move, gang) is not None) is is_given


def test_tiles_that_are_held_are_nobody_elses() -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    state.set_node(card_node("a", card(0)))
    unit = card(0).id
    text = (
        f'{{"version":1,"containers":{{"main":{{"gpu.intel.com/i915":[{{"unit":"{unit}","tiles":[0]}}]}}}}}}'
    )
    move = _move([("b", "a")])
    place = _with_cards(move.spec.places[0], to_cards=text)
    spec = MoveSpec(
        task=move.spec.task,
        takes={"pods": 1, "gpu.intel.com/i915": 1, "gpu.intel.com/tiles": 1},
        places=(place,),
        gain=move.spec.gain,
        valid_until=_UNTIL,
    )
    book = MoveBook(state)
    book.set_move(replace(move, spec=spec))
    assert state.cluster.cards.uses(("ml", "uid-m/0/new")) != ()


def _with_cards(place: MovePlace, *, to_cards: str) -> MovePlace:
    return MovePlace(
        rank=place.rank,
        pod_uid=place.pod_uid,
        from_node=place.from_node,
        to_node=place.to_node,
        to_cards=to_cards,
    )


def test_moves_are_done_when_all_are_and_come_to_nothing_when_one_does() -> None:
    _, book = _world([("n0", "n1")])
    awaited = (Awaited("ml", "train-m", "uid-m"),)
    assert book.are_done(awaited) is None, "there is no such Move"
    for version, (phase, are_done) in enumerate(
        [("Approved", None), ("Held", False), ("Leaving", False), ("Done", True), ("Withdrawn", None)],
        start=1,
    ):
        book.set_move(_move([("n0", "n1")], phase, version=version))  # type: ignore[arg-type]  # of the phases
        assert book.are_done(awaited) is are_done
    assert book.are_done((Awaited("ml", "train-m", "another"),)) is None


@given(st.lists(st.sampled_from(["zone", "metadata.name"]), max_size=2), st.booleans())
def test_a_pin_is_taken_off_and_nothing_else(fields: list[str], has_terms: bool) -> None:
    own = tuple(Requirement(name, "In", ("x", "y")) for name in fields)
    before = (NodeTerm((Requirement("disk", "Exists", ()),), own),) if has_terms else None
    pin = Requirement("metadata.name", "In", ("n0",))
    after = (
        tuple(NodeTerm(t.expressions, (*t.fields, pin)) for t in before)
        if before
        else (NodeTerm((), (pin,)),)
    )
    running = replace(pod("p", on="n0"), required_terms=after)
    assert unpinned_terms(running) == before
    assert unpinned_terms(replace(running, required_terms=before)) == before


@pytest.mark.parametrize(
    "body",
    [
        '{"metadata": {"name": "t"}, "spec": {"move": {"policy": "Always"}}}',
        '{"metadata": {"name": "t"}, "spec": {"move": {"minRunSeconds": -1}}}',
        '{"metadata": {"name": "t"}, "spec": []}',
    ],
)
def test_a_task_that_cannot_be_read_is_named(body: str) -> None:
    with pytest.raises(MalformedObjectError, match="GPUTask"):
        parse_terms(body.encode())


def test_a_wish_that_cannot_be_read_is_none() -> None:
    body = '{"metadata": {"name": "t", "uid": "u", "annotations": {"accelet.dev/move-to": "soon"}}}'
    assert parse_terms(body.encode()) == TaskTerms("default", "t", "u", 0)


def test_what_is_held_for_a_move_under_way_has_an_end() -> None:
    places = [("n0", "n1")]
    left, arriving = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    status = _move(places).status.advance("Leaving", "Begun", "", left)
    move = replace(_move(places), status=status)
    assert held_until_s(move, 40) == left.timestamp() + 40 + SLACK_S
    move = replace(move, status=status.advance("Arriving", "Left", "", arriving))
    assert held_until_s(move, 40) == arriving.timestamp() + SLACK_S
    assert held_until_s(_move(places, "Leaving"), 0) == _UNTIL.timestamp() + SLACK_S


def test_moves_that_have_ended_long_ago_cost_next_to_nothing() -> None:
    """Of 1,000 tasks 16 each are kept; each Move once had all others looked at, and each gang too."""
    _, book = _world([("n0", "n1")])
    done = _move([("n0", "n1")], "Done")
    began_s = process_time()
    for number in range(20_000):
        book.set_move(replace(done, name=f"m{number}", uid=f"uid-m{number}"))
    assert process_time() - began_s < 5, "it took 20 s and more"
    assert book.live == []
    assert len(book.history(0.0)) == 20_000


def test_a_move_that_was_given_up_keeps_no_node_from_others_and_is_under_way_for_its_task() -> None:
    _, book = _world([("n0", "n1")])
    move = _move([("n0", "n1")], "Arriving")
    book.set_move(move)
    (before,) = book.history(0.0)
    assert before.left | before.nodes == {"n0", "n1"}
    book.give_up(move)
    (after,) = book.history(0.0)
    assert not after.left | after.nodes
    assert after.is_live


def _wished(name: str, phase: MovePhase, *, created_s: float = 1000.0, ended_s: float = 0.0) -> Move:
    move = _move([("n0", "n1")], "Held")
    status = move.status.advance("Held", "Held", "", datetime.fromtimestamp(created_s, UTC))
    if ended_s:
        status = status.advance(phase, "Arrived", "", datetime.fromtimestamp(ended_s, UTC))
    spec = msgspec.structs.replace(move.spec, gain=MoveGain(kind="Person"))
    return replace(move, name=name, uid=name, created_s=created_s, spec=spec, status=status)


@given(lasted_s=st.integers(1, 10_000), is_ended=st.booleans(), after_s=st.integers(0, 20_000))
def test_a_wish_whose_task_was_deleted_counts_for_as_long_again_as_it_lasted(
    lasted_s: int, is_ended: bool, after_s: int
) -> None:
    _, book = _world([("n0", "n1")])
    ended_s = 1000.0 + lasted_s
    book.set_move(_wished("m", "Done", ended_s=ended_s if is_ended else 0.0))
    book.remove_move(("ml", "m"))
    assert book.live == []
    (gone,) = book.history(ended_s)
    assert (gone.of_gone, gone.is_live, gone.left | gone.nodes) == ("ml", False, frozenset())
    assert gone.rests_until_s == ended_s + lasted_s
    assert len(book.history(ended_s + after_s)) == (after_s < lasted_s)


def test_what_nobody_wished_or_was_never_held_is_forgotten_with_its_task() -> None:
    _, book = _world([("n0", "n1")])
    proposed = replace(_wished("m0", "Proposed"), status=MoveStatus())
    for move in (proposed, _move([("n0", "n1")], "Held")):
        book.set_move(move)
        book.remove_move(move.key)
    assert book.history(0.0) == []
