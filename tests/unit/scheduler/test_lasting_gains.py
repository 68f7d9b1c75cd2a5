"""What a Move was proposed for is still to be gained when its places are held; or it is withdrawn."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.kinds.move import Move, MovePhase
from accelet.kube.apiresources import ApiResource, Body, ObjectApi
from accelet.kube.objects import Condition
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.moves.holding import GAIN_LOST
from accelet.scheduler.moves.mover import Mover
from accelet.scheduler.moves.writer import MoveWriter
from accelet.scheduler.settings import MoveSettings
from accelet.scheduler.writer import PlanWriter
from tests.fakes.nodes import node
from tests.unit.scheduler.test_proposer import Proposals
from tests.unit.scheduler.values import pod

_INDEX = "batch.kubernetes.io/job-completion-index"
_SETTINGS = MoveSettings(propose=True, waits_s=0.0, packs=True)


class JudgedWorld(Proposals):
    """A proposer and the mover that holds what it proposes; whatever is written of a Move is taken."""

    def __init__(self) -> None:
        super().__init__([("ml", "a")])
        self.proposer = self.proposing(_SETTINGS)
        writer = MoveWriter(FencedWriter(cast(ObjectApi, self), lambda: True), self.book)
        nobody = cast(PlanWriter, None)
        self.mover = Mover(
            self.state,
            self.book,
            writer,
            nobody,
            settings=_SETTINGS,
            metrics=SchedulerMetrics(CollectorRegistry()),
            hold_plan=_no_plan,
            wall_s=lambda: self.wall_s,
        )

    async def patch(
        self, resource: ApiResource, namespace: str, name: str, body: Body, *_: object, **__: object
    ) -> bytes:
        known = self.book.moves[namespace, name]
        said = cast("Mapping[str, Any]", body["metadata"])
        version = str(int(known.resource_version) + 1)
        metadata = {**said, "name": name, "namespace": namespace, "resourceVersion": version}
        raw = {"metadata": metadata, "spec": msgspec.to_builtins(known.spec), "status": body["status"]}
        return json.dumps(raw).encode()

    @property
    def move(self) -> Move:
        (found,) = self.book.moves.values()
        return found

    def advance(self, *phases: MovePhase) -> None:
        """The task's controller, or the scheduler before this one, has written these phases."""
        for phase in phases:
            status = self.move.status.advance(phase, "", "", datetime.fromtimestamp(self.wall_s, UTC))
            version = str(int(self.move.resource_version) + 1)
            self.book.set_move(replace(self.move, resource_version=version, status=status))

    async def judge(self, *, is_wanted: bool = False) -> tuple[str, str]:
        """Phase and reason of the Move, once it has been judged."""
        await self.mover.judge([], self.state.cluster.layout, is_wanted=is_wanted)
        return self.move.phase, self.move.status.reason


async def _no_plan(*_: object) -> None:
    raise AssertionError("nobody is let in here")


async def _packed() -> JudgedWorld:
    """A task alone on its node is to join others on another one."""
    world = JudgedWorld()
    world.state.set_node(node("shared", "b0/s0/h9", gpus=20))
    world.state.set_pod(replace(pod("x", on="shared", gpus=1), uid="x"))
    await world.look()
    assert world.move.spec.gain.kind == "Packs"
    return world


async def _nearer() -> JudgedWorld:
    """Of two ranks one is far away."""
    world = JudgedWorld()
    world.state.set_node(node("far", "b1/s1/h1", gpus=1))
    labels = {"job-name": "a-1", "batch.kubernetes.io/job-name": "a-1"}
    one = pod("a-1", on="far", labels=labels, annotations={_INDEX: "1"})
    world.state.set_pod(replace(one, namespace="ml", uid="p-1", conditions=(Condition("Ready", "True"),)))
    await world.look()
    assert world.move.spec.gain.kind == "Nearer"
    return world


async def _drained() -> JudgedWorld:
    world = JudgedWorld()
    world.drain("n0")
    await world.look()
    assert world.move.spec.gain.kind == "Drain"
    return world


def _come(world: JudgedWorld) -> None:
    world.state.set_pod(replace(pod("late", on="n0", gpus=1), uid="late"))


def _go(world: JudgedWorld) -> None:
    world.state.remove_pod(("ml", "x"), 0.0)


@pytest.mark.parametrize("change", [_come, _go])
async def test_a_task_is_not_moved_to_leave_a_node_free_that_others_came_to_or_for_nobody(
    change: Callable[[JudgedWorld], None],
) -> None:
    world = await _packed()
    world.advance("Approved")
    change(world)
    assert await world.judge() == ("Withdrawn", GAIN_LOST)


@pytest.mark.parametrize("make", [_packed, _nearer])
async def test_nobody_gets_a_better_place_while_a_gang_waits(make: Callable[[], Any]) -> None:
    world = await make()
    world.advance("Approved")
    assert await world.judge(is_wanted=True) == ("Withdrawn", GAIN_LOST)
    for is_wanted in (False, True):
        world = await make()
        assert (await world.judge(is_wanted=is_wanted))[0] == "Proposed", "it may have gone by then"
    world.advance("Approved")
    assert await world.judge() == ("Held", "Held")
    assert (await world.judge(is_wanted=True))[0] == "Held", "it has begun"


@pytest.mark.parametrize("phases", [(), ("Approved",), ("Approved", "Held"), ("Approved", "Held", "Saving")])
async def test_a_task_stays_where_it_is_once_its_node_is_not_to_be_drained_any_more(
    phases: tuple[MovePhase, ...],
) -> None:
    world = await _drained()
    world.advance(*phases)
    before = phases[-1] if phases else "Proposed"
    assert (await world.judge())[0] == ("Held" if before == "Approved" else before)
    world.restore("n0")
    assert await world.judge() == ("Withdrawn", GAIN_LOST)


async def test_a_move_that_is_under_way_goes_through() -> None:
    world = await _drained()
    world.advance("Approved", "Held", "Leaving")
    world.restore("n0")
    assert (await world.judge())[0] == "Leaving"
