"""Tasks as people look at them."""

from collections.abc import Sequence

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Records, styled
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.gputask import TaskConditionShape
from accelet.kinds.move import Move
from accelet.overview.wishes import say_move

_LONGEST_WHY = 200
_MOST_MOVES = 3
_WAY = ("Accepted", "Admitted", "Placed", "Running")
_STEPS = {
    "Accepted": "its Job is made",
    "Admitted": "it may have pods",
    "Placed": "every rank has a node",
    "Running": "every rank is ready",
}


def print_tasks(output: Output, tasks: Sequence[GpuTask]) -> None:
    """Every task, and how far it is."""
    if not tasks:
        output.line("There are no tasks.")
        return
    heads = ("NAMESPACE", "NAME", "PHASE", "READY", "CARDS", "ATTEMPT", "WHERE", "WHY")
    rows = [
        (
            task.namespace,
            task.name,
            task.status.phase,
            f"{task.status.ready_replicas}/{task.spec.replicas}",
            _cards(task),
            str(task.status.attempt),
            task.status.where,
            task.status.why[:_LONGEST_WHY],
        )
        for task in tasks
    ]
    output.table(Records(heads, rows))


def print_why(output: Output, task: GpuTask, moves: Sequence[Move] = (), queued: str = "") -> None:
    """How far a task has come, step by step, up to the first that is not done; and its last Moves.

    `queued` is why Kueue holds its Job.
    """
    status = task.status
    output.line(styled(f"{task.namespace}/{task.name}", "bold"), f"  {status.phase}")
    held = {one.type: one for one in status.conditions}
    end = held.get("Completed") or held.get("Failed")
    if end is not None:
        said = f"{end.reason}: {end.message}" if end.message else end.reason
        output.line(f"  {end.type}: {said}")
    else:
        _print_way(output, held, status.why)
    if queued:
        output.line(f"  Kueue: {queued}")
    for node in status.nodes:
        output.line(f"  on {node.node}: rank {node.ranks}")
    if status.attempt > 1 or status.incidents or status.disruptions:
        counted = f"{status.incidents} incidents, {status.disruptions} disruptions"
        last = f"; the last: {status.last_end}" if status.last_end else ""
        output.line(f"  attempt {status.attempt}, {counted}, {status.retries_left} retries left{last}")
    for move in moves[-_MOST_MOVES:]:
        output.line(f"  move {say_move(move)}")


def _print_way(output: Output, held: dict[str, TaskConditionShape], why: str) -> None:
    if not held:
        output.line("  nobody has looked at it yet: does accelet task-controller run?")
        return
    for kind in _WAY:
        one = held.get(kind)
        if one is not None and one.status == "True":
            output.line(f"  {_STEPS[kind]}")
            continue
        said = (one.message if one is not None else "") or why
        reason = one.reason if one is not None else "NotYet"
        output.line(styled(f"  not yet: {_STEPS[kind]}", "bold"), f"  {reason}: {said}")
        return


def _cards(task: GpuTask) -> str:
    cards = task.spec.cards
    if cards is None:
        return "-"
    tiles = f", {cards.tiles} tiles" if cards.tiles is not None else ""
    return f"{cards.cards}{tiles}"
