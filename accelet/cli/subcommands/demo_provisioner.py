"""`accelet demo provisioner`: slices for a JobSet, from simulated machines, without cluster or root."""

from typing import TYPE_CHECKING

import click

from accelet.cli.demo_run import show_demo
from accelet.cli.drawing.output import Output
from accelet.runtime.logs import configure_logs

if TYPE_CHECKING:
    from accelet.cli.forms.demoforms import ProvisionerReport


@click.command("provisioner")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(*, as_json: bool) -> None:
    """Watch a JobSet get two TPU slices from simulated machines, fall back, and give them back.

    Starts the provisioner and an API server in this process. Spot machines are out of stock for the second
    slice, so both are made on demand. Jobs and pods are made here as JobSet's controller and the policies of
    deploy/identity would.
    """
    from accelet.cli.subcommands.provisioner_run import run_demo  # noqa: PLC0415 - the other demos need no client

    configure_logs("error")
    show_demo("demo provisioner", run_demo, _print, as_json=as_json)


def _print(report: "ProvisionerReport") -> None:
    output = Output()
    tiers = " and ".join(sorted(set(report.tiers)))
    count, ready_s = len(report.tiers), report.ready_s
    output.line(f"JobSet train asked for {count} slices; all were ready after {ready_s:.1f} s, {tiers}.")
    for event in report.events:
        output.line(f"  {event}")
    for worker in report.workers:
        output.line("")
        output.line(f"{worker.pod} on {worker.node}")
        for name, value in worker.environment.items():
            output.line(f"  {name}={value}")
    output.line("")
    output.line(f"The JobSet completed, and {report.released_s:.1f} s later nothing was left of them.")
