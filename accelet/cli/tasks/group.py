"""`accelet task`: submit, show, explain, hold and delete GPU tasks."""

import json
import sys
from operator import methodcaller
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import styled
from accelet.cli.reading.manifests import read_manifests
from accelet.cli.reading.objectfiles import UnreadableInputError
from accelet.cli.tasks.asking import ask_cluster, place_options
from accelet.cli.tasks.cluster import LOGS_S
from accelet.cli.tasks.drawing import print_tasks, print_why
from accelet.cli.tasks.logs import LogWish
from accelet.cli.tasks.making import TaskFlags, manifest_of, unknown_fields
from accelet.cli.tasks.move import move, move_as_json
from accelet.gputask.objects.ranks import read_ranks
from accelet.gputask.objects.task import GpuTask
from accelet.gputask.original import (
    API_VERSION,
    IMAGE,
    NotConvertibleError,
    OriginalOptions,
    convert_original,
)
from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.kubeconfig import Kubeconfig
from accelet.runtime.excerpts import excerpt
from accelet.runtime.run import EXIT_SETTINGS

_TAIL = "The last so many lines of each rank."


@click.group("task")
def command() -> None:
    """Submit GPU tasks, show how far they are and why, hold, move and delete them."""


@command.command("ps")
@place_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Show those of all namespaces.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def ps(*, kubeconfig: Kubeconfig | None, namespace: str, all_namespaces: bool, as_json: bool) -> None:
    """Show every task: its phase, its ranks, where they are, and why it waits."""
    tasks, notes = ask_cluster(kubeconfig, lambda calls: calls.list(None if all_namespaces else namespace))
    for note in notes:
        click.echo(note, err=True)
    if as_json:
        click.echo(json.dumps({"tasks": [_as_json(task) for task in tasks]}, indent=2))
    else:
        print_tasks(Output(), tasks)


@command.command("why")
@click.argument("name")
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def why(name: str, *, kubeconfig: Kubeconfig | None, namespace: str, as_json: bool) -> None:
    """Say how far a task has come on its way, and what holds it up there."""
    task = ask_cluster(kubeconfig, lambda calls: calls.get(namespace, name))
    moves = ask_cluster(kubeconfig, lambda calls: calls.moves(task))
    queued = ask_cluster(kubeconfig, lambda calls: calls.queued(task))
    if as_json:
        shown = [move_as_json(one) for one in moves]
        click.echo(json.dumps({**_as_json(task), "queued": queued, "moves": shown}, indent=2))
    else:
        print_why(Output(), task, moves, queued)


@command.command("logs")
@click.argument("name")
@click.option("--rank", "ranks", help="Only these ranks, as 0-3,7.  [default: all]")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt.  [default: the present one]")
@click.option("--tail", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help=_TAIL)
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended.")
@place_options
def logs(
    name: str,
    *,
    ranks: str | None,
    attempt: int | None,
    tail: int,
    follow: bool,
    kubeconfig: Kubeconfig | None,
    namespace: str,
) -> None:
    """Show what the ranks wrote, each line behind its rank: rank after rank, or, with -f, as it comes.

    What a terminal would obey is shown as an escape. With -f, later attempts and ranks are shown too, of at
    most 64 ranks at a time.
    """
    wish, output = LogWish(_chosen(ranks), attempt, tail, follow), Output()

    def show(rank: int, line: str) -> None:
        output.line(styled(f"{rank:>4} | ", "dim"), line)

    def note(text: str) -> None:
        Output(sys.stderr).line(text)

    within_s = None if follow else LOGS_S
    ask_cluster(kubeconfig, lambda calls: calls.read_logs(namespace, name, wish, show, note), within_s)


@command.command("suspend")
@click.argument("name")
@place_options
def suspend(name: str, *, kubeconfig: Kubeconfig | None, namespace: str) -> None:
    """End a task's pods and keep it; costs it no retry, but the work it has not saved."""
    ask_cluster(kubeconfig, lambda calls: calls.suspend(namespace, name, suspended=True))
    click.echo(f"{namespace}/{name} is suspended")


@command.command("resume")
@click.argument("name")
@place_options
def resume(name: str, *, kubeconfig: Kubeconfig | None, namespace: str) -> None:
    """Let a suspended task go on."""
    ask_cluster(kubeconfig, lambda calls: calls.suspend(namespace, name, suspended=False))
    click.echo(f"{namespace}/{name} is resumed")


@command.command("rm")
@click.argument("name")
@place_options
def remove(name: str, *, kubeconfig: Kubeconfig | None, namespace: str) -> None:
    """Delete a task with its Jobs, its pods and their logs."""
    ask_cluster(kubeconfig, lambda calls: calls.remove(namespace, name))
    click.echo(f"{namespace}/{name} is deleted")


@command.command("submit")
@click.argument("image", required=False)
@click.argument("words", nargs=-1, metavar="[-- COMMAND...]")
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="GPUTasks, YAML or JSON; - reads the standard input.",
)
@click.option("--name", help="Its name.  [default: the image's, and some letters]")
@click.option("--ranks", type=click.IntRange(1), default=1, show_default=True, help="How many ranks.")
@click.option("--min-ranks", type=click.IntRange(1), help="With how many it may begin.  [default: all]")
@click.option("--cards", type=click.IntRange(1), help="How many cards each rank gets.")
@click.option("--tiles", type=click.IntRange(1), help="How many tiles each rank gets, of all its cards.")
@click.option("--memory", help="How much memory of its cards each rank gets, as 8Gi.")
@click.option("--resource", help="Which cards.  [default: gpu.intel.com/i915]")
@click.option("--level", help="All ranks in one domain of this level of the network.")
@click.option("--retries", type=click.IntRange(0), default=0, show_default=True, help="How many incidents.")
@click.option("--dry-run", is_flag=True, help="Only print the GPUTask.")
@place_options
def submit(
    image: str | None,
    words: tuple[str, ...],
    *,
    file: Path | None,
    dry_run: bool,
    kubeconfig: Kubeconfig | None,
    namespace: str,
    **flags: Any,
) -> None:
    """Submit a task: of an image and a command, or of a file."""
    if (file is None) == (image is None):
        raise click.UsageError("give either an image, with a command after --, or -f FILE")
    own = msgspec.convert(flags, TaskFlags)
    bodies = _read_tasks(file) if file is not None else [manifest_of(image or "", words, own)]
    if dry_run:
        click.echo(yaml.safe_dump_all(bodies, sort_keys=False), nl=False)
        return
    for body in bodies:
        task = ask_cluster(kubeconfig, methodcaller("create", namespace, body))
        click.echo(f"{task.namespace}/{task.name} is submitted")


@command.command("convert")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--image", default=IMAGE, show_default=True, help="What to run; the original has no field for it."
)
@click.option(
    "--gpu-label", default="falldio.com/gpu", show_default=True, help="By which nodes say their model."
)
@click.option("--gpu-resource", default="falldio.com/gpu", show_default=True, help="How cards are asked for.")
def convert(*, file: Path, image: str, gpu_label: str, gpu_resource: str) -> None:
    """Write the GPUTasks of falldio.com/v1 in a file as ours.

    FILE is YAML or JSON; - reads the standard input. What the original would have panicked on is told, and
    ends with exit code 2; nothing is printed then.
    """
    options = OriginalOptions(image, gpu_label, gpu_resource)
    bodies: list[dict[str, Any]] = []
    problems: list[str] = []
    for index, raw in enumerate(_read(file)):
        if raw.get("kind") != "GPUTask" or raw.get("apiVersion") != API_VERSION:
            problems.append(f"{file}: object {index + 1} is no GPUTask of {API_VERSION}")
            continue
        try:
            bodies.append(convert_original(raw, options))
        except NotConvertibleError as error:
            problems += [f"{file}: object {index + 1}: {problem}" for problem in error.problems]
    _end_with(problems)
    click.echo(yaml.safe_dump_all(bodies, sort_keys=False), nl=False)


def _chosen(ranks: str | None) -> frozenset[int] | None:
    if ranks is None:
        return None
    if not all(read_ranks(part) for part in ranks.split(",")):
        raise click.UsageError(f"--rank {excerpt(ranks, 60)} names no ranks: write 0, 0-3 or 0-3,7")
    return read_ranks(ranks)


def _read_tasks(file: Path) -> list[dict[str, Any]]:
    bodies, problems = _read(file), []
    for index, body in enumerate(bodies):
        place = f"{file}: object {index + 1}"
        if body.get("kind") != "GPUTask" or body.get("apiVersion") != GPU_TASKS.api_version:
            problems.append(f"{place} is no GPUTask of {GPU_TASKS.api_version}")
        else:
            problems += [f"{place}: {field} is unknown" for field in unknown_fields(body)]
    _end_with(problems)
    return bodies


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        found = read_manifests(file)
    except UnreadableInputError as error:
        _end_with([str(error)])
    if not found:
        _end_with([f"{file}: there is no object in it"])
    return found


def _end_with(problems: list[str]) -> None:
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        raise SystemExit(EXIT_SETTINGS)


def _as_json(task: GpuTask) -> dict[str, Any]:
    return {
        "namespace": task.namespace,
        "name": task.name,
        "spec": msgspec.to_builtins(task.spec),
        "status": {"phase": task.status.phase, **msgspec.to_builtins(task.status)},
    }


command.add_command(move)
