"""`accelet conformance`: checks any device plugin against a fake kubelet."""

import asyncio
import dataclasses
import json
import os
import shlex
import sys

# Read by gRPC's C core when it is loaded; its notices would land in the output.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Records, styled
from accelet.fakekubelet.behaviour import VERSIONS
from accelet.fakekubelet.conformance import (
    CHECKS,
    Check,
    CommandHardware,
    CommandLauncher,
    Result,
    Status,
    run_checks,
)
from accelet.fakekubelet.conformance.launch import KUBELET_DIR

_COLOURS = {Status.PASS: "green", Status.FAIL: "red", Status.SKIP: "yellow"}
_WORDS = {Status.PASS: "passed", Status.FAIL: "failed", Status.SKIP: "not judged"}


@click.command("conformance")
@click.option(
    "--plugin-command",
    required=True,
    metavar="CMD",
    help="How to start the plugin. {dir} is the kubelet's device plugin folder, {root} its /var/lib/kubelet, "
    "{pod-resources} and {registry} its folders for these.",
)
@click.option("--resource", help="The resource to look at; without it, the first that registers.")
@click.option("--kubelet-version", default="1.36", show_default=True, type=click.Choice(list(VERSIONS)))
@click.option("--unplug-command", metavar="CMD", help="Takes device {device} away from the plugin.")
@click.option("--replug-command", metavar="CMD", help="Gives device {device} back.")
@click.option("--only", metavar="IDS", help="Only these checks, R1,L4 for instance.")
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(1), help="How many checks run at a time."
)
@click.option(
    "--mount-namespace",
    is_flag=True,
    help="Give the plugin a /var/lib/kubelet of its own, for one that knows no other place (root only).",
)
@click.option(
    "--json", "as_json", is_flag=True, help='Print {"checks": [{"id", "title", "status", "detail"}]}.'
)
def command(
    *,
    plugin_command: str,
    resource: str | None,
    kubelet_version: str,
    unplug_command: str | None,
    replug_command: str | None,
    only: str | None,
    jobs: int,
    mount_namespace: bool,
    as_json: bool,
) -> None:
    """Checks what a device plugin owes the kubelet, from outside, in any language.

    Each check starts the plugin anew, with a fake kubelet of its own. Exit codes: 0 nothing failed, 1 a
    check failed, 2 the arguments are wrong.
    """
    if (unplug_command is None) != (replug_command is None):
        raise click.UsageError("give --unplug-command and --replug-command together")
    if mount_namespace:
        _refuse_no_namespace()
    for name, words in (("--unplug-command", unplug_command), ("--replug-command", replug_command)):
        if words is not None:
            _refuse_no_command(name, words)
    hardware = CommandHardware(unplug_command, replug_command) if unplug_command and replug_command else None
    launcher = _launcher(plugin_command, mount_namespace=mount_namespace)
    with Output(sys.stderr).progress("starting") as progress:

        def done(result: Result) -> None:
            progress.say(f"{result.id} {result.title}: {_WORDS[result.status]}")

        try:
            results = asyncio.run(
                run_checks(
                    _chosen(only),
                    launcher,
                    version=kubelet_version,
                    resource=resource,
                    hardware=hardware,
                    jobs=jobs,
                    done=done,
                )
            )
        except OSError as error:
            raise click.UsageError(f"cannot start the plugin: {error}") from None
    if as_json:
        click.echo(json.dumps({"checks": [_plain(result) for result in results]}, indent=2))
    else:
        _show(results)
    raise SystemExit(1 if any(result.status is Status.FAIL for result in results) else 0)


def _launcher(command: str, *, mount_namespace: bool) -> CommandLauncher:
    _refuse_no_command("--plugin-command", command)
    return CommandLauncher(command, mount_namespace)


def _refuse_no_command(option: str, command: str) -> None:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"{option}: {command!r} cannot be split into words: {error}") from None
    if not words or not words[0]:
        raise click.UsageError(f"{option}: there is no command in {command!r}")
    if "\0" in command:
        raise click.UsageError(f"{option}: a command has no NUL characters")


def _refuse_no_namespace() -> None:
    if os.geteuid() != 0:
        raise click.UsageError("--mount-namespace needs root")
    if not KUBELET_DIR.is_dir():
        raise click.UsageError(f"--mount-namespace needs {KUBELET_DIR} to exist, to mount over it: mkdir it")


def _chosen(only: str | None) -> list[Check]:
    if only is None:
        return list(CHECKS)
    wanted = [name.strip().upper() for name in only.split(",")]
    unknown = sorted(set(wanted) - {check.id for check in CHECKS})
    if unknown:
        known = ", ".join(check.id for check in CHECKS)
        raise click.UsageError(f"--only: no check is called {', '.join(unknown)}; there are {known}")
    return [check for check in CHECKS if check.id in wanted]


def _plain(result: Result) -> dict[str, str]:
    return {**dataclasses.asdict(result), "status": result.status.value}


def _show(results: list[Result]) -> None:
    output = Output()
    output.line(styled("Device plugin conformance", "bold"))
    rows = [
        (
            result.id,
            result.title,
            styled(_WORDS[result.status], _COLOURS[result.status]),
            result.detail.splitlines(),
        )
        for result in results
    ]
    output.table(Records(("ID", "CHECK", "OUTCOME", "FINDING"), rows))
    counts = {status: sum(result.status is status for result in results) for status in Status}
    output.line(", ".join(f"{count} {_WORDS[status]}" for status, count in counts.items()))
