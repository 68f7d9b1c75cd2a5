"""`accelet task move`: ask for a running task to go elsewhere, or allow it, and tell what becomes of that."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import click
import msgspec

from accelet.cli.drawing.output import Output
from accelet.cli.tasks.asking import ask_cluster, place_options
from accelet.cli.tasks.cluster import TaskCalls
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.move import Move
from accelet.kube.kubeconfig import Kubeconfig
from accelet.overview.wishes import say_move
from accelet.runtime.run import EXIT_FAILED

_LOOK_S: Final = 0.5
_ANSWERED_S: Final = 30.0
_FOLLOWED_S: Final = 2 * 3600.0
"""Longer than any program may save and end."""


@click.command("move")
@click.argument("name")
@click.option("--to", metavar="NODE", help="To this node.  [default: any other than its own]")
@click.option("--approve", metavar="MOVE", help="Ask for nothing; allow this Move, which waits for a person.")
@click.option("--no-follow", is_flag=True, help="Do not wait for what becomes of it.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON for machines.")
@place_options
def move(
    name: str,
    *,
    to: str | None,
    approve: str | None,
    no_follow: bool,
    as_json: bool,
    kubeconfig: Kubeconfig | None,
    namespace: str,
) -> None:
    """Have a running task go to other nodes, and tell how that goes.

    The scheduler looks for a place, holds it, and answers with a Move; the program is asked to save, is
    ended, and runs again there. Exit code 1 if the Move is withdrawn, or if none comes within 30 s.
    """
    if approve is not None and to is not None:
        raise click.UsageError("--approve allows a Move that is there: its places are in it")
    task, known = ask_cluster(kubeconfig, lambda calls: _look(calls, namespace, name))
    if approve is not None and approve not in {one.name for one in known}:
        _fail(f"{namespace}/{name} has no Move {approve}: accelet task why {name} shows those it has")
    wish = MoveWished(task, to, approve, frozenset(one.uid for one in known))
    ask_cluster(kubeconfig, wish.say)
    if no_follow:
        click.echo(f"{namespace}/{name}: {f'{approve} is approved' if approve else 'a move is asked for'}")
        return

    def show(one: Move) -> None:
        if not as_json:
            Output().line(say_move(one))

    ended = ask_cluster(kubeconfig, lambda calls: wish.follow(calls, show), _FOLLOWED_S)
    if ended is None:
        unanswered = f"no Move of {namespace}/{name} was proposed within {_ANSWERED_S:.0f} s"
        _fail(f"{unanswered}: an Event NotMoved of its pods says why, unless the scheduler proposes none")
    if as_json:
        click.echo(json.dumps({"move": move_as_json(ended)}, indent=2))
    if ended.phase != "Done":
        raise SystemExit(EXIT_FAILED)


@dataclass(frozen=True, slots=True)
class MoveWished:
    """What a person wants of a task: a move `to` a node (None: any), or to `approve` one of those `known`."""

    task: GpuTask
    to: str | None
    approve: str | None
    known: frozenset[str]

    async def say(self, calls: TaskCalls) -> None:
        """Writes it on the task."""
        if self.approve is not None:
            await calls.approve(*self.task.key, self.approve)
        else:
            await calls.ask_for_move(*self.task.key, self.to)

    async def follow(self, calls: TaskCalls, show: Callable[[Move], None]) -> Move | None:
        """Shows each phase until the end; None if there was no answer in time."""
        answer_by_s, seen = time.monotonic() + _ANSWERED_S, ""
        while True:
            found = next((one for one in await calls.moves(self.task) if self._is_it(one)), None)
            if found is None and time.monotonic() > answer_by_s:
                return None
            if found is not None and found.phase != seen:
                seen = found.phase
                show(found)
            if found is not None and found.has_ended:
                return found
            await asyncio.sleep(_LOOK_S)

    def _is_it(self, move: Move) -> bool:
        if self.approve is not None:
            return move.name == self.approve
        return move.uid not in self.known and move.spec.gain.kind == "Person"


async def _look(calls: TaskCalls, namespace: str, name: str) -> tuple[GpuTask, Sequence[Move]]:
    task = await calls.get(namespace, name)
    return task, await calls.moves(task)


def _fail(sentence: str) -> NoReturn:
    click.echo(sentence, err=True)
    raise SystemExit(EXIT_FAILED)


def move_as_json(move: Move) -> dict[str, Any]:
    """A Move as `--json` prints it."""
    spec, status = msgspec.to_builtins(move.spec), msgspec.to_builtins(move.status)
    return {"name": move.name, "spec": spec, "status": {"phase": move.phase, **status}}
