"""`accelet task-controller`: carries out GPUTasks."""

import os
from pathlib import Path

import click

import accelet
from accelet.cli.ending import run_process
from accelet.cli.options import controller_options
from accelet.gputask.process import TaskOptions, run_task_controller
from accelet.gputask.settings import DEFAULT_TASK_SETTINGS, read_task_settings
from accelet.runtime.logs import Level, Log, configure_logs
from accelet.runtime.probes import parse_address

_log = Log(__name__)


@click.command("task-controller")
@controller_options
def command(
    *, kubeconfig: Path | None, config: Path | None, http: str, namespace: str, log_level: Level
) -> None:
    """Carry out GPUTasks: one Job an attempt, its ranks placed together or not at all."""
    configure_logs(log_level)
    _log.info("starting", version=accelet.__version__, config=str(config or "built in"), pid=os.getpid())
    run_process(_run(kubeconfig, namespace, http, config))


async def _run(kubeconfig: Path | None, namespace: str, http: str, config: Path | None) -> None:
    settings = read_task_settings(config) if config else DEFAULT_TASK_SETTINGS
    address = parse_address(http) if http else None
    await run_task_controller(TaskOptions(kubeconfig, namespace, address), settings)
