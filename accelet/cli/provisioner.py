"""`accelet provisioner`: makes TPU slices for the jobs that ask for them."""

import os
from dataclasses import replace
from pathlib import Path

import click

import accelet
from accelet.cli.ending import run_process
from accelet.cli.options import controller_options
from accelet.provisioner.choice import choose_provider
from accelet.provisioner.process import Provisioner, ProvisionerOptions
from accelet.provisioner.settings import DEFAULT_SETTINGS, read_settings
from accelet.runtime.logs import Level, Log, configure_logs
from accelet.runtime.probes import parse_address

_log = Log(__name__)


@click.command("provisioner")
@controller_options
def command(
    *, kubeconfig: Path | None, config: Path | None, http: str, namespace: str, log_level: Level
) -> None:
    """Make TPU slices for the jobs that ask for them, and give them back.

    Jobs are JobSets, Jobs, LeaderWorkerSets and RayClusters.
    """
    configure_logs(log_level)
    _log.info("starting", version=accelet.__version__, config=str(config or "built in"), pid=os.getpid())
    run_process(_run(ProvisionerOptions(kubeconfig, namespace), http, config))


async def _run(options: ProvisionerOptions, http: str, config: Path | None) -> None:
    settings = read_settings(config) if config else DEFAULT_SETTINGS
    address = parse_address(http) if http else None
    make_provider, pool_label = choose_provider(settings)
    await Provisioner(replace(options, http=address), settings, make_provider, pool_label).run()
