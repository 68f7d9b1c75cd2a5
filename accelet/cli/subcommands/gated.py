"""`accelet gated`: the pods that wait at a gate of ours, and what becomes of them when accelet goes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Records
from accelet.cli.options import own_kubeconfig_option
from accelet.kube.errors import KubeError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kube.pods import Pod
from accelet.runtime.run import EXIT_FAILED
from accelet.scheduler.gangs.grouping import is_ours

_WITHIN_S: Final = 100.0
"""Less than a Job of the chart is given."""


@dataclass(frozen=True, slots=True)
class Found:
    """The pods that were gated, those of them that are still, and notes."""

    pods: Sequence[Pod]
    held: Sequence[Pod]
    notes: Sequence[str]


@click.command("gated")
@own_kubeconfig_option
@click.option(
    "--stop-gating",
    is_flag=True,
    help="Take the policy out of force first by which pods get the gate accelet.dev/cards.",
)
@click.option(
    "--lift",
    is_flag=True,
    help="Lift our gates off these pods, without node or assignment; whoever may write pods may write"
    " assignments from then on.",
)
@click.option("--fail", is_flag=True, help="Exit with 1 if pods are still gated.")
def command(*, kubeconfig: Kubeconfig | None, stop_gating: bool, lift: bool, fail: bool) -> None:
    """Show the pods that wait for the scheduler, at a gate that nobody else lifts.

    Without options it changes nothing. The chart runs it when it is uninstalled.
    """
    try:
        work = _work(kubeconfig, stops=stop_gating, lifts=lift)
        found = asyncio.run(asyncio.wait_for(work, _WITHIN_S))
    except TimeoutError:
        click.echo(f"the API server has not answered within {_WITHIN_S:.0f} s", err=True)
        raise SystemExit(EXIT_FAILED) from None
    except KubeError as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_FAILED) from None
    _print(Output(), found)
    if fail and found.held:
        click.echo("Pods are still gated. Delete them, or let the scheduler place them.", err=True)
        raise SystemExit(EXIT_FAILED)


async def _work(kubeconfig: Kubeconfig | None, *, stops: bool, lifts: bool) -> Found:
    from accelet.cli.reading.gatedpods import lift_all, list_gated, stop_gating  # noqa: PLC0415 - half a second
    from accelet.kube.client import Client  # noqa: PLC0415

    client = await Client.connect(kubeconfig)
    try:
        if stops:
            await stop_gating(client)
        pods, notes = await list_gated(client)
        return Found(pods, await lift_all(client, pods) if lifts else pods, notes)
    finally:
        client.close()


def _print(output: Output, found: Found) -> None:
    for note in found.notes:
        click.echo(note, err=True)
    if not found.pods:
        output.line("No pod is gated.")
        return
    held = {pod.uid for pod in found.held}
    heads = ("NAMESPACE", "POD", "GATES", "NOW")
    output.table(Records(heads, [_cells(pod, is_held=pod.uid in held) for pod in found.pods]))


def _cells(pod: Pod, *, is_held: bool) -> Sequence[str]:
    gates = ", ".join(gate for gate in pod.gates if is_ours(gate))
    return pod.namespace, pod.name, gates, "gated" if is_held else "released"
