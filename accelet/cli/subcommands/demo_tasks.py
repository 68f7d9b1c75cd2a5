"""`accelet demo tasks`: a task that waits, and the move of another that lets it in, without a cluster."""

from typing import TYPE_CHECKING

import click

from accelet.cli.demo_run import show_demo
from accelet.cli.drawing.cards import print_cards
from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import styled
from accelet.runtime.logs import configure_logs

if TYPE_CHECKING:
    from accelet.cli.forms.taskdemo import TasksReport


@click.command("tasks")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(*, as_json: bool) -> None:
    """Watch a big task wait for cards that are free in fragments, and get in once a small one has moved.

    Starts the scheduler, the task controller and an API server in this process. Why the big task waits, whose
    move helps it, and where to, is what they decide. The Job controller, kube-scheduler, the kubelets and the
    programs are played here.
    """
    from accelet.cli.demotasks.story import run_demo  # noqa: PLC0415 - the other demos need no client

    configure_logs("error")
    show_demo("demo tasks", run_demo, lambda report: print_story(Output(), report), as_json=as_json)


def print_story(output: Output, report: "TasksReport") -> None:
    """The cards before and after, and what came between."""
    big, moved = report.big, report.moved
    output.line("Three nodes of two cards with two tiles each; small tasks lie scattered on all of them:")
    output.line()
    print_cards(output, report.before)
    output.line()
    output.line(f"{big} asks for two whole cards of one node, and waits:")
    output.line(f"  {report.why}")
    output.line()
    output.line(f"The scheduler proposes to move {moved} to {report.to}: it {report.gain}.")
    for step in report.steps:
        output.line(styled(f"  {step.phase:<9}", "bold"), f" {step.text}")
    output.line()
    print_cards(output, report.after)
    output.line()
    output.line(f"{big} runs {report.waited_s:.1f} s after it was submitted; {moved} goes on.")
