"""`accelet slices forget`: lets go of a slice whose provider does not answer."""

import asyncio
from pathlib import Path

import click

from accelet.cli.options import choose_kubeconfig, own_kubeconfig_option
from accelet.kube.errors import KubeError, NotFoundError
from accelet.runtime.run import EXIT_FAILED


@click.command("forget")
@click.argument("name")
@own_kubeconfig_option
@click.option("-n", "--namespace", default="default", show_default=True, help="Where the SliceRequest is.")
@click.option(
    "--pool-stays",
    is_flag=True,
    required=True,
    help="Say that you know it: the pool is not deleted, and may cost money.",
)
def command(name: str, *, kubeconfig: Path | None, namespace: str, pool_stays: bool) -> None:
    """Delete a SliceRequest without waiting for its pool to go.

    For a provider that is gone for good. One that answers again has the pool given back as any whose request
    is gone. A job that still asks gets another slice.
    """
    from accelet.cli.reading.slicelists import API_S, forget_slice  # noqa: PLC0415 - half a second, not for help

    try:
        pool = asyncio.run(forget_slice(choose_kubeconfig(kubeconfig), namespace, name))
    except NotFoundError:
        told = f"there is no SliceRequest {name} in the namespace {namespace}"
    except TimeoutError:
        told = f"the API server has not answered within {API_S:.0f} s"
    except KubeError as error:
        told = str(error)
    else:
        stays = f"; its pool {pool} stays with the provider" if pool else "; it had no pool"
        click.echo(f"{namespace}/{name} is forgotten{stays}")
        return
    click.echo(told, err=True)
    raise SystemExit(EXIT_FAILED)
