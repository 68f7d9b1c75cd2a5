"""Asks the API server for a command of people, which ends with a sentence where there is no answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from accelet.cli.options import NO_KUBECONFIG
from accelet.kube.errors import ConfigurationError, KubeError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.runtime.run import EXIT_FAILED

_T = TypeVar("_T")


def ask(
    kubeconfig: Kubeconfig | None,
    question: Coroutine[Any, Any, _T],
    within_s: float,
    explain: Callable[[KubeError], str] = str,
) -> _T:
    """What `question` finds, which raises a TimeoutError after `within_s` seconds.

    `explain` says what an error of the API server means to people. Where there is no answer, its sentence
    goes to the standard error, and the command ends with EXIT_FAILED.
    """
    try:
        return asyncio.run(question)
    except ConfigurationError as error:
        hint = "" if kubeconfig else f"\n{NO_KUBECONFIG}"
        click.echo(f"{error}{hint}", err=True)
    except TimeoutError:
        click.echo(f"the API server has not answered within {within_s:.0f} s", err=True)
    except KubeError as error:
        click.echo(explain(error), err=True)
    raise SystemExit(EXIT_FAILED)
