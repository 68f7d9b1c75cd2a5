"""`accelet scheduler`: the topology-aware gang scheduler."""

import os
from dataclasses import replace
from pathlib import Path

import click

import accelet
from accelet.cli.ending import run_process
from accelet.cli.options import controller_options
from accelet.runtime.logs import Level, Log, configure_logs
from accelet.runtime.probes import parse_address
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.process import Scheduler, SchedulerOptions
from accelet.scheduler.settings import DEFAULT_SETTINGS, read_settings

_log = Log(__name__)


@click.command("scheduler")
@click.option("--gate-prefix", default=GATE_PREFIX, show_default=True, help="Which gates are ours to lift.")
@controller_options
def command(
    *,
    kubeconfig: Path | None,
    gate_prefix: str,
    config: Path | None,
    http: str,
    namespace: str,
    log_level: Level,
) -> None:
    """Place gangs of gated pods near together, and release them."""
    configure_logs(log_level)
    if not gate_prefix:
        raise click.BadParameter("an empty prefix would lift every gate", param_hint="--gate-prefix")
    _log.info("starting", version=accelet.__version__, config=str(config or "built in"), pid=os.getpid())
    run_process(_run(SchedulerOptions(kubeconfig, namespace, gate_prefix), http, config))


async def _run(options: SchedulerOptions, http: str, config: Path | None) -> None:
    settings = read_settings(config) if config else DEFAULT_SETTINGS
    address = parse_address(http) if http else None
    await Scheduler(replace(options, http=address), settings).run()
