"""`accelet ui`: a read-only page of the cluster, served on loopback."""

import asyncio
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from accelet.cli.options import NO_KUBECONFIG, own_kubeconfig_option
from accelet.cli.reading.objectfiles import read_scheduler_settings
from accelet.kube.client import Client
from accelet.kube.connection import name_cluster
from accelet.kube.errors import ConfigurationError, KubeError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.runtime.logs import configure_logs
from accelet.runtime.run import EXIT_FAILED, exit_now, run_until_signal
from accelet.scheduler.settings import SchedulerSettings
from accelet.ui.process import serve_page
from accelet.ui.server import listen

_API_S: Final = 30.0
_FORWARD: Final = '<!doctype html><title>accelet</title><meta http-equiv="refresh" content="0; url={link}">\n'


@click.command("ui")
@own_kubeconfig_option
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's settings: levels of the network, kinds of cards.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to listen on 127.0.0.1.  [default: any free port]",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in this machine's browser.")
def command(*, kubeconfig: Kubeconfig | None, config: Path | None, port: int, opens: bool) -> None:
    """Serve a read-only page of the cluster: who is where, what is free, what waits and why.

    It is served on this machine alone, with what your kubeconfig may see. Each link that is printed opens
    one browser. Nothing is changed anywhere. Ctrl-C ends it.
    """
    settings = read_scheduler_settings(config)
    configure_logs("error")
    try:
        listener = listen(port)
    except OSError as error:
        click.echo(f"127.0.0.1:{port}: {error.strerror}; choose another --port", err=True)
        raise SystemExit(EXIT_FAILED) from None
    with tempfile.TemporaryDirectory(prefix="accelet-ui-") as folder:
        offer = _Offer(Path(folder) / "open.html" if opens else None)
        code = _run(kubeconfig, settings, listener, offer)
    if code:
        raise SystemExit(code)
    exit_now(code)


class _Offer:
    """Tells the person each link; the first is opened by a file that nobody else may read.

    A browser's command line is seen by every user of the machine.
    """

    def __init__(self, forward: Path | None) -> None:
        self._forward, self._is_first = forward, True

    def __call__(self, link: str) -> None:
        if self._is_first:
            click.echo(f"The page: {link}")
            click.echo("The link opens one browser, once. Ctrl-C ends.")
            if self._forward is not None:
                self._forward.touch(mode=0o600)
                self._forward.write_text(_FORWARD.format(link=link))
                webbrowser.open(self._forward.as_uri())
        else:
            click.echo(f"A browser was let in. For another one: {link}")
        self._is_first = False


def _run(
    kubeconfig: Kubeconfig | None,
    settings: SchedulerSettings,
    listener: socket.socket,
    offer: Callable[[str], None],
) -> int:
    try:
        return run_until_signal(_serve(kubeconfig, settings, listener, offer))
    except ConfigurationError as error:
        hint = "" if kubeconfig else f"\n{NO_KUBECONFIG}"
        click.echo(f"{error}{hint}", err=True)
    except TimeoutError:
        click.echo(f"the API server has not answered within {_API_S:.0f} s", err=True)
    except KubeError as error:
        click.echo(str(error), err=True)
    sys.stdout.flush()
    return EXIT_FAILED


async def _serve(
    kubeconfig: Kubeconfig | None,
    settings: SchedulerSettings,
    listener: socket.socket,
    offer: Callable[[str], None],
) -> None:
    name = await asyncio.to_thread(name_cluster, kubeconfig)
    client = await Client.connect(kubeconfig, threads=4)
    try:
        async with asyncio.timeout(_API_S):
            await client.get_version()
        await serve_page(client, name, settings, listener, offer)
    finally:
        client.close()
