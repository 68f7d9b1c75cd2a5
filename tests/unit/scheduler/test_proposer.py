"""Looks for moves: not for long at a time, everybody in turn, and nobody's trouble is another's."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.kinds.gputask import TaskMoves
from accelet.kinds.move import Move, MoveGain, MovePlace, MoveSpec, MoveStatus, MoveTask
from accelet.kinds.wish import MoveWish
from accelet.kube.apiresources import ApiResource, Body, ObjectApi
from accelet.kube.errors import ForbiddenError
from accelet.kube.objects import Condition
from accelet.kube.recording.eventlog import Message
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.finding.relocating import DRAIN
from accelet.scheduler.moves.holding import GAIN_LOST
from accelet.scheduler.moves.proposer import Proposer
from accelet.scheduler.moves.tasks import TaskTerms
from accelet.scheduler.moves.writer import MoveWriter
from accelet.scheduler.placement.plan import Plan, plan_gang
from accelet.scheduler.settings import MoveSettings
from accelet.scheduler.state import SchedulerState
from tests.fakes.nodes import node
from tests.unit.scheduler.values import pod

_NOW_S = 1_800_000_000.0
_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class BusyClock:
    """Whatever is done takes 0.3 s: so much passes between two looks at this clock."""

    time_s: float = 0.0

    def now_s(self) -> float:
        self.time_s += 0.3
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nobody sleeps for {seconds} s here")


@dataclass
class MovesApi:
    """An API server that takes Moves, but in namespaces that have too many, and answers after `takes_s`."""

    full: Sequence[str] = ()
    made: list[str] = field(default_factory=list)
    at_s: float = _NOW_S
    takes_s: float = 0.0
    clock: BusyClock = field(default_factory=BusyClock)

    async def create(
        self, resource: ApiResource, namespace: str | None, body: Body, *, dry_run: bool = False
    ) -> bytes:
        metadata = cast("dict[str, object]", body["metadata"])
        self.clock.time_s += self.takes_s
        if namespace in self.full:
            raise ForbiddenError("POST moves", 403, "Forbidden", "exceeded quota: count/moves.accelet.dev")
        self.made.append(f"{namespace}/{cast('str', metadata['name']).rpartition('-')[0]}")
        raw = {
            **body,
            "metadata": {
                **metadata,
                "uid": f"uid-{len(self.made)}",
                "resourceVersion": "1",
                "creationTimestamp": datetime.fromtimestamp(self.at_s, UTC).isoformat(),
            },
        }
        return json.dumps(raw, default=lambda time: time.isoformat()).encode()


class Proposals:
    """A proposer and its world: each task is one rank on a node of its own, and as many are free."""

    def __init__(self, tasks: Sequence[tuple[str, str]], *, gpus: int = 1, full: Sequence[str] = ()) -> None:
        self.clock, self.wall_s = BusyClock(), _NOW_S
        self.state, self.api = SchedulerState(Scheme(), GATE_PREFIX), MovesApi(full, clock=self.clock)
        self.book, self.said = MoveBook(self.state), list[Message]()
        for number, (namespace, name) in enumerate(tasks):
            self.state.set_node(node(f"n{number}", f"b0/s0/h{number}", gpus=2))
            self.state.set_node(node(f"free{number}", f"b0/s0/f{number}", gpus=2))
            labels = {"job-name": f"{name}-1", "batch.kubernetes.io/job-name": f"{name}-1"}
            one = pod(f"{name}-0", gpus=gpus, on=f"n{number}", labels=labels, annotations={_INDEX: "0"})
            ready = Condition("Ready", "True")
            self.state.set_pod(replace(one, namespace=namespace, uid=f"p-{name}", conditions=(ready,)))
            self.book.set_task(self.terms(namespace, name))
        self.proposer = self.proposing(MoveSettings(propose=True, waits_s=0.0, factor=1.0))

    def proposing(self, settings: MoveSettings) -> Proposer:
        return Proposer(
            self.state,
            self.book,
            MoveWriter(FencedWriter(cast(ObjectApi, self.api), lambda: True), self.book),
            GangEvents(self.said.append, BusyClock()),
            settings=settings,
            metrics=SchedulerMetrics(CollectorRegistry()),
            clock=self.clock,
            wall_s=lambda: self.wall_s,
        )

    def terms(self, namespace: str, name: str) -> TaskTerms:
        moves = TaskMoves(policy="WhenItHelps", min_run_seconds=0)
        return TaskTerms(namespace, name, f"uid-{name}", 1, moves)

    def wish(self, namespace: str, name: str, to: str, asked_s: float = _NOW_S) -> None:
        self.book.set_task(replace(self.terms(namespace, name), wish=MoveWish(to, asked_s)))

    def drain(self, *names: str) -> None:
        self._annotate(names, {DRAIN: "true"})

    def restore(self, *names: str) -> None:
        self._annotate(names, {})

    def _annotate(self, names: Sequence[str], said: Mapping[str, str]) -> None:
        for name in names:
            known = self.state.cluster.node(name)
            assert known is not None
            self.state.set_node(replace(known, annotations=said))

    def answered(self) -> set[str]:
        return {one.subject.name for one in self.said if one.reason == "NotMoved"}

    async def look(self, waiting: Sequence[Plan] = ()) -> None:
        """The next look, once it is time for it."""
        self.clock.time_s += 1000.0
        await self.proposer.look(waiting, self.state.cluster.layout, None)


def _refused(world: Proposals, name: str, *, gpus: int = 2, namespace: str = "ml") -> Plan:
    """A gang of one pod that asks for so many GPUs of a node, of which none has them free."""
    labels = {"job-name": name, "batch.kubernetes.io/job-name": name}
    world.state.set_pod(replace(pod(f"{name}-0", gpus=gpus, labels=labels), namespace=namespace))
    (gang,) = (gang for gang in world.state.gangs() if gang.key.name == name)
    plan = plan_gang(gang, world.state.cluster.layout, world.state.cluster.room())
    assert plan.nodes is None
    return plan


async def test_a_thousand_wishes_hold_up_nobodys_planning_and_all_are_answered_in_turn() -> None:
    names = [f"t{number:02}" for number in range(12)]
    world = Proposals([("ml", name) for name in names])
    for name in names:
        world.wish("ml", name, "nowhere")
    for _ in range(6):
        before = len(world.answered())
        await world.look()
        assert len(world.answered()) - before <= 4, "everybody's planning waits for these"
    assert len(world.answered()) == len(names)


async def test_who_wishes_again_and_again_is_not_always_the_first() -> None:
    busy = [f"busy{number}" for number in range(6)]
    world = Proposals([("ml", name) for name in (*busy, "patient")])
    world.drain("n6")
    for number in range(6):
        for name in busy:
            world.wish("ml", name, "nowhere", _NOW_S - number)
        await world.look()
    assert world.api.made == ["ml/patient"]


async def test_a_namespace_that_may_have_no_more_moves_keeps_nobody_else_from_them() -> None:
    world = Proposals([("full", "a"), ("ml", "b")], full=["full"])
    world.drain("n0", "n1")
    await world.look()
    assert world.api.made == ["ml/b"]


async def test_an_api_server_that_answers_late_takes_a_tenth_of_everybodys_planning_at_most() -> None:
    world = Proposals([("ml", "a")])
    world.drain("n0")
    world.clock.time_s += 1000.0
    world.api.takes_s = 60.0
    again_s = await world.proposer.look((), world.state.cluster.layout, None)
    assert world.api.made == ["ml/a"]
    assert again_s > 600.0


async def test_a_move_that_waits_for_a_person_keeps_no_other_gang_from_being_let_in() -> None:
    world = Proposals([("ml", name) for name in "abc"])
    asked = replace(world.book.tasks["ml", "a"], moves=TaskMoves(policy="Ask", min_run_seconds=0))
    for number in range(3):
        world.state.set_pod(replace(pod(f"x{number}", on=f"free{number}", gpus=1), uid=f"x{number}"))
    plans = [_refused(world, name) for name in ("big", "other", "third")]
    for name in "bc":
        world.book.remove_task(("ml", name))
    world.book.set_task(asked)
    await world.look(plans[:1])
    assert world.api.made == ["ml/a"], "there is nobody else"
    for name in "bc":
        world.book.set_task(world.terms("ml", name))
    await world.look(plans[:1])
    assert world.api.made == ["ml/a"], "this gang is asked for already"
    await world.look(plans)
    assert world.api.made in (["ml/a", "ml/b"], ["ml/a", "ml/c"])
    await world.look(plans)
    assert len(world.api.made) == 2, "one gang at a time"


async def test_who_need_not_be_asked_is_moved_first() -> None:
    world = Proposals([("ml", "a"), ("ml", "b")])
    asked = replace(world.book.tasks["ml", "a"], moves=TaskMoves(policy="Ask", min_run_seconds=0))
    world.book.set_task(asked)
    for number in (0, 1):
        world.state.set_pod(replace(pod(f"x{number}", on=f"free{number}", gpus=1), uid=f"x{number}"))
    await world.look([_refused(world, "big")])
    assert world.api.made == ["ml/b"]


async def test_a_gang_whose_moves_come_to_nothing_rests_before_others_are_asked_for_it() -> None:
    world = Proposals([("ml", "a"), ("ml", "b")])
    for number in (0, 1):
        world.state.set_pod(replace(pod(f"x{number}", on=f"free{number}", gpus=1), uid=f"x{number}"))
    plan = _refused(world, "big")
    await world.look([plan])
    (move,) = world.book.live

    async def look_in(seconds: float, waiting: Sequence[Plan]) -> int:
        world.clock.time_s += seconds
        await world.proposer.look(waiting, world.state.cluster.layout, None)
        return len(world.api.made)

    assert await look_in(20.0, []) == 1, "its plan awaits the Move"
    world.book.set_move(replace(move, resource_version="2", status=MoveStatus(phase="Withdrawn")))
    assert await look_in(20.0, [plan]) == 1
    assert await look_in(40.0, [plan]) == 2


async def test_a_move_that_never_ends_keeps_others_from_being_let_in_no_longer_than_its_places() -> None:
    world = Proposals([("ml", "a"), ("ml", "b")])
    place = MovePlace(rank=0, pod_uid="gone", from_node="free0", to_node="n1")
    spec = MoveSpec(
        task=MoveTask(name="stuck", uid="uid-stuck", attempt=1),
        takes={"pods": 1},
        places=(place,),
        gain=MoveGain(kind="LetsIn", lets_in="0123"),
        valid_until=datetime(2030, 1, 1, tzinfo=UTC),
    )
    stuck = Move("ml", "stuck-1", "uid-m", "1", 0.0, spec, MoveStatus(phase="Arriving"))
    world.book.set_move(stuck)
    for number in (0, 1):
        world.state.set_pod(replace(pod(f"x{number}", on=f"free{number}", gpus=1), uid=f"x{number}"))
    plan = _refused(world, "big")
    await world.look([plan])
    assert world.api.made == []
    world.book.give_up(stuck)
    await world.look([plan])
    assert [name.partition("/")[0] for name in world.api.made] == ["ml"]


def _improving(tasks: Sequence[str], *, packs: bool = True) -> Proposals:
    """Each task is a rank on a node of its own; all of them would find a place on one that others use."""
    world = Proposals([("ml", name) for name in tasks])
    settings = MoveSettings(propose=True, waits_s=0.0, factor=1.0, packs=packs, most_improvements_an_hour=2)
    world.proposer = world.proposing(settings)
    world.state.set_node(node("shared", "b0/s0/h9", gpus=20))
    world.state.set_pod(replace(pod("x", on="shared", gpus=1), uid="x"))
    return world


async def test_a_task_is_packed_where_that_is_switched_on_and_nobody_waits() -> None:
    world = _improving(["a"], packs=False)
    await world.look()
    assert world.api.made == [], "off unless it is asked for"
    world = _improving(["a"])
    await world.look([_refused(world, "huge", gpus=30)])
    assert world.api.made == [], "somebody waits"
    await world.look()
    assert world.api.made == ["ml/a"]
    (move,) = world.book.live
    assert (move.spec.gain.kind, move.spec.places[0].to_node) == ("Packs", "shared")
    assert move.spec.gain.text == "would leave 1 node wholly free, by moving 1 rank"


async def test_who_could_not_be_placed_anyway_keeps_nobody_from_a_better_place() -> None:
    world = _improving(["a"])
    plan = _refused(world, "held", gpus=30)
    await world.look([replace(plan, gang=replace(plan.gang, objection="also held by the gate x"))])
    assert world.api.made == ["ml/a"]


async def test_to_let_a_gang_in_nobody_is_sent_to_a_node_that_is_drained() -> None:
    world = Proposals([("ml", "a"), ("ml", "b")])
    for name in ("b", "x"):
        world.book.remove_task(("ml", name))
    world.state.set_pod(replace(pod("x0", on="free0", gpus=2), uid="x0"))
    world.state.set_pod(replace(pod("x1", on="free1", gpus=1), uid="x1"))
    world.drain("n1", "free1")
    await world.look([_refused(world, "big")])
    assert world.api.made == [], "there is room for it on nodes alone that are to be drained"
    world.restore("n1", "free1")
    await world.look([_refused(world, "large")])
    assert world.api.made == ["ml/a"]


async def test_ranks_are_brought_nearer_to_each_other_and_no_task_that_may_not_be_moved() -> None:
    for moves in (TaskMoves(min_run_seconds=0), TaskMoves(policy="WhenItHelps", min_run_seconds=0)):
        world = _improving(["a"], packs=False)
        world.state.set_node(node("far", "b1/s1/h1", gpus=1))
        labels = {"job-name": "a-1", "batch.kubernetes.io/job-name": "a-1"}
        one = pod("a-1", on="far", labels=labels, annotations={_INDEX: "1"})
        world.state.set_pod(replace(one, namespace="ml", uid="p-1", conditions=(Condition("Ready", "True"),)))
        world.book.set_task(replace(world.terms("ml", "a"), moves=moves))
        await world.look()
        assert world.api.made == ([] if moves.policy == "Never" else ["ml/a"])
    (move,) = world.book.live
    assert move.spec.gain.kind == "Nearer"
    assert move.spec.gain.text == "would bring 2 ranks nearer to each other: distance 0 and not 1,000,000"
    assert [place.to_node for place in move.spec.places] == ["n0", "n0"]


async def test_one_task_at_a_time_is_brought_to_a_better_place_and_none_to_a_node_that_is_drained() -> None:
    world = _improving(["a", "b"])
    for _ in range(3):
        await world.look()
    assert len(world.api.made) == 1
    asks = replace(world.terms("ml", world.api.made[0][3:]), moves=TaskMoves(policy="Ask", min_run_seconds=0))
    world.book.set_task(asks)
    for _ in range(3):
        await world.look()
    assert len(world.api.made) == 1, "its Move touches that node"
    drained = _improving(["a"])
    drained.drain("shared")
    await drained.look()
    assert drained.api.made == []


def _withdraw(world: Proposals, *, held: bool) -> None:
    """Each Move that has not ended is, once the gang has gone that it was for."""
    for move in world.book.live:
        at = datetime(2027, 1, 15, 8, tzinfo=UTC)
        status = move.status.advance("Held", "Held", "", at) if held else move.status
        status = status.advance("Withdrawn", GAIN_LOST, "it would not help any more", at)
        world.book.set_move(replace(move, resource_version="9", status=status))


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("names", [("evil", "evil", "evil"), ("evil-0", "evil-1", "evil-2")])
async def test_who_lets_moves_begin_and_goes_away_again_is_soon_not_let_in_and_keeps_nobody_else_from_it(
    names: Sequence[str], held: bool
) -> None:
    world = Proposals([("ml", name) for name in "abcd"])
    for number in range(4):
        world.state.set_pod(replace(pod(f"x{number}", on=f"free{number}", gpus=1), uid=f"x{number}"))
    for turn, name in enumerate(names):
        plan = _refused(world, name)
        await world.look([plan])
        expected = min(turn + 1, 2) if held else turn + 1
        assert len(world.api.made) == expected, "two may have gone away while places were held for them"
        assert len(set(world.api.made)) == expected or not held, "nobody is asked to save twice"
        _withdraw(world, held=held)
        world.state.remove_pod(plan.gang.pods[0].key, 0.0)
        world.wall_s = world.api.at_s = world.wall_s + 120
    honest = _refused(world, "honest", namespace="others")
    before = len(world.api.made)
    await world.look([honest])
    assert len(world.api.made) == before + 1
    _withdraw(world, held=False)
    world.wall_s += 3600
    await world.look([_refused(world, "later")])
    assert len(world.api.made) == before + 2, "an hour later it may again"


_FORGED: Mapping[str, Mapping[str, object]] = {
    "held by a gate that nobody lifts": {"gates": (f"{GATE_PREFIX}g", "evil.example.com/never")},
    "one of a hundred that do not come": {"annotations": {"accelet.dev/gang-size": "100"}},
    "more than any node has": {"gpus": 200},
    "of lower priority than who runs": {"priority": -5},
    "no gate": {"gates": ()},
    "not of any node that there is": {"selector": {"kubernetes.io/hostname": "nowhere"}},
}


@pytest.mark.parametrize("forged", _FORGED)
async def test_pods_that_would_never_run_where_others_leave_have_nobody_moved(forged: str) -> None:
    world = Proposals([("ml", "a"), ("ml", "b")])
    for number in (0, 1):
        world.state.set_pod(replace(pod(f"x{number}", on=f"free{number}", gpus=1), uid=f"x{number}"))
    labels = {"job-name": "evil", "batch.kubernetes.io/job-name": "evil"}
    one = pod("evil-0", labels=labels, **{"gpus": 2, **_FORGED[forged]})  # type: ignore[arg-type]
    world.state.set_pod(replace(one, namespace="evil"))
    gangs = [gang for gang in world.state.gangs() if gang.key.namespace == "evil"]
    layout, room = world.state.cluster.layout, world.state.cluster.room()
    await world.look([plan_gang(gang, layout, room) for gang in gangs])
    assert world.api.made == []
    await world.look([_refused(world, "honest")])
    assert len(world.api.made) == 1
