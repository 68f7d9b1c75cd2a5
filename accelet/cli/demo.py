"""`accelet demo`: the main job on a simulated node, with a fake kubelet and no cluster."""

import os
from contextlib import nullcontext
from importlib import resources
from pathlib import Path

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click

from accelet.cli.demo_run import run_demo, show_demo
from accelet.cli.drawing.output import Output
from accelet.cli.drawing.tables import print_demo
from accelet.cli.subcommands.demo_dra import command as dra
from accelet.cli.subcommands.demo_provisioner import command as provisioner
from accelet.cli.subcommands.demo_tasks import command as tasks

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
    with nullcontext(node) if node else resources.as_file(DEMO_NODE) as chosen:
        show_demo(
            "demo",
            lambda folder: run_demo(folder, chosen),
            lambda report: print_demo(Output(), report),
            as_json=as_json,
        )


command.add_command(dra)
command.add_command(provisioner)
command.add_command(tasks)
