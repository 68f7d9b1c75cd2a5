"""The command line: reads what the user asks for and wires everything."""

from importlib import import_module
from typing import Final

import click

import accelet

_COMMANDS: Final = {
    "agent": "accelet.cli.agent",
    "devices": "accelet.cli.devices",
    "demo": "accelet.cli.demo",
    "fake-kubelet": "accelet.cli.fake_kubelet",
    "conformance": "accelet.cli.conformance",
    "plan": "accelet.cli.plan",
    "scheduler": "accelet.cli.scheduler",
}
"""Each command's module, which holds it as `command`; imported only when it is asked for."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        try:
            command = import_module(module).command
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            return _without_numpy(cmd_name)
        assert isinstance(command, click.Command)
        return command


def _without_numpy(name: str) -> click.Command:
    """Stands in for a command of the scheduler where its extra is not installed."""

    def refuse(words: tuple[str, ...]) -> None:
        raise click.ClickException("this needs numpy: pip install 'accelet[scheduler]'")

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    anything = {"ignore_unknown_options": True, "help_option_names": []}
    return click.Command(name, anything, refuse, [words], help="(Needs the extra 'scheduler'.)")


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(accelet.__version__, prog_name="accelet")
def main() -> None:
    """The accelerator stack for Kubernetes.

    Exit codes: 0 done, 1 failed, 2 settings or arguments are wrong.
    """
