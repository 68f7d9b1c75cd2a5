"""`accelet unprepare`: frees what a node holds for a claim that nothing unprepares."""

import asyncio
from pathlib import Path

import click

from accelet.cli.options import (
    cdi_option,
    kubelet_paths,
    node_options,
    own_kubeconfig_option,
)
from accelet.kube.kubeconfig import Kubeconfig
from accelet.runtime.run import EXIT_FAILED


@click.command()
@node_options
@own_kubeconfig_option
@cdi_option
@click.option(
    "--force",
    is_flag=True,
    help="Also where a pod may use it: the next claim then gets the same hardware beside it.",
)
@click.argument("claim", metavar="NAMESPACE/CLAIM")
def command(
    claim: str,
    kubelet_dir: Path,
    kubelet_root_dir: Path | None,
    pod_resources_dir: Path | None,
    kubeconfig: Kubeconfig | None,
    cdi_dir: Path,
    *,
    force: bool,
    **_others: object,
) -> None:
    """Undo what this node has prepared of a resource claim, where nobody has it any more.

    The agent does so by itself within twenty minutes. Run it on the node, or in the agent's pod. It refuses
    where the API server or the kubelet shows that somebody has it, or where one of them does not answer.
    """
    namespace, slash, name = claim.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.UsageError(f"{claim!r} is no claim; write NAMESPACE/CLAIM")
    # Half a second, which those who only ask for help do without.
    from accelet.cli.reading.preparedclaims import PreparedClaims  # noqa: PLC0415
    from accelet.dra.errors import DraError  # noqa: PLC0415

    async def undo() -> bool:
        claims = PreparedClaims(kubelet_paths(kubelet_dir, kubelet_root_dir, pod_resources_dir), cdi_dir)
        found = await claims.find((namespace, name), kubeconfig)
        if not found:
            click.echo(f"nothing of {claim} is prepared on this node", err=True)
        chosen = [one for one in found if force or one.kept is None]
        await claims.undo(chosen)
        for one in found:
            if one in chosen:
                click.echo(f"{claim}: {one.devices} of {one.driver} is free")
            else:
                click.echo(f"{claim}: {one.devices} of {one.driver} stays held: {one.kept}", err=True)
        return bool(found) and len(chosen) == len(found)

    try:
        is_done = asyncio.run(undo())
    except DraError as error:
        click.echo(str(error), err=True)
        is_done = False
    if not is_done:
        raise SystemExit(EXIT_FAILED)
