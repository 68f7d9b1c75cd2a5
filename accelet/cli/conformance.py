"""`accelet conformance`: checks any device plugin or DRA driver against a fake kubelet."""

import asyncio
import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

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
from accelet.fakekubelet.conformance.bench import B
from accelet.fakekubelet.conformance.launch import KUBELET_DIR

_COLOURS = {Status.PASS: "green", Status.FAIL: "red", Status.SKIP: "yellow"}
_WORDS = {Status.PASS: "passed", Status.FAIL: "failed", Status.SKIP: "not judged"}


@click.command("conformance")
@click.option(
    "--plugin-command",
    required=True,
    metavar="CMD",
    help="How to start the plugin. {dir} is the kubelet's device plugin folder, {root} its /var/lib/kubelet, "
    "{pod-resources} and {registry} its folders for these; DRA drivers need {kubeconfig}, {node} and {cdi}.",
)
@click.option("--dra", "is_driver", is_flag=True, help="It is a DRA driver, not a device plugin.")
@click.option("--driver", help="With --dra: the driver to look at; without it, the first that registers.")
@click.option("--resource", help="The resource to look at; without it, the first that registers.")
@click.option("--kubelet-version", default="1.36", show_default=True, type=click.Choice(list(VERSIONS)))
@click.option("--unplug-command", metavar="CMD", help="Takes device {device} away from the plugin.")
@click.option("--replug-command", metavar="CMD", help="Gives device {device} back.")
@click.option(
    "--host-root",
    default="/",
    show_default=True,
    metavar="DIR",
    help="Where the host's files are, if the plugin was told of another place; may name {root}.",
)
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
    is_driver: bool,
    driver: str | None,
    resource: str | None,
    kubelet_version: str,
    unplug_command: str | None,
    replug_command: str | None,
    host_root: str,
    only: str | None,
    jobs: int,
    mount_namespace: bool,
    as_json: bool,
) -> None:
    """Checks what a device plugin or a DRA driver owes the kubelet, from outside, in any language.

    Each check starts the plugin anew, with a fake kubelet of its own. Exit codes: 0 something passed and
    nothing failed, 1 a check failed, 2 the arguments are wrong, 3 no check could be judged.
    """
    if (unplug_command is None) != (replug_command is None):
        raise click.UsageError("give --unplug-command and --replug-command together")
    _refuse_mixed(is_driver=is_driver, driver=driver, resource=resource, unplug=unplug_command)
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
            if is_driver:
                checks = _driver_checks(launcher, only, kubelet_version, driver, jobs, done)
            else:
                checks = run_checks(
                    _chosen(only, CHECKS),
                    launcher,
                    version=kubelet_version,
                    resource=resource,
                    hardware=hardware,
                    host_root=host_root,
                    jobs=jobs,
                    done=done,
                )
            results = asyncio.run(checks)
        except OSError as error:
            raise click.UsageError(f"cannot start the plugin: {error}") from None
    if as_json:
        click.echo(json.dumps({"checks": [_plain(result) for result in results]}, indent=2))
    else:
        _show(results, "DRA driver conformance" if is_driver else "Device plugin conformance")
    raise SystemExit(exit_code(results))


def exit_code(results: Sequence[Result]) -> int:
    """0 if something passed and nothing failed, 1 if a check failed, 3 if none could be judged."""
    found = {result.status for result in results}
    if Status.FAIL in found:
        return 1
    return 0 if Status.PASS in found else 3


def _driver_checks(
    launcher: CommandLauncher,
    only: str | None,
    version: str,
    driver: str | None,
    jobs: int,
    done: Callable[[Result], None],
) -> Coroutine[Any, Any, list[Result]]:
    # The client of the API server is an extra, which checks of device plugins do without.
    from accelet.fakeapi.fakecluster import FakeCluster  # noqa: PLC0415
    from accelet.fakekubelet.conformance.dra import DRA_CHECKS, run_dra_checks  # noqa: PLC0415

    checks = _chosen(only, DRA_CHECKS)
    return run_dra_checks(checks, launcher, FakeCluster, version=version, driver=driver, jobs=jobs, done=done)


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


def _refuse_mixed(*, is_driver: bool, driver: str | None, resource: str | None, unplug: str | None) -> None:
    if is_driver and (resource is not None or unplug is not None):
        raise click.UsageError("--resource and --unplug-command are for device plugins, not for --dra")
    if driver is not None and not is_driver:
        raise click.UsageError("--driver needs --dra")


def _chosen(only: str | None, checks: Sequence[Check[B]]) -> list[Check[B]]:
    if only is None:
        return list(checks)
    wanted = [name.strip().upper() for name in only.split(",")]
    unknown = sorted(set(wanted) - {check.id for check in checks})
    if unknown:
        known = ", ".join(check.id for check in checks)
        raise click.UsageError(f"--only: no check is called {', '.join(unknown)}; there are {known}")
    return [check for check in checks if check.id in wanted]


def _plain(result: Result) -> dict[str, str]:
    return {**dataclasses.asdict(result), "status": result.status.value}


def _show(results: list[Result], title: str) -> None:
    output = Output()
    output.line(styled(title, "bold"))
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
