"""A cluster full in fragments, a big task that waits, and the one small task that makes room for it."""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import NodeCard
from accelet.cli.demo_run import DemoError
from accelet.cli.demotasks.standin import NODES, PODS, StandIn, make_node
from accelet.cli.forms.taskdemo import ShownStep, TasksReport
from accelet.fakeapi import FakeApi
from accelet.gputask.objects.pods import parse_pod
from accelet.gputask.process import TaskOptions, run_task_controller
from accelet.gputask.settings import TaskSettings
from accelet.kinds.move import parse_move
from accelet.kube.nodes import parse_node
from accelet.kube.podparser import parse_pod as parse_scheduled
from accelet.runtime.tasks import task_group
from accelet.scheduler.cards.view import ClusterView, view_cluster
from accelet.scheduler.process import Scheduler, SchedulerOptions
from accelet.scheduler.settings import DEFAULT_SETTINGS, MoveSettings, SchedulerSettings
from accelet.scheduler.state import SchedulerState

TASKS: Final = "apis/accelet.dev/v1alpha1/gputasks"
NAMESPACE: Final = "demo"
_CARD: Final = "gpu.intel.com/i915"
_NODES: Final = ("node-1", "node-2", "node-3")
_PATIENCE_S: Final = 75.0
_MOVABLE: Final = {"policy": "WhenItHelps", "saveSeconds": 30, "minRunSeconds": 0}
_SMALL: Final[Mapping[str, tuple[str, int]]] = {
    "embed": ("node-1", 1),
    "infer": ("node-2", 2),
    "serve": ("node-2", 1),
    "tune": ("node-3", 2),
}
"""Where each small task is placed first, and how many tiles of one card it has."""

_BIG = "train"
_SETTINGS: Final = SchedulerSettings(version="v1", moves=MoveSettings(propose=True, waits_s=1.0))
_MOVES: Final = "apis/accelet.dev/v1alpha1/moves"


_SAID: Final[Mapping[tuple[str, str], str]] = {
    ("Approved", "ByPolicy"): "its policy is WhenItHelps",
    ("Held", "Held"): "nobody else gets its new place, nor what it leaves but the task that waits",
    ("Saving", "Asked"): "its program is asked to save, by a file in its pod",
    ("Leaving", "Saved"): "it has saved, and is ended",
    ("Arriving", "Left"): "its cards are free, and it begins anew in its new place",
    ("Done", "Arrived"): "it runs there",
}


async def run_demo(folder: Path) -> TasksReport:
    """Runs the demo in `folder`.

    Raises:
        DemoError: it did not come to what it shows.
    """
    with FakeApi(bookmark_s=1.0) as api:
        api.state.create("api/v1/namespaces", "", {"metadata": {"name": "kube-system"}})
        api.state.collects_garbage = True
        for number, name in enumerate(_NODES):
            make_node(api, name, [_card(number, slot) for slot in range(2)])
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        async with task_group() as group:
            work = [
                group.create_task(StandIn(api).run()),
                group.create_task(Scheduler(SchedulerOptions(kubeconfig), _SETTINGS).run()),
                group.create_task(run_task_controller(TaskOptions(kubeconfig), TaskSettings(version="v1"))),
            ]
            report = await _tell(api)
            for one in work:
                one.cancel()
        return report


def _card(node: int, slot: int) -> NodeCard:
    unit = UnitId(f"0000-{3 + slot:02x}-00.{node}")
    return NodeCard(unit, _CARD, card=f"card{slot}", tiles=2, memory_bytes=64 * 2**30, shares=8)


async def _tell(api: FakeApi) -> TasksReport:
    for name, (node, tiles) in _SMALL.items():
        _open_only(api, node)
        _submit(api, name, {"cards": 1, "tiles": tiles}, move=_MOVABLE)
        await _until(f"{name} does not run", partial(_runs, api, name))
    _open_only(api, *_NODES)
    began_s, before = time.monotonic(), _view(api)
    _submit(api, _BIG, {"cards": 2, "tiles": 4})
    await _until(f"{_BIG} does not say why it waits", lambda: bool(_waits_for(api, _BIG)))
    why = _waits_for(api, _BIG)
    await _until("no Move came to its end", lambda: _phase_of_move(api) in ("Done", "Withdrawn"))
    await _until(f"{_BIG} does not run", partial(_runs, api, _BIG))
    waited_s = round(time.monotonic() - began_s, 1)
    move = parse_move(api.state.list(_MOVES, {}, None)["items"][0])
    moved = move.spec.task.name
    await _until(f"{moved} does not run again", partial(_runs, api, moved))
    steps = tuple(
        ShownStep(one.type, _SAID.get((one.type, one.reason), f"{one.reason} {one.message}"))
        for one in move.status.conditions
    )
    to = move.spec.places[0].to_node
    return TasksReport(_BIG, why, before, moved, to, move.spec.gain.text, steps, _view(api), waited_s)


def _phase_of_move(api: FakeApi) -> str:
    found = api.state.list(_MOVES, {}, None)["items"]
    return str((found[0].get("status") or {}).get("phase", "")) if found else ""


def _submit(api: FakeApi, name: str, cards: Mapping[str, int], **spec: Any) -> None:
    container = {"image": "example/app"}
    body = {
        "metadata": {"name": name, "generation": 1},
        "spec": {"container": container, "cards": {"resource": _CARD, **cards}, **spec},
    }
    api.state.create(TASKS, NAMESPACE, body)


def _open_only(api: FakeApi, *names: str) -> None:
    """Has the other nodes cordoned: so the small tasks come to lie apart, as they do in a cluster's life."""
    for name in _NODES:
        api.state.patch(NODES, ("", name), "merge-patch", {"spec": {"unschedulable": name not in names}})


def _task(api: FakeApi, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.state.get(TASKS, (NAMESPACE, name)).get("status") or {}
    return found


def _runs(api: FakeApi, task: str) -> bool:
    return bool(_task(api, task).get("phase") == "Running")


def _waits_for(api: FakeApi, task: str) -> str:
    """Why its ranks wait, as the scheduler notes it on one of them."""
    pods = [parse_pod(one) for one in api.state.list(PODS, {}, None)["items"]]
    notes = [pod.wait.text for pod in pods if pod.name.startswith(f"{task}-") and pod.wait is not None]
    return notes[0] if notes else ""


def _view(api: FakeApi) -> ClusterView:
    """The cards as `accelet cards` shows them."""
    settings = DEFAULT_SETTINGS
    state = SchedulerState(settings.scheme(), "", settings.cards.resources, settings.cards.policy)
    nodes = [parse_node(one) for one in api.state.list(NODES, {}, None)["items"]]
    for node in nodes:
        state.set_node(node)
    for pod in api.state.list(PODS, {}, None)["items"]:
        state.set_pod(parse_scheduled(pod))
    return view_cluster(nodes, state.cluster.cards)


async def _until(problem: str, condition: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - the API server's threads change it
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise DemoError(f"{problem} within {_PATIENCE_S:.0f} s") from None
