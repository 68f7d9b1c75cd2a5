"""`accelet slices forget`: lets go of a slice whose provider does not answer."""

import asyncio

import click

from accelet.cli.options import own_kubeconfig_option, resolve_namespace
from accelet.kube.errors import KubeError, NotFoundError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.runtime.run import EXIT_FAILED


@click.command("forget")
@click.argument("name")
@own_kubeconfig_option
@click.option(
    "-n", "--namespace", help="Where the SliceRequest is.  [default: that of the context, else default]"
)
@click.option(
    "--pool-stays",
    is_flag=True,
    required=True,
    help="Say that you know it: the pool is not deleted, and may cost money.",
)
def command(name: str, *, kubeconfig: Kubeconfig | None, namespace: str | None, pool_stays: bool) -> None:
    """Delete a SliceRequest without waiting for its pool to go.

    For a provider that is gone for good. One that answers again has the pool given back as any whose request
    is gone. A job that still asks gets another slice.
    """
    from accelet.cli.reading.slicelists import API_S, forget_slice  # noqa: PLC0415 - half a second, not for help

    place = resolve_namespace(namespace, kubeconfig)
    try:
        pool = asyncio.run(forget_slice(kubeconfig, place, name))
    except NotFoundError:
        told = f"there is no SliceRequest {name} in the namespace {place}"
    except TimeoutError:
        told = f"the API server has not answered within {API_S:.0f} s"
    except KubeError as error:
        told = str(error)
    else:
        stays = f"; its pool {pool} stays with the provider" if pool else "; it had no pool"
        click.echo(f"{place}/{name} is forgotten{stays}")
        return
    click.echo(told, err=True)
    raise SystemExit(EXIT_FAILED)
