"""What every `accelet task` command is told, and how it asks the cluster."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from accelet.cli.options import own_kubeconfig_option, resolve_namespace
from accelet.cli.tasks.cluster import API_S, TaskCalls, call_cluster
from accelet.kube.kubeconfig import Kubeconfig
from accelet.runtime.run import EXIT_FAILED

F = TypeVar("F", bound=Callable[..., Any])


def place_options(function: F) -> F:
    """Which cluster, and which namespace."""

    @functools.wraps(function)
    def placed(*args: Any, kubeconfig: Kubeconfig | None, namespace: str | None, **others: Any) -> Any:
        place = resolve_namespace(namespace, kubeconfig)
        return function(*args, kubeconfig=kubeconfig, namespace=place, **others)

    named = click.option(
        "-n", "--namespace", help="Where the tasks are.  [default: that of the context, else default]"
    )
    return own_kubeconfig_option(cast(F, named(placed)))


def ask_cluster(
    kubeconfig: Kubeconfig | None, ask: Callable[[TaskCalls], Any], within_s: float | None = API_S
) -> Any:
    """What the cluster answers; ends the command with a sentence where it does not."""
    answer, problem = call_cluster(kubeconfig, ask, within_s)
    if problem:
        click.echo(problem, err=True)
        raise SystemExit(EXIT_FAILED)
    return answer
