"""The command line: reads what the user asks for and wires everything.

It may import everything, and nothing imports it.

demotasks/    What `accelet demo tasks` runs: a cluster of cards without a cluster, and a story in it.
drawing/      What commands draw for people.
forms/        What commands print with --json, as types.
reading/      What offline commands read.
subcommands/  Commands below commands: `accelet slices forget`, `accelet demo provisioner`.
tasks/        `accelet task`: what people do with GPU tasks.
agent         `accelet agent`: the node agent.
cards         `accelet cards`: every card and tile of the cluster, who holds it, and what is free.
conformance   `accelet conformance`: checks any device plugin or DRA driver against a fake kubelet.
demo          `accelet demo`: the main job on a simulated node, with a fake kubelet and no cluster.
demo_run      What the demo does: an agent, a fake kubelet, a few pods, one restart; and what was seen of it.
devices       `accelet devices`: what would be advertised, and what was skipped and why.
doctor        `accelet doctor`: what is wrong on a node or in a cluster, and how to mend it.
ending        How a process of ours ends: every error as one sentence, and with one exit code.
explain       `accelet explain`: which devices and tiles a pod's containers have, why, and whether all sources
              agree.
extras        What is installed only where it is asked for, and what a user reads who needs it and has it not.
fake_kubelet  `accelet fake-kubelet`: a kubelet to test device plugins against.
options       Options that several commands have in common.
plan          `accelet plan`: places gangs offline, from lists as kubectl prints them, and shows who sits
              where.
provisioner   `accelet provisioner`: makes TPU slices for the jobs that ask for them.
scheduler     `accelet scheduler`: the topology-aware gang scheduler.
slices        `accelet slices`: the slices that are wanted, and what would be made for jobs.
"""

from importlib import import_module
from typing import Any, Final

import click

import accelet
from accelet.cli.extras import explain_missing, missing_package

_COMMANDS: Final = {
    "agent": ("accelet.cli.agent", "Serve this node's devices to its kubelet."),
    "devices": ("accelet.cli.devices", "Show what would be advertised, and what was skipped and why."),
    "explain": ("accelet.cli.explain", "Say which devices and tiles a pod's containers have, and why."),
    "unprepare": (
        "accelet.cli.subcommands.unprepare",
        "Free what a node holds for a claim that nothing unprepares.",
    ),
    "doctor": ("accelet.cli.doctor", "Say what is wrong on a node or in a cluster, and how to mend it."),
    "demo": ("accelet.cli.demo", "Watch the agent serve a simulated node."),
    "fake-kubelet": ("accelet.cli.fake_kubelet", "Run a kubelet to test device plugins against."),
    "conformance": ("accelet.cli.conformance", "Check any device plugin against what kubelets do."),
    "scheduler": ("accelet.cli.scheduler", "Place gangs of pods close together."),
    "cards": ("accelet.cli.cards", "Show every card and tile of the cluster, and who holds it."),
    "claims": ("accelet.cli.subcommands.claims", "Show who holds which DRA devices, and why claims wait."),
    "ui": ("accelet.cli.subcommands.ui", "Serve a read-only page of the cluster to your own browser."),
    "gated": ("accelet.cli.subcommands.gated", "Show the pods that wait for the scheduler at a gate."),
    "provisioner": ("accelet.cli.provisioner", "Make TPU slices for the jobs that ask for them."),
    "slices": ("accelet.cli.slices", "Show TPU slices and how far they are, or plan them offline."),
    "task": (
        "accelet.cli.tasks.group",
        "Submit GPU tasks, show how far they are and why, hold and delete them.",
    ),
    "task-controller": (
        "accelet.cli.subcommands.task_controller",
        "Carry out GPUTasks: so many ranks on so many cards.",
    ),
    "plan": ("accelet.cli.plan", "Plan gangs offline and show who would sit where."),
}
"""Each command's module, which holds it as `command`, and its one line of help.

A module is imported only when its command runs: the agent's memory is not to pay for the others.
"""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        from accelet.runtime.blocking import uncollected  # noqa: PLC0415  help and completion do without

        try:
            with uncollected():
                command = import_module(_COMMANDS[cmd_name][0]).command
        except ModuleNotFoundError as error:
            if (package := missing_package(error)) is None:
                raise
            return _without(package, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if (package := missing_package(error)) is None:
                raise
            raise click.ClickException(f"this {explain_missing(package)}") from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


def _without(package: str, name: str) -> click.Command:
    """Stands for a command that cannot be loaded: it has help and completes, and says what it needs."""
    lenient = {"ignore_unknown_options": True, "allow_extra_args": True}
    lacking = f"Its options are not shown: {name} {explain_missing(package)}"

    @click.command(name, help=f"{_COMMANDS[name][1]}\n\n\b\n{lacking}", context_settings=lenient)
    def command() -> None:
        raise click.ClickException(f"{name} {explain_missing(package)}")

    return command


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(accelet.__version__, prog_name="accelet")
def main() -> None:
    """The accelerator stack for Kubernetes.

    Exit codes: 0 done, 1 failed, 2 settings or arguments are wrong.
    """
