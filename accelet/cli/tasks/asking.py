"""What every `accelet task` command is told, and how it asks the cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from accelet.cli.options import choose_kubeconfig, own_kubeconfig_option
from accelet.cli.tasks.cluster import API_S, TaskCalls, call_cluster
from accelet.runtime.run import EXIT_FAILED

F = TypeVar("F", bound=Callable[..., Any])


def place_options(function: F) -> F:
    """Which cluster, and which namespace."""
    named = click.option(
        "-n", "--namespace", default="default", show_default=True, help="Where the tasks are."
    )
    return own_kubeconfig_option(named(function))


def ask_cluster(
    kubeconfig: Path | None, ask: Callable[[TaskCalls], Any], within_s: float | None = API_S
) -> Any:
    """What the cluster answers; ends the command with a sentence where it does not."""
    answer, problem = call_cluster(choose_kubeconfig(kubeconfig), ask, within_s)
    if problem:
        click.echo(problem, err=True)
        raise SystemExit(EXIT_FAILED)
    return answer
