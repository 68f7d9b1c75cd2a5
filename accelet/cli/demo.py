"""`accelet demo`: the main job on a simulated node, with a fake kubelet and no cluster."""

import asyncio
import os
import sys
import tempfile
from contextlib import ExitStack
from importlib import resources
from pathlib import Path

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click
import msgspec

from accelet.cli.demo_dra import command as dra
from accelet.cli.demo_run import DemoError, run_demo
from accelet.cli.drawing.output import Output
from accelet.cli.drawing.tables import print_demo
from accelet.cli.subcommands.demo_provisioner import command as provisioner

DEMO_NODE = resources.files("accelet.cli").joinpath("demo_node.yaml")


@click.group(invoke_without_command=True)
@click.option(
    "--node",
    type=click.Path(exists=True, path_type=Path),
    help="Another node: a configuration file, or a folder that holds a host's sys/ and dev/.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
@click.pass_context
def command(context: click.Context, node: Path | None, *, as_json: bool) -> None:
    """Watch the agent serve a simulated node: no root, no cluster, no GPU.

    Starts a fake kubelet and the agent in a temporary folder, admits a few pods, shows what each
    container was given, restarts the kubelet and shows the recovery. Every cell of the tables came over
    the sockets between the two.
    """
    if context.invoked_subcommand is not None:
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="accelet-")))
        chosen = node or stack.enter_context(resources.as_file(DEMO_NODE))
        try:
            report = asyncio.run(run_demo(folder, chosen))
        except DemoError as error:
            click.echo(f"accelet demo: {error}", err=True)
            sys.exit(error.exit_code)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print_demo(Output(), report)


command.add_command(dra)
command.add_command(provisioner)
